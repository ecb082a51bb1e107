//! The state of one message.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{InvalidRecord, MessageDeliveryKey, MessageDeliveryPolicy};
use crate::{
    Diagnostic, Digest, Envelope, Instant, MessageId, Receipt, RefusalCode, SchemaV1, Settlement,
    json::{MAX_NATURAL, cut_generally, natural, present},
};

/// One message of one outbox: its state, and the view that a reader sees.
///
/// It is folded from the message's events and changed by nothing else.
///
/// # Examples
///
/// ```
/// use recount_core::delivery::{
///     MessageDeliveryChange, MessageDeliveryCommand, MessageDeliveryRecord, OutboxLimits,
/// };
/// use recount_core::{Instant, Legal};
/// # use recount_core::doc::message;
///
/// let prepared = message("m-1").decide(&OutboxLimits::default())?;
/// let mut record = MessageDeliveryRecord::of(&prepared);
/// assert_eq!(record.effective_deadline(), Some(Instant::from_millis(1_000)?));
///
/// let claim = MessageDeliveryCommand {
///     expected_version: 1,
///     now_millis: Instant::from_millis(1_500)?,
///     change: MessageDeliveryChange::Claim,
/// };
/// let claimed = record.decide(&claim)?;
/// assert_eq!(record.legal(&claimed), Legal::Ok);
/// record.evolve(&claimed);
/// assert_eq!((record.version, record.retry.attempts), (2, 1));
/// assert_eq!(record.lease_until_millis, Some(Instant::from_millis(31_500)?));
///
/// let again = record.decide(&claim).unwrap_err();
/// assert_eq!(again.to_string(), "Claim: decided on version 1, the message is at 2");
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MessageDeliveryRecord {
    /// The version of this shape.
    pub schema_version: SchemaV1,
    /// Which message of which outbox.
    pub key: MessageDeliveryKey,
    /// What is delivered; it never changes.
    pub envelope: Arc<Envelope>,
    /// SHA-256 over the envelope's canonical JSON.
    pub envelope_digest: Digest,
    /// A message of the same outbox, whose admission must be known before this one is sent.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub predecessor: Option<MessageId>,
    /// When it was prepared.
    pub created_at_millis: Instant,
    /// The deadline it was prepared with.
    pub initial_deadline_at_millis: Instant,
    /// From then on it is parked; a recovery sets a new one.
    pub deadline_at_millis: Instant,
    /// How it is tried.
    pub policy: MessageDeliveryPolicy,
    /// How many events it has had.
    #[serde(deserialize_with = "natural")]
    pub version: u64,
    /// Where it stands.
    pub status: MessageDeliveryStatus,
    /// That the destination admitted it.
    pub receipt: Option<Receipt>,
    /// How it ended at the destination.
    pub settlement: Option<Box<Settlement>>,
    /// Why the destination refused it.
    pub refusal: Option<RefusalCode>,
    /// Why it waits for a person.
    pub park_reason: Option<ParkReason>,
    /// Until when an attempt may be under way.
    pub lease_until_millis: Option<Instant>,
    /// How often it was tried, and when it is looked at next.
    pub retry: Retry,
    /// What is known of the last failure; it stays after a success.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub last_failure_diagnostic: Option<Box<Diagnostic>>,
}

/// Where a message stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MessageDeliveryStatus {
    /// Nobody is known to have it yet.
    Pending,
    /// The destination has it.
    Accepted,
    /// The destination is done with it.
    Processed,
    /// The destination does not want it.
    Refused,
    /// It waits for a person.
    Parked,
}

impl MessageDeliveryStatus {
    /// The word that JSON has for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Accepted => "accepted",
            Self::Processed => "processed",
            Self::Refused => "refused",
            Self::Parked => "parked",
        }
    }

    /// Whether nothing can happen any more.
    pub const fn is_finished(self) -> bool {
        matches!(self, Self::Processed | Self::Refused)
    }
}

/// Why a message waits for a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ParkReason {
    /// Its automatic attempts are used up.
    Exhausted,
    /// Its deadline has come.
    Deadline,
    /// Its destination cannot say what became of it.
    StatusUnavailable,
}

impl ParkReason {
    /// The word that JSON has for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Exhausted => "exhausted",
            Self::Deadline => "deadline",
            Self::StatusUnavailable => "status-unavailable",
        }
    }
}

/// Why an attempt is made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RetryReason {
    /// The destination was not reached.
    Transport,
    /// The destination is full.
    Capacity,
    /// The destination's storage is away.
    Storage,
    /// The destination's host is closing.
    HostClosed,
    /// No answer in time.
    Timeout,
    /// Nobody knows what happened.
    Ambiguous,
}

impl RetryReason {
    /// The word that JSON has for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Transport => "transport",
            Self::Capacity => "capacity",
            Self::Storage => "storage",
            Self::HostClosed => "host-closed",
            Self::Timeout => "timeout",
            Self::Ambiguous => "ambiguous",
        }
    }
}

/// How often a message was tried, and when it is looked at next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Retry {
    /// Attempts in all; one is charged when it is claimed.
    #[serde(deserialize_with = "natural")]
    pub attempts: u64,
    /// How often a person recovered it.
    #[serde(deserialize_with = "natural")]
    pub generation: u64,
    /// Attempts since the last success or recovery.
    #[serde(deserialize_with = "natural")]
    pub automatic_attempts: u64,
    /// Whether it waits for a person.
    pub parked: bool,
    /// When it is looked at next, if no lease stands.
    pub next_attempt_at_millis: Instant,
    /// When the last attempt began.
    pub last_attempt_at_millis: Option<Instant>,
    /// Why the last attempt failed; none after a success.
    pub last_failure: Option<RetryReason>,
}

impl MessageDeliveryRecord {
    /// When a driver must look again: the deadline, or before it the end of the lease or the next
    /// attempt; none where nothing moves it but a person, or nothing at all.
    pub fn effective_deadline(&self) -> Option<Instant> {
        use MessageDeliveryStatus::{Accepted, Pending};
        matches!(self.status, Pending | Accepted).then(|| {
            let look = self.lease_until_millis.unwrap_or(self.retry.next_attempt_at_millis);
            look.min(self.deadline_at_millis)
        })
    }

    /// Whether it takes a place in its outbox's pending allowance.
    pub fn uses_capacity(&self) -> bool {
        !self.status.is_finished()
    }

    /// Whether its destination is known to have admitted or refused it, so that a message behind
    /// it may be sent.
    pub fn is_admission_known(&self) -> bool {
        self.receipt.is_some() || self.status == MessageDeliveryStatus::Refused
    }

    /// Holds the fields against one another (D3).
    ///
    /// # Examples
    ///
    /// ```
    /// use recount_core::delivery::{InvalidRecord, MessageDeliveryRecord, OutboxLimits};
    /// # use recount_core::doc::message;
    ///
    /// let prepared = message("m-1").decide(&OutboxLimits::default())?;
    /// let mut record = MessageDeliveryRecord::of(&prepared);
    /// assert_eq!(record.check(), Ok(()));
    /// record.deadline_at_millis = record.created_at_millis;
    /// assert_eq!(record.check(), Err(InvalidRecord::Deadline));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`InvalidRecord`] names the rule that does not hold.
    pub fn check(&self) -> Result<(), InvalidRecord> {
        use MessageDeliveryStatus::{Accepted, Parked, Pending, Processed, Refused};
        let rules = [
            (self.deadline_at_millis > self.created_at_millis, InvalidRecord::Deadline),
            (self.initial_deadline_at_millis > self.created_at_millis, InvalidRecord::Deadline),
            (self.predecessor.as_ref() != Some(&self.key.message_id), InvalidRecord::Predecessor),
            (self.policy.is_valid(), InvalidRecord::Policy),
            ((self.status == Processed) == self.settlement.is_some(), InvalidRecord::Settlement),
            ((self.status == Refused) == self.refusal.is_some(), InvalidRecord::Refusal),
            ((self.status == Parked) == self.park_reason.is_some(), InvalidRecord::Park),
            ((self.status == Parked) == self.retry.parked, InvalidRecord::Park),
            (
                match self.status {
                    Accepted | Processed => self.receipt.is_some(),
                    Pending | Refused => self.receipt.is_none(),
                    Parked => true,
                },
                InvalidRecord::Receipt,
            ),
            (
                self.receipt.as_ref().is_none_or(|it| it.thread_id == self.envelope.thread_id),
                InvalidRecord::ReceiptThread,
            ),
            (
                self.settlement.as_ref().is_none_or(|settlement| {
                    self.receipt.as_ref().is_some_and(|receipt| settles(settlement, receipt))
                }),
                InvalidRecord::SettlementIdentity,
            ),
            (
                self.settlement.as_ref().is_none_or(|settlement| settlement.check().is_ok()),
                InvalidRecord::SettlementContent,
            ),
            (
                self.lease_until_millis.is_none() || matches!(self.status, Pending | Accepted),
                InvalidRecord::Lease,
            ),
            (self.counters().all(|counter| counter <= MAX_NATURAL), InvalidRecord::Counter),
        ];
        rules.into_iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, rule)| Err(rule))
    }
}

impl MessageDeliveryRecord {
    fn counters(&self) -> impl Iterator<Item = u64> {
        let Retry { attempts, generation, automatic_attempts, .. } = self.retry;
        let sequence = self.receipt.as_ref().map_or(0, |receipt| receipt.queue_sequence);
        [self.version, attempts, generation, automatic_attempts, sequence].into_iter()
    }
}

/// Whether a settlement is about a receipt.
pub(super) fn settles(settlement: &Settlement, receipt: &Receipt) -> bool {
    settlement.receipt_id == receipt.receipt_id && settlement.submission_id == receipt.submission_id
}

cut_generally!(ParkReason, RetryReason);
