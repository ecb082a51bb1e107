//! Logs: where events are appended and read.
//!
//! A backend implements [`EventLog`]. The trait is object-safe, with boxed futures: which backend
//! a host or the program works on is chosen at run time, services are written once over
//! `Arc<dyn EventLog>`, and one allocation is nothing beside the disk's reply that an append waits
//! for.

#[cfg(feature = "jsonl")]
pub mod jsonl;
#[cfg(feature = "sqlite")]
pub mod sqlite;

#[cfg(any(feature = "jsonl", feature = "memory", feature = "sqlite"))]
#[cfg_attr(
    not(any(feature = "jsonl", feature = "sqlite")),
    expect(dead_code, reason = "memory does not fail")
)]
mod admission;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod copy;
#[cfg(any(feature = "jsonl", feature = "sqlite"))]
mod file;
#[cfg(any(feature = "jsonl", feature = "memory"))]
#[cfg_attr(not(feature = "jsonl"), expect(dead_code, reason = "memory does not fail"))]
mod index;
#[cfg(any(feature = "jsonl", feature = "memory"))]
mod indexed;
#[cfg(feature = "memory")]
mod memory;
#[cfg(any(feature = "jsonl", feature = "sqlite"))]
mod queue;
#[cfg_attr(not(feature = "jsonl"), expect(dead_code, reason = "only a text has offsets"))]
mod reader;
#[cfg_attr(
    not(any(feature = "jsonl", feature = "sqlite")),
    expect(dead_code, reason = "nothing fills blocks")
)]
mod rows;

pub use copy::{Copied, CopyError, Destination, copy};
#[cfg(feature = "memory")]
pub use memory::MemoryLog;
pub use reader::EventReader;
pub use rows::{Block, Line, Listed, Oversized, RowSource};

use std::error::Error;

use futures_util::{future::BoxFuture, stream::BoxStream};
use serde::{Deserialize, Serialize};

use crate::{
    Digest, EventBatch, Position, RecordedEvent, Revision, RowError, StreamHead, StreamName,
};

/// The largest row that is appended, unless a log is told otherwise: 1 MiB.
pub const MAX_APPENDED_ROW_BYTES: usize = 1 << 20;

/// The error of whatever a log is kept on.
pub type Source = Box<dyn Error + Send + Sync>;

/// A log of events.
///
/// # Examples
///
/// ```
/// use recount_core::{
///     DomainEvent, EventBatch, EventDraft, Instant, Metadata, StreamName, delivery::OutboxLimits,
///     log::{AppendError, Direction, EventLog, MemoryLog},
/// };
/// use futures_util::TryStreamExt;
/// # use recount_core::doc::message;
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
///
/// let log: Box<dyn EventLog> = Box::new(MemoryLog::new());
/// let draft = |id| {
///     let prepared = message(id).decide(&OutboxLimits::default())?.into();
///     Ok::<_, Box<dyn std::error::Error>>(EventDraft::of(&DomainEvent::Delivery(prepared), Metadata::default()))
/// };
/// let stream = StreamName::parse("delivery-sender")?;
/// let first = EventBatch::seal(stream.clone(), None, [draft("m-1")?], Instant::ZERO)?;
/// let appended = log.append(first.clone()).await?;
/// assert_eq!(log.append(first).await?, appended, "a repeat is answered as the first time");
///
/// let other = EventBatch::seal(stream.clone(), None, [draft("m-2")?], Instant::ZERO)?;
/// let error = log.append(other).await.unwrap_err();
/// assert!(matches!(error, AppendError::Conflict { actual, .. } if actual == Some(appended.head)));
///
/// let events: Vec<_> =
///     log.read_stream(&stream, None, Direction::Forward, 10).try_collect().await?;
/// assert_eq!(events.len(), 1);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub trait EventLog: Send + Sync {
    /// Appends a batch: all of it or nothing, durable when it is answered.
    ///
    /// The append is under way when this returns; dropping the future does not withdraw it.
    ///
    /// The same batch again, after a lost reply say, is recognised and answered as the first time,
    /// even where other events followed. Where only some of it is there, it is a conflict.
    ///
    /// # Errors
    ///
    /// [`AppendError::Conflict`] where the stream's head is not the one that the batch was sealed
    /// to; [`AppendError::OutcomeUnknown`] where the events may be there or not, and asking again
    /// with the same batch settles it; every other error appended nothing.
    fn append(&self, batch: EventBatch) -> BoxFuture<'_, Result<Appended, AppendError>>;

    /// Reads a stream, from a revision on (included) in a direction; from its end in that
    /// direction where `from` is `None`. A stream that does not exist has no events.
    fn read_stream(
        &self,
        stream: &StreamName,
        from: Option<Revision>,
        direction: Direction,
        limit: usize,
    ) -> EventStream<'_>;

    /// Reads the log, from a position on (included) in a direction; from its end in that direction
    /// where `from` is `None`.
    fn read_all(
        &self,
        from: Option<Position>,
        direction: Direction,
        limit: usize,
    ) -> EventStream<'_>;

    /// The last event of the log; `None` where there is none.
    fn head(&self) -> BoxFuture<'_, Result<Option<LogHead>, ReadError>>;

    /// Reads the log from a position on (included), then waits for what is appended: every event
    /// once, in order, none skipped. It ends when the log is dropped.
    fn subscribe(&self, from: Position) -> EventStream<'static>;
}

/// Events as they are read; the first error ends it.
pub type EventStream<'a> = BoxStream<'a, Result<RecordedEvent, ReadError>>;

/// Which way a log is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the first to the last.
    Forward,
    /// From the last to the first.
    Backward,
}

/// The last event of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogHead {
    /// Its place.
    pub position: Position,
    /// Its digest.
    pub digest: Digest,
}

/// That a batch is in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The stream's head behind the batch.
    pub head: StreamHead,
    /// The place of the batch's first event.
    pub first_position: Position,
}

/// Why a batch was not appended, or is not known to be.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AppendError {
    /// The stream has another head; nothing was appended.
    #[error("stream {stream} is at {}, not at {}", head(*actual), head(*expected))]
    Conflict {
        /// The stream.
        stream: StreamName,
        /// The head that the batch was sealed to.
        expected: Option<StreamHead>,
        /// The head that the stream has.
        actual: Option<StreamHead>,
    },
    /// A row would be too large; nothing was appended.
    #[error("revision {revision} of {stream} would be a row of {length} bytes, more than {max}")]
    TooLarge {
        /// The stream.
        stream: StreamName,
        /// The event's place in it.
        revision: Revision,
        /// How large its row would be.
        length: usize,
        /// How large it may be.
        max: usize,
    },
    /// The log has as many events as can be counted; nothing was appended.
    #[error("the log is full: a position is at most 2^53 - 1")]
    Full,
    /// The events may be there or not: append the same batch again until it is answered in another
    /// way than by this and [`AppendError::Storage`].
    #[error("it is not known whether {stream} was appended to: append the same batch again")]
    OutcomeUnknown {
        /// The stream.
        stream: StreamName,
        /// What went wrong.
        source: Source,
    },
    /// What the log is kept on did not take it; nothing was appended.
    #[error("the log could not be written, nothing was appended")]
    Storage {
        /// What went wrong.
        source: Source,
    },
    /// The log was opened for reading only; nothing was appended.
    #[error("the log is open for reading only, nothing was appended")]
    ReadOnly,
    /// An earlier write failed in such a way that the log must be opened again.
    #[error("the log is closed after a failed write: open it again")]
    Closed,
}

/// Why a log could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// An event is not what its place says.
    #[error("the log is damaged at {place}")]
    Damaged {
        /// Where.
        place: Box<Place>,
        /// What is wrong there.
        source: Damage,
    },
    /// What the log is kept on did not answer.
    #[error("the log could not be read")]
    Storage {
        /// What went wrong.
        source: Source,
    },
}

/// What is wrong with an event in its place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// It is no row, or not one that can be an event.
    #[error(transparent)]
    Row(#[from] RowError),
    /// It has another position (L1).
    #[error("the position is {found}, expected {expected}")]
    Position {
        /// What stands there.
        found: Position,
        /// What should.
        expected: Position,
    },
    /// It does not follow the event before it in its stream (L2, L3).
    #[error("the event is sealed to {}, the stream is at {}", head(*found), head(*expected))]
    Chain {
        /// What it follows.
        found: Option<StreamHead>,
        /// What it should follow.
        expected: Option<StreamHead>,
    },
    /// It has another revision (L2).
    #[error("the revision is {found}, expected {expected}")]
    Revision {
        /// What stands there.
        found: Revision,
        /// What should.
        expected: Revision,
    },
    /// There is none, and later ones are there.
    #[error("there is no event where one should be")]
    Missing,
    /// It is the first of its stream, and chained to something (L3).
    #[error("the stream's first event is chained to {found}, not to zeros")]
    Root {
        /// What it is chained to.
        found: Digest,
    },
    /// A table finds it at another place than its own (L2, L8).
    #[error(
        "the table lists revision {revision} of {stream:?}, the event is revision \
         {event_revision} of {event_stream:?}"
    )]
    Listed {
        /// The stream in the table.
        stream: String,
        /// The revision in the table.
        revision: i64,
        /// The event's own stream.
        event_stream: String,
        /// The event's own revision.
        event_revision: Revision,
    },
    /// The last row is cut: there is no end of it.
    #[error("the last row is cut after {length} bytes: `recount repair` moves them aside")]
    Torn {
        /// How much of it there is.
        length: usize,
    },
}

/// A place in a log, as far as it is known.
///
/// # Examples
///
/// ```
/// use recount_core::{Position, log::Place};
///
/// let place = Place { position: Some(Position::ZERO), offset: Some(0), ..Place::default() };
/// assert_eq!(place.to_string(), "position 0, byte 0");
/// assert_eq!(Place::default().to_string(), "an unknown place");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The position.
    pub position: Option<Position>,
    /// The stream.
    pub stream: Option<String>,
    /// The line of a text, from 1.
    pub line: Option<u64>,
    /// The byte offset in a text, from 0.
    pub offset: Option<u64>,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts = [
            self.position.map(|it| format!("position {it}")),
            self.stream.as_ref().map(|it| format!("stream {it}")),
            self.line.map(|it| format!("line {it}")),
            self.offset.map(|it| format!("byte {it}")),
        ];
        let parts: Vec<_> = parts.into_iter().flatten().collect();
        f.write_str(&if parts.is_empty() {
            "an unknown place".to_owned()
        } else {
            parts.join(", ")
        })
    }
}

fn head(head: Option<StreamHead>) -> String {
    head.map_or("no event".to_owned(), |head| {
        format!("revision {} ({})", head.revision, head.digest)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_of_an_append_says_what_to_do() {
        let stream = StreamName::parse("delivery-a").expect("this is a name");
        let revision = Revision::ZERO;
        let some = Some(StreamHead { revision, digest: Digest::ZERO });
        let source = || "the disk is gone".into();
        let zeros = "0".repeat(64);
        for (error, text) in [
            (
                AppendError::Conflict { stream: stream.clone(), expected: None, actual: some },
                format!("stream delivery-a is at revision 0 ({zeros}), not at no event"),
            ),
            (
                AppendError::TooLarge { stream: stream.clone(), revision, length: 9, max: 8 },
                "revision 0 of delivery-a would be a row of 9 bytes, more than 8".to_owned(),
            ),
            (AppendError::Full, "the log is full: a position is at most 2^53 - 1".to_owned()),
            (
                AppendError::OutcomeUnknown { stream, source: source() },
                "it is not known whether delivery-a was appended to: append the same batch again"
                    .to_owned(),
            ),
            (
                AppendError::Storage { source: source() },
                "the log could not be written, nothing was appended".to_owned(),
            ),
            (
                AppendError::ReadOnly,
                "the log is open for reading only, nothing was appended".to_owned(),
            ),
            (
                AppendError::Closed,
                "the log is closed after a failed write: open it again".to_owned(),
            ),
        ] {
            assert_eq!(error.to_string(), text);
        }
    }
}
