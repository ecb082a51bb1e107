//! Logs for views: generated ones, with what strangers write in between, and moody ones.

use std::{
    collections::BTreeSet,
    sync::{Arc, RwLock},
};

use futures_executor::block_on;
use futures_util::{StreamExt, future::BoxFuture, stream};
use recount::{
    CanonicalJson, EventBatch, EventDraft, EventType, Metadata, Position, Revision, SealedEvent,
    StreamName, ThreadId,
    log::{
        AppendError, Appended, Direction, EventLog, EventStream, LogHead, MemoryLog, ReadError,
        jsonl::JsonlReader,
    },
};
use serde_json::Value;

use crate::generate::Plan;

/// A log, an event a batch, so that any part of it can be appended.
pub(crate) struct World {
    /// As it was generated.
    pub(crate) text: Vec<u8>,
    pub(crate) batches: Vec<EventBatch>,
}

impl World {
    /// A log that keeps every rule.
    pub(crate) fn plain(seed: u64) -> Self {
        Self::new(seed, 1_500, |_, events| events)
    }

    /// The same with events that nobody decided: messages prepared again after their end, of other
    /// outboxes, events of messages that never were, and types that are not known.
    pub(crate) fn with_strangers(seed: u64) -> Self {
        Self::new(seed, 600, |seed, events| {
            let mut all = Vec::new();
            for (index, event) in events.iter().enumerate() {
                all.push(event.clone());
                let number = index as u64 * 7 + seed;
                let is_prepared = &*event.event_type == "delivery.prepared";
                match number % 89 {
                    0 => all.push(other_type(event)),
                    1..=9 if is_prepared => all.push(event.clone()),
                    10..=12 if is_prepared => all.push(of_another_owner(event)),
                    14..=17 if is_prepared => all.push(under_another_id(event)),
                    13 => all.push(unknown_message(event)),
                    _ => {}
                }
                if number.is_multiple_of(31) {
                    // Long after its end, most likely.
                    let old = &events[index / 3];
                    all.extend((&*old.event_type == "delivery.prepared").then(|| old.clone()));
                }
            }
            all
        })
    }

    fn new(seed: u64, events: u64, add: impl Fn(u64, Vec<Happened>) -> Vec<Happened>) -> Self {
        let plan = Plan { events, streams: 30, seed, live: 40, unfinished: 60, ..Plan::default() };
        let mut text = Vec::new();
        plan.write(&mut text).unwrap();
        let events =
            JsonlReader::new(&*text).map(|read| Happened::of(&read.unwrap().event)).collect();
        Self { batches: seal(&add(seed, events)), text }
    }

    pub(crate) fn log(&self) -> Arc<MemoryLog> {
        let log = Arc::new(MemoryLog::new());
        append(&*log, &self.batches);
        log
    }

    /// Whose outboxes there are, in order.
    pub(crate) fn owners(&self) -> Vec<ThreadId> {
        let owner = |batch: &EventBatch| {
            let data: Value = serde_json::from_str(batch.events()[0].data()).unwrap();
            Some(data.get("key")?.get("ownerThreadId")?.as_str()?.to_owned())
        };
        let owners: BTreeSet<_> = self.batches.iter().filter_map(owner).collect();
        owners.into_iter().map(|owner| ThreadId::new(owner).unwrap()).collect()
    }
}

pub(crate) fn append(log: &dyn EventLog, batches: &[EventBatch]) {
    for batch in batches {
        block_on(log.append(batch.clone())).unwrap();
    }
}

/// An event that has no place yet.
#[derive(Clone, Debug)]
pub(crate) struct Happened {
    pub(crate) stream: StreamName,
    pub(crate) event_type: EventType,
    pub(crate) data: Value,
    pub(crate) recorded_at: recount::Instant,
}

impl Happened {
    pub(crate) fn of(event: &SealedEvent) -> Self {
        Self {
            stream: event.stream().clone(),
            event_type: event.event_type().clone(),
            data: serde_json::from_str(event.data()).unwrap(),
            recorded_at: event.recorded_at(),
        }
    }
}

/// Seals events, each behind the one before it in its stream.
pub(crate) fn seal(events: &[Happened]) -> Vec<EventBatch> {
    let mut heads = std::collections::HashMap::new();
    let seal = |event: &Happened| {
        let draft = EventDraft {
            event_type: event.event_type.clone(),
            schema_version: 1,
            data: serde_json::from_str::<CanonicalJson>(&event.data.to_string()).unwrap(),
            metadata: Metadata::default(),
        };
        let head = heads.get(&event.stream).copied();
        let batch =
            EventBatch::seal(event.stream.clone(), head, [draft], event.recorded_at).unwrap();
        heads.insert(event.stream.clone(), batch.head());
        batch
    };
    events.iter().map(seal).collect()
}

/// An event of a type that is not known, behind the last of an outbox.
pub(crate) fn unknown_event_behind(world: &World, owner: &ThreadId) -> EventBatch {
    let stream = StreamName::delivery(owner);
    let last = world.batches.iter().rfind(|batch| *batch.stream() == stream).unwrap();
    let event = other_type(&Happened::of(&last.events()[0]));
    let data = event.data.to_string();
    let draft = EventDraft {
        event_type: event.event_type,
        schema_version: 1,
        data: serde_json::from_str(&data).unwrap(),
        metadata: Metadata::default(),
    };
    EventBatch::seal(stream, Some(last.head()), [draft], event.recorded_at).unwrap()
}

fn other_type(event: &Happened) -> Happened {
    Happened { event_type: EventType::new("delivery.snoozed").unwrap(), ..event.clone() }
}

fn of_another_owner(event: &Happened) -> Happened {
    let mut other = event.clone();
    other.data["messageId"] = "other".into();
    other.data["key"] = serde_json::json!({"messageId": "other", "ownerThreadId": "nobody"});
    other
}

fn under_another_id(event: &Happened) -> Happened {
    let mut other = event.clone();
    other.data["messageId"] = "another".into();
    other
}

fn unknown_message(event: &Happened) -> Happened {
    let data = serde_json::json!({"atMillis": 1, "leaseUntilMillis": 2, "messageId": "never"});
    Happened { event_type: EventType::new("delivery.claimed").unwrap(), data, ..event.clone() }
}

/// A log that lets others go first before each event it gives.
pub(crate) struct Fitful(pub(crate) Arc<MemoryLog>);

fn fitful(events: EventStream<'_>) -> EventStream<'_> {
    let wait = |event| async {
        let mut is_first = true;
        std::future::poll_fn(|_| {
            if std::mem::take(&mut is_first) {
                std::task::Poll::Pending
            } else {
                std::task::Poll::Ready(())
            }
        })
        .await;
        event
    };
    events.then(wait).boxed()
}

impl EventLog for Fitful {
    fn append(&self, batch: EventBatch) -> BoxFuture<'_, Result<Appended, AppendError>> {
        self.0.append(batch)
    }

    fn read_stream(
        &self,
        stream: &StreamName,
        from: Option<Revision>,
        direction: Direction,
        limit: usize,
    ) -> EventStream<'_> {
        fitful(self.0.read_stream(stream, from, direction, limit))
    }

    fn read_all(
        &self,
        from: Option<Position>,
        direction: Direction,
        limit: usize,
    ) -> EventStream<'_> {
        // What a checkpoint is held against comes at once, since nobody polls for it again.
        let events = self.0.read_all(from, direction, limit);
        if limit == 1 { events } else { fitful(events) }
    }

    fn head(&self) -> BoxFuture<'_, Result<Option<LogHead>, ReadError>> {
        self.0.head()
    }

    fn subscribe(&self, from: Position) -> EventStream<'static> {
        self.0.subscribe(from)
    }
}

/// A log in whose place another one is put.
pub(crate) struct Swapped(RwLock<Arc<MemoryLog>>);

impl Swapped {
    pub(crate) fn new(log: Arc<MemoryLog>) -> Self {
        Self(RwLock::new(log))
    }

    pub(crate) fn swap(&self, log: Arc<MemoryLog>) {
        *self.0.write().unwrap() = log;
    }

    fn log(&self) -> Arc<MemoryLog> {
        self.0.read().unwrap().clone()
    }
}

impl EventLog for Swapped {
    fn append(&self, batch: EventBatch) -> BoxFuture<'_, Result<Appended, AppendError>> {
        let log = self.log();
        Box::pin(async move { log.append(batch).await })
    }

    fn read_stream(
        &self,
        stream: &StreamName,
        from: Option<Revision>,
        direction: Direction,
        limit: usize,
    ) -> EventStream<'_> {
        let (log, stream) = (self.log(), stream.clone());
        let read = async move {
            log.read_stream(&stream, from, direction, limit).collect::<Vec<_>>().await
        };
        stream::once(read).flat_map(stream::iter).boxed()
    }

    fn read_all(
        &self,
        from: Option<Position>,
        direction: Direction,
        limit: usize,
    ) -> EventStream<'_> {
        let log = self.log();
        let read = async move { log.read_all(from, direction, limit).collect::<Vec<_>>().await };
        stream::once(read).flat_map(stream::iter).boxed()
    }

    fn head(&self) -> BoxFuture<'_, Result<Option<LogHead>, ReadError>> {
        let log = self.log();
        Box::pin(async move { log.head().await })
    }

    fn subscribe(&self, from: Position) -> EventStream<'static> {
        self.log().subscribe(from)
    }
}
