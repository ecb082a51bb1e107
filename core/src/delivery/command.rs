//! What may be wished of a message.

use serde::{Deserialize, Serialize};

use super::{MessageDeliveryKey, MessageDeliveryPolicy, ParkReason, RetryReason};
use crate::{
    Diagnostic, Instant, MessageId, PreparedInput, Receipt, RefusalCode, Settlement, json::present,
};

/// A message to be prepared.
///
/// # Examples
///
/// ```
/// use recount_core::delivery::{OutboxLimits, PrepareMessage};
/// # use recount_core::doc::message;
///
/// let mut message: PrepareMessage = message("m-1");
/// assert!(message.decide(&OutboxLimits::default()).is_ok());
/// message.predecessor = Some(message.key.message_id.clone());
/// let error = message.decide(&OutboxLimits::default()).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "the message cannot be prepared: a predecessor is another message",
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PrepareMessage {
    /// Which message of which outbox.
    pub key: MessageDeliveryKey,
    /// What is to be delivered.
    pub envelope: PreparedInput,
    /// When it is prepared.
    pub created_at_millis: Instant,
    /// From when on it is parked.
    pub deadline_at_millis: Instant,
    /// How it is tried.
    #[serde(default)]
    pub policy: MessageDeliveryPolicy,
    /// A message of the same outbox that goes first.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub predecessor: Option<MessageId>,
}

/// A change that is wished of a message, with its fence and its now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageDeliveryCommand {
    /// The version that the wish was decided on; another one is a conflict.
    pub expected_version: u64,
    /// What the host's clock reads.
    pub now_millis: Instant,
    /// The change.
    pub change: MessageDeliveryChange,
}

/// A change that may be wished of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MessageDeliveryChange {
    /// Take it for one attempt, until a lease ends.
    Claim,
    /// The destination admitted it.
    Accept {
        /// The destination's answer.
        receipt: Receipt,
    },
    /// The destination is done with it.
    Process {
        /// How it ended there.
        settlement: Box<Settlement>,
    },
    /// The destination still works on it.
    ObservePending,
    /// The destination does not want it.
    Refuse {
        /// Why.
        code: RefusalCode,
        /// What is known of it.
        diagnostic: Option<Box<Diagnostic>>,
    },
    /// The attempt failed and may be made again.
    Retry {
        /// Why it failed.
        reason: RetryReason,
        /// What is known of it.
        diagnostic: Option<Box<Diagnostic>>,
    },
    /// Leave it to a person.
    Park {
        /// Why.
        reason: ParkReason,
        /// What is known of it.
        diagnostic: Option<Box<Diagnostic>>,
    },
    /// Try a parked message again.
    Recover {
        /// The new deadline.
        deadline_at_millis: Instant,
    },
    /// Wait for its predecessor; this spends no attempt.
    Defer {
        /// Until when.
        until_millis: Instant,
    },
    /// Look at once what became of it at its destination, whatever is under way.
    Notify,
}

impl MessageDeliveryChange {
    /// The change's name, which errors carry.
    pub const fn tag(&self) -> &'static str {
        match self {
            Self::Claim => "Claim",
            Self::Accept { .. } => "Accept",
            Self::Process { .. } => "Process",
            Self::ObservePending => "ObservePending",
            Self::Refuse { .. } => "Refuse",
            Self::Retry { .. } => "Retry",
            Self::Park { .. } => "Park",
            Self::Recover { .. } => "Recover",
            Self::Defer { .. } => "Defer",
            Self::Notify => "Notify",
        }
    }
}
