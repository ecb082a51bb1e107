//! Deliveries as a view that is kept: what is unfinished, and what is due.

mod checkpoint;
mod error;
mod fold;
mod follow;
mod store;

pub use error::{SaveError, Unusable, ViewError};
pub use fold::SetAside;
pub use store::{Resumed, Saved};

use std::{
    path::Path,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard},
};

use futures_util::{FutureExt, future::BoxFuture, lock::Mutex};
use recount_core::{
    Digest, Instant, StreamName, ThreadId,
    delivery::{
        self, BatchSize, ListMessages, MessageDeliveryKey, MessageDeliveryRecord, MessagePage,
        Outbox,
    },
    log::{EventLog, LogHead, ReadError},
    service::{DueIndex, Owners, Upcoming},
};

use fold::Fold;
use follow::{follow, follow_to};
use store::{Loaded, Way};

/// The deliveries of a log, folded as it grows.
///
/// It holds the unfinished messages, and some 12 bytes of each that was prepared in an outbox which
/// it read from its first event. A checkpoint, and opening by one, follow what is unfinished, however
/// long the log is; behind it an outbox's stream is read once, when it prepares again. What is asked
/// about finished messages is read from their outbox's stream, too. Every question first folds what
/// was appended since the last one, and any number may be asked at once. A future may be dropped
/// anywhere.
///
/// An event that is not understood, of a newer program say, sets its outbox aside ([`SetAside`]):
/// nothing of that is due any more, and all others go on.
///
/// # Examples
///
/// ```
/// # futures_executor::block_on(async {
/// use std::sync::Arc;
///
/// use recount_core::{
///     Metadata,
///     delivery::{BatchSize, Outbox, OutboxCommand, OutboxLimits},
///     log::MemoryLog,
///     service::{DueIndex, Owners, Submission},
/// };
/// use recount_projections::{DeliveryView, Resumed};
/// # use recount_core::doc::message;
///
/// let log = Arc::new(MemoryLog::new());
/// let message = message("m-1");
/// let (key, now) = (message.key.clone(), message.created_at_millis);
/// let limits = OutboxLimits::default();
/// let command = OutboxCommand::Prepare { message: message.into(), limits };
/// let submission = Submission { command, metadata: Metadata::default(), now };
/// Owners::<Outbox>::new(log.clone()).submit(&key.owner_thread_id, submission).await?;
///
/// let view = DeliveryView::new(log.clone());
/// assert_eq!(view.next_deadline(None).await?, Some(now));
/// assert_eq!(view.due(now, BatchSize::MAX, None).await?, [key]);
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("deliveries.checkpoint");
/// let saved = view.save(&path).await?.expect("there is something to keep");
/// let (again, resumed) = DeliveryView::resume(log, &path).await?;
/// assert!(matches!(resumed, Resumed::From(head) if head == saved.head));
/// assert_eq!(again.digest(), saved.digest);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub struct DeliveryView {
    log: Arc<dyn EventLog>,
    /// For what is asked about finished messages.
    outboxes: Owners<Outbox>,
    /// Whoever holds it folds.
    turn: Mutex<()>,
    fold: RwLock<Fold>,
}

/// What came of folding a log anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rebuilt {
    /// Where both states stood when they were compared; `None` of an empty log.
    pub head: Option<LogHead>,
    /// The digest of the state that was there.
    pub before: Digest,
    /// The digest of the new one, which is there now.
    pub after: Digest,
}

impl Rebuilt {
    /// Whether the state that was there was what the log folds to.
    pub fn is_same(&self) -> bool {
        self.before == self.after
    }
}

impl DeliveryView {
    /// The view of a log of which nothing is folded yet.
    pub fn new(log: Arc<dyn EventLog>) -> Self {
        Self::of(log, Fold::default())
    }

    fn of(log: Arc<dyn EventLog>, fold: Fold) -> Self {
        let outboxes = Owners::new(log.clone()).with_max_idle(1);
        Self { log, outboxes, turn: Mutex::new(()), fold: RwLock::new(fold) }
    }

    /// The view of a log as a checkpoint has it; of which nothing is folded yet, where there is
    /// none or it is not used.
    ///
    /// It is used only where it is whole, was made by this fold, and the log still has the very
    /// events that it names. What is not used is left as it is; tell somebody. Reading it blocks.
    ///
    /// # Errors
    ///
    /// [`ReadError`] where the log cannot be read.
    pub async fn resume(
        log: Arc<dyn EventLog>,
        path: impl AsRef<Path>,
    ) -> Result<(Self, Resumed), ReadError> {
        let (fold, resumed) = match store::load(&*log, path.as_ref()).await? {
            Loaded::Usable(fold, head) => (*fold, Resumed::From(head)),
            Loaded::Nothing => (Fold::default(), Resumed::Nothing),
            Loaded::Unusable(why) => (Fold::default(), Resumed::Ignored(why)),
        };
        Ok((Self::of(log, fold), resumed))
    }

    /// Keeps the view as it stands in a file; `None` where nothing is folded yet, or a newer
    /// checkpoint of the log stands there.
    ///
    /// An older checkpoint of the log is replaced in one step. Whatever else stands there is kept
    /// under another name, so programs of two versions should not share a path. The same state is
    /// the same bytes. Writing it blocks.
    ///
    /// # Errors
    ///
    /// [`SaveError`] where the file cannot be written, and what stood there is still there.
    pub async fn save(&self, path: impl AsRef<Path>) -> Result<Option<Saved>, SaveError> {
        let path = path.as_ref();
        let (head, state) = {
            let fold = self.fold();
            let Some(head) = fold.head else { return Ok(None) };
            (head, checkpoint::write(&fold))
        };
        let kept = match store::make_way(&*self.log, path, head.position).await? {
            Way::Free => None,
            Way::Kept(name) => Some(name),
            Way::Newer => return Ok(None),
        };
        store::write(path, &state.bytes)
            .map_err(|source| SaveError::Write { path: path.to_owned(), source })?;
        Ok(Some(Saved { head, digest: state.digest, kept }))
    }

    /// Folds the log anew beside the view, compares, and puts the new state in its place.
    ///
    /// Questions are answered from the old state until then, and wait where the log has grown. The
    /// log decides: where the states differ, the new one is right, and whoever asked should find
    /// out why ([`Rebuilt::is_same`]).
    ///
    /// # Errors
    ///
    /// [`ReadError`] where the log cannot be read; the view stays as it is.
    pub async fn rebuild(&self) -> Result<Rebuilt, ReadError> {
        let new = RwLock::new(Fold::default());
        follow(&*self.log, &new).await?;
        // Nobody folds from here on, so both end at the same event.
        let _turn = self.turn.lock().await;
        follow(&*self.log, &self.fold).await?;
        let head = self.head();
        if let Some(head) = head {
            follow_to(&*self.log, &new, head.position).await?;
        }
        let new = new.into_inner().unwrap_or_else(PoisonError::into_inner);
        let (before, after) = (self.digest(), checkpoint::write(&new).digest);
        *self.fold.write().unwrap_or_else(PoisonError::into_inner) = new;
        Ok(Rebuilt { head, before, after })
    }

    /// The last event that is folded.
    pub fn head(&self) -> Option<LogHead> {
        self.fold().head
    }

    /// The digest of the state: two views that stand at the same event have the same.
    pub fn digest(&self) -> Digest {
        checkpoint::write(&self.fold()).digest
    }

    /// The outboxes that have an event that is not understood, by stream.
    pub fn set_aside(&self) -> Vec<SetAside> {
        self.fold().aside.values().cloned().collect()
    }

    /// How many events changed nothing, which no writer that keeps the rules writes.
    pub fn ignored(&self) -> u64 {
        self.fold().ignored
    }

    /// A message, finished or not; `None` where it was never prepared.
    ///
    /// # Errors
    ///
    /// [`ViewError`] where the log cannot be read, or the outbox has an event that is not
    /// understood.
    pub async fn get(
        &self,
        key: &MessageDeliveryKey,
    ) -> Result<Option<MessageDeliveryRecord>, ViewError> {
        let stream = StreamName::delivery(&key.owner_thread_id);
        self.catch_up().await?;
        let unfinished = self.outbox(&stream)?.record(&stream, &key.message_id).cloned();
        if unfinished.is_some() {
            return Ok(unfinished);
        }
        let look = |outbox: &Outbox| outbox.record(&key.message_id).cloned();
        self.outboxes.read(&key.owner_thread_id, look).await.map_err(ViewError::of_owner)
    }

    /// Messages of one outbox, a page at a time.
    ///
    /// # Errors
    ///
    /// As those of [`DeliveryView::get`], and [`ViewError::Query`] where the limit is out of range.
    pub async fn list(&self, list: &ListMessages) -> Result<MessagePage, ViewError> {
        if !list.pending_only {
            let page = self.outboxes.read(&list.owner_thread_id, |outbox| outbox.list(list)).await;
            return Ok(page.map_err(ViewError::of_owner)??);
        }
        let stream = StreamName::delivery(&list.owner_thread_id);
        self.catch_up().await?;
        Ok(list.page(self.outbox(&stream)?.unfinished(&stream))?)
    }

    /// All messages of one outbox that are neither processed nor refused.
    ///
    /// # Errors
    ///
    /// As those of [`DeliveryView::get`], and [`ViewError::Query`] where there are more than the
    /// limit, or that is out of range.
    pub async fn read_pending(
        &self,
        owner: &ThreadId,
        limit: usize,
    ) -> Result<Vec<MessageDeliveryRecord>, ViewError> {
        let stream = StreamName::delivery(owner);
        self.catch_up().await?;
        Ok(delivery::read_pending(self.outbox(&stream)?.unfinished(&stream), limit)?)
    }

    fn fold(&self) -> RwLockReadGuard<'_, Fold> {
        self.fold.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state, where it can tell of an outbox.
    fn outbox(&self, stream: &StreamName) -> Result<RwLockReadGuard<'_, Fold>, SetAside> {
        let fold = self.fold();
        match fold.aside.get(stream) {
            Some(aside) => Err(aside.clone()),
            None => Ok(fold),
        }
    }
}

impl DueIndex for DeliveryView {
    type Key = MessageDeliveryKey;
    type Owner = ThreadId;

    fn catch_up(&self) -> BoxFuture<'_, Result<(), ReadError>> {
        async move {
            let _turn = self.turn.lock().await;
            follow(&*self.log, &self.fold).await
        }
        .boxed()
    }

    fn due<'a>(
        &'a self,
        now: Instant,
        limit: BatchSize,
        owner: Option<&'a ThreadId>,
    ) -> BoxFuture<'a, Result<Vec<MessageDeliveryKey>, ReadError>> {
        async move {
            self.catch_up().await?;
            Ok(self.fold().due(now, limit.get(), owner))
        }
        .boxed()
    }

    fn upcoming<'a>(
        &'a self,
        after: Option<&'a (Instant, MessageDeliveryKey)>,
        limit: BatchSize,
    ) -> BoxFuture<'a, Result<Upcoming<MessageDeliveryKey>, ReadError>> {
        async move {
            self.catch_up().await?;
            Ok(self.fold().upcoming(after, limit.get()))
        }
        .boxed()
    }

    fn next_deadline<'a>(
        &'a self,
        owner: Option<&'a ThreadId>,
    ) -> BoxFuture<'a, Result<Option<Instant>, ReadError>> {
        async move {
            self.catch_up().await?;
            Ok(self.fold().next_deadline(owner))
        }
        .boxed()
    }
}

impl std::fmt::Debug for DeliveryView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeliveryView").field("head", &self.head()).finish_non_exhaustive()
    }
}
