//! A log that does what a script says.

use std::{
    collections::VecDeque,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize},
    },
};

use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream};
use tokio::sync::Semaphore;

use super::*;
use crate::{
    Position, Revision,
    log::{Appended, EventStream, LogHead, ReadError},
};

/// What becomes of one append.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// It is appended, when others were polled so many times.
    Slow(usize),
    /// Another process appends an event of its own before.
    Beaten(String),
    /// Nothing is appended.
    Storage,
    /// The log is closed.
    Closed,
    /// The reply is lost behind the event.
    UnknownThere,
    /// The reply is lost before the event.
    UnknownNotThere,
    /// It is appended, and answered, when it is let go.
    Held,
    /// It is appended at once, and answered when it is let go.
    HeldReply,
    /// It is refused as if another head were there.
    Lie,
}

/// A log whose appends go as a script says, and are as slow as those of a disk behind its end.
pub(super) struct Scripted {
    log: Mutex<MemoryLog>,
    pub(super) script: Mutex<VecDeque<Step>>,
    /// Where the script has ended.
    pub(super) then: Step,
    /// What was to be appended.
    pub(super) appends: Mutex<Vec<EventBatch>>,
    pub(super) conflicts: Arc<AtomicUsize>,
    pub(super) reads: AtomicUsize,
    pub(super) fails_reads: AtomicBool,
    pub(super) let_go: Arc<Semaphore>,
    /// The longest text of an event.
    pub(super) max_text: usize,
    /// A revision that readers are not shown.
    pub(super) hides: Option<u64>,
}

impl Scripted {
    pub(super) fn over(log: MemoryLog, script: impl IntoIterator<Item = Step>) -> Self {
        Self {
            log: Mutex::new(log),
            script: Mutex::new(script.into_iter().collect()),
            then: Step::Slow(3),
            appends: Mutex::default(),
            conflicts: Arc::default(),
            reads: AtomicUsize::new(0),
            fails_reads: AtomicBool::new(false),
            let_go: Arc::new(Semaphore::new(0)),
            max_text: usize::MAX,
            hides: None,
        }
    }

    pub(super) fn new(script: impl IntoIterator<Item = Step>) -> Arc<Self> {
        Arc::new(Self::over(MemoryLog::new(), script))
    }

    pub(super) fn inner(&self) -> MemoryLog {
        self.log.lock().unwrap().clone()
    }

    /// Puts another log in the place of this one, as from a backup.
    pub(super) fn put(&self, log: MemoryLog) {
        *self.log.lock().unwrap() = log;
    }

    pub(super) fn say(&self, steps: impl IntoIterator<Item = Step>) {
        self.script.lock().unwrap().extend(steps);
    }

    /// How many events each append had.
    pub(super) fn sizes(&self) -> Vec<usize> {
        self.appends.lock().unwrap().iter().map(|batch| batch.events().len()).collect()
    }

    pub(super) fn appended(&self) -> usize {
        self.appends.lock().unwrap().len()
    }

    pub(super) fn reads(&self) -> usize {
        self.reads.load(Ordering::SeqCst)
    }
}

async fn step(
    log: MemoryLog,
    step: Step,
    batch: EventBatch,
    let_go: Arc<Semaphore>,
) -> Result<Appended, AppendError> {
    let stream = batch.stream().clone();
    let lost =
        || Err(AppendError::OutcomeUnknown { stream: stream.clone(), source: "lost".into() });
    match step {
        Step::Slow(polls) => {
            for _ in 0..polls {
                tokio::task::yield_now().await;
            }
            log.append(batch).await
        }
        Step::Beaten(message_id) => {
            let others = Owners::<Outbox>::new(Arc::new(log.clone()));
            // It may have been prepared before.
            drop(others.submit(&sender(), prepare(&message_id)).await);
            log.append(batch).await
        }
        Step::Storage => Err(AppendError::Storage { source: "the disk is full".into() }),
        Step::Closed => Err(AppendError::Closed),
        Step::UnknownThere => {
            log.append(batch).await?;
            lost()
        }
        Step::UnknownNotThere => lost(),
        Step::Held => {
            let_go.acquire().await.unwrap().forget();
            log.append(batch).await
        }
        Step::HeldReply => {
            let answer = log.append(batch).await;
            let_go.acquire().await.unwrap().forget();
            answer
        }
        Step::Lie => {
            Err(AppendError::Conflict { stream, expected: batch.expected(), actual: None })
        }
    }
}

impl EventLog for Scripted {
    fn append(&self, batch: EventBatch) -> BoxFuture<'_, Result<Appended, AppendError>> {
        self.appends.lock().unwrap().push(batch.clone());
        let longest = batch.events().iter().find(|event| event.text().len() > self.max_text);
        if let Some(event) = longest {
            let (stream, revision) = (batch.stream().clone(), event.revision());
            let (length, max) = (event.text().len(), self.max_text);
            let error = AppendError::TooLarge { stream, revision, length, max };
            return std::future::ready(Err(error)).boxed();
        }
        let next = self.script.lock().unwrap().pop_front().unwrap_or(self.then.clone());
        let work = step(self.inner(), next, batch, Arc::clone(&self.let_go));
        let conflicts = Arc::clone(&self.conflicts);
        // Under way when this returns, whoever waits for it.
        let work = tokio::spawn(async move {
            let answer = work.await;
            if matches!(answer, Err(AppendError::Conflict { .. })) {
                conflicts.fetch_add(1, Ordering::SeqCst);
            }
            answer
        });
        work.map(|answer| answer.unwrap()).boxed()
    }

    fn read_stream(
        &self,
        stream: &StreamName,
        from: Option<Revision>,
        direction: Direction,
        limit: usize,
    ) -> EventStream<'_> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        if self.fails_reads.load(Ordering::SeqCst) {
            let error = ReadError::Storage { source: "the disk is gone".into() };
            return stream::iter([Err(error)]).boxed();
        }
        let (inner, stream, hidden) = (self.inner(), stream.clone(), self.hides);
        let events = async move {
            let events: Vec<_> = inner.read_stream(&stream, from, direction, limit).collect().await;
            stream::iter(events)
        };
        let is_shown = move |event: &Result<RecordedEvent, ReadError>| {
            let revision = event.as_ref().map(|it| it.event.revision().get());
            std::future::ready(revision.ok() != hidden)
        };
        // Whoever reads waits now and then.
        let pause = async |event| {
            tokio::task::yield_now().await;
            event
        };
        stream::once(events).flatten().filter(is_shown).then(pause).boxed()
    }

    fn read_all(&self, _: Option<Position>, _: Direction, _: usize) -> EventStream<'_> {
        stream::empty().boxed()
    }

    fn head(&self) -> BoxFuture<'_, Result<Option<LogHead>, ReadError>> {
        std::future::ready(Ok(None)).boxed()
    }

    fn subscribe(&self, _: Position) -> EventStream<'static> {
        stream::empty().boxed()
    }
}
