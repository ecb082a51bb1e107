//! Days and dates of the Gregorian calendar, without end in either direction.

/// How many days 400 years have, after which the calendar repeats.
pub(super) const CYCLE_DAYS: i64 = 146_097;

pub(super) const SECONDS_PER_DAY: i64 = 86_400;

/// Days since 1970-01-01. Months count from 1.
pub(super) const fn days(year: i64, month: u32, day: u32) -> i64 {
    // Years that begin in March have their leap day at their end.
    let year = if month <= 2 { year - 1 } else { year };
    let (cycle, of_cycle) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month as i64 + 9) % 12) + 2) / 5 + day as i64 - 1;
    let of_cycle = of_cycle * 365 + of_cycle / 4 - of_cycle / 100 + of_year;
    cycle * CYCLE_DAYS + of_cycle - 719_468
}

/// Year, month and day, so many days since 1970-01-01.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "months and days")]
pub(super) const fn date(days: i64) -> (i64, u32, u32) {
    let days = days + 719_468;
    let (cycle, of_cycle) = (days.div_euclid(CYCLE_DAYS), days.rem_euclid(CYCLE_DAYS));
    let year = (of_cycle - of_cycle / 1_460 + of_cycle / 36_524 - of_cycle / 146_096) / 365;
    let of_year = of_cycle - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + cycle * 400 + if month <= 2 { 1 } else { 0 };
    (year, month as u32, day as u32)
}

/// From Sunday, which is 0.
pub(super) const fn weekday(days: i64) -> u32 {
    match (days + 4).rem_euclid(7) {
        0 => 0,
        1 => 1,
        2 => 2,
        3 => 3,
        4 => 4,
        5 => 5,
        _ => 6,
    }
}

pub(super) const fn days_in_month(year: i64, month: u32) -> u32 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_dates_are_each_other_over_two_cycles() {
        let mut expected = (1_600, 1, 1);
        for day in days(1_600, 1, 1)..days(2_401, 1, 1) {
            assert_eq!(date(day), expected);
            assert_eq!(days(expected.0, expected.1, expected.2), day);
            expected.2 += 1;
            if expected.2 > days_in_month(expected.0, expected.1) {
                expected = (expected.0, expected.1 + 1, 1);
            }
            if expected.1 > 12 {
                expected = (expected.0 + 1, 1, 1);
            }
        }
        assert_eq!((days(1970, 1, 1), weekday(0)), (0, 4));
        assert_eq!(weekday(days(2026, 11, 29)), 0);
        assert_eq!(date(100_000_000), (275_760, 9, 13));
    }
}
