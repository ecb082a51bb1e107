//! Copying a log to another place, of whatever kind: export, import, archive.

mod compare;
#[cfg(all(test, feature = "sqlite", feature = "zstd"))]
mod tests;

use super::{EventReader, LogHead, ReadError, RowSource, Source};
use crate::{Digest, MerkleTree, Position, RecordedEvent};

/// Where a log is copied to.
///
/// It is asked for what is there first, then given the events that are not, in order.
pub trait Destination {
    /// Reads what is there, from its beginning.
    ///
    /// # Errors
    ///
    /// [`CopyError::Storage`] where it cannot be read.
    fn rows(&mut self) -> Result<Box<dyn RowSource + '_>, CopyError>;

    /// Puts the next event behind the others; it need not be durable yet.
    ///
    /// `there` is how many bytes of its row are there already, where an earlier copy was
    /// interrupted in it.
    ///
    /// # Errors
    ///
    /// Those of whatever keeps the log; [`CopyError::Interfered`] where somebody else appended.
    fn write(&mut self, event: RecordedEvent, there: usize) -> Result<(), CopyError>;

    /// Makes durable what was put there.
    ///
    /// # Errors
    ///
    /// As of [`Destination::write`].
    fn finish(&mut self) -> Result<(), CopyError>;
}

/// What a copy found and did.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Copied {
    /// How many of the events were at the destination before.
    pub before: u64,
    /// How many were put behind them.
    pub copied: u64,
    /// The digest of the first event, which is the log's id.
    pub log_id: Option<Digest>,
    /// The last event.
    pub last: Option<LogHead>,
    /// The RFC 6962 root over all events.
    pub root: Digest,
}

/// Why a log was not copied, or not all of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CopyError {
    /// The source is damaged or could not be read; what is before that was copied and is durable.
    #[error("the source cannot be read behind its first {}", events(copied.events()))]
    Source {
        /// What was copied.
        copied: Box<Copied>,
        /// What is wrong with the source, and where.
        source: ReadError,
    },
    /// The destination holds another log; it was not changed.
    #[error(
        "the destination holds another log: at position {position} it has event {at_destination}, \
         the source has {at_source}"
    )]
    Differs {
        /// The first position at which they differ.
        position: Position,
        /// The digest of the source's event there.
        at_source: Digest,
        /// The digest of the destination's.
        at_destination: Digest,
    },
    /// The destination holds all of the source and more; it was not changed.
    #[error(
        "the destination goes on where the source ends: it has {}, the source has {at_source}",
        events(*at_destination)
    )]
    Longer {
        /// How many events the source has.
        at_source: u64,
        /// How many the destination has.
        at_destination: u64,
    },
    /// The destination is no log, or a damaged one; it was not changed.
    #[error("the destination is damaged")]
    Damaged {
        /// What is wrong with it, and where.
        source: ReadError,
    },
    /// The destination ends in a frame that is cut, and would be another one; it was not changed.
    #[error(
        "the destination's last zstd frame is cut after {length} bytes, at byte {offset} of the \
         text, and is not the beginning of what would be written there"
    )]
    CutFrame {
        /// Where its text begins in that of the whole file.
        offset: u64,
        /// How much there is of it, compressed.
        length: u64,
    },
    /// Somebody else appended to the destination in the meantime; what was copied stays.
    #[error("another process appended to the destination: it has {}, not {expected}", events(*found))]
    Interfered {
        /// How many events should have been there.
        expected: u64,
        /// How many were.
        found: u64,
    },
    /// What keeps the destination failed; copying again goes on where it is.
    #[error("the destination failed")]
    Storage {
        /// What went wrong.
        source: Source,
    },
}

/// Copies a log to a destination that is empty, or has the first events of the same log.
///
/// Every event of the source is checked as [`EventReader`] does. What the destination has already
/// is held against it row by row, before anything is written; then the rest is put behind it, and
/// made durable. So a copy that was interrupted anywhere, even in the middle of a row, is finished
/// by copying again, and a copy of a log that has grown takes what is new. A destination with
/// anything else in it is not changed.
///
/// # Examples
///
/// ```
/// use recount_core::{
///     EventBatch, EventDraft, EventType, Instant, Metadata, StreamName,
///     log::{CopyError, copy, jsonl::{JsonlDestination, JsonlRows, JsonlWriter}},
/// };
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("copy.jsonl");
///
/// let drafts = ["delivery.claimed", "delivery.retried"].map(|name| EventDraft {
///     event_type: EventType::new(name).unwrap(),
///     schema_version: 1,
///     data: serde_json::from_str("{}").unwrap(),
///     metadata: Metadata::default(),
/// });
/// let batch = EventBatch::seal(StreamName::parse("delivery-a")?, None, drafts, Instant::ZERO)?;
/// let mut writer = JsonlWriter::new(Vec::new());
/// for event in batch.events() {
///     writer.write(event)?;
/// }
/// let text = writer.finish()?;
///
/// std::fs::write(&path, &text[..text.len() - 9])?;
/// let copied = copy(JsonlRows::new(&text[..]), &mut JsonlDestination::open(&path)?)?;
/// assert_eq!((copied.before, copied.copied), (1, 1));
/// assert_eq!(std::fs::read(&path)?, text);
///
/// let nothing = JsonlRows::new(&b""[..]);
/// let error = copy(nothing, &mut JsonlDestination::open(&path)?).unwrap_err();
/// assert!(matches!(error, CopyError::Longer { at_source: 0, at_destination: 2 }));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// [`CopyError`]: the source is damaged, in which case what is before that was copied; the
/// destination is another log, a longer or a damaged one; or it cannot be written.
pub fn copy<D>(source: impl RowSource, destination: &mut D) -> Result<Copied, CopyError>
where
    D: Destination + ?Sized,
{
    let mut events = EventReader::of(source);
    let mut tally = Tally::default();
    let mut cut = compare::compare(&mut events, destination, &mut tally)?;
    tally.before = tally.tree.size();
    while let Some(next) = cut.take().map(Ok).or_else(|| Some(events.next()?.map(|it| (it, 0)))) {
        let (event, there) = match next {
            Ok(next) => next,
            Err(source) => {
                destination.finish()?;
                return Err(tally.stopped(source));
            }
        };
        let head = head_of(&event);
        destination.write(event, there)?;
        tally.count(head);
    }
    destination.finish()?;
    Ok(tally.copied())
}

/// What is counted on the way.
#[derive(Debug, Default)]
struct Tally {
    before: u64,
    log_id: Option<Digest>,
    last: Option<LogHead>,
    tree: MerkleTree,
}

impl Tally {
    fn count(&mut self, event: LogHead) {
        self.log_id.get_or_insert(event.digest);
        self.last = Some(event);
        self.tree.push_leaf(MerkleTree::leaf(event.digest));
    }

    fn copied(&self) -> Copied {
        Copied {
            before: self.before,
            copied: self.tree.size() - self.before,
            log_id: self.log_id,
            last: self.last,
            root: self.tree.root(),
        }
    }

    fn stopped(&self, source: ReadError) -> CopyError {
        CopyError::Source { copied: self.copied().into(), source }
    }
}

impl Copied {
    /// How many of the source's events are at the destination now.
    pub fn events(&self) -> u64 {
        self.before + self.copied
    }
}

fn head_of(event: &RecordedEvent) -> LogHead {
    LogHead { position: event.position, digest: event.event.digest() }
}

fn events(number: u64) -> String {
    format!("{number} event{}", if number == 1 { "" } else { "s" })
}
