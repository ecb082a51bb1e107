//! A log in memory, for tests.

use std::sync::Arc;

use futures_util::{FutureExt, future::BoxFuture};
use tokio::sync::watch;

use super::{
    AppendError, Appended, Direction, EventLog, EventStream, LogHead, MAX_APPENDED_ROW_BYTES,
    ReadError,
    admission::Admission,
    index::{Entry, Index},
    indexed::{Indexed, Shelf},
};
use crate::{EventBatch, Position, RecordedEvent, Revision, SealedEvent, StreamName};

/// A log in memory: what a test appends, gone with its last clone.
///
/// Its futures are ready at once and need no runtime. A read sees what is there when it is asked
/// for. A subscription ends, behind everything appended, when the last clone is dropped.
///
/// # Examples
///
/// ```
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// use recount_core::{
///     EventBatch, EventDraft, EventType, Instant, Metadata, StreamName,
///     log::{AppendError, EventLog, MemoryLog},
/// };
///
/// let log = MemoryLog::new();
/// let draft = EventDraft {
///     event_type: EventType::new("delivery.claimed")?,
///     schema_version: 1,
///     data: serde_json::from_str("{}")?,
///     metadata: Metadata::default(),
/// };
/// let stream = StreamName::parse("delivery-a")?;
/// let batch = EventBatch::seal(stream.clone(), None, [draft.clone()], Instant::ZERO)?;
/// let appended = log.append(batch.clone()).await?;
/// assert_eq!(appended.head, batch.head());
/// assert_eq!(log.append(batch).await?, appended);
///
/// let late = EventBatch::seal(stream, None, [draft.clone(), draft], Instant::ZERO)?;
/// let error = log.append(late).await.unwrap_err();
/// assert!(matches!(error, AppendError::Conflict { .. }));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct MemoryLog(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    indexed: Arc<Indexed<InSlots>>,
    /// How many events there are; subscriptions hold what is above, and not this.
    committed: watch::Sender<usize>,
}

/// The slots are the events.
#[derive(Debug)]
struct InSlots;

impl Shelf for InSlots {
    type Slot = SealedEvent;

    fn fetch(&self, entry: Entry<SealedEvent>) -> Result<RecordedEvent, ReadError> {
        Ok(RecordedEvent { position: entry.position, event: entry.slot })
    }
}

impl MemoryLog {
    /// An empty log.
    pub fn new() -> Self {
        let indexed = Indexed::new(Index::new(), InSlots);
        Self(Arc::new(Inner { indexed, committed: watch::Sender::new(0) }))
    }

    fn append_now(&self, batch: &EventBatch) -> Result<Appended, AppendError> {
        let mut index = self.0.indexed.index_mut();
        match index.admit(batch, MAX_APPENDED_ROW_BYTES) {
            Admission::Known { answer, .. } => answer,
            Admission::New(first_position) => {
                for event in batch.events() {
                    index.push(event, event.clone());
                }
                // Told under the lock, so that the number never falls.
                self.0.committed.send_replace(index.commit());
                Ok(Appended { head: batch.head(), first_position })
            }
        }
    }
}

impl Default for MemoryLog {
    fn default() -> Self {
        Self::new()
    }
}

impl EventLog for MemoryLog {
    fn append(&self, batch: EventBatch) -> BoxFuture<'_, Result<Appended, AppendError>> {
        std::future::ready(self.append_now(&batch)).boxed()
    }

    fn read_stream(
        &self,
        stream: &StreamName,
        from: Option<Revision>,
        direction: Direction,
        limit: usize,
    ) -> EventStream<'_> {
        self.0.indexed.read_stream(stream, from, direction, limit)
    }

    fn read_all(
        &self,
        from: Option<Position>,
        direction: Direction,
        limit: usize,
    ) -> EventStream<'_> {
        self.0.indexed.read_all(from, direction, limit)
    }

    fn head(&self) -> BoxFuture<'_, Result<Option<LogHead>, ReadError>> {
        std::future::ready(Ok(self.0.indexed.head())).boxed()
    }

    fn subscribe(&self, from: Position) -> EventStream<'static> {
        self.0.indexed.subscribe(from, self.0.committed.subscribe())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::conformance;

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn a_log_in_memory_keeps_what_a_log_must() {
        conformance::run_all(async || Arc::new(MemoryLog::new()) as Arc<dyn EventLog>).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn a_clone_is_the_same_log() {
        let log = MemoryLog::new();
        conformance::reopens(async || Arc::new(log.clone()) as Arc<dyn EventLog>).await;
    }
}
