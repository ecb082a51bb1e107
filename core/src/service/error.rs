//! Why a stream's owner did not do what was asked.

use std::sync::Arc;

use crate::{
    DecodeError, Digest, EventType, Position, Revision, SealError, StreamHead, StreamName,
    log::{AppendError, ReadError},
};

/// Why a command has no event, or is not known to have one; or why a record was not read.
///
/// `E` is the aggregate's own. What concerns several commands at once is shared among them.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
///
/// use recount_core::{
///     delivery::DeliveryError, log::AppendError, service::OwnerError,
/// };
///
/// let error = OwnerError::<DeliveryError>::Append(Arc::new(AppendError::Closed));
/// assert_eq!(error.to_string(), "the log is closed after a failed write: open it again");
/// assert!(!error.is_outcome_unknown());
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OwnerError<E> {
    /// The aggregate does not grant it; nothing was appended.
    #[error(transparent)]
    Decide(E),
    /// The command's group was not appended; or is not known to be, where the error is
    /// [`AppendError::OutcomeUnknown`].
    #[error(transparent)]
    Append(Arc<AppendError>),
    /// The outcome of an earlier append to the stream is still not known; nothing was decided.
    #[error("an earlier append to the stream is not settled, nothing was decided: submit again")]
    Unsettled(#[source] Arc<AppendError>),
    /// The stream is not there to be decided on; nothing was appended.
    #[error(transparent)]
    Stream(Arc<StreamError>),
    /// The event has no place in the stream; nothing was appended.
    #[error(transparent)]
    Seal(#[from] SealError),
    /// The aggregate panicked while it decided the command's group; nothing was appended.
    #[error("the command was given up, since its group made the aggregate panic")]
    GivenUp,
}

impl<E> OwnerError<E> {
    /// Whether the command's event may be in the log; every other error left none there.
    pub fn is_outcome_unknown(&self) -> bool {
        match self {
            Self::Append(error) => matches!(**error, AppendError::OutcomeUnknown { .. }),
            _ => false,
        }
    }
}

/// Why a stream could not be folded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// The log did not give its events.
    #[error("stream {stream} could not be read")]
    Read {
        /// The stream.
        stream: StreamName,
        /// What went wrong.
        source: ReadError,
    },
    /// An event is not understood.
    #[error("revision {revision} of {stream}, at position {position}, is not understood")]
    Decode {
        /// The stream.
        stream: StreamName,
        /// The event's place in it.
        revision: Revision,
        /// The event's place in the log.
        position: Position,
        /// What is not understood.
        source: DecodeError,
    },
    /// An event is another aggregate's.
    #[error("revision {revision} of {stream}, at position {position}, is a {event_type}")]
    Foreign {
        /// The stream.
        stream: StreamName,
        /// The event's place in it.
        revision: Revision,
        /// The event's place in the log.
        position: Position,
        /// What the event is.
        event_type: EventType,
    },
    /// An event does not follow the one before it.
    #[error(
        "revision {revision} of {stream}, at position {position}, is chained to {found}, and was \
         read behind {}",
        .expected.map_or("no event".to_owned(), |it| format!("revision {} ({})", it.revision, it.digest))
    )]
    Chain {
        /// The stream.
        stream: StreamName,
        /// The event's place in it.
        revision: Revision,
        /// The event's place in the log.
        position: Position,
        /// What it is chained to.
        found: Digest,
        /// What was read before it.
        expected: Option<StreamHead>,
    },
}
