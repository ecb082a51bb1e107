//! Zones: from instants to wall times and back.
//!
//! jiff knows the rules of named zones, from data that is compiled in, so that no machine's own data
//! changes an answer. It ends at the year 9999; behind that the calendar, and with it the last rule of
//! each zone, repeats every 400 years.

use jiff::{
    Timestamp,
    civil::DateTime,
    tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase},
};

use super::calendar::{CYCLE_DAYS, SECONDS_PER_DAY, date};

/// How many seconds the calendar repeats after.
const CYCLE_SECONDS: i64 = CYCLE_DAYS * SECONDS_PER_DAY;

/// 9998-01-01: nothing behind it is asked of jiff.
const LAST_SECOND: i64 = 253_339_228_800;

/// Ids that are in the data and mean no place, or are another spelling of UTC that is refused.
const REFUSED: [&str; 5] = ["factory", "etc/unknown", "localtime", "posixrules", "z"];

/// Names of zones that hosts know and the data lacks, and which zone is meant.
const OLD_NAMES: [(&str, &str); 38] = [
    ("ACT", "Australia/Darwin"),
    ("AET", "Australia/Sydney"),
    ("AGT", "America/Argentina/Buenos_Aires"),
    ("ART", "Africa/Cairo"),
    ("AST", "America/Anchorage"),
    ("BET", "America/Sao_Paulo"),
    ("BST", "Asia/Dhaka"),
    ("CAT", "Africa/Maputo"),
    ("CNT", "America/St_Johns"),
    ("CST", "America/Chicago"),
    ("CTT", "Asia/Shanghai"),
    ("EAT", "Africa/Nairobi"),
    ("ECT", "Europe/Paris"),
    ("IET", "America/Indiana/Indianapolis"),
    ("IST", "Asia/Kolkata"),
    ("JST", "Asia/Tokyo"),
    ("MIT", "Pacific/Apia"),
    ("NET", "Asia/Yerevan"),
    ("NST", "Pacific/Auckland"),
    ("PLT", "Asia/Karachi"),
    ("PNT", "America/Phoenix"),
    ("PRT", "America/Puerto_Rico"),
    ("PST", "America/Los_Angeles"),
    ("SST", "Pacific/Guadalcanal"),
    ("VST", "Asia/Ho_Chi_Minh"),
    ("SystemV/AST4", "America/Puerto_Rico"),
    ("SystemV/AST4ADT", "America/Halifax"),
    ("SystemV/CST6", "America/Regina"),
    ("SystemV/CST6CDT", "America/Chicago"),
    ("SystemV/EST5", "America/Indianapolis"),
    ("SystemV/EST5EDT", "America/New_York"),
    ("SystemV/HST10", "Pacific/Honolulu"),
    ("SystemV/MST7", "America/Phoenix"),
    ("SystemV/MST7MDT", "America/Denver"),
    ("SystemV/PST8", "Pacific/Pitcairn"),
    ("SystemV/PST8PDT", "America/Los_Angeles"),
    ("SystemV/YST9", "Pacific/Gambier"),
    ("SystemV/YST9YDT", "America/Anchorage"),
];

/// A zone, as it was named.
#[derive(Clone, Debug)]
pub(super) enum Zone {
    /// So many seconds ahead of UTC, always.
    Fixed(i64),
    /// One with rules of its own.
    Named(TimeZone),
}

/// What a wall time is in a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// One instant.
    Once(i64),
    /// None: the clock is put forward over it. As an instant it is later by the gap's length.
    Gap {
        /// Read by the offset before the gap.
        moved: i64,
        /// The gap's length.
        length: i64,
    },
    /// Two: the clock is put back, and shows it again.
    Fold {
        /// The first pass.
        first: i64,
        /// The second.
        second: i64,
    },
}

impl Read {
    /// The instant that a firing at it has.
    pub(super) const fn instant(self) -> i64 {
        match self {
            Self::Once(instant)
            | Self::Gap { moved: instant, .. }
            | Self::Fold { first: instant, .. } => instant,
        }
    }
}

impl Zone {
    pub(super) fn parse(text: &str) -> Option<Self> {
        if ["+", "-", "GMT+", "GMT-"].iter().any(|sign| text.starts_with(sign)) {
            return offset(text).map(Self::Fixed);
        }
        if REFUSED.iter().any(|refused| refused.eq_ignore_ascii_case(text)) {
            return None;
        }
        let old = OLD_NAMES.iter().find(|(old, _)| old.eq_ignore_ascii_case(text));
        let id = old.map_or(text, |(_, id)| id);
        TimeZoneDatabase::bundled().get(id).ok().map(Self::Named)
    }

    /// A zone by the rules of a file in the format `TZif`.
    pub(super) fn of_tzif(name: &str, bytes: &[u8]) -> Result<Self, String> {
        TimeZone::tzif(name, bytes).map(Self::Named).map_err(|error| error.to_string())
    }

    /// Whether nothing ever changes in it.
    pub(super) fn is_fixed(&self) -> bool {
        match self {
            Self::Fixed(_) => true,
            Self::Named(zone) => *zone == TimeZone::UTC,
        }
    }

    /// What the wall's clock reads at an instant.
    pub(super) fn wall(&self, second: i64) -> i64 {
        match self {
            Self::Fixed(ahead) => second + ahead,
            Self::Named(zone) => {
                let offset = zone.to_offset(timestamp(second).0);
                second + i64::from(offset.seconds())
            }
        }
    }

    /// What a wall time is.
    pub(super) fn read(&self, wall: i64) -> Read {
        let zone = match self {
            Self::Fixed(ahead) => return Read::Once(wall - ahead),
            Self::Named(zone) => zone,
        };
        let by = |offset: jiff::tz::Offset| wall - i64::from(offset.seconds());
        match zone.to_ambiguous_timestamp(date_time(wall)).offset() {
            AmbiguousOffset::Unambiguous { offset } => Read::Once(by(offset)),
            AmbiguousOffset::Gap { before, after } => {
                Read::Gap { moved: by(before), length: by(before) - by(after) }
            }
            AmbiguousOffset::Fold { before, after } => {
                Read::Fold { first: by(before), second: by(after) }
            }
        }
    }

    /// Whether the clock is neither put forward nor back behind an instant and up to another.
    pub(super) fn is_even(&self, behind: i64, until: i64) -> bool {
        match self {
            Self::Fixed(_) => true,
            Self::Named(zone) => {
                let (from, by) = timestamp(behind);
                let next = zone.following(from).next();
                next.is_none_or(|next| next.timestamp().as_second() + by > until)
            }
        }
    }
}

/// An instant that jiff knows, and how much earlier it is.
fn timestamp(second: i64) -> (Timestamp, i64) {
    let by = earlier(second);
    // What is in the range of instants is in jiff's when it is made earlier.
    (Timestamp::from_second(second - by).unwrap_or(Timestamp::MAX), by)
}

/// By how much an instant is made earlier, for jiff to know it.
fn earlier(second: i64) -> i64 {
    let over = second - LAST_SECOND;
    if over <= 0 { 0 } else { (over / CYCLE_SECONDS + 1) * CYCLE_SECONDS }
}

#[expect(clippy::cast_possible_truncation, reason = "a year before 9999, a month, a time of a day")]
fn date_time(wall: i64) -> DateTime {
    let wall = wall - earlier(wall);
    let (year, month, day) = date(wall.div_euclid(SECONDS_PER_DAY));
    let second = wall.rem_euclid(SECONDS_PER_DAY) as i32;
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    DateTime::new(year as i16, month as i8, day as i8, hour as i8, minute as i8, second as i8, 0)
        .unwrap_or(DateTime::MAX)
}

/// Reads an offset from its end: sign, two digits, maybe a colon, two digits.
fn offset(text: &str) -> Option<i64> {
    let two = |text: &str| {
        let (rest, digits) = text.split_at_checked(text.len().checked_sub(2)?)?;
        let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
        let number = is_number.then(|| digits.parse::<i64>().ok()).flatten()?;
        Some((rest.to_owned(), number))
    };
    let (rest, minutes) = two(text)?;
    let (rest, hours) = two(rest.strip_suffix(':').unwrap_or(&rest))?;
    let ahead = hours * 3_600 + minutes * 60;
    match rest.chars().next_back()? {
        '+' => Some(ahead),
        '-' => Some(-ahead),
        _ => None,
    }
}
