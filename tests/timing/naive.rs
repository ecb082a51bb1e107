//! What is due, beside a walk that visits every firing.

use jiff::{Timestamp, tz::TimeZoneDatabase};
use proptest::{
    prelude::*,
    strategy::ValueTree as _,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};
use recount_core::{
    Instant,
    schedule::{Cron, Timing},
};

use crate::support::{for_all, histories::millis};

const ZONES: [&str; 16] = [
    "UTC",
    "+05:30",
    "-03:30",
    "Europe/Berlin",
    "Europe/London",
    "America/New_York",
    "America/Sao_Paulo",
    "America/Havana",
    "America/St_Johns",
    "Australia/Lord_Howe",
    "Antarctica/Troll",
    "Antarctica/Casey",
    "Africa/Casablanca",
    "Asia/Gaza",
    "Pacific/Apia",
    "Pacific/Kwajalein",
];

/// The last firing by now in the sequence from a cursor, one by one.
fn walk(cron: &Cron, cursor: Instant, now: Instant) -> Instant {
    let next = |at: &Instant| cron.next_after(*at).ok().filter(|next| *next <= now);
    std::iter::successors(Some(cursor), next).last().unwrap()
}

/// Every change of a zone's clock since 1970, until 2040.
fn transitions(zone: &str) -> Vec<u64> {
    let Ok(zone) = TimeZoneDatabase::bundled().get(zone) else { return Vec::new() };
    let changes = zone.following(Timestamp::UNIX_EPOCH).map(|it| it.timestamp().as_millisecond());
    let changes = changes.filter_map(|millis| u64::try_from(millis).ok());
    changes.take_while(|millis| *millis < 2_208_988_800_000).collect()
}

#[test]
fn what_is_due_is_what_a_walk_finds_around_every_transition_since_1970() {
    const MINUTE: u64 = 60_000;
    const HOUR: u64 = 60 * MINUTE;
    let rules = [
        "*/20 * * * *",
        "30 * * * *",
        "15,45 2 * * *",
        "30 0,1,2,3,23 * * *",
        "0 12 * * 5",
        "40 23 1-7/2 * SUN",
        "0 0 29 2 *",
        "10 2 31 * *",
    ];
    let (mut compared, mut random) = (0, random_rules(500).into_iter().cycle());
    for zone in ZONES {
        for change in transitions(zone).into_iter().filter(|change| *change > 20 * 24 * HOUR) {
            let random: Vec<_> = random.by_ref().take(4).collect();
            for rule in rules.into_iter().chain(random.iter().map(String::as_str)) {
                let cron = Cron::new(rule, zone).unwrap();
                let Ok(cursor) = cron.next_after(millis(change - 80 * HOUR)) else { continue };
                let mut at = cursor;
                for minutes in [-95, -30, -1, 0, 1, 29, 61, 150, 26 * 60, 50 * 60, 75 * 60] {
                    let now = millis(change.saturating_add_signed(minutes * 60_000) + 999);
                    if now < cursor {
                        continue;
                    }
                    // On from where the walk stands: what is before it was compared.
                    at = walk(&cron, at, now);
                    let due = cron.last_due(cursor, now).unwrap();
                    assert_eq!(due, at, "{cron} from {cursor} at {now}");
                    assert!(cron.next_after(at).is_ok_and(|next| next > now), "{cron} at {now}");
                    compared += 1;
                }
            }
        }
    }
    assert!(compared > 50_000, "{compared}");
}

/// Rules that are the same in every run.
fn random_rules(count: usize) -> Vec<String> {
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let rules = (0..count).map(|_| expression().new_tree(&mut runner).unwrap().current());
    rules.collect()
}

/// A field's text: anything that may be written there.
fn field(low: u32, high: u32) -> impl Strategy<Value = String> {
    let value = low..=high;
    let item = prop_oneof![
        4 => Just("*".to_owned()),
        3 => value.clone().prop_map(|it| it.to_string()),
        2 => (value.clone(), value.clone()).prop_map(|(a, b)| format!("{}-{}", a.min(b), a.max(b))),
        1 => (1..=high).prop_map(|step| format!("*/{step}")),
        1 => (value, 1..=high).prop_map(|(from, step)| format!("{from}/{step}")),
    ];
    proptest::collection::vec(item, 1..3).prop_map(|items| items.join(","))
}

fn expression() -> impl Strategy<Value = String> {
    (field(0, 59), field(0, 23), field(1, 31), field(1, 12), field(0, 7)).prop_map(
        |(minute, hour, day, month, weekday)| format!("{minute} {hour} {day} {month} {weekday}"),
    )
}

#[test]
fn random_rules_go_forward_and_are_due_as_a_walk_finds() {
    let zone = prop::sample::select(&ZONES[..]);
    // Until the year 2100, and at the end of time.
    let after = prop_oneof![4 => 0..4_102_444_800_000_u64, 1 => 8_000_000_000_000_000..8_600_000_000_000_000_u64];
    let days = 0..6_u64;
    for_all(
        (expression(), zone, after, days, 0..86_400_000_u64),
        |(rule, zone, after, days, rest)| {
            let cron = Cron::new(&rule, zone).unwrap();
            let Ok(cursor) = cron.next_after(millis(after)) else { return Ok(()) };
            prop_assert!(cursor > millis(after));
            let now = millis(cursor.as_millis() + days * 86_400_000 + rest);
            prop_assert_eq!(cron.last_due(cursor, now).unwrap(), walk(&cron, cursor, now));
            let timing = Timing::Cron(cron.clone());
            let due = timing.due(cursor, now).unwrap().unwrap();
            prop_assert!(due.intended_at_millis <= now && due.next_at_millis.unwrap() > now);
            let is_skipped = due.skipped_range.is_some();
            prop_assert_eq!(is_skipped, due.intended_at_millis > cursor);
            // Read again where it was written, it is the same.
            let text = serde_json::to_string(&timing).unwrap();
            prop_assert_eq!(serde_json::from_str::<Timing>(&text).unwrap(), timing);
            Ok(())
        },
    );
}

#[test]
fn intervals_are_due_as_a_walk_finds() {
    let anchor = 0..10_000_u64;
    for_all(
        (1..5_000_u64, anchor, 0..20_000_u64, 0..20_000_u64),
        |(every, anchor, after, more)| {
            let timing = Timing::Interval { every_millis: every, anchor_millis: millis(anchor) };
            let cursor = timing.next_after(millis(after)).unwrap().unwrap();
            prop_assert!(cursor > millis(after) || cursor == millis(anchor));
            let now = millis(after + more);
            let next = |at: &Instant| timing.next_after(*at).unwrap().filter(|next| *next <= now);
            let due = timing.due(cursor, now).unwrap();
            if cursor > now {
                prop_assert_eq!(due, None);
                return Ok(());
            }
            let due = due.unwrap();
            let last = std::iter::successors(Some(cursor), next).last().unwrap();
            prop_assert_eq!(due.intended_at_millis, last);
            prop_assert_eq!(due.next_at_millis, timing.next_after(last).unwrap());
            Ok(())
        },
    );
}

#[test]
fn no_text_makes_an_expression_or_a_zone_panic_and_none_runs_long() {
    let text = "[-+*/,0-9a-zA-Z \u{a0}\u{3000}:é]{0,24}";
    let zone = prop_oneof![Just("UTC".to_owned()), "[-+A-Za-z/:0-9_é]{0,12}"];
    for_all((prop_oneof![expression(), text.prop_map(|it| it)], zone), |(rule, zone)| {
        if let Ok(cron) = Cron::new(&rule, &zone) {
            for after in [0, 1_796_029_200_000, 8_639_999_949_600_000, 8_640_000_000_000_000] {
                if let Ok(next) = cron.next_after(millis(after)) {
                    prop_assert!(next > millis(after));
                }
            }
        }
        Ok(())
    });
}
