//! The firing that is due.

use super::{Cron, MILLIS, NoFiring, calendar::SECONDS_PER_DAY, instant, signed};
use crate::Instant;

impl Cron {
    /// The last firing at or before now in the sequence that goes forward from a cursor, which is one
    /// of its firings and not after now.
    ///
    /// It takes no time for what was missed: a day some days before now is sought, and the sequence is
    /// walked from there, as all sequences are the same behind a day without transitions. Where the
    /// clock was not put forward or back since, it is not walked either.
    ///
    /// # Errors
    ///
    /// [`NoFiring::Never`] where no day ever matches.
    ///
    /// # Examples
    ///
    /// ```
    /// use recount_core::{Instant, schedule::Cron};
    ///
    /// let at = |text| Instant::parse_rfc3339(text).expect("an instant");
    /// let cron = Cron::new("*/15 * * * *", "America/New_York")?;
    /// let (cursor, now) = (at("2016-11-30T09:00:00Z"), at("2026-11-30T09:07:00Z"));
    /// assert_eq!(cron.last_due(cursor, now)?, at("2026-11-30T09:00:00Z"));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn last_due(&self, cursor: Instant, now: Instant) -> Result<Instant, NoFiring> {
        let now_second = signed(now).div_euclid(MILLIS);
        let now_wall = self.zone.wall(now_second);
        let mut at = cursor;
        let day = now_wall.div_euclid(SECONDS_PER_DAY) - 2;
        if let Some(day) = self.rule.day_at_or_before(day) {
            let first = self.zone.read(day * SECONDS_PER_DAY + self.rule.first_time());
            at = at.max(instant(first.instant() * MILLIS).unwrap_or(at));
        }
        let second = signed(at).div_euclid(MILLIS);
        if self.zone.is_even(second, now_second) {
            let wall = self.rule.at_or_before(now_wall).ok_or(NoFiring::Never)?;
            let is_later = wall > self.zone.wall(second);
            let last = instant(self.zone.read(wall).instant() * MILLIS).filter(|_| is_later);
            return Ok(last.map_or(at, |last| last.max(at)));
        }
        while let Ok(next) = self.next_after(at)
            && next <= now
        {
            at = next;
        }
        Ok(at)
    }
}
