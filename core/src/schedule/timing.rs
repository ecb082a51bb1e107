//! When a schedule's occurrences are.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::{Cron, CronError, NoFiring};
use crate::{
    Instant,
    json::{natural, present},
};

/// How long an expression may be: 256 UTF-16 code units.
const MAX_EXPRESSION: usize = 256;
/// How long a zone may be: 128 UTF-16 code units.
const MAX_ZONE: usize = 128;
/// A minimum up to this is kept by any expression.
const MINUTE_MILLIS: u64 = 60_000;

/// When occurrences are wished, as it is asked for.
///
/// # Examples
///
/// ```
/// use recount_core::{Instant, schedule::{Timing, TimingRequest}};
///
/// let request: TimingRequest =
///     serde_json::from_str(r#"{"_tag":"Interval","everyMillis":90000}"#)?;
/// let now = Instant::from_millis(1_000)?;
/// let timing = request.resolve(now, 60_000)?;
/// assert_eq!(
///     serde_json::to_string(&timing)?,
///     r#"{"_tag":"Interval","everyMillis":90000,"anchorMillis":91000}"#,
/// );
/// let error = request.resolve(now, 3_600_000).unwrap_err();
/// assert_eq!(error.to_string(), "an interval of 90000 ms is shorter than 3600000 ms");
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "_tag", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum TimingRequest {
    /// Once, at an instant; one that is past is due.
    At {
        /// When.
        at_millis: Instant,
    },
    /// Once, so long from now.
    After {
        /// After how many milliseconds, 1 at least.
        #[serde(deserialize_with = "natural")]
        delay_millis: u64,
    },
    /// Again and again, so long after one another.
    Interval {
        /// How many milliseconds apart.
        #[serde(deserialize_with = "natural")]
        every_millis: u64,
        /// The first of them; one interval from now unless given.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        anchor_millis: Option<Instant>,
    },
    /// By the clock on a wall.
    Cron {
        /// Five fields, or six with one value for the seconds.
        expression: String,
        /// Where the wall is; UTC unless given.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        time_zone: Option<String>,
    },
}

/// When occurrences are, as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Timing {
    /// Once, at an instant.
    At {
        /// When.
        at_millis: Instant,
    },
    /// At an instant, and so long after it again and again.
    Interval {
        /// How many milliseconds apart.
        every_millis: u64,
        /// The first of them.
        anchor_millis: Instant,
    },
    /// By the clock on a wall.
    Cron(Cron),
}

/// Why a timing cannot be kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TimingError {
    /// A delay is no time.
    #[error("a delay is 1 ms at least")]
    Delay,
    /// An interval is too short.
    #[error("an interval of {every} ms is shorter than {minimum} ms")]
    Interval {
        /// The interval.
        every: u64,
        /// How long it must be.
        minimum: u64,
    },
    /// A text is too long.
    #[error("the {what} has {length} UTF-16 code units, more than {max}")]
    Length {
        /// Which text.
        what: &'static str,
        /// How long it is.
        length: usize,
        /// How long it may be.
        max: usize,
    },
    /// An expression is none.
    #[error(transparent)]
    Cron(#[from] CronError),
    /// An expression fires more than once a minute.
    #[error("{expression:?} has {found} values for the seconds, where one is allowed")]
    Seconds {
        /// The expression.
        expression: String,
        /// How many there are.
        found: u32,
    },
    /// In a zone whose clock is put forward and back no shortest time can be told.
    #[error(
        "with a minimum of {minimum} ms a cron expression is in UTC or at an offset, not in {zone:?}"
    )]
    Zone {
        /// The zone.
        zone: String,
        /// How long it must be between two firings.
        minimum: u64,
    },
    /// An expression has no firing from now on.
    #[error("{expression:?} never fires: {why}")]
    NoFiring {
        /// The expression.
        expression: String,
        /// Why.
        why: NoFiring,
    },
    /// Two firings are too close to one another.
    #[error(
        "{expression:?} can fire {found} ms after it fired, which is shorter than {minimum} ms"
    )]
    TooOften {
        /// The expression.
        expression: String,
        /// How long it can be between two firings.
        found: u64,
        /// How long it must be.
        minimum: u64,
    },
}

/// What is due; [`Timing::due`] has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// For when the occurrence is intended.
    pub intended_at_millis: Instant,
    /// The cursor behind it; `None` where it is the last.
    pub next_at_millis: Option<Instant>,
    /// What was missed before it.
    pub skipped_range: Option<SkippedRange>,
}

/// A range of occurrences that are not made: from one, included, to another, which is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SkippedRange {
    /// The first that is not made.
    pub from_millis: Instant,
    /// The first behind them.
    pub to_millis: Instant,
}

impl TimingRequest {
    /// What is kept of it, now.
    ///
    /// # Errors
    ///
    /// [`TimingError`] where it is none, or would be due more often than it may.
    pub fn resolve(&self, now: Instant, minimum_millis: u64) -> Result<Timing, TimingError> {
        match self {
            Self::At { at_millis } => Ok(Timing::At { at_millis: *at_millis }),
            Self::After { delay_millis: 0 } => Err(TimingError::Delay),
            Self::After { delay_millis } => {
                Ok(Timing::At { at_millis: now.saturating_add(*delay_millis) })
            }
            Self::Interval { every_millis: every, .. } if *every < minimum_millis.max(1) => {
                let minimum = minimum_millis.max(1);
                Err(TimingError::Interval { every: *every, minimum })
            }
            Self::Interval { every_millis, anchor_millis } => {
                let anchor = anchor_millis.unwrap_or_else(|| now.saturating_add(*every_millis));
                Ok(Timing::Interval { every_millis: *every_millis, anchor_millis: anchor })
            }
            Self::Cron { expression, time_zone } => {
                let zone = time_zone.as_deref().unwrap_or("UTC");
                let cron = cron(expression, zone, minimum_millis)?;
                let expression = expression.clone();
                match cron.next_after(now) {
                    Ok(_) => Ok(Timing::Cron(cron)),
                    Err(why) => Err(TimingError::NoFiring { expression, why }),
                }
            }
        }
    }
}

fn cron(expression: &str, zone: &str, minimum: u64) -> Result<Cron, TimingError> {
    for (what, text, max) in
        [("expression", expression, MAX_EXPRESSION), ("time zone", zone, MAX_ZONE)]
    {
        let length = text.encode_utf16().count();
        if length > max {
            return Err(TimingError::Length { what, length, max });
        }
    }
    let cron = Cron::new(expression, zone)?;
    let expression = || expression.to_owned();
    let seconds = cron.seconds_selected();
    if seconds != 1 {
        return Err(TimingError::Seconds { expression: expression(), found: seconds });
    }
    if minimum > MINUTE_MILLIS {
        if !cron.has_fixed_zone() {
            return Err(TimingError::Zone { zone: zone.to_owned(), minimum });
        }
        let found = cron.shortest_millis();
        if found < minimum {
            return Err(TimingError::TooOften { expression: expression(), found, minimum });
        }
    }
    Ok(cron)
}

impl Timing {
    /// The first occurrence after an instant, strictly; `None` where there is none any more.
    ///
    /// # Errors
    ///
    /// [`NoFiring`] where a cron expression has none.
    pub fn next_after(&self, after: Instant) -> Result<Option<Instant>, NoFiring> {
        match self {
            Self::At { at_millis } => Ok(Some(*at_millis).filter(|at| *at > after)),
            Self::Interval { every_millis, anchor_millis } => {
                Ok(first_behind(*anchor_millis, *every_millis, after))
            }
            Self::Cron(cron) => cron.next_after(after).map(Some),
        }
    }

    /// The occurrence that is due now, where the cursor stands at the next one; `None` where none is.
    ///
    /// Of several that were missed it is the last, however many they are.
    ///
    /// # Errors
    ///
    /// [`NoFiring`] where a cron expression has none behind it.
    ///
    /// # Examples
    ///
    /// ```
    /// use recount_core::{Instant, schedule::{Cron, Timing}};
    ///
    /// let at = |text| Instant::parse_rfc3339(text).expect("an instant");
    /// let timing = Timing::Cron(Cron::new("0 9 * * MON-FRI", "Europe/Berlin")?);
    /// // Down for ten years.
    /// let (cursor, now) = (at("2016-12-01T08:00:00Z"), at("2026-11-30T12:00:00Z"));
    /// let due = timing.due(cursor, now)?.expect("many are");
    /// assert_eq!(due.intended_at_millis, at("2026-11-30T08:00:00Z"));
    /// assert_eq!(due.next_at_millis, Some(at("2026-12-01T08:00:00Z")));
    /// assert_eq!(due.skipped_range.expect("many were missed").from_millis, cursor);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn due(&self, cursor: Instant, now: Instant) -> Result<Option<Due>, NoFiring> {
        if cursor > now {
            return Ok(None);
        }
        let (intended, next) = match self {
            Self::At { .. } => (cursor, None),
            Self::Interval { every_millis, anchor_millis } => {
                let last = last_at(*anchor_millis, *every_millis, now);
                (cursor.max(last), first_behind(*anchor_millis, *every_millis, now))
            }
            Self::Cron(cron) => {
                let last = cron.last_due(cursor, now)?;
                (last, Some(cron.next_after(last)?))
            }
        };
        Ok(Some(Due {
            intended_at_millis: intended,
            next_at_millis: next,
            skipped_range: skipped(cursor, intended),
        }))
    }

    /// Where the cursor goes when a schedule goes on now, and what is skipped by that.
    ///
    /// It never goes back, so that no occurrence comes twice, whatever the clock does. What is to be
    /// once keeps its cursor, and what has none stays without.
    ///
    /// # Errors
    ///
    /// [`NoFiring`] where a cron expression has none any more.
    pub fn resume(
        &self,
        cursor: Option<Instant>,
        now: Instant,
    ) -> Result<(Option<Instant>, Option<SkippedRange>), NoFiring> {
        let Some(old) = cursor else { return Ok((None, None)) };
        if matches!(self, Self::At { .. }) {
            return Ok((cursor, None));
        }
        let new = self.next_after(now)?.map_or(old, |next| next.max(old));
        Ok((Some(new), skipped(old, new)))
    }
}

fn skipped(from_millis: Instant, to_millis: Instant) -> Option<SkippedRange> {
    (from_millis < to_millis).then_some(SkippedRange { from_millis, to_millis })
}

/// The last of an interval's instants at or before another, as if it had none before it that was the
/// first: a cursor may stand before an anchor that was moved.
fn last_at(anchor: Instant, every: u64, now: Instant) -> Instant {
    let (anchor, every, now) = (anchor.as_millis(), u128::from(every), now.as_millis());
    // How far behind the last one now is.
    let behind = match now.checked_sub(anchor) {
        Some(since) => u128::from(since) % every,
        None => (every - u128::from(anchor - now) % every) % every,
    };
    let last = u64::try_from(u128::from(now).saturating_sub(behind)).unwrap_or(now);
    Instant::from_millis(last).unwrap_or(Instant::ZERO)
}

/// The first of an interval's instants after another; `None` where it would be past all instants.
fn first_behind(anchor: Instant, every: u64, after: Instant) -> Option<Instant> {
    let Some(since) = after.as_millis().checked_sub(anchor.as_millis()) else {
        return Some(anchor);
    };
    let steps = (since / every).checked_add(1)?.checked_mul(every)?;
    Instant::from_millis(anchor.as_millis().checked_add(steps)?).ok()
}

/// How it is written: a cron expression is read again where it is read.
#[derive(Serialize, Deserialize)]
#[serde(tag = "_tag", rename_all_fields = "camelCase", deny_unknown_fields)]
enum Stored {
    At {
        at_millis: Instant,
    },
    Interval {
        #[serde(deserialize_with = "natural")]
        every_millis: u64,
        anchor_millis: Instant,
    },
    Cron {
        expression: String,
        time_zone: String,
    },
}

impl Serialize for Timing {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let stored = match self {
            Self::At { at_millis } => Stored::At { at_millis: *at_millis },
            Self::Interval { every_millis, anchor_millis } => {
                Stored::Interval { every_millis: *every_millis, anchor_millis: *anchor_millis }
            }
            Self::Cron(cron) => Stored::Cron {
                expression: cron.expression().to_owned(),
                time_zone: cron.zone().to_owned(),
            },
        };
        stored.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Timing {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match Stored::deserialize(deserializer)? {
            Stored::At { at_millis } => Self::At { at_millis },
            Stored::Interval { every_millis: 0, .. } => {
                return Err(de::Error::custom("an interval is 1 ms at least"));
            }
            Stored::Interval { every_millis, anchor_millis } => {
                Self::Interval { every_millis, anchor_millis }
            }
            Stored::Cron { expression, time_zone } => {
                Self::Cron(Cron::new(&expression, &time_zone).map_err(de::Error::custom)?)
            }
        })
    }
}
