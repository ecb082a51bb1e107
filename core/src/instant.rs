//! Points in time, given by a host's clock and never read here.

use std::fmt;

use serde::{Deserialize, Serialize};
use time::{
    Date, Month, OffsetDateTime, Time, UtcDateTime, format_description::well_known::Rfc3339,
};

/// Milliseconds since the Unix epoch, `0 ..= 8 640 000 000 000 000`.
///
/// In JSON a plain integer. For people it is RFC 3339 in UTC with milliseconds, or the plain
/// number where that is beyond the year 9999 (`spec/common.md`).
///
/// # Examples
///
/// ```
/// use recount_core::Instant;
///
/// let instant = Instant::from_millis(1_700_000_000_123)?;
/// assert_eq!(instant.to_string(), "2023-11-14T22:13:20.123Z");
/// assert_eq!(Instant::MAX.to_string(), "8640000000000000 ms");
/// # Ok::<_, recount_core::InstantError>(())
/// ```
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(try_from = "u64")]
pub struct Instant(u64);

/// A number of milliseconds past [`Instant::MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{millis} ms is past the last instant, 8640000000000000 ms")]
pub struct InstantError {
    /// The number that was given.
    pub millis: u64,
}

impl Instant {
    /// The epoch itself.
    pub const ZERO: Self = Self(0);
    /// The last instant: 100 million days after the epoch.
    pub const MAX: Self = Self(8_640_000_000_000_000);
    /// The last instant that RFC 3339 can spell: 9999-12-31T23:59:59.999Z.
    pub const MAX_RFC3339: Self = Self(253_402_300_799_999);

    /// The instant so many milliseconds after the epoch.
    ///
    /// # Errors
    ///
    /// [`InstantError`] past [`Instant::MAX`].
    pub const fn from_millis(millis: u64) -> Result<Self, InstantError> {
        if millis > Self::MAX.0 {
            return Err(InstantError { millis });
        }
        Ok(Self(millis))
    }

    /// Milliseconds since the epoch.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// The instant so many milliseconds later, and [`Instant::MAX`] where that would be past it.
    ///
    /// # Examples
    ///
    /// ```
    /// use recount_core::Instant;
    ///
    /// assert_eq!(Instant::ZERO.saturating_add(7).as_millis(), 7);
    /// assert_eq!(Instant::MAX.saturating_add(u64::MAX), Instant::MAX);
    /// ```
    #[must_use]
    pub const fn saturating_add(self, millis: u64) -> Self {
        let sum = self.0.saturating_add(millis);
        if sum > Self::MAX.0 { Self::MAX } else { Self(sum) }
    }

    /// RFC 3339 in UTC with exactly three decimals, the one spelling that `recordedAt` has;
    /// `None` beyond the year 9999.
    pub fn to_rfc3339(self) -> Option<String> {
        if self > Self::MAX_RFC3339 {
            return None;
        }
        let at = UtcDateTime::from_unix_timestamp_nanos(i128::from(self.0) * 1_000_000).ok()?;
        let (year, month, day) = at.to_calendar_date();
        let (hour, minute, second, milli) = at.as_hms_milli();
        let month = u8::from(month);
        Some(format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z"))
    }

    /// Reads what [`Instant::to_rfc3339`] writes, and nothing else.
    ///
    /// # Examples
    ///
    /// ```
    /// use recount_core::Instant;
    ///
    /// let text = "2026-11-30T19:32:28.123Z";
    /// let instant = Instant::from_rfc3339(text).unwrap();
    /// assert_eq!(instant.to_rfc3339().as_deref(), Some(text));
    /// assert_eq!(Instant::from_rfc3339("2026-11-30T19:32:28Z"), None);
    /// ```
    pub fn from_rfc3339(text: &str) -> Option<Self> {
        let bytes: &[u8; 24] = text.as_bytes().try_into().ok()?;
        let fixed =
            [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':'), (19, b'.'), (23, b'Z')];
        if fixed.iter().any(|&(at, byte)| bytes[at] != byte) {
            return None;
        }
        let number = |range: std::ops::Range<usize>| {
            bytes[range].iter().try_fold(0_u16, |sum, digit| {
                digit.is_ascii_digit().then(|| sum * 10 + u16::from(digit - b'0'))
            })
        };
        let small = |range| number(range).and_then(|n| u8::try_from(n).ok());
        let month = Month::try_from(small(5..7)?).ok()?;
        let date = Date::from_calendar_date(number(0..4)?.into(), month, small(8..10)?).ok()?;
        let time =
            Time::from_hms_milli(small(11..13)?, small(14..16)?, small(17..19)?, number(20..23)?)
                .ok()?;
        let nanos = UtcDateTime::new(date, time).unix_timestamp_nanos();
        u64::try_from(nanos / 1_000_000).ok().filter(|_| nanos >= 0).map(Self)
    }
}

impl Instant {
    /// Reads any time in RFC 3339, with whatever offset; what is finer than a millisecond is cut.
    ///
    /// # Examples
    ///
    /// ```
    /// use recount_core::Instant;
    ///
    /// let instant = Instant::parse_rfc3339("2026-11-30T20:32:28.1239+01:00").unwrap();
    /// assert_eq!(instant.to_string(), "2026-11-30T19:32:28.123Z");
    /// assert_eq!(Instant::parse_rfc3339("1969-12-31T23:59:59Z"), None);
    /// ```
    pub fn parse_rfc3339(text: &str) -> Option<Self> {
        let time = OffsetDateTime::parse(text, &Rfc3339).ok()?;
        let millis = time.unix_timestamp_nanos().div_euclid(1_000_000);
        u64::try_from(millis).ok().and_then(|millis| Self::from_millis(millis).ok())
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.to_rfc3339() {
            Some(text) => f.pad(&text),
            None => f.pad(&format!("{} ms", self.0)),
        }
    }
}

impl TryFrom<u64> for Instant {
    type Error = InstantError;

    fn try_from(millis: u64) -> Result<Self, InstantError> {
        Self::from_millis(millis)
    }
}

/// Whether a text is an RFC 3339 date and time, in any offset and precision.
pub(crate) fn is_rfc3339(text: &str) -> bool {
    OffsetDateTime::parse(text, &Rfc3339).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_instant_is_held_and_the_next_refused() {
        assert_eq!(Instant::from_millis(8_640_000_000_000_000), Ok(Instant::MAX));
        let error = serde_json::from_str::<Instant>("8640000000000001").unwrap_err();
        assert_eq!(
            error.to_string(),
            "8640000000000001 ms is past the last instant, 8640000000000000 ms"
        );
    }

    #[test]
    fn rfc3339_goes_both_ways_at_the_edges() {
        for millis in [0, 951_782_400_000, 253_402_300_799_999] {
            let instant = Instant(millis);
            let text = instant.to_rfc3339().unwrap();
            assert_eq!(Instant::from_rfc3339(&text), Some(instant), "{text}");
        }
        assert_eq!(Instant(253_402_300_800_000).to_rfc3339(), None);
    }

    #[test]
    fn other_spellings_of_a_time_are_not_read() {
        for text in [
            "1969-12-31T23:59:59.999Z",
            "2026-02-30T00:00:00.000Z",
            "2026-01-01T24:00:00.000Z",
            "2026-01-01T00:00:60.000Z",
            "2026-01-01t00:00:00.000Z",
            "2026-01-01T00:00:00.000z",
            "2026-01-01T00:00:00,000Z",
            "2026-01-01T00:00:00+00:00",
            "+026-01-01T00:00:00.000Z",
            "",
        ] {
            assert_eq!(Instant::from_rfc3339(text), None, "{text}");
        }
    }
}
