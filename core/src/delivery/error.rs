//! Why a wish was not granted.

use super::MessageDeliveryStatus;
use crate::{Digest, Instant, MessageId, ThreadId};

/// Why a wish about a message was not granted. Nothing was changed.
///
/// # Examples
///
/// ```
/// use recount_core::Digest;
/// use recount_core::delivery::{ErrorReason, OutboxLimits};
/// # use recount_core::doc::message;
///
/// let mut message = message("m-1");
/// message.envelope.input_digest = Digest::ZERO;
/// let error = message.decide(&OutboxLimits::default()).unwrap_err();
/// assert_eq!(error.reason(), ErrorReason::Corrupt);
/// assert_eq!(error.operation(), "input-digest");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeliveryError {
    /// The message is not in the state that the wish needs.
    #[error("{change}: {why}")]
    Conflict {
        /// The change that was wished.
        change: &'static str,
        /// What stands in its way.
        why: Conflict,
    },
    /// Another message has this id.
    #[error(
        "message {message_id:?} exists with other content: a repeat must carry the same envelope, \
         predecessor, policy, creation and deadline"
    )]
    OtherIdentity {
        /// The id.
        message_id: MessageId,
    },
    /// The message is finished, and was dropped from memory.
    #[error("message {message_id:?} is finished and not in memory any more: read it from the log")]
    Forgotten {
        /// The id.
        message_id: MessageId,
    },
    /// The outbox holds as many messages as it may.
    #[error(
        "the outbox holds {held} {kind}, and may hold {limit}: raise the limit, or use another outbox"
    )]
    Capacity {
        /// What is counted, such as `pending messages`.
        kind: &'static str,
        /// How many there are.
        held: u64,
        /// How many there may be.
        limit: u64,
    },
    /// The envelope is too large.
    #[error("the envelope is {bytes} bytes of canonical JSON, more than {limit}")]
    EnvelopeBytes {
        /// How large it is.
        bytes: u64,
        /// How large it may be.
        limit: u64,
    },
    /// A digest that came with the input is not the input's.
    #[error("inputDigest is {stated}, the input's is {computed}")]
    InputDigest {
        /// What came with it.
        stated: Digest,
        /// What it should be.
        computed: Digest,
    },
    /// A receipt of another thread.
    #[error("the receipt is of thread {found:?}, the message is for {expected:?}")]
    ReceiptIdentity {
        /// The message's destination.
        expected: ThreadId,
        /// The receipt's thread.
        found: ThreadId,
    },
    /// A settlement of another submission.
    #[error("the settlement is not about the receipt that is held")]
    SettlementIdentity,
    /// What would result is not a valid record.
    #[error("{change} would make an invalid record: {rule}")]
    Encode {
        /// The change that was wished.
        change: &'static str,
        /// The rule that would not hold.
        rule: InvalidRecord,
    },
    /// What is to be prepared is not valid.
    #[error("the message cannot be prepared: {0}")]
    Prepare(InvalidRecord),
    /// A limit of the outbox is zero, or more than an event can hold.
    #[error("every limit of an outbox is positive and at most 2^53 - 1")]
    Limits,
    /// The message is of another outbox.
    #[error("the message is of thread {found:?}, this is the outbox of {expected:?}")]
    OtherOutbox {
        /// The outbox's owner.
        expected: ThreadId,
        /// The message's owner.
        found: ThreadId,
    },
    /// A query asks for nothing, or for more than it may.
    #[error("{query}: a limit is 1 to {max}, not {limit}")]
    Limit {
        /// The query.
        query: &'static str,
        /// What it asks for.
        limit: usize,
        /// What it may ask for.
        max: usize,
    },
    /// There is more unfinished work than was asked for.
    #[error("the outbox has more than {limit} unfinished messages: ask for more, or list them")]
    ReadPending {
        /// How many were asked for.
        limit: usize,
    },
    /// There is no such message.
    #[error("there is no message {message_id:?} in this outbox")]
    NotFound {
        /// The id.
        message_id: MessageId,
    },
}

/// What stands in a change's way.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Conflict {
    /// It was decided on another version.
    #[error("decided on version {expected}, the message is at {found}")]
    Version {
        /// The version that it was decided on.
        expected: u64,
        /// The current one.
        found: u64,
    },
    /// Nothing can happen any more.
    #[error("the message is {}", .0.as_str())]
    Finished(MessageDeliveryStatus),
    /// The change does not go with where the message stands.
    #[error("the message is {}", .0.as_str())]
    Status(MessageDeliveryStatus),
    /// It is not time yet.
    #[error("the message is not due before {due}")]
    NotDue {
        /// When it is.
        due: Instant,
    },
    /// No attempt is under way.
    #[error("no lease is held")]
    NoLease,
    /// The attempt's time is over.
    #[error("the lease ended at {until}")]
    LeaseEnded {
        /// When it ended.
        until: Instant,
    },
    /// An attempt may be under way.
    #[error("a lease is held until {until}")]
    LeaseHeld {
        /// When it ends.
        until: Instant,
    },
    /// An instant that must lie ahead does not.
    #[error("{at} is not after now, {now}")]
    NotAhead {
        /// The instant.
        at: Instant,
        /// What the host's clock read.
        now: Instant,
    },
    /// Its predecessor is neither admitted nor refused yet.
    #[error("its predecessor {predecessor:?} is neither admitted nor refused yet: defer it")]
    Predecessor {
        /// The message that goes first.
        predecessor: MessageId,
    },
}

/// A rule that a record does not keep (D3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidRecord {
    /// A deadline is not after the creation.
    #[error("a deadline is after the creation")]
    Deadline,
    /// A message waits for itself.
    #[error("a predecessor is another message")]
    Predecessor,
    /// A number of the policy is out of range.
    #[error(
        "a policy has 1 to 100 attempts of 1 to 300000 ms, and pauses of at least 1 ms that do not \
         shrink"
    )]
    Policy,
    /// Only what is processed has a settlement.
    #[error("a settlement is held exactly when processed")]
    Settlement,
    /// Only what is refused has a refusal.
    #[error("a refusal is held exactly when refused")]
    Refusal,
    /// Only what is parked has a reason for it.
    #[error("a park reason is held exactly when parked")]
    Park,
    /// What was admitted has a receipt, what was not has none.
    #[error("a receipt is held when accepted or processed, and not when pending or refused")]
    Receipt,
    /// A receipt is of the envelope's thread.
    #[error("a receipt names the envelope's thread")]
    ReceiptThread,
    /// A settlement is about the receipt.
    #[error("a settlement names the receipt and its submission")]
    SettlementIdentity,
    /// A settlement's fields agree with one another.
    #[error("a settlement has a failure exactly when it failed, and a time in RFC 3339")]
    SettlementContent,
    /// A counter is one that JSON can hold.
    #[error("a counter is at most 2^53 - 1")]
    Counter,
    /// Only what is pending or accepted has a lease.
    #[error("no lease is held when processed, refused or parked")]
    Lease,
}

/// The kind of an error, for hosts that act on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorReason {
    /// The values are not valid.
    Validation,
    /// The state is another.
    Conflict,
    /// There is no place.
    Capacity,
    /// There is no such thing.
    NotFound,
    /// Values contradict one another.
    Corrupt,
}

impl ErrorReason {
    /// The word that JSON has for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Validation => "validation",
            Self::Conflict => "conflict",
            Self::Capacity => "capacity",
            Self::NotFound => "not-found",
            Self::Corrupt => "corrupt",
        }
    }
}

impl DeliveryError {
    /// The kind of the error.
    pub const fn reason(&self) -> ErrorReason {
        match self {
            Self::Conflict { .. } | Self::OtherIdentity { .. } | Self::Forgotten { .. } => {
                ErrorReason::Conflict
            }
            Self::Capacity { .. } | Self::EnvelopeBytes { .. } | Self::ReadPending { .. } => {
                ErrorReason::Capacity
            }
            Self::InputDigest { .. }
            | Self::ReceiptIdentity { .. }
            | Self::SettlementIdentity
            | Self::Encode { .. } => ErrorReason::Corrupt,
            Self::Prepare(_) | Self::Limits | Self::OtherOutbox { .. } | Self::Limit { .. } => {
                ErrorReason::Validation
            }
            Self::NotFound { .. } => ErrorReason::NotFound,
        }
    }

    /// What was being done, in the words of `spec/delivery.md`.
    pub const fn operation(&self) -> &'static str {
        match self {
            Self::Conflict { change, .. } => change,
            Self::OtherIdentity { .. } | Self::Forgotten { .. } | Self::Capacity { .. } => "insert",
            Self::EnvelopeBytes { .. } => "envelope-bytes",
            Self::InputDigest { .. } => "input-digest",
            Self::ReceiptIdentity { .. } => "receipt-identity",
            Self::SettlementIdentity => "settlement-identity",
            Self::Encode { .. } => "encode",
            Self::Prepare(_) => "prepare",
            Self::Limits | Self::OtherOutbox { .. } => "insert-state",
            Self::Limit { query, .. } => query,
            Self::ReadPending { .. } => "read-pending",
            Self::NotFound { .. } => "change",
        }
    }
}
