//! Why a view does not answer, or does not take a checkpoint.

use std::{io, path::PathBuf, sync::Arc};

use recount_core::{
    Digest, Position,
    delivery::DeliveryError,
    log::ReadError,
    service::{OwnerError, StreamError},
};

use super::SetAside;

/// Why a view does not answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ViewError {
    /// The question is not one.
    #[error(transparent)]
    Query(#[from] DeliveryError),
    /// The log cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The outbox's stream cannot be folded.
    #[error(transparent)]
    Stream(Arc<StreamError>),
    /// The outbox has an event that is not understood.
    #[error(transparent)]
    SetAside(#[from] SetAside),
}

impl ViewError {
    /// What went wrong with a question to an outbox that nothing is appended to.
    pub(super) fn of_owner(error: OwnerError<DeliveryError>) -> Self {
        match error {
            OwnerError::Decide(error) => Self::Query(error),
            OwnerError::Stream(error) => Self::Stream(error),
            other => Self::Read(ReadError::Storage { source: other.into() }),
        }
    }
}

/// Why a checkpoint is not used. It is left as it is.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unusable {
    /// The file cannot be read.
    #[error("it cannot be read")]
    Unreadable {
        /// What went wrong.
        source: io::Error,
    },
    /// It is something else.
    #[error("it is no checkpoint of deliveries")]
    NotOne,
    /// It was made by another fold, which may keep something else.
    #[error(
        "it was made by another fold: version {found}, this is {ours}, or other types of events"
    )]
    FoldVersion {
        /// The version that made it.
        found: u64,
        /// The version here.
        ours: u64,
    },
    /// Its end is missing.
    #[error("it is cut: its last line is not the digest of the others")]
    Cut,
    /// It was changed after it was written.
    #[error("it was edited: its digest is stated as {stated} and is {computed}")]
    Edited {
        /// The digest that it states.
        stated: Digest,
        /// The digest that it has.
        computed: Digest,
    },
    /// Its content is not what this fold writes, though its digest is right.
    #[error("it holds what no view writes: {why}")]
    Content {
        /// What is wrong.
        why: String,
    },
    /// It is of another log.
    #[error("it is of another log: {found}, this is {log}")]
    OtherLog {
        /// The id of the log that it is of.
        found: Digest,
        /// The id of this log.
        log: Digest,
    },
    /// The log has no event where it stands: it is shorter than it was.
    #[error(
        "it stands at position {position}, which the log does not have: is the log an older copy?"
    )]
    Ahead {
        /// Where it stands.
        position: Position,
    },
    /// The log has another event where it stands: it went another way.
    #[error("it stands behind event {found} at position {position}, where the log has {log}")]
    Stale {
        /// Where it stands.
        position: Position,
        /// The digest that it has of the event there.
        found: Digest,
        /// The digest of the event that is there.
        log: Digest,
    },
}

/// Why a view was not kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SaveError {
    /// The log cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The file cannot be written; what stood there is still there.
    #[error("the checkpoint {} cannot be written", .path.display())]
    Write {
        /// Which file.
        path: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
    /// What stands there and is not ours cannot be kept under another name; it is still there.
    #[error("{} is no checkpoint of this log, and cannot be kept under another name", .path.display())]
    Keep {
        /// Which file.
        path: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
}
