//! Fault reports of schedulers like ours, with our answers.

use recount_core::{
    Instant,
    schedule::{Cron, NoFiring, SkippedRange, Timing},
};

use crate::support::histories::millis;

fn at(text: &str) -> Instant {
    Instant::parse_rfc3339(text).unwrap()
}

fn cron(expression: &str, zone: &str) -> Cron {
    Cron::new(expression, zone).unwrap()
}

/// The next firings, so many.
fn firings(cron: &Cron, after: u64, count: usize) -> Vec<u64> {
    let firings = cron.preview(millis(after), count).unwrap();
    let ats: Vec<_> = firings.iter().map(|firing| firing.at.as_millis()).collect();
    assert!(ats.iter().zip(&ats[1..]).all(|(at, next)| at < next), "they go forward");
    ats
}

#[test]
fn o_01_a_time_in_a_gap_fires_later_by_the_gap_and_the_schedule_goes_on() {
    let daily = cron("0 2 * * *", "America/New_York");
    let expected = [1_741_503_600_000, 1_741_586_400_000, 1_741_672_800_000];
    assert_eq!(firings(&daily, 1_741_501_800_000, 3), expected);
}

#[test]
fn o_02_a_time_that_comes_twice_fires_the_first_time_whoever_was_there() {
    let daily = cron("0 2 * * *", "Europe/Berlin");
    let expected = [1_698_537_600_000, 1_698_627_600_000, 1_698_714_000_000];
    assert_eq!(firings(&daily, 1_698_494_400_000, 3), expected);
    // Started again between the two passes.
    assert_eq!(firings(&daily, 1_698_539_400_000, 2), expected[1..]);
}

#[test]
fn o_03_a_shift_of_half_an_hour_is_one_of_half_an_hour() {
    let folded = cron("45 1 * * *", "Australia/Lord_Howe");
    let expected = [1_775_313_900_000, 1_775_402_100_000];
    assert_eq!(firings(&folded, 1_775_232_000_000, 2), expected);
    // 02:15 is missing on 4 October, and fires at 02:45.
    let missing = cron("15 2 * * *", "Australia/Lord_Howe");
    let expected = [1_790_955_900_000, 1_791_042_300_000, 1_791_126_900_000];
    assert_eq!(firings(&missing, 1_790_942_400_000, 3), expected);
}

#[test]
fn o_04_a_day_that_is_missing_is_passed_by_and_what_falls_on_it_fires_a_day_later() {
    let noon = cron("0 12 * * *", "Pacific/Apia");
    let expected = [1_325_196_000_000, 1_325_282_400_000, 1_325_368_800_000];
    assert_eq!(firings(&noon, 1_325_113_200_000, 3), expected);
    let fridays = cron("0 12 * * 5", "Pacific/Apia");
    let expected = [1_325_282_400_000, 1_325_800_800_000];
    assert_eq!(firings(&fridays, 1_324_677_600_000, 2), expected);
    let yearly = cron("0 12 30 12 *", "Pacific/Apia");
    let expected = [1_325_282_400_000, 1_356_818_400_000];
    assert_eq!(firings(&yearly, 1_325_113_200_000, 2), expected);
}

#[test]
fn o_05_a_day_that_is_never_has_no_firing_and_is_told_at_once() {
    let after = 1_869_211_350_000;
    for never in ["0 0 31 4 *", "0 0 30 2 *", "0 0 31 2,4,6 *"] {
        let cron = cron(never, "UTC");
        assert_eq!(cron.next_after(millis(after)), Err(NoFiring::Never), "{never}");
        assert_eq!(cron.last_due(millis(5), millis(after)), Err(NoFiring::Never), "{never}");
    }
    assert_eq!(firings(&cron("0 0 31 4,5 *", "UTC"), after, 1), [1_874_880_000_000]);
    let mondays = cron("0 0 30 2 1", "UTC");
    assert_eq!(firings(&mondays, after, 2), [1_896_393_600_000, 1_896_998_400_000]);
}

#[test]
fn o_06_two_day_fields_are_joined_by_or_and_by_and_where_one_is_a_star_with_a_step() {
    let or = cron("0 0 13 * 5", "UTC");
    let expected = [
        1_672_963_200_000,
        1_673_568_000_000,
        1_674_172_800_000,
        1_674_777_600_000,
        1_675_382_400_000,
        1_675_987_200_000,
        1_676_246_400_000,
    ];
    assert_eq!(firings(&or, 1_672_531_140_000, 7), expected);
    let and = cron("0 0 13 * */5", "UTC");
    let found = and.preview(millis(1_672_531_140_000), 3).unwrap();
    let found: Vec<_> = found.iter().map(|firing| firing.local.as_str()).collect();
    // Of 0 and 5: Sundays and Fridays.
    let expected =
        ["2023-01-13 00:00:00 +00:00", "2023-08-13 00:00:00 +00:00", "2023-10-13 00:00:00 +00:00"];
    assert_eq!(found, expected);
}

#[test]
fn o_07_a_step_counts_from_where_its_range_begins() {
    let (monday, later) = (1_784_505_600_000, 1_784_508_600_000);
    let of = |expression, after, count| firings(&cron(expression, "UTC"), after, count);
    let odd_days = [
        1_784_548_800_000,
        1_784_721_600_000,
        1_784_894_400_000,
        1_785_067_200_000,
        1_785_153_600_000,
    ];
    assert_eq!(of("0 12 * * 1-7/2", monday, 5), odd_days);
    let minutes: Vec<_> = (0..6).map(|step| 1_784_505_900_000 + step * 600_000).collect();
    assert_eq!(of("5-59/10 * * * *", monday, 6), minutes);
    let sevenths = [1_784_678_400_000, 1_785_283_200_000, 1_785_542_400_000];
    assert_eq!(of("0 0 */7 * *", monday, 3), sevenths);
    let even_days = [1_784_635_200_000, 1_784_808_000_000, 1_784_980_800_000, 1_785_067_200_000];
    assert_eq!(of("0 12 * * */2", monday, 4), even_days);
    let minutes = [1_784_508_960_000, 1_784_509_200_000, 1_784_509_620_000];
    assert_eq!(of("*/7 * * * *", later, 3), minutes);
}

#[test]
fn o_08_a_short_month_has_no_31st_and_is_passed_by() {
    let expected = [
        1_496_217_600_000,
        1_501_488_000_000,
        1_504_166_400_000,
        1_509_436_800_000,
        1_514_707_200_000,
        1_517_385_600_000,
    ];
    assert_eq!(firings(&cron("0 8 31 * *", "UTC"), 1_491_782_400_000, 6), expected);
}

#[test]
fn o_09_what_was_missed_is_one_occurrence_and_a_range() {
    let anchor = 1_431_561_600_000;
    let timing = Timing::Interval { every_millis: 5_000, anchor_millis: millis(anchor) };
    let now = millis(1_431_565_201_200);
    let due = timing.due(millis(anchor + 5_000), now).unwrap().unwrap();
    assert_eq!(due.intended_at_millis, millis(1_431_565_200_000));
    assert_eq!(due.next_at_millis, Some(millis(1_431_565_205_000)));
    let skipped = due.skipped_range.unwrap();
    assert_eq!(skipped.from_millis, millis(1_431_561_605_000));
    assert_eq!(skipped.to_millis, due.intended_at_millis);
    let missed = skipped.to_millis.as_millis() - skipped.from_millis.as_millis();
    assert_eq!(missed / 5_000 + 1, 720);
    assert_eq!(timing.due(due.next_at_millis.unwrap(), now).unwrap(), None, "not a second time");
}

#[test]
fn o_10_an_interval_keeps_to_its_anchor_and_knows_no_zones() {
    let next = |every_millis, anchor, after| {
        let timing = Timing::Interval { every_millis, anchor_millis: millis(anchor) };
        timing.next_after(millis(after)).unwrap().unwrap().as_millis()
    };
    let day = 86_400_000;
    assert_eq!(next(day, 1_780_275_600_000, 1_782_473_400_000), 1_782_522_000_000);
    assert_eq!(next(day, 1_741_453_200_000, 1_741_453_200_000), 1_741_539_600_000);
    assert_eq!(next(7_200_000, 1_741_501_800_000, 1_741_501_800_000), 1_741_509_000_000);
    let ahead = 1_782_781_200_000;
    assert_eq!(next(day, ahead, 1_782_473_400_000), ahead, "nothing before the anchor");
    let timing = Timing::Interval { every_millis: day, anchor_millis: millis(ahead) };
    assert_eq!(timing.due(millis(ahead), millis(1_782_473_400_000)).unwrap(), None);
}

#[test]
fn o_11_what_passed_in_a_pause_is_skipped_when_it_goes_on() {
    let timing = Timing::Cron(cron("*/5 * * * *", "UTC"));
    let cursor = timing.next_after(millis(1_767_225_601_000)).unwrap();
    assert_eq!(cursor, Some(at("2026-01-01T00:05:00Z")));
    let now = at("2026-01-01T00:21:00Z");
    let (resumed, skipped) = timing.resume(cursor, now).unwrap();
    assert_eq!(resumed, Some(at("2026-01-01T00:25:00Z")));
    let range = SkippedRange { from_millis: cursor.unwrap(), to_millis: resumed.unwrap() };
    assert_eq!(skipped, Some(range));
    assert_eq!(timing.due(resumed.unwrap(), now).unwrap(), None, "nothing is due at once");
    assert_eq!(timing.resume(resumed, now).unwrap(), (resumed, None), "twice is once");
    // A clock that went back brings nothing a second time.
    assert_eq!(timing.resume(resumed, millis(5)).unwrap(), (resumed, None));
    assert_eq!(timing.resume(None, now).unwrap(), (None, None));
    let once = Timing::At { at_millis: at("2026-01-01T00:05:00Z") };
    assert_eq!(once.resume(cursor, now).unwrap(), (cursor, None), "it stays due");
}
