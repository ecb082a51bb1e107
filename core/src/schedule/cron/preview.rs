//! The next firings, with what surprises people about them.

use super::{Cron, MILLIS, NoFiring, calendar, zone::Read};
use crate::Instant;

/// A firing as people see it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Firing {
    /// When it is.
    pub at: Instant,
    /// What the wall's clock reads then, with how far it is ahead of UTC: `2026-03-29 03:30:00 +02:00`.
    pub local: String,
    /// What is odd about it.
    pub odd: Option<Odd>,
}

/// What is odd about a firing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Odd {
    /// The clock is put forward over its time: it fires later by the gap's length.
    Moved {
        /// The time that there is not, as the wall's clock would read it: `2026-03-29 02:30:00`.
        missing: String,
        /// The gap's length.
        by_millis: u64,
        /// How many other times that match do not fire, since they are in the gap, too, or between its
        /// end and this firing.
        lost: u64,
    },
    /// The clock is put back and shows its time again; it does not fire then.
    SilentAgain {
        /// When the clock shows it again.
        at: Instant,
    },
}

impl Cron {
    /// The next firings after an instant, so many at most; fewer where there are no more.
    ///
    /// # Examples
    ///
    /// ```
    /// use recount_core::{Instant, schedule::{Cron, Odd}};
    ///
    /// let cron = Cron::new("30 2 * * *", "Europe/Berlin")?;
    /// let before = Instant::parse_rfc3339("2026-03-28T12:00:00Z").expect("an instant");
    /// let firings = cron.preview(before, 2)?;
    /// assert_eq!(firings[0].local, "2026-03-29 03:30:00 +02:00");
    /// let odd = Odd::Moved {
    ///     missing: "2026-03-29 02:30:00".to_owned(),
    ///     by_millis: 3_600_000,
    ///     lost: 0,
    /// };
    /// assert_eq!(firings[0].odd, Some(odd));
    /// assert_eq!((&*firings[1].local, &firings[1].odd), ("2026-03-30 02:30:00 +02:00", &None));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`NoFiring`] where there is not even one.
    pub fn preview(&self, after: Instant, count: usize) -> Result<Vec<Firing>, NoFiring> {
        let mut firings = Vec::new();
        let mut after = after;
        while firings.len() < count {
            let (wall, at) = match self.next(after) {
                Ok(next) => next,
                Err(none) if firings.is_empty() => return Err(none),
                Err(_) => break,
            };
            firings.push(self.firing(wall, at));
            after = at;
        }
        Ok(firings)
    }

    fn firing(&self, wall: i64, at: Instant) -> Firing {
        let second = super::signed(at).div_euclid(MILLIS);
        let (shown, odd) = match self.zone.read(wall) {
            Read::Once(_) => (wall, None),
            Read::Gap { length, .. } => {
                let missing = clock_text(wall);
                let by_millis = u64::try_from(length * MILLIS).unwrap_or_default();
                let lost = self.matching(wall + 1, wall + length);
                (wall + length, Some(Odd::Moved { missing, by_millis, lost }))
            }
            Read::Fold { second, .. } => {
                (wall, super::instant(second * MILLIS).map(|at| Odd::SilentAgain { at }))
            }
        };
        let ahead = shown - second;
        let (sign, minutes) = (if ahead < 0 { '-' } else { '+' }, ahead.abs() / 60);
        let local = format!("{} {sign}{:02}:{:02}", clock_text(shown), minutes / 60, minutes % 60);
        Firing { at, local, odd }
    }

    /// How many wall times match from one on, and before another.
    fn matching(&self, from: i64, before: i64) -> u64 {
        let first = self.rule.at_or_after(from);
        let all = std::iter::successors(first, |wall| self.rule.at_or_after(wall + 1));
        all.take_while(|wall| *wall < before).fold(0, |count, _| count + 1)
    }
}

/// What a wall's clock reads.
fn clock_text(wall: i64) -> String {
    let (year, month, day) = calendar::date(wall.div_euclid(calendar::SECONDS_PER_DAY));
    let second = wall.rem_euclid(calendar::SECONDS_PER_DAY);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}
