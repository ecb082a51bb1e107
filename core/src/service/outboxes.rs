//! What hosts ask of outboxes.

use std::sync::Arc;

use super::{OwnerError, Owners};
use crate::{
    ThreadId,
    delivery::{
        DeliveryError, ListMessages, MessageDeliveryKey, MessageDeliveryRecord, MessagePage, Outbox,
    },
    log::EventLog,
};

/// The outboxes of a log, as a host asks about them.
///
/// Each answer is folded from the outbox's own stream, and is true of the log at some time since
/// the question. A clone shares what is in memory.
///
/// # Examples
///
/// ```
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// use std::sync::Arc;
///
/// use recount_core::{
///     Metadata, ThreadId,
///     delivery::{Outbox, OutboxCommand, OutboxLimits},
///     log::MemoryLog,
///     service::{OutboxService, Owners, Submission},
/// };
/// # use recount_core::doc::message;
///
/// let owners = Owners::<Outbox>::new(Arc::new(MemoryLog::new()));
/// let outboxes = OutboxService::over(owners.clone());
/// let message = message("m-1");
/// let key = message.key.clone();
/// assert_eq!(outboxes.get(&key).await?, None);
///
/// let now = message.created_at_millis;
/// let limits = OutboxLimits::default();
/// let command = OutboxCommand::Prepare { message: message.into(), limits };
/// let metadata = Metadata::of_actor("host");
/// owners.submit(&key.owner_thread_id, Submission { command, metadata, now }).await?;
///
/// assert_eq!(outboxes.get(&key).await?.expect("it is prepared").version, 1);
/// let error = outboxes.read_pending(&key.owner_thread_id, 0).await.unwrap_err();
/// assert_eq!(error.to_string(), "read-pending: a limit is 1 to 4096, not 0");
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct OutboxService {
    owners: Owners<Outbox>,
}

impl OutboxService {
    /// The outboxes of a log, none of which is read yet.
    pub fn new(log: Arc<dyn EventLog>) -> Self {
        Self::over(Owners::new(log))
    }

    /// Outboxes whose owners are shared with whoever else has them.
    pub fn over(owners: Owners<Outbox>) -> Self {
        Self { owners }
    }

    /// A message, finished or not; `None` where it was never prepared.
    ///
    /// # Errors
    ///
    /// Those of [`Owners::read`].
    pub async fn get(
        &self,
        key: &MessageDeliveryKey,
    ) -> Result<Option<MessageDeliveryRecord>, OwnerError<DeliveryError>> {
        let look = |outbox: &Outbox| outbox.record(&key.message_id).cloned();
        self.owners.read(&key.owner_thread_id, look).await
    }

    /// Messages of one outbox, a page at a time.
    ///
    /// # Errors
    ///
    /// Those of [`Owners::read`], and [`OwnerError::Decide`] with those of [`Outbox::list`].
    pub async fn list(
        &self,
        list: &ListMessages,
    ) -> Result<MessagePage, OwnerError<DeliveryError>> {
        let page = self.owners.read(&list.owner_thread_id, |outbox| outbox.list(list)).await?;
        page.map_err(OwnerError::Decide)
    }

    /// All messages of one outbox that are neither processed nor refused.
    ///
    /// # Errors
    ///
    /// Those of [`Owners::read`], and [`OwnerError::Decide`] with those of
    /// [`Outbox::read_pending`].
    pub async fn read_pending(
        &self,
        owner: &ThreadId,
        limit: usize,
    ) -> Result<Vec<MessageDeliveryRecord>, OwnerError<DeliveryError>> {
        let records = self.owners.read(owner, |outbox| outbox.read_pending(limit)).await?;
        records.map_err(OwnerError::Decide)
    }
}
