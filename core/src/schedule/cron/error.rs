//! Why an expression is none, and why there is no firing.

use std::{fmt, ops::Range};

use crate::Instant;

/// Why a text is not a cron expression with a zone. It says where.
///
/// # Examples
///
/// ```
/// use recount_core::schedule::{Cron, CronField};
///
/// let error = Cron::new("0 9 * * MON-SUX", "UTC").unwrap_err();
/// assert_eq!(error.field, Some(CronField::Weekday));
/// assert_eq!(&"0 9 * * MON-SUX"[error.span.clone()], "SUX");
/// assert_eq!(error.to_string(), "the weekday \"SUX\" is no number from 0 to 7 and no name");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind}")]
#[non_exhaustive]
pub struct CronError {
    /// The field that is wrong; `None` where it is the number of fields, or the zone.
    pub field: Option<CronField>,
    /// Which bytes of the expression are wrong, or of the zone where that is.
    pub span: Range<usize>,
    /// What is wrong.
    pub kind: CronErrorKind,
}

/// What is wrong with an expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CronErrorKind {
    /// It has another number of fields.
    #[error("a cron expression has five fields, or six with seconds first, not {found}")]
    Fields {
        /// How many it has.
        found: usize,
    },
    /// The zone is not known.
    #[error(
        "the time zone {zone:?} is not known: an id like Europe/Berlin, or an offset like +05:30"
    )]
    Zone {
        /// What was given.
        zone: String,
    },
    /// The zone data that was given is none.
    #[error("the zone data is no TZif file: {why}")]
    ZoneData {
        /// What is wrong with it.
        why: String,
    },
    /// A value is out of range, or no value.
    #[error("the {field} {text:?} is no number from {} to {}{}", .field.range().start(), .field.range().end(), if .field.has_names() { " and no name" } else { "" })]
    Value {
        /// The field.
        field: CronField,
        /// What stands there.
        text: String,
    },
    /// A step is out of range, or no number.
    #[error("the step {text:?} of the {field} is no number from 1 to {}", .field.range().end())]
    Step {
        /// The field.
        field: CronField,
        /// What stands there.
        text: String,
    },
    /// A range ends before it begins.
    #[error("the range {text:?} of the {field} ends before it begins")]
    Reversed {
        /// The field.
        field: CronField,
        /// The range.
        text: String,
    },
}

/// A field of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the words say it")]
pub enum CronField {
    Second,
    Minute,
    Hour,
    Day,
    Month,
    Weekday,
}

impl CronField {
    /// The fields in the order that they have in an expression.
    pub(super) const ALL: [Self; 6] =
        [Self::Second, Self::Minute, Self::Hour, Self::Day, Self::Month, Self::Weekday];

    /// The values that it may have.
    pub const fn range(self) -> std::ops::RangeInclusive<u32> {
        match self {
            Self::Second | Self::Minute => 0..=59,
            Self::Hour => 0..=23,
            Self::Day => 1..=31,
            Self::Month => 1..=12,
            Self::Weekday => 0..=7,
        }
    }

    pub(super) const fn has_names(self) -> bool {
        matches!(self, Self::Month | Self::Weekday)
    }
}

impl fmt::Display for CronField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Second => "second",
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day of the month",
            Self::Month => "month",
            Self::Weekday => "weekday",
        })
    }
}

/// Why there is no firing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoFiring {
    /// The calendar has no such day: the 30th of February, say.
    #[error("no day is ever like that")]
    Never,
    /// It would be at the very end of time.
    #[error("after {after} no firing is in the range of instants any more")]
    OutOfRange {
        /// After when it was looked for.
        after: Instant,
    },
}
