//! What hosts wish of outboxes.

use super::{DeliveryFailure, OutboxService};
use crate::{
    Instant, MessageId, PreparedInput,
    delivery::{
        DeliveryEvent, MessageDeliveryChange as Change, MessageDeliveryKey, MessageDeliveryPolicy,
        MessageDeliveryRecord, MessageDeliveryStatus, OutboxCommand, ParkReason, PrepareMessage,
    },
};

/// A message whose times the service sets.
///
/// # Examples
///
/// ```
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// use std::sync::Arc;
///
/// use recount_core::{
///     delivery::{MessageDeliveryPolicy, Outbox},
///     log::MemoryLog,
///     service::{NewMessage, OutboxService, Owners},
/// };
/// # use recount_core::{doc::{envelope, message}, service::doc::StoppedClock};
///
/// let owners = Owners::<Outbox>::new(Arc::new(MemoryLog::new()));
/// let outboxes = OutboxService::new(owners, Arc::new(StoppedClock));
/// # let key = message("m-1").key;
/// let message = NewMessage {
///     key,
///     envelope: envelope("sender:m-1"),
///     lifetime_millis: 60_000,
///     policy: MessageDeliveryPolicy { settlement_poll_millis: 600_000, ..Default::default() },
///     predecessor: None,
/// };
/// let record = outboxes.send(message.clone()).await?;
/// assert_eq!(record.created_at_millis.as_millis(), 1_000);
/// assert_eq!(record.deadline_at_millis.as_millis(), 61_000);
/// assert_eq!(outboxes.send(message).await?, record, "whenever it is sent again");
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewMessage {
    /// Which message of which outbox.
    pub key: MessageDeliveryKey,
    /// What is to be delivered.
    pub envelope: PreparedInput,
    /// After how many milliseconds it is parked.
    pub lifetime_millis: u64,
    /// How it is tried.
    pub policy: MessageDeliveryPolicy,
    /// A message of the same outbox that goes first.
    pub predecessor: Option<MessageId>,
}

impl OutboxService {
    /// Freezes a message and puts it into its outbox; a repeat returns what became of it.
    ///
    /// # Errors
    ///
    /// [`DeliveryFailure::Outbox`]: another message has its id, there is no place, the message is
    /// not valid, or it cannot be appended.
    pub async fn prepare(
        &self,
        message: PrepareMessage,
    ) -> Result<MessageDeliveryRecord, DeliveryFailure> {
        let key = message.key.clone();
        let command = OutboxCommand::Prepare { message: Box::new(message), limits: self.limits };
        match self.submit(&key.owner_thread_id, command, "Prepare").await? {
            Some(DeliveryEvent::Prepared(prepared)) => {
                self.wake().wake();
                Ok(MessageDeliveryRecord::of(&prepared))
            }
            _ => self.get(&key).await?.ok_or(DeliveryFailure::NotFound { key }),
        }
    }

    /// Prepares a message by the clock; a repeat, which may be another day, returns what became of the
    /// first. So a host needs to keep nothing but the message's id.
    ///
    /// # Errors
    ///
    /// As those of [`OutboxService::prepare`].
    pub async fn send(
        &self,
        message: NewMessage,
    ) -> Result<MessageDeliveryRecord, DeliveryFailure> {
        let NewMessage { key, envelope, lifetime_millis, policy, predecessor } = message;
        let now = self.clock().now();
        let mut message = PrepareMessage {
            key,
            envelope,
            created_at_millis: now,
            deadline_at_millis: now.saturating_add(lifetime_millis),
            policy,
            predecessor,
        };
        match self.prepare(message.clone()).await {
            // It was sent before: it must be the same but for its times.
            Err(failure) if failure.is_other_identity() => {
                let first = self.get(&message.key).await?.ok_or(failure)?;
                message.created_at_millis = first.created_at_millis;
                message.deadline_at_millis = first.initial_deadline_at_millis;
                self.prepare(message).await
            }
            result => result,
        }
    }

    /// Has an admitted message looked at at once, since its destination said that it is done with it;
    /// returns how it stands.
    ///
    /// A destination that can tell saves its host the polling, or most of it: a policy with a long
    /// `settlementPollMillis` beside this writes two events a message for it, where the default writes
    /// two every five seconds. What is told is not trusted: the destination is asked.
    ///
    /// While this process has an attempt at the message under way, it is looked at again once that is
    /// recorded. An attempt of another process ends here, in favour of the next one. Nothing is done
    /// for a message that is not admitted yet, is parked or finished: then polls, or a person, find
    /// out.
    ///
    /// # Errors
    ///
    /// [`DeliveryFailure::NotFound`] where it was never prepared, or [`DeliveryFailure::Outbox`] where
    /// the stream cannot be read or appended to.
    pub async fn settled(
        &self,
        key: &MessageDeliveryKey,
    ) -> Result<MessageDeliveryRecord, DeliveryFailure> {
        loop {
            let is_under_way = self.under_way.tell(key);
            let now = self.clock().now();
            let waits = |record: &MessageDeliveryRecord| {
                record.status == MessageDeliveryStatus::Accepted
                    && record.effective_deadline().is_some_and(|due| due > now)
            };
            let found = self.get_with_order(key, waits).await?;
            let Some((record, _)) = found else {
                return Err(DeliveryFailure::NotFound { key: key.clone() });
            };
            if is_under_way || !waits(&record) {
                self.wake().wake();
                return Ok(record);
            }
            match self.change_held(&record, Change::Notify).await {
                // Somebody else changed it meanwhile.
                Err(failure) if failure.is_conflict() => {}
                result => {
                    self.wake().wake();
                    return result;
                }
            }
        }
    }

    /// Has a parked message tried again, until a new deadline.
    ///
    /// # Errors
    ///
    /// [`DeliveryFailure::Outbox`] where it is not parked, is at another version, was never
    /// prepared, or the deadline is not ahead.
    pub async fn recover(
        &self,
        key: &MessageDeliveryKey,
        expected_version: u64,
        deadline_at_millis: Instant,
    ) -> Result<MessageDeliveryRecord, DeliveryFailure> {
        let change = Change::Recover { deadline_at_millis };
        let record = self.change(key, expected_version, change).await?;
        self.wake().wake();
        Ok(record)
    }

    /// Leaves a message to a person, whatever is under way.
    ///
    /// # Errors
    ///
    /// [`DeliveryFailure::Outbox`] where it is finished or parked, is at another version, or was
    /// never prepared.
    pub async fn park(
        &self,
        key: &MessageDeliveryKey,
        expected_version: u64,
        reason: ParkReason,
    ) -> Result<MessageDeliveryRecord, DeliveryFailure> {
        let change = Change::Park { reason, diagnostic: None };
        self.change(key, expected_version, change).await
    }

    async fn change(
        &self,
        key: &MessageDeliveryKey,
        expected_version: u64,
        change: Change,
    ) -> Result<MessageDeliveryRecord, DeliveryFailure> {
        let command = self.command(expected_version, change);
        self.submit_change(key, command).await?;
        self.get(key).await?.ok_or_else(|| DeliveryFailure::NotFound { key: key.clone() })
    }
}
