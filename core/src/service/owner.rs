//! The owner of one stream.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::oneshot;

use super::{
    MAX_GROUP_COMMANDS, OwnerError, StreamAggregate, StreamError, Submission,
    desk::{Answer, Desk, Pending},
    known::Known,
};
use crate::{
    StreamName,
    log::{AppendError, EventLog},
};

/// The owner of one stream: what waits to be decided, and the desk where it is.
///
/// Whoever has the desk works for all. Each waiting caller waits for it too, so that nobody is
/// forgotten, whoever goes away.
pub(super) struct Owner<A: StreamAggregate> {
    key: A::Key,
    stream: StreamName,
    queue: Mutex<VecDeque<Pending<A>>>,
    pub(super) desk: tokio::sync::Mutex<Desk<A>>,
}

impl<A: StreamAggregate> Owner<A> {
    pub(super) fn new(key: A::Key, stream: StreamName) -> Self {
        let (queue, desk) = (Mutex::default(), tokio::sync::Mutex::new(Desk::new()));
        Self { key, stream, queue, desk }
    }

    pub(super) fn stream(&self) -> &StreamName {
        &self.stream
    }

    /// Puts a command behind the others.
    pub(super) fn enqueue(
        &self,
        submission: Submission<A::Command>,
    ) -> oneshot::Receiver<Answer<A>> {
        let (reply, answer) = oneshot::channel();
        let mut queue = self.queue();
        if queue.len() == queue.capacity() {
            // Callers may go for as long as the log does not answer.
            queue.retain(|pending| !pending.reply.is_closed());
        }
        queue.push_back(Pending { submission, reply, was_decided: false });
        answer
    }

    /// Goes one step on: settles the group in flight, or decides and appends the next.
    ///
    /// It may be dropped wherever it waits; the next call goes on from there.
    pub(super) async fn work(&self, log: &dyn EventLog, desk: &mut Desk<A>) {
        if desk.flight.is_some() {
            if let Err(error) = self.settle(log, desk).await {
                self.take(desk);
                desk.refuse_taken(|| OwnerError::Unsettled(Arc::clone(&error)));
            }
            return;
        }
        self.take(desk);
        let is_behind = desk.known.as_ref().is_none_or(|known| known.is_behind);
        if is_behind && let Err(error) = self.catch_up(log, desk).await {
            return desk.refuse_taken(|| OwnerError::Stream(Arc::clone(&error)));
        }
        desk.decide(&self.stream, is_behind);
        // Where the outcome is not known, the group was told so, and the next step settles it.
        drop(self.settle(log, desk).await);
    }

    /// Hands the group in flight to the log, and does what its answer asks for.
    ///
    /// # Errors
    ///
    /// Why it is not known whether the group is in the log; it is in flight still.
    pub(super) async fn settle(
        &self,
        log: &dyn EventLog,
        desk: &mut Desk<A>,
    ) -> Result<(), Arc<AppendError>> {
        use AppendError::{Conflict, OutcomeUnknown, TooLarge};
        let Some(flight) = &mut desk.flight else { return Ok(()) };
        flight.calls += 1;
        let answer = log.append(flight.batch.clone()).await;
        let Some(flight) = desk.flight.take() else { return Ok(()) };
        // An earlier call, whose answer nobody heard, may have appended what this one did not.
        let is_repeat = flight.calls > 1;
        let error = match answer {
            Ok(appended) => {
                desk.landed(flight, appended.first_position);
                return Ok(());
            }
            Err(error @ OutcomeUnknown { .. }) => error,
            Err(error) if is_repeat && !matches!(error, Conflict { .. } | TooLarge { .. }) => {
                OutcomeUnknown { stream: self.stream.clone(), source: error.into() }
            }
            Err(error) => {
                desk.failed(flight, error);
                return Ok(());
            }
        };
        let error = Arc::new(error);
        desk.left_open(flight, &error);
        Err(error)
    }

    /// Reads what the log has behind what is known.
    pub(super) async fn catch_up<'a>(
        &self,
        log: &dyn EventLog,
        desk: &'a mut Desk<A>,
    ) -> Result<&'a Known<A>, Arc<StreamError>> {
        let known = desk.known.get_or_insert_with(|| Known::nothing(&self.key));
        known.catch_up(&self.key, log, &self.stream).await?;
        Ok(known)
    }

    /// Takes commands from the queue, where none are taken.
    fn take(&self, desk: &mut Desk<A>) {
        if desk.taken.is_empty() {
            let mut queue = self.queue();
            let most = queue.len().min(MAX_GROUP_COMMANDS);
            desk.taken.extend(queue.drain(..most));
        }
    }

    /// How many wait, or did.
    #[cfg(all(test, feature = "memory"))]
    pub(super) fn queued(&self) -> usize {
        self.queue().len()
    }

    fn queue(&self) -> MutexGuard<'_, VecDeque<Pending<A>>> {
        // A queue is whole between any two calls.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
