//! What a verification says.

use std::{collections::BTreeMap, str::FromStr};

use recount_core::{Digest, Invariant, Severity, delivery::MessageDeliveryRecord, log::Place};
use serde::Serialize;

use super::Rules;

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The rule that does not hold; none where the bytes are not a row at all.
    pub invariant: Option<Invariant>,
    /// Where.
    pub place: Place,
    /// The message that it is about, where that is known.
    pub message_id: Option<String>,
    /// How the rule is broken, or why the bytes are not a row.
    pub why: String,
    /// The message's record before the event.
    pub before: Option<Box<MessageDeliveryRecord>>,
    /// The message's record as it would be after it.
    pub after: Option<Box<MessageDeliveryRecord>>,
}

impl Finding {
    /// How bad it is; bytes that are not a row are an error.
    pub fn severity(&self) -> Severity {
        self.invariant.map_or(Severity::Error, Invariant::severity)
    }
}

/// What was looked at, and what was not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Coverage {
    /// Rows that were read.
    pub events: u64,
    /// Streams that they are in.
    pub streams: u64,
    /// Messages that were prepared.
    pub messages: u64,
    /// Lines that are not rows.
    pub unreadable: u64,
    /// Messages that broke a rule, or had an event that was not understood, and are not followed
    /// any further.
    pub messages_set_aside: u64,
    /// Later events of such messages.
    pub events_set_aside: u64,
    /// Events of which a rule could not be decided any more, by why.
    pub unchecked: BTreeMap<&'static str, u64>,
    /// Events that changed nothing, by why: a rule that was not asked for is not kept.
    pub ignored: BTreeMap<&'static str, u64>,
    /// Events whose type or version is not known, where they were to be skipped.
    pub unknown_skipped: u64,
}

/// How a verification ended.
///
/// # Examples
///
/// ```
/// use recount_core::log::jsonl::JsonlRows;
/// use recount_projections::{VerifyOptions, verify};
///
/// let report = verify(JsonlRows::new(&b""[..]), &VerifyOptions::default(), |_| Ok(()))?;
/// assert!(!report.is_violated() && !report.is_incomplete());
/// assert_eq!((report.coverage.events, report.last_position), (0, None));
/// # Ok::<_, std::io::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// The rules that were asked for.
    pub rules: Rules,
    /// What was looked at, and what was not.
    pub coverage: Coverage,
    /// Rules that do not hold.
    pub violations: u64,
    /// Things that a person should look at.
    pub warnings: u64,
    /// The last position; none of an empty log.
    pub last_position: Option<u64>,
    /// The root of the Merkle tree over the events; none where a row could not be read.
    pub root: Option<Digest>,
    /// The log's id: the digest of its first event.
    pub log_id: Option<Digest>,
    /// What was expected and is not so.
    pub mismatch: Option<String>,
}

impl Report {
    /// Whether a rule does not hold, or something expected is not so.
    pub fn is_violated(&self) -> bool {
        self.violations > 0 || self.mismatch.is_some()
    }

    /// Whether something could not be looked at.
    pub fn is_incomplete(&self) -> bool {
        self.coverage.unreadable > 0 || self.coverage.unknown_skipped > 0
    }
}

/// How many events a log should have, and their root, as an earlier report printed them.
///
/// # Examples
///
/// ```
/// use recount_projections::Expected;
///
/// let root = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
/// let expected: Expected = format!("0:{root}").parse()?;
/// assert_eq!(expected.events, 0);
/// assert_eq!(expected.to_string(), format!("0:{root}"));
/// # Ok::<_, recount_projections::ExpectError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// How many events.
    pub events: u64,
    /// Their root.
    pub root: Digest,
}

/// A text that is not a number of events and a root.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected COUNT:ROOT, a number and 64 lower-case hex digits, as `verify` prints them")]
pub struct ExpectError;

impl FromStr for Expected {
    type Err = ExpectError;

    fn from_str(text: &str) -> Result<Self, ExpectError> {
        let (events, root) = text.split_once(':').ok_or(ExpectError)?;
        let events = events.parse().map_err(|_| ExpectError)?;
        Ok(Self { events, root: root.parse().map_err(|_| ExpectError)? })
    }
}

impl std::fmt::Display for Expected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.events, self.root)
    }
}
