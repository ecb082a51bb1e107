//! The owners of streams in one process.

use std::{pin::pin, sync::Arc};

use futures_util::future::{Either, select};
use tokio::sync::oneshot::error::TryRecvError;

use super::{OwnerError, StreamAggregate, registry::Registry};
use crate::{Instant, Metadata, Position, StreamHead, log::EventLog};

/// A command, with what its caller says beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submission<C> {
    /// What is wished.
    pub command: C,
    /// What is recorded beside the event.
    pub metadata: Metadata,
    /// What the caller's clock reads; it stays with the command however often it is decided.
    pub now: Instant,
}

/// The event of a command, in its log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed<E> {
    /// What happened.
    pub event: E,
    /// Its place in the log; the events of a batch stand side by side.
    pub position: Position,
    /// Its stream's head behind it.
    pub head: StreamHead,
}

/// The owners of an aggregate's streams, one for each stream in use.
///
/// A stream's commands are decided in the order in which they were submitted, each over what the
/// ones before it left, and their events are appended as one batch: many tasks on one stream share
/// a commit, up to [`super::MAX_GROUP_COMMANDS`] and [`super::MAX_GROUP_BYTES`]. Only other
/// processes make conflicts; then the commands are decided again, each with its own now. An answer
/// tells what was true of the log at some time since the submission, also where it is that nothing
/// happened: the log is read for a group that has no event.
///
/// Callers combine: there is no task and no thread behind this. Whoever finds a stream free works
/// for all who wait there. So a future that was begun must be polled or dropped; put aside, it may
/// hold up the others. Dropping it is safe anywhere: a command that was decided once counts, and
/// may be appended, and one that was not is forgotten.
///
/// A clone has the same owners. A process should have one of these for a log and an aggregate;
/// several work as several processes do.
///
/// # Examples
///
/// ```
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// use std::sync::Arc;
///
/// use futures_util::future::join;
/// use recount_core::{
///     Metadata, ThreadId,
///     delivery::{Outbox, OutboxCommand, OutboxLimits},
///     log::MemoryLog,
///     service::{Owners, Submission},
/// };
/// # use recount_core::doc::message;
///
/// let owners = Owners::<Outbox>::new(Arc::new(MemoryLog::new()));
/// let sender = ThreadId::new("sender")?;
/// let prepare = |id| {
///     let message = message(id);
///     Submission {
///         now: message.created_at_millis,
///         command: OutboxCommand::Prepare {
///             message: Box::new(message),
///             limits: OutboxLimits::default(),
///         },
///         metadata: Metadata::of_actor("host"),
///     }
/// };
/// let (first, again) =
///     join(owners.submit(&sender, prepare("m-1")), owners.submit(&sender, prepare("m-1"))).await;
/// let first = first?.expect("the message is new");
/// assert_eq!(first.event.event_type(), "delivery.prepared");
/// assert_eq!(first.head.revision.get(), 0);
/// assert_eq!(again?, None, "a repeat changes nothing");
///
/// let pending = owners.read(&sender, |outbox| outbox.counts().pending).await?;
/// assert_eq!(pending, 1);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub struct Owners<A: StreamAggregate>(Arc<Inner<A>>);

struct Inner<A: StreamAggregate> {
    log: Arc<dyn EventLog>,
    registry: Registry<A>,
}

impl<A: StreamAggregate> Owners<A> {
    /// Owners of streams in a log, none of which is read yet.
    pub fn new(log: Arc<dyn EventLog>) -> Self {
        Self(Arc::new(Inner { log, registry: Registry::new() }))
    }

    /// Sets how many streams' records stay in memory while nobody uses them, for all clones;
    /// [`super::MAX_IDLE_STREAMS`] unless set. Above it those that were used least recently are
    /// dropped, and read again when they are needed.
    #[must_use]
    pub fn with_max_idle(self, max_idle: usize) -> Self {
        self.0.registry.set_max_idle(max_idle);
        self
    }

    /// Decides a command and appends its event; `None` where it is granted and changes nothing.
    ///
    /// The command has its place behind the others once this is polled.
    ///
    /// # Errors
    ///
    /// [`OwnerError`]: the aggregate's own, or why the event is not in the log; where
    /// [`OwnerError::is_outcome_unknown`], it may be.
    pub async fn submit(
        &self,
        key: &A::Key,
        submission: Submission<A::Command>,
    ) -> Result<Option<Committed<A::Event>>, OwnerError<A::Error>> {
        let lease = self.0.registry.lease(key);
        let mut reply = lease.owner.enqueue(submission);
        let desk = pin!(lease.owner.desk.lock());
        let mut desk = match select(&mut reply, desk).await {
            Either::Left((answer, _)) => return answer.unwrap_or(Err(OwnerError::GivenUp)),
            Either::Right((desk, _)) => desk,
        };
        loop {
            match reply.try_recv() {
                Ok(answer) => return answer,
                Err(TryRecvError::Closed) => return Err(OwnerError::GivenUp),
                Err(TryRecvError::Empty) => lease.owner.work(&*self.0.log, &mut desk).await,
            }
        }
    }

    /// Looks at an aggregate as the log has it: what is not in memory is read before, and what an
    /// append left open is settled. Commands that wait are not waited for.
    ///
    /// # Errors
    ///
    /// [`OwnerError::Stream`] where the stream cannot be read or is not understood, and
    /// [`OwnerError::Unsettled`] where it is not known whether the last append succeeded.
    pub async fn read<T>(
        &self,
        key: &A::Key,
        look: impl FnOnce(&A) -> T,
    ) -> Result<T, OwnerError<A::Error>> {
        let log = &*self.0.log;
        let lease = self.0.registry.lease(key);
        let mut desk = lease.owner.desk.lock().await;
        lease.owner.settle(log, &mut desk).await.map_err(OwnerError::Unsettled)?;
        let known = lease.owner.catch_up(log, &mut desk).await;
        let known = known.map_err(OwnerError::Stream)?;
        Ok(look(&known.aggregate))
    }

    /// Looks at an aggregate as it is in memory, which the log may have gone past; `None` where it is
    /// not there. It spares a look at the log where whatever is decided on it is appended, and so held
    /// to the log all the same.
    pub async fn recall<T>(&self, key: &A::Key, look: impl FnOnce(&A) -> T) -> Option<T> {
        let lease = self.0.registry.lease(key);
        let desk = lease.owner.desk.lock().await;
        desk.known.as_ref().map(|known| look(&known.aggregate))
    }

    /// What a test looks into.
    #[cfg(all(test, feature = "memory"))]
    pub(super) fn registry(&self) -> &Registry<A> {
        &self.0.registry
    }
}

impl<A: StreamAggregate> Clone for Owners<A> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<A: StreamAggregate> std::fmt::Debug for Owners<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Owners").finish_non_exhaustive()
    }
}
