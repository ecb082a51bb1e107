//! Which wall times an expression means: pure calendar, no zone.
//!
//! A wall time is a count of seconds since 1970-01-01T00:00:00 on the wall's clock.

use super::calendar::{SECONDS_PER_DAY, date, days, days_in_month, weekday};

/// How many months the calendar repeats after: what is not found in them is never.
const CYCLE_MONTHS: u32 = 4_800;

/// The values that each field allows, a bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) seconds: u64,
    pub(super) minutes: u64,
    pub(super) hours: u64,
    pub(super) days: u64,
    pub(super) months: u64,
    /// From Sunday, which is 0.
    pub(super) weekdays: u64,
    pub(super) day: DayRule,
}

/// How the two fields of a day go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DayRule {
    /// A day must be in both; a field that is not restricted has every day in it.
    Both,
    /// It must be in one of them.
    Either,
}

impl Rule {
    /// The first that matches, at or behind a wall time; `None` where there is none ever.
    pub(super) fn at_or_after(&self, wall: i64) -> Option<i64> {
        let (day, second) = split(wall);
        if self.has_day(day)
            && let Some(time) = self.time_at_or_after(second)
        {
            return Some(day * SECONDS_PER_DAY + time);
        }
        Some(self.day_at_or_after(day + 1)? * SECONDS_PER_DAY + self.first_time())
    }

    /// The last that matches, at or before a wall time; `None` where there is none ever.
    pub(super) fn at_or_before(&self, wall: i64) -> Option<i64> {
        let (day, second) = split(wall);
        if self.has_day(day)
            && let Some(time) = self.time_at_or_before(second)
        {
            return Some(day * SECONDS_PER_DAY + time);
        }
        let last = self.time_at_or_before(SECONDS_PER_DAY - 1)?;
        Some(self.day_at_or_before(day - 1)? * SECONDS_PER_DAY + last)
    }

    /// The first time of each day that matches.
    pub(super) fn first_time(&self) -> i64 {
        time(first(self.hours), first(self.minutes), first(self.seconds))
    }

    /// The last day that matches, at or before a day.
    pub(super) fn day_at_or_before(&self, day: i64) -> Option<i64> {
        let (mut year, mut month, day) = date(day);
        let mut until = u64::MAX >> (63 - day);
        for _ in 0..=CYCLE_MONTHS {
            let matching = self.days_of(year, month) & until;
            if matching != 0 {
                return Some(days(year, month, last(matching)));
            }
            (year, month) = if month == 1 { (year - 1, 12) } else { (year, month - 1) };
            until = u64::MAX;
        }
        None
    }

    fn day_at_or_after(&self, day: i64) -> Option<i64> {
        let (mut year, mut month, day) = date(day);
        let mut from = u64::MAX << day;
        for _ in 0..=CYCLE_MONTHS {
            let matching = self.days_of(year, month) & from;
            if matching != 0 {
                return Some(days(year, month, first(matching)));
            }
            (year, month) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
            from = u64::MAX;
        }
        None
    }

    fn has_day(&self, day: i64) -> bool {
        let (year, month, day) = date(day);
        has(self.days_of(year, month), day)
    }

    /// The days of a month that match, from bit 1 on.
    fn days_of(&self, year: i64, month: u32) -> u64 {
        if !has(self.months, month) {
            return 0;
        }
        let all = (2 << days_in_month(year, month)) - 2;
        // Weekdays, six times over, with that of the month's first day at bit 1.
        let weeks = (0..6).fold(0, |weeks, week| weeks | self.weekdays << (7 * week));
        let by_weekday = weeks >> weekday(days(year, month, 1)) << 1;
        all & match self.day {
            DayRule::Both => self.days & by_weekday,
            DayRule::Either => self.days | by_weekday,
        }
    }

    fn time_at_or_after(&self, second: i64) -> Option<i64> {
        let (hour, minute, second) = clock(second);
        if has(self.hours, hour) {
            if has(self.minutes, minute)
                && let Some(second) = bit_from(self.seconds, second)
            {
                return Some(time(hour, minute, second));
            }
            if let Some(minute) = bit_from(self.minutes, minute + 1) {
                return Some(time(hour, minute, first(self.seconds)));
            }
        }
        let hour = bit_from(self.hours, hour + 1)?;
        Some(time(hour, first(self.minutes), first(self.seconds)))
    }

    fn time_at_or_before(&self, second: i64) -> Option<i64> {
        let (hour, minute, second) = clock(second);
        if has(self.hours, hour) {
            if has(self.minutes, minute)
                && let Some(second) = bit_below(self.seconds, second + 1)
            {
                return Some(time(hour, minute, second));
            }
            if let Some(minute) = bit_below(self.minutes, minute) {
                return Some(time(hour, minute, last(self.seconds)));
            }
        }
        let hour = bit_below(self.hours, hour)?;
        Some(time(hour, last(self.minutes), last(self.seconds)))
    }

    /// The shortest time between two of its minutes, in minutes, by the clock alone: days are left
    /// aside, and midnight is no end.
    pub(super) fn shortest_minutes(&self) -> u64 {
        let minutes = (0..24 * 60)
            .filter(|minute| has(self.hours, minute / 60) && has(self.minutes, minute % 60));
        let minutes: Vec<u64> = minutes.map(u64::from).collect();
        let around = minutes.first().map(|first| first + 24 * 60);
        let next = minutes.iter().skip(1).copied().chain(around);
        minutes.iter().zip(next).map(|(minute, next)| next - minute).min().unwrap_or(24 * 60)
    }
}

fn split(wall: i64) -> (i64, i64) {
    (wall.div_euclid(SECONDS_PER_DAY), wall.rem_euclid(SECONDS_PER_DAY))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time of a day")]
fn clock(second: i64) -> (u32, u32, u32) {
    let second = second as u32;
    (second / 3_600, second / 60 % 60, second % 60)
}

fn time(hour: u32, minute: u32, second: u32) -> i64 {
    i64::from(hour * 3_600 + minute * 60 + second)
}

fn has(bits: u64, bit: u32) -> bool {
    bits >> bit & 1 == 1
}

/// No field is empty.
fn first(bits: u64) -> u32 {
    bits.trailing_zeros()
}

fn last(bits: u64) -> u32 {
    bits.ilog2()
}

/// The first bit that is set, from one on, which is at most 60.
fn bit_from(bits: u64, from: u32) -> Option<u32> {
    let rest = bits >> from << from;
    (rest != 0).then(|| first(rest))
}

/// The last bit that is set below one, which is at most 60.
fn bit_below(bits: u64, below: u32) -> Option<u32> {
    let rest = bits & ((1 << below) - 1);
    (rest != 0).then(|| last(rest))
}
