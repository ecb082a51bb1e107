//! That the suite sees what it is there to see.

use std::{
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex},
};

use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream};

use super::*;
use crate::{
    Revision, SealedEvent, StreamName,
    log::{AppendError, MemoryLog, ReadError},
};

/// What a log does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    ForgetsRepeats,
    AnswersRepeatsWithTheHead,
    Withdraws,
    AppendsPartly,
    DecidesByRevision,
    IgnoresLimits,
    SkipsInSubscriptions,
    RepeatsInSubscriptions,
    Outlives,
}

struct Faulty {
    log: MemoryLog,
    fault: Fault,
    seen: Mutex<Vec<EventBatch>>,
}

impl Faulty {
    fn open(fault: Fault) -> Arc<dyn EventLog> {
        let log = MemoryLog::new();
        Arc::new(Self { log, fault, seen: Mutex::default() })
    }

    async fn append_wrongly(&self, batch: EventBatch) -> Result<Appended, AppendError> {
        let is_repeat = self.seen.lock().unwrap().contains(&batch);
        let stream = batch.stream().clone();
        let last = self.log.read_stream(&stream, None, Direction::Backward, 1).next().await;
        let actual = last.map(|last| last.unwrap().event.head());
        match self.fault {
            Fault::ForgetsRepeats if is_repeat => {
                let expected = batch.expected();
                return Err(AppendError::Conflict { stream, expected, actual });
            }
            Fault::AnswersRepeatsWithTheHead if is_repeat => {
                let appended = self.log.append(batch).await?;
                return Ok(Appended { head: actual.unwrap(), ..appended });
            }
            Fault::AppendsPartly if batch.events().len() > 1 => {
                let tags: Vec<_> = batch.events().iter().map(tag).collect();
                let first = super::batch(&stream, batch.expected(), &tags[..1]);
                let rest = super::batch(&stream, Some(first.head()), &tags[1..]);
                let first_position = match self.log.append(first).await? {
                    // Only a new batch, or one that is there in full.
                    appended if is_repeat || actual == batch.expected() => appended.first_position,
                    _ => return self.log.append(batch).await,
                };
                let head = self.log.append(rest).await?.head;
                return Ok(Appended { head, first_position });
            }
            // Decides by the revision alone, and seals again to what is there.
            Fault::DecidesByRevision
                if actual != batch.expected()
                    && actual.map(|it| it.revision) == batch.expected().map(|it| it.revision) =>
            {
                let tags: Vec<_> = batch.events().iter().map(tag).collect();
                return self.log.append(super::batch(&stream, actual, &tags)).await;
            }
            _ => {}
        }
        let appended = self.log.append(batch.clone()).await;
        if appended.is_ok() {
            self.seen.lock().unwrap().push(batch);
        }
        appended
    }
}

fn tag(event: &SealedEvent) -> &str {
    event.data().trim_start_matches("{\"tag\":\"").trim_end_matches("\"}")
}

impl EventLog for Faulty {
    fn append(&self, batch: EventBatch) -> BoxFuture<'_, Result<Appended, AppendError>> {
        let mut append = self.append_wrongly(batch).boxed();
        if self.fault == Fault::Withdraws {
            return append;
        }
        match append.as_mut().now_or_never() {
            Some(answer) => std::future::ready(answer).boxed(),
            None => append,
        }
    }

    fn read_stream(
        &self,
        stream: &StreamName,
        from: Option<Revision>,
        direction: Direction,
        limit: usize,
    ) -> EventStream<'_> {
        self.log.read_stream(stream, from, direction, limit)
    }

    fn read_all(
        &self,
        from: Option<Position>,
        direction: Direction,
        limit: usize,
    ) -> EventStream<'_> {
        let limit = if self.fault == Fault::IgnoresLimits { limit.max(4) } else { limit };
        self.log.read_all(from, direction, limit)
    }

    fn head(&self) -> BoxFuture<'_, Result<Option<LogHead>, ReadError>> {
        self.log.head()
    }

    fn subscribe(&self, from: Position) -> EventStream<'static> {
        let (events, fault) = (self.log.subscribe(from), self.fault);
        let kept = (fault == Fault::Outlives).then(|| self.log.clone());
        let events = events.flat_map(move |event| {
            let _ = &kept;
            let position = event.as_ref().unwrap().position.get();
            let times = match fault {
                Fault::SkipsInSubscriptions if position == 777 => 0,
                Fault::RepeatsInSubscriptions if position == 777 => 2,
                _ => 1,
            };
            stream::iter(
                (0..times).map(|_| Ok(event.as_ref().unwrap().clone())).collect::<Vec<_>>(),
            )
        });
        events.boxed()
    }
}

/// On a clock that goes on by itself where all wait, so that nothing is waited for.
#[tokio::test(start_paused = true)]
async fn a_log_that_does_wrong_fails_the_suite() {
    for (fault, expected) in [
        (Fault::ForgetsRepeats, "a repeat must be recognised, not refused"),
        (Fault::AnswersRepeatsWithTheHead, "a repeat is answered as the first time"),
        (Fault::Withdraws, "an event whose append was dropped did not come within"),
        (Fault::AppendsPartly, "a batch with one row that is too large: nothing may be appended"),
        (Fault::DecidesByRevision, "another digest must be a conflict"),
        (Fault::IgnoresLimits, "the log from None, Forward, at most 0"),
        (Fault::SkipsInSubscriptions, "event 777 of a subscription from 0 is another"),
        (Fault::RepeatsInSubscriptions, "event 778 of a subscription from 0 is another"),
        (Fault::Outlives, "the end of a dropped log's subscription did not come within"),
    ] {
        let suite = run_all(async || Faulty::open(fault));
        let panic = AssertUnwindSafe(suite).catch_unwind().await;
        let panic = panic.expect_err("a log that does wrong must fail the suite");
        let message = panic.downcast_ref::<String>().map_or("", String::as_str);
        assert!(message.contains(expected), "{fault:?} was found by {message:?}");
    }
}
