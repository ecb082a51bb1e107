//! The queue of a backend that writes on one thread: many batches, one commit.

use std::{
    io,
    sync::mpsc::{self, Receiver, Sender},
    thread::{self, JoinHandle},
};

use futures_util::{FutureExt, future::BoxFuture};
use tokio::sync::oneshot;

use super::{AppendError, Appended};
use crate::EventBatch;

/// How much is gathered for one commit, at least one batch.
const GROUP_BYTES: usize = 4 << 20;

/// A batch that was submitted, and who waits for it.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) batch: EventBatch,
    reply: Reply,
}

/// Who waits for a batch.
#[derive(Debug)]
pub(super) struct Reply(oneshot::Sender<Result<Appended, AppendError>>);

/// Batches on their way to the thread that writes.
///
/// Dropping it waits until everything submitted has its answer.
#[derive(Debug)]
pub(super) struct Queue {
    /// Both there until the drop.
    requests: Option<Sender<Request>>,
    writer: Option<JoinHandle<()>>,
}

impl Queue {
    /// Starts the thread, which takes what was submitted in the meantime and commits it.
    pub(super) fn start(
        name: &str,
        mut commit: impl FnMut(Vec<Request>) + Send + 'static,
    ) -> io::Result<Self> {
        let (requests, queue) = mpsc::channel();
        let writer = thread::Builder::new().name(name.to_owned()).spawn(move || {
            while let Some(group) = gather(&queue) {
                commit(group);
            }
        })?;
        Ok(Self { requests: Some(requests), writer: Some(writer) })
    }

    /// Submits a batch; it is under way when this returns.
    pub(super) fn submit(
        &self,
        batch: EventBatch,
    ) -> BoxFuture<'static, Result<Appended, AppendError>> {
        let stream = batch.stream().clone();
        let (reply, answer) = oneshot::channel();
        let requests = self.requests.as_ref().expect("the queue is there until the drop");
        if requests.send(Request { batch, reply: Reply(reply) }).is_err() {
            return std::future::ready(Err(AppendError::Closed)).boxed();
        }
        // Without an answer the thread is gone, nobody knows how far it came.
        answer
            .map(|answer| {
                answer.unwrap_or_else(|source| {
                    Err(AppendError::OutcomeUnknown { stream, source: source.into() })
                })
            })
            .boxed()
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        drop(self.requests.take());
        if let Some(writer) = self.writer.take() {
            // A panic there was told where it happened, and every waiting append has its answer.
            let _ = writer.join();
        }
    }
}

impl Request {
    /// Takes it apart, to answer it later.
    pub(super) fn into_parts(self) -> (EventBatch, Reply) {
        (self.batch, self.reply)
    }

    /// How much is to be written.
    pub(super) fn size(&self) -> usize {
        self.batch.events().iter().map(|event| event.text().len()).sum()
    }
}

impl Reply {
    /// Answers; who does not wait any more does not want it.
    pub(super) fn answer(self, answer: Result<Appended, AppendError>) {
        let _ = self.0.send(answer);
    }
}

/// Waits for a batch and takes those that are there, too; `None` where none will come.
fn gather(queue: &Receiver<Request>) -> Option<Vec<Request>> {
    let first = queue.recv().ok()?;
    let mut bytes = first.size();
    let mut group = vec![first];
    while bytes < GROUP_BYTES
        && let Ok(next) = queue.try_recv()
    {
        bytes += next.size();
        group.push(next);
    }
    Some(group)
}
