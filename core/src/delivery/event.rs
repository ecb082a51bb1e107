//! What happens to a message. Each event carries every result, so that folding needs no policy
//! and no clock, and legality can be decided again.

use serde::{Deserialize, Serialize};

use super::{MessageDeliveryKey, MessageDeliveryPolicy, OutboxLimits, ParkReason, RetryReason};
use crate::{
    CanonicalJson, Diagnostic, Digest, Envelope, Instant, MessageId, Receipt, RefusalCode,
    Settlement,
    event::{DomainEvent, Schema},
    json::natural,
    json::{present, read, to_canonical},
};

macro_rules! events {
    ($($(#[$doc:meta])* $name:ident($held:ty), $event_type:literal;)*) => {
        /// What happened to a message.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum DeliveryEvent {
            $($(#[$doc])* $name($held),)*
        }

        /// Every type and version that ever shipped.
        pub(crate) const SCHEMAS: &[Schema] = &[$(
            Schema {
                event_type: $event_type,
                upcasts: &[],
                decode: |data| read(data).map(DeliveryEvent::$name).map(DomainEvent::Delivery),
            },
        )*];

        impl DeliveryEvent {
            /// The type that the event is recorded under.
            pub const fn event_type(&self) -> &'static str {
                match self {
                    $(Self::$name(_) => $event_type,)*
                }
            }

            /// The message that it happened to.
            pub const fn message_id(&self) -> &MessageId {
                match self {
                    $(Self::$name(event) => &event.message_id,)*
                }
            }

            /// What the clock read when it was decided.
            pub const fn at(&self) -> Instant {
                match self {
                    $(Self::$name(event) => event.at_millis,)*
                }
            }

            /// The canonical JSON of the facts.
            pub fn to_data(&self) -> CanonicalJson {
                CanonicalJson::from_canonical(match self {
                    $(Self::$name(event) => to_canonical(event),)*
                })
            }
        }

        $(impl From<$name> for DeliveryEvent {
            fn from(event: $name) -> Self {
                Self::$name(event.into())
            }
        })*
    };
}

events! {
    /// It was frozen and put into the outbox.
    Prepared(Box<Prepared>), "delivery.prepared";
    /// It was taken for one attempt.
    Claimed(Claimed), "delivery.claimed";
    /// The destination admitted it.
    Accepted(Accepted), "delivery.accepted";
    /// The destination is done with it.
    Processed(Processed), "delivery.processed";
    /// The destination still works on it.
    Observed(Observed), "delivery.observed";
    /// The destination does not want it.
    Refused(Refused), "delivery.refused";
    /// The attempt failed and will be made again.
    Retried(Retried), "delivery.retried";
    /// It waits for a person.
    Parked(Parked), "delivery.parked";
    /// A person had it tried again.
    Recovered(Recovered), "delivery.recovered";
    /// It waits for its predecessor.
    Deferred(Deferred), "delivery.deferred";
}

/// It was frozen and put into the outbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Prepared {
    /// The creation.
    pub at_millis: Instant,
    /// When it was prepared.
    pub created_at_millis: Instant,
    /// From when on it is parked.
    pub deadline_at_millis: Instant,
    /// What is delivered.
    pub envelope: Envelope,
    /// SHA-256 over the envelope's canonical JSON.
    pub envelope_digest: Digest,
    /// Which message of which outbox.
    pub key: MessageDeliveryKey,
    /// The limits that the outbox enforced.
    pub limits: OutboxLimits,
    /// The message.
    pub message_id: MessageId,
    /// How it is tried.
    pub policy: MessageDeliveryPolicy,
    /// A message of the same outbox that goes first.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub predecessor: Option<MessageId>,
}

/// It was taken for one attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Claimed {
    /// What the clock read.
    pub at_millis: Instant,
    /// Until when the attempt may be under way.
    pub lease_until_millis: Instant,
    /// The message.
    pub message_id: MessageId,
}

/// The destination admitted it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Accepted {
    /// What the clock read.
    pub at_millis: Instant,
    /// The message.
    pub message_id: MessageId,
    /// When it is looked at next.
    pub next_attempt_at_millis: Instant,
    /// The destination's answer.
    pub receipt: Receipt,
}

/// The destination is done with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Processed {
    /// What the clock read.
    pub at_millis: Instant,
    /// The message.
    pub message_id: MessageId,
    /// How it ended there.
    pub settlement: Box<Settlement>,
}

/// The destination still works on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Observed {
    /// What the clock read.
    pub at_millis: Instant,
    /// The message.
    pub message_id: MessageId,
    /// When it is looked at next.
    pub next_attempt_at_millis: Instant,
}

/// The destination does not want it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Refused {
    /// What the clock read.
    pub at_millis: Instant,
    /// Why.
    pub code: RefusalCode,
    /// What is known of it.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub diagnostic: Option<Box<Diagnostic>>,
    /// The message.
    pub message_id: MessageId,
}

/// The attempt failed and will be made again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Retried {
    /// What the clock read.
    pub at_millis: Instant,
    /// What is known of the failure.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub diagnostic: Option<Box<Diagnostic>>,
    /// The message.
    pub message_id: MessageId,
    /// When it is tried next.
    pub next_attempt_at_millis: Instant,
    /// Why it failed.
    pub reason: RetryReason,
}

/// It waits for a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Parked {
    /// What the clock read.
    pub at_millis: Instant,
    /// What was wished when it was parked.
    pub by: ParkedBy,
    /// What is known of the failure.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub diagnostic: Option<Box<Diagnostic>>,
    /// The message.
    pub message_id: MessageId,
    /// Why it waits.
    pub reason: ParkReason,
    /// Why the attempt failed, where a retry was wished.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub retry_reason: Option<RetryReason>,
    /// Until when to wait, where a deferral was wished.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub until_millis: Option<Instant>,
}

/// What was wished when a message was parked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ParkedBy {
    /// An attempt.
    Claim,
    /// Another attempt.
    Retry,
    /// To note that the destination still works on it.
    Observe,
    /// To wait for its predecessor.
    Defer,
    /// To leave it to a person.
    Park,
}

impl ParkedBy {
    /// The word that JSON has for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Claim => "claim",
            Self::Retry => "retry",
            Self::Observe => "observe",
            Self::Defer => "defer",
            Self::Park => "park",
        }
    }
}

/// A person had it tried again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Recovered {
    /// What the clock read.
    pub at_millis: Instant,
    /// The new deadline.
    pub deadline_at_millis: Instant,
    /// How often it has been recovered.
    #[serde(deserialize_with = "natural")]
    pub generation: u64,
    /// The message.
    pub message_id: MessageId,
}

/// It waits for its predecessor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Deferred {
    /// What the clock read.
    pub at_millis: Instant,
    /// The message.
    pub message_id: MessageId,
    /// When it is looked at next.
    pub next_attempt_at_millis: Instant,
    /// Until when it was to wait.
    pub until_millis: Instant,
}
