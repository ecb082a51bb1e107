//! What a host may choose: how a message is tried, and how much an outbox holds.

use serde::{Deserialize, Serialize};

use super::DeliveryError;
use crate::{
    Envelope,
    json::{MAX_NATURAL, cut_struct, natural},
};

/// How a message is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MessageDeliveryPolicy {
    /// How long one attempt may take: 1 to 300 000.
    #[serde(deserialize_with = "natural")]
    pub attempt_timeout_millis: u64,
    /// How often it is tried without anybody's help: 1 to 100.
    #[serde(deserialize_with = "natural")]
    pub max_automatic_attempts: u64,
    /// The first pause between attempts; each next is twice as long. At least 1.
    #[serde(deserialize_with = "natural")]
    pub retry_base_millis: u64,
    /// The longest pause, not below the first.
    #[serde(deserialize_with = "natural")]
    pub retry_max_millis: u64,
    /// How often an accepted message is looked at. At least 1.
    #[serde(deserialize_with = "natural")]
    pub settlement_poll_millis: u64,
}

impl Default for MessageDeliveryPolicy {
    /// 8 attempts of 30 s, pauses from 1 s to 60 s, a look every 5 s.
    fn default() -> Self {
        Self {
            attempt_timeout_millis: 30_000,
            max_automatic_attempts: 8,
            retry_base_millis: 1_000,
            retry_max_millis: 60_000,
            settlement_poll_millis: 5_000,
        }
    }
}

impl MessageDeliveryPolicy {
    pub(super) fn is_valid(&self) -> bool {
        (1..=100).contains(&self.max_automatic_attempts)
            && (1..=300_000).contains(&self.attempt_timeout_millis)
            && 1 <= self.retry_base_millis
            && self.retry_base_millis <= self.retry_max_millis
            && self.retry_max_millis <= MAX_NATURAL
            && (1..=MAX_NATURAL).contains(&self.settlement_poll_millis)
    }

    /// The pause after so many automatic attempts, the first of them being 1.
    ///
    /// The growth is capped before it is computed, so that no attempt number makes it wrap.
    ///
    /// # Examples
    ///
    /// ```
    /// use recount_core::delivery::MessageDeliveryPolicy;
    ///
    /// let policy = MessageDeliveryPolicy::default();
    /// assert_eq!([1, 2, 6, 7].map(|n| policy.retry_delay_millis(n)), [1_000, 2_000, 32_000, 60_000]);
    /// ```
    pub fn retry_delay_millis(&self, automatic_attempts: u64) -> u64 {
        let doublings = automatic_attempts.saturating_sub(1).min(52);
        self.retry_base_millis.saturating_mul(1 << doublings).min(self.retry_max_millis)
    }
}

/// How much an outbox holds.
///
/// Worker updates are counted apart, so that they cannot take the place of ordinary messages.
/// The lower of a pending and a retained limit wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OutboxLimits {
    /// Bytes of an envelope's canonical JSON.
    #[serde(deserialize_with = "natural")]
    pub max_envelope_bytes: u64,
    /// Ordinary messages that are neither processed nor refused.
    #[serde(deserialize_with = "natural")]
    pub max_pending_per_owner: u64,
    /// Worker updates that are neither processed nor refused.
    #[serde(deserialize_with = "natural")]
    pub max_pending_updates_per_owner: u64,
    /// Ordinary messages in all: nothing is ever deleted.
    #[serde(deserialize_with = "natural")]
    pub max_retained_per_owner: u64,
    /// Worker updates in all.
    #[serde(deserialize_with = "natural")]
    pub max_retained_updates_per_owner: u64,
}

impl Default for OutboxLimits {
    /// 262 144 bytes; 100 pending and 1 000 retained; 32 and 256 worker updates.
    fn default() -> Self {
        Self {
            max_envelope_bytes: 262_144,
            max_pending_per_owner: 100,
            max_pending_updates_per_owner: 32,
            max_retained_per_owner: 1_000,
            max_retained_updates_per_owner: 256,
        }
    }
}

impl OutboxLimits {
    /// Whether each limit is positive, and a number that an event can hold.
    pub fn is_valid(&self) -> bool {
        [
            self.max_envelope_bytes,
            self.max_pending_per_owner,
            self.max_pending_updates_per_owner,
            self.max_retained_per_owner,
            self.max_retained_updates_per_owner,
        ]
        .iter()
        .all(|limit| (1..=MAX_NATURAL).contains(limit))
    }

    pub(super) fn check_envelope(&self, envelope: &Envelope) -> Result<(), DeliveryError> {
        let limit = self.max_envelope_bytes;
        let bytes = u64::try_from(envelope.canonical_bytes()).unwrap_or(u64::MAX);
        if bytes > limit { Err(DeliveryError::EnvelopeBytes { bytes, limit }) } else { Ok(()) }
    }
}

cut_struct!(MessageDeliveryPolicy {
    "attemptTimeoutMillis" attempt_timeout_millis,
    "maxAutomaticAttempts" max_automatic_attempts,
    "retryBaseMillis" retry_base_millis,
    "retryMaxMillis" retry_max_millis,
    "settlementPollMillis" settlement_poll_millis,
});
cut_struct!(OutboxLimits {
    "maxEnvelopeBytes" max_envelope_bytes,
    "maxPendingPerOwner" max_pending_per_owner,
    "maxPendingUpdatesPerOwner" max_pending_updates_per_owner,
    "maxRetainedPerOwner" max_retained_per_owner,
    "maxRetainedUpdatesPerOwner" max_retained_updates_per_owner,
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn o_17_pauses_are_capped_before_they_grow() {
        let policy = MessageDeliveryPolicy::default();
        let attempts = [1, 2, 6, 7, 54, 55, 64, 65, 100, 1_000, 4_294_967_295, u64::MAX];
        let delays = attempts.map(|attempt| policy.retry_delay_millis(attempt));
        assert_eq!(delays[..3], [1_000, 2_000, 32_000]);
        assert!(delays[3..].iter().all(|delay| *delay == 60_000), "{delays:?}");
        let steep = MessageDeliveryPolicy { retry_max_millis: (1 << 53) - 1, ..policy };
        assert_eq!(steep.retry_delay_millis(u64::MAX), (1 << 53) - 1);
    }
}
