//! Looking at a log as it was.

use std::str::FromStr;

use recount_core::{Instant, Position};

/// Up to where a log is looked at, the end included.
///
/// # Examples
///
/// ```
/// use recount_core::Position;
/// use recount_projections::Until;
///
/// assert_eq!("41".parse(), Ok(Until::Position(Position::new(41).unwrap())));
/// let instant: Until = "2026-11-30T19:32:28Z".parse()?;
/// assert_eq!("2026-11-30T20:32:28.000+01:00".parse(), Ok(instant));
/// assert!("1796029200000".parse::<Until>().is_err(), "it is milliseconds, not a position");
/// assert_eq!(
///     "yesterday".parse::<Until>().unwrap_err().to_string(),
///     "expected a position such as 41, or a time such as 2026-11-30T19:32:28Z",
/// );
/// # Ok::<_, recount_projections::UntilError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Up to an event.
    Position(Position),
    /// What was recorded by then. Where a stream's clock went back, what follows an event that was
    /// recorded later is left out, too, so that each stream is looked at as it once was.
    Instant(Instant),
}

/// That a text is neither a position nor a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a position such as 41, or a time such as 2026-11-30T19:32:28Z")]
pub struct UntilError;

impl Until {
    /// Whether an event is looked at; `recorded_at` is the latest of its stream so far.
    pub(crate) fn includes(self, position: Position, recorded_at: Instant) -> bool {
        match self {
            Self::Position(last) => position <= last,
            Self::Instant(last) => recorded_at <= last,
        }
    }

    /// Whether what comes behind an event is not looked at.
    pub(crate) fn ends_at(self, position: Option<u64>) -> bool {
        matches!(self, Self::Position(last) if position >= Some(last.get()))
    }

    /// Whether nothing that comes at a later position is looked at.
    pub(crate) fn is_past(self, position: Position) -> bool {
        matches!(self, Self::Position(last) if position > last)
    }
}

/// More events than a log has.
const MANY: u64 = 100_000_000_000;

impl FromStr for Until {
    type Err = UntilError;

    fn from_str(text: &str) -> Result<Self, UntilError> {
        match text.parse() {
            // No log has so many events: it is milliseconds, which mean nothing here.
            Ok(number) if number >= MANY => None,
            Ok(number) => Position::new(number).map(Self::Position),
            Err(_) => Instant::parse_rfc3339(text).map(Self::Instant),
        }
        .ok_or(UntilError)
    }
}
