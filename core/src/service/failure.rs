//! Why a service of deliveries did not do what was asked.

use super::{FailpointError, OwnerError};
use crate::{
    Diagnostic, Digest,
    delivery::{DeliveryError, ErrorReason, MessageDeliveryKey},
    log::ReadError,
};

/// Why a service of deliveries did not do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeliveryFailure {
    /// The outbox does not grant it, or its stream cannot be read or appended to.
    #[error(transparent)]
    Outbox(#[from] OwnerError<DeliveryError>),
    /// There is no such message to be processed.
    #[error("there is no message {key}")]
    NotFound {
        /// Which one.
        key: MessageDeliveryKey,
    },
    /// The envelope is another than the one that was prepared; nothing was sent.
    #[error("the envelope of {key} has the digest {computed}, prepared was {stated}")]
    EnvelopeDigest {
        /// Which message.
        key: MessageDeliveryKey,
        /// The digest in its record.
        stated: Digest,
        /// The envelope's own.
        computed: Digest,
    },
    /// The host's storage is corrupt, as a destination of this message was asked to admit it, or
    /// what became of it. Nothing is recorded, the attempt's lease ends by itself.
    #[error("the host's storage is corrupt, {operation} of {key}")]
    HostStorage {
        /// Which message.
        key: MessageDeliveryKey,
        /// What was asked: `admission` or `status`.
        operation: &'static str,
        /// What the host knows of it, without credentials.
        diagnostic: Box<Diagnostic>,
    },
    /// What is due is not known.
    #[error(transparent)]
    Due(#[from] ReadError),
    /// A test made it fail.
    #[error(transparent)]
    Failpoint(#[from] FailpointError),
}

impl DeliveryFailure {
    /// The kind of the error, where it is one of the domain's own.
    pub fn reason(&self) -> Option<ErrorReason> {
        match self {
            Self::Outbox(OwnerError::Decide(error)) => Some(error.reason()),
            Self::NotFound { .. } => Some(ErrorReason::NotFound),
            Self::EnvelopeDigest { .. } | Self::HostStorage { .. } => Some(ErrorReason::Corrupt),
            Self::Outbox(_) | Self::Due(_) | Self::Failpoint(_) => None,
        }
    }

    /// What was being done, in the words of `spec/delivery.md`, where it is one of the domain's
    /// own errors.
    pub fn operation(&self) -> Option<&'static str> {
        match self {
            Self::Outbox(OwnerError::Decide(error)) => Some(error.operation()),
            Self::NotFound { .. } => Some("process"),
            Self::EnvelopeDigest { .. } => Some("envelope-digest"),
            Self::HostStorage { operation, .. } => Some(operation),
            Self::Outbox(_) | Self::Due(_) | Self::Failpoint(_) => None,
        }
    }

    /// Whether another message has the id.
    pub(super) fn is_other_identity(&self) -> bool {
        matches!(self, Self::Outbox(OwnerError::Decide(DeliveryError::OtherIdentity { .. })))
    }

    /// Whether the message was in another state than the one that was decided on.
    pub fn is_conflict(&self) -> bool {
        self.reason() == Some(ErrorReason::Conflict)
    }
}
