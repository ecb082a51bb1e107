//! What hosts do with outboxes.

use std::sync::Arc;

use super::{
    Clock, DeliveryFailure, Failpoint, LocalWake, NoFailpoint, Owners, Point, Submission, Wake,
    under_way::{UnderWay, UnderWayGuard},
};
use crate::{
    Metadata, ThreadId,
    delivery::{
        DeliveryError, DeliveryEvent, ListMessages, MessageDeliveryChange as Change,
        MessageDeliveryCommand, MessageDeliveryKey, MessageDeliveryRecord, MessagePage, Outbox,
        OutboxCommand, OutboxLimits,
    },
};

/// The outboxes of a log, as a host works with them.
///
/// What is asked is folded from the outbox's own stream, and is true of the log at some time since
/// the question. What is wished is decided by the stream's owner and durable when it is answered. A
/// clone shares everything.
///
/// # Examples
///
/// ```
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// use std::sync::Arc;
///
/// use recount_core::{
///     ThreadId, delivery::Outbox, log::MemoryLog,
///     service::{OutboxService, Owners},
/// };
/// # use recount_core::{doc::message, service::doc::StoppedClock};
///
/// let owners = Owners::<Outbox>::new(Arc::new(MemoryLog::new()));
/// let outboxes = OutboxService::new(owners, Arc::new(StoppedClock));
/// let message = message("m-1");
/// let key = message.key.clone();
/// assert_eq!(outboxes.get(&key).await?, None);
///
/// let record = outboxes.prepare(message.clone()).await?;
/// assert_eq!(record.version, 1);
/// assert_eq!(outboxes.prepare(message).await?, record, "a repeat changes nothing");
/// assert_eq!(outboxes.read_pending(&key.owner_thread_id, 100).await?, [record]);
///
/// let error = outboxes.read_pending(&key.owner_thread_id, 0).await.unwrap_err();
/// assert_eq!(error.to_string(), "read-pending: a limit is 1 to 4096, not 0");
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct OutboxService {
    owners: Owners<Outbox>,
    clock: Arc<dyn Clock>,
    failpoint: Arc<dyn Failpoint>,
    wake: Arc<dyn Wake>,
    pub(super) under_way: UnderWay,
    pub(super) limits: OutboxLimits,
    metadata: Metadata,
}

impl OutboxService {
    /// The outboxes that owners have, with the default limits.
    pub fn new(owners: Owners<Outbox>, clock: Arc<dyn Clock>) -> Self {
        Self {
            owners,
            clock,
            failpoint: Arc::new(NoFailpoint),
            wake: Arc::<LocalWake>::default(),
            under_way: UnderWay::default(),
            limits: OutboxLimits::default(),
            metadata: Metadata::default(),
        }
    }

    /// Sets how much an outbox may hold.
    #[must_use]
    pub fn with_limits(self, limits: OutboxLimits) -> Self {
        Self { limits, ..self }
    }

    /// Sets what is recorded beside each event, such as who writes.
    #[must_use]
    pub fn with_metadata(self, metadata: Metadata) -> Self {
        Self { metadata, ..self }
    }

    /// Sets what is woken where there may be something to do: after a message was prepared, recovered
    /// or settled. A [`LocalWake`] unless set.
    #[must_use]
    pub fn with_wake(self, wake: Arc<dyn Wake>) -> Self {
        Self { wake, ..self }
    }

    /// Sets where a test makes it fail.
    #[must_use]
    pub fn with_failpoint(self, failpoint: Arc<dyn Failpoint>) -> Self {
        Self { failpoint, ..self }
    }

    /// A message, finished or not; `None` where it was never prepared.
    ///
    /// # Errors
    ///
    /// [`DeliveryFailure::Outbox`] where the stream cannot be folded.
    pub async fn get(
        &self,
        key: &MessageDeliveryKey,
    ) -> Result<Option<MessageDeliveryRecord>, DeliveryFailure> {
        let look = |outbox: &Outbox| outbox.record(&key.message_id).cloned();
        Ok(self.owners.read(&key.owner_thread_id, look).await?)
    }

    /// Messages of one outbox, a page at a time.
    ///
    /// # Errors
    ///
    /// As those of [`OutboxService::get`], and those of [`Outbox::list`].
    pub async fn list(&self, list: &ListMessages) -> Result<MessagePage, DeliveryFailure> {
        let page = self.owners.read(&list.owner_thread_id, |outbox| outbox.list(list)).await?;
        Ok(page?)
    }

    /// All messages of one outbox that are neither processed nor refused.
    ///
    /// # Errors
    ///
    /// As those of [`OutboxService::get`], and those of [`Outbox::read_pending`].
    pub async fn read_pending(
        &self,
        owner: &ThreadId,
        limit: usize,
    ) -> Result<Vec<MessageDeliveryRecord>, DeliveryFailure> {
        let records = self.owners.read(owner, |outbox| outbox.read_pending(limit)).await?;
        Ok(records?)
    }

    pub(super) fn command(&self, expected_version: u64, change: Change) -> MessageDeliveryCommand {
        MessageDeliveryCommand { expected_version, now_millis: self.clock.now(), change }
    }

    /// Changes a message that is held, at its version, by the clock as it reads now.
    pub(super) async fn change_held(
        &self,
        record: &MessageDeliveryRecord,
        change: Change,
    ) -> Result<MessageDeliveryRecord, DeliveryFailure> {
        let command = self.command(record.version, change);
        self.change_at(record, command).await
    }

    /// The same, decided at a time that was read before.
    pub(super) async fn change_at(
        &self,
        record: &MessageDeliveryRecord,
        command: MessageDeliveryCommand,
    ) -> Result<MessageDeliveryRecord, DeliveryFailure> {
        let event = self.submit_change(&record.key, command).await?;
        // The version is the same, and so is the record.
        let mut record = record.clone();
        if let Some(event) = event {
            record.evolve(&event);
        }
        Ok(record)
    }

    pub(super) async fn submit_change(
        &self,
        key: &MessageDeliveryKey,
        command: MessageDeliveryCommand,
    ) -> Result<Option<DeliveryEvent>, DeliveryFailure> {
        let (tag, message_id) = (command.change.tag(), key.message_id.clone());
        let command = OutboxCommand::Change { message_id, command };
        self.submit(&key.owner_thread_id, command, tag).await
    }

    pub(super) async fn submit(
        &self,
        owner: &ThreadId,
        command: OutboxCommand,
        tag: &'static str,
    ) -> Result<Option<DeliveryEvent>, DeliveryFailure> {
        self.failpoint.hit(Point::BeforeAppend(tag))?;
        let now = match &command {
            OutboxCommand::Change { command, .. } => command.now_millis,
            OutboxCommand::Prepare { .. } => self.clock.now(),
        };
        let submission = Submission { command, metadata: self.metadata.clone(), now };
        let committed = self.owners.submit(owner, submission).await?;
        self.failpoint.hit(Point::AfterAppend(tag))?;
        Ok(committed.map(|committed| committed.event))
    }

    /// A message that satisfies something, and whether it may be sent: its predecessor's admission is
    /// known. What is in memory will do if it does: what is decided on it is held to the log.
    pub(super) async fn get_with_order(
        &self,
        key: &MessageDeliveryKey,
        will_do: impl Fn(&MessageDeliveryRecord) -> bool,
    ) -> Result<Option<(MessageDeliveryRecord, bool)>, DeliveryFailure> {
        let look = |outbox: &Outbox| {
            let record = outbox.record(&key.message_id)?;
            let predecessor = record.predecessor.as_ref().map(|id| outbox.record(id));
            let may_go = predecessor.is_none_or(|predecessor| {
                predecessor.is_some_and(MessageDeliveryRecord::is_admission_known)
            });
            Some((record.clone(), may_go))
        };
        match self.owners.recall(&key.owner_thread_id, look).await.flatten() {
            Some(found) if will_do(&found.0) => Ok(Some(found)),
            _ => Ok(self.owners.read(&key.owner_thread_id, look).await?),
        }
    }

    /// Notes that an attempt is under way.
    pub(super) fn begin(&self, key: &MessageDeliveryKey) -> UnderWayGuard<'_> {
        self.under_way.begin(key)
    }

    pub(super) fn wake(&self) -> &dyn Wake {
        &*self.wake
    }

    pub(super) fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    pub(super) fn hit(&self, point: Point) -> Result<(), DeliveryFailure> {
        Ok(self.failpoint.hit(point)?)
    }
}

impl std::fmt::Debug for OutboxService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OutboxService").field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl From<DeliveryError> for DeliveryFailure {
    fn from(error: DeliveryError) -> Self {
        Self::Outbox(super::OwnerError::Decide(error))
    }
}
