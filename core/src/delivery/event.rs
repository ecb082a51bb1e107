//! What happens to a message. Each event carries every result, so that folding needs no policy
//! and no clock, and legality can be decided again.

use serde::{Deserialize, Serialize};

use super::{MessageDeliveryKey, MessageDeliveryPolicy, OutboxLimits, ParkReason, RetryReason};
use crate::{
    CanonicalJson, Diagnostic, Digest, Envelope, Instant, MessageId, Receipt, RefusalCode,
    Settlement,
    event::{DomainEvent, Schema},
    json::{Cut, cut_generally, cut_or_read, cut_struct, natural, present, to_canonical},
};

macro_rules! events {
    ($($(#[$doc:meta])* $name:ident($held:ty), $event_type:literal;)*) => {
        /// What happened to a message.
        ///
        /// # Examples
        ///
        /// ```
        /// use recount_core::delivery::{Claimed, DeliveryEvent};
        /// use recount_core::{Instant, MessageId};
        ///
        /// let event = DeliveryEvent::from(Claimed {
        ///     at_millis: Instant::from_millis(5)?,
        ///     lease_until_millis: Instant::from_millis(9)?,
        ///     message_id: MessageId::new("m-1")?,
        /// });
        /// assert_eq!(event.event_type(), "delivery.claimed");
        /// assert_eq!(
        ///     event.to_data().as_str(),
        ///     r#"{"atMillis":5,"leaseUntilMillis":9,"messageId":"m-1"}"#,
        /// );
        /// # Ok::<_, Box<dyn std::error::Error>>(())
        /// ```
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum DeliveryEvent {
            $($(#[$doc])* $name($held),)*
        }

        /// Every type and version that ever shipped.
        pub(crate) const SCHEMAS: &[Schema] = &[$(
            Schema {
                event_type: $event_type,
                upcasts: &[],
                decode: |data| {
                    cut_or_read(data).map(DeliveryEvent::$name).map(DomainEvent::Delivery)
                },
                cut: |scan| {
                    Cut::cut(scan).map(DeliveryEvent::$name).map(DomainEvent::Delivery)
                },
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
    /// Its host was told that there is something to see at its destination.
    Notified(Notified), "delivery.notified";
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

/// Its host was told that there is something to see at its destination: it is looked at at once, and
/// what an attempt under way learned before counts no more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Notified {
    /// What the clock read.
    pub at_millis: Instant,
    /// The message.
    pub message_id: MessageId,
    /// When it is looked at next.
    pub next_attempt_at_millis: Instant,
}

cut_struct!(Prepared {
    "atMillis" at_millis,
    "createdAtMillis" created_at_millis,
    "deadlineAtMillis" deadline_at_millis,
    "envelope" envelope,
    "envelopeDigest" envelope_digest,
    "key" key,
    "limits" limits,
    "messageId" message_id,
    "policy" policy,
    "predecessor" predecessor optional,
});
cut_struct!(Claimed {
    "atMillis" at_millis,
    "leaseUntilMillis" lease_until_millis,
    "messageId" message_id,
});
cut_struct!(Accepted {
    "atMillis" at_millis,
    "messageId" message_id,
    "nextAttemptAtMillis" next_attempt_at_millis,
    "receipt" receipt,
});
cut_struct!(Processed { "atMillis" at_millis, "messageId" message_id, "settlement" settlement });
cut_struct!(Observed {
    "atMillis" at_millis,
    "messageId" message_id,
    "nextAttemptAtMillis" next_attempt_at_millis,
});
cut_struct!(Refused {
    "atMillis" at_millis,
    "code" code,
    "diagnostic" diagnostic optional,
    "messageId" message_id,
});
cut_struct!(Retried {
    "atMillis" at_millis,
    "diagnostic" diagnostic optional,
    "messageId" message_id,
    "nextAttemptAtMillis" next_attempt_at_millis,
    "reason" reason,
});
cut_struct!(Parked {
    "atMillis" at_millis,
    "by" by,
    "diagnostic" diagnostic optional,
    "messageId" message_id,
    "reason" reason,
    "retryReason" retry_reason optional,
    "untilMillis" until_millis optional,
});
cut_struct!(Recovered {
    "atMillis" at_millis,
    "deadlineAtMillis" deadline_at_millis,
    "generation" generation,
    "messageId" message_id,
});
cut_struct!(Deferred {
    "atMillis" at_millis,
    "messageId" message_id,
    "nextAttemptAtMillis" next_attempt_at_millis,
    "untilMillis" until_millis,
});
cut_struct!(Notified {
    "atMillis" at_millis,
    "messageId" message_id,
    "nextAttemptAtMillis" next_attempt_at_millis,
});
cut_generally!(ParkedBy, Diagnostic);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::json::Scanner;

    const SAMPLES: &[(&str, &str)] = &[
        ("delivery.prepared", include_str!("../../samples/delivery.prepared.v1.json")),
        ("delivery.claimed", include_str!("../../samples/delivery.claimed.v1.json")),
        ("delivery.accepted", include_str!("../../samples/delivery.accepted.v1.json")),
        ("delivery.processed", include_str!("../../samples/delivery.processed.v1.json")),
        ("delivery.observed", include_str!("../../samples/delivery.observed.v1.json")),
        ("delivery.refused", include_str!("../../samples/delivery.refused.v1.json")),
        ("delivery.retried", include_str!("../../samples/delivery.retried.v1.json")),
        ("delivery.parked", include_str!("../../samples/delivery.parked.v1.json")),
        ("delivery.recovered", include_str!("../../samples/delivery.recovered.v1.json")),
        ("delivery.deferred", include_str!("../../samples/delivery.deferred.v1.json")),
        ("delivery.notified", include_str!("../../samples/delivery.notified.v1.json")),
    ];

    fn is_cut<T: Cut>(event_type: &str) -> bool {
        let (_, sample) = SAMPLES.iter().find(|sample| sample.0 == event_type).unwrap();
        T::cut(&mut Scanner::new(sample.trim_end())).is_some()
    }

    #[test]
    fn every_type_is_cut_by_position() {
        assert!(is_cut::<Prepared>("delivery.prepared"));
        assert!(is_cut::<Claimed>("delivery.claimed"));
        assert!(is_cut::<Accepted>("delivery.accepted"));
        assert!(is_cut::<Processed>("delivery.processed"));
        assert!(is_cut::<Observed>("delivery.observed"));
        assert!(is_cut::<Refused>("delivery.refused"));
        assert!(is_cut::<Retried>("delivery.retried"));
        assert!(is_cut::<Parked>("delivery.parked"));
        assert!(is_cut::<Recovered>("delivery.recovered"));
        assert!(is_cut::<Deferred>("delivery.deferred"));
        assert!(is_cut::<Notified>("delivery.notified"));
    }

    proptest! {
        #[test]
        fn what_is_cut_by_position_is_what_the_general_reader_reads(
            sample in prop::sample::select(SAMPLES),
            edits in prop::collection::vec((any::<prop::sample::Index>(), "[\\\\\"{}:, 0-9a-fé]?"), 0..3),
        ) {
            let (event_type, mut data) = (sample.0, sample.1.trim_end().to_owned());
            for (at, with) in edits {
                let at = at.index(data.len());
                if let Some(char) = data.get(at..).and_then(|rest| rest.chars().next()) {
                    data.replace_range(at..at + char.len_utf8(), &with);
                }
            }
            // A space in front is nothing that is cut by position.
            let generally = DomainEvent::decode(event_type, 1, &format!(" {data}"));
            prop_assert_eq!(DomainEvent::decode(event_type, 1, &data), generally, "{}", data);
        }
    }
}
