//! What the events of outboxes fold to: the unfinished messages, and when each is looked at next.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

use hashbrown::HashMap;
use recount_core::{
    Digest, DomainEvent, EventType, Instant, MessageId, Position, RecordedEvent, Revision,
    StreamName, ThreadId,
    delivery::{DeliveryEvent, MessageDeliveryKey, MessageDeliveryRecord, MessageTags, Prepared},
    log::LogHead,
    service::Upcoming,
};
use serde::{Deserialize, Serialize};

/// The state of a [`super::DeliveryView`]: the same events make the same of it, in one pass, in
/// several, and from any checkpoint.
#[derive(Debug, Default)]
pub(super) struct Fold {
    pub(super) log_id: Option<Digest>,
    /// The last event that was folded.
    pub(super) head: Option<LogHead>,
    outboxes: HashMap<StreamName, Held>,
    /// Unfinished messages that move by themselves, in the order in which they are due.
    due: BTreeSet<(Instant, MessageDeliveryKey)>,
    /// Outboxes with an event that is not understood.
    pub(super) aside: BTreeMap<StreamName, SetAside>,
    /// Events that changed nothing, which no writer that keeps the rules writes.
    pub(super) ignored: u64,
}

/// One outbox.
#[derive(Debug)]
struct Held {
    owner: ThreadId,
    unfinished: BTreeMap<MessageId, MessageDeliveryRecord>,
    /// Every message that was ever prepared; a checkpoint leaves it out, since that would grow
    /// with the log. It is read again when a message is prepared.
    prepared: Option<MessageTags>,
}

/// An outbox with an event that is not understood: nothing can be said of it from there on.
///
/// Its messages are not due, as whoever decides on them would not understand the event either.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[error(
    "{stream} is set aside since position {position}, and {later} later events: {event_type} in \
     version {schema_version}, as it is there, is not understood; `recount verify` says why"
)]
pub struct SetAside {
    /// The type of the event that is not understood.
    pub event_type: EventType,
    /// How many events of the outbox came later, and were not applied.
    pub later: u64,
    /// Where the event is.
    pub position: Position,
    /// The version of its data's shape.
    pub schema_version: u32,
    /// The outbox's stream.
    pub stream: String,
}

/// What an event needs before it can be applied: the messages that were prepared in its stream
/// before this revision ([`Fold::remember`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NeedsHistory {
    pub(super) stream: StreamName,
    pub(super) before: Revision,
}

impl Fold {
    /// Applies the event that follows the head.
    pub(super) fn apply(&mut self, recorded: &RecordedEvent) -> Result<(), NeedsHistory> {
        let event = &recorded.event;
        if event.stream().category() == "delivery" {
            self.delivery(recorded)?;
        }
        self.log_id.get_or_insert(event.digest());
        self.head = Some(LogHead { position: recorded.position, digest: event.digest() });
        Ok(())
    }

    fn delivery(&mut self, recorded: &RecordedEvent) -> Result<(), NeedsHistory> {
        let event = &recorded.event;
        if let Some(aside) = self.aside.get_mut(event.stream()) {
            aside.later += 1;
            return Ok(());
        }
        match DomainEvent::decode(event.event_type(), event.schema_version(), event.data()) {
            Ok(DomainEvent::Delivery(DeliveryEvent::Prepared(prepared))) => {
                self.prepare(event.stream(), event.revision(), &prepared)
            }
            Ok(DomainEvent::Delivery(change)) => {
                self.change(event.stream(), &change);
                Ok(())
            }
            Err(_) => {
                self.set_aside(recorded);
                Ok(())
            }
        }
    }

    fn prepare(
        &mut self,
        stream: &StreamName,
        revision: Revision,
        prepared: &Prepared,
    ) -> Result<(), NeedsHistory> {
        if !is_of(prepared, stream) {
            self.ignored += 1;
            return Ok(());
        }
        let owner = &prepared.key.owner_thread_id;
        let outbox = self.outboxes.entry_ref(stream).or_insert_with(|| Held::new(owner.clone()));
        if revision == Revision::ZERO {
            outbox.prepared = Some(MessageTags::default());
        }
        let Some(before) = &mut outbox.prepared else {
            return Err(NeedsHistory { stream: stream.clone(), before: revision });
        };
        if before.contains(&prepared.message_id) {
            self.ignored += 1;
            return Ok(());
        }
        before.insert(&prepared.message_id);
        let record = MessageDeliveryRecord::of(prepared);
        self.due.extend(due(&record));
        outbox.unfinished.insert(prepared.message_id.clone(), record);
        Ok(())
    }

    fn change(&mut self, stream: &StreamName, change: &DeliveryEvent) {
        let mut unfinished = self.outboxes.get_mut(stream).map(|outbox| &mut outbox.unfinished);
        let id = change.message_id();
        let Some(record) = unfinished.as_mut().and_then(|unfinished| unfinished.get_mut(id)) else {
            self.ignored += 1;
            return;
        };
        let before = record.effective_deadline();
        // An unfinished message takes every event but `prepared`.
        record.evolve(change);
        if record.effective_deadline() != before {
            if let Some(before) = before {
                self.due.remove(&(before, record.key.clone()));
            }
            self.due.extend(due(record));
        }
        if record.status.is_finished()
            && let Some(unfinished) = unfinished
        {
            unfinished.remove(id);
        }
    }

    fn set_aside(&mut self, recorded: &RecordedEvent) {
        let RecordedEvent { position, event } = recorded;
        if let Some(outbox) = self.outboxes.remove(event.stream()) {
            for record in outbox.unfinished.values() {
                if let Some(entry) = due(record) {
                    self.due.remove(&entry);
                }
            }
        }
        let aside = SetAside {
            event_type: event.event_type().clone(),
            later: 0,
            position: *position,
            schema_version: event.schema_version(),
            stream: event.stream().to_string(),
        };
        self.aside.insert(event.stream().clone(), aside);
    }

    /// Takes what was asked for with [`NeedsHistory`].
    pub(super) fn remember(&mut self, stream: &StreamName, prepared: MessageTags) {
        if let Some(outbox) = self.outboxes.get_mut(stream) {
            outbox.prepared = Some(prepared);
        }
    }

    /// Puts a message in as a checkpoint has it; `false` where it cannot be there.
    pub(super) fn put(&mut self, record: MessageDeliveryRecord) -> bool {
        let owner = &record.key.owner_thread_id;
        let stream = StreamName::delivery(owner);
        if record.status.is_finished() || self.aside.contains_key(&stream) {
            return false;
        }
        self.due.extend(due(&record));
        let outbox = self.outboxes.entry(stream).or_insert_with(|| Held::new(owner.clone()));
        outbox.unfinished.insert(record.key.message_id.clone(), record).is_none()
    }

    /// The unfinished messages, by owner and id.
    pub(super) fn records(&self) -> impl Iterator<Item = &MessageDeliveryRecord> {
        let mut outboxes: Vec<_> =
            self.outboxes.values().filter(|outbox| !outbox.unfinished.is_empty()).collect();
        outboxes.sort_unstable_by(|left, right| left.owner.cmp(&right.owner));
        outboxes.into_iter().flat_map(|outbox| outbox.unfinished.values())
    }

    /// The unfinished messages of one owner, by id.
    pub(super) fn unfinished<'a>(
        &'a self,
        stream: &StreamName,
    ) -> impl Iterator<Item = &'a MessageDeliveryRecord> + use<'a> {
        self.outboxes.get(stream).into_iter().flat_map(|outbox| outbox.unfinished.values())
    }

    pub(super) fn record(
        &self,
        stream: &StreamName,
        message_id: &MessageId,
    ) -> Option<&MessageDeliveryRecord> {
        self.outboxes.get(stream)?.unfinished.get(message_id)
    }

    /// What is due by now, in order; of one owner only those that it has are looked at.
    pub(super) fn due(
        &self,
        now: Instant,
        limit: usize,
        owner: Option<&ThreadId>,
    ) -> Vec<MessageDeliveryKey> {
        let is_due = |entry: &(Instant, MessageDeliveryKey)| entry.0 <= now;
        match owner {
            None => {
                let entries = self.due.iter().take_while(|entry| is_due(entry)).take(limit);
                entries.map(|(_, key)| key.clone()).collect()
            }
            Some(owner) => {
                let records = self.unfinished(&StreamName::delivery(owner));
                let mut entries: Vec<_> = records.filter_map(due).filter(is_due).collect();
                entries.sort_unstable();
                entries.truncate(limit);
                entries.into_iter().map(|(_, key)| key).collect()
            }
        }
    }

    /// What is due, now or later, from behind a place on.
    pub(super) fn upcoming(
        &self,
        after: Option<&(Instant, MessageDeliveryKey)>,
        limit: usize,
    ) -> Upcoming<MessageDeliveryKey> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.due.range((from, Bound::Unbounded)).take(limit).cloned().collect()
    }

    /// When the first message is due, of one owner or of all.
    pub(super) fn next_deadline(&self, owner: Option<&ThreadId>) -> Option<Instant> {
        match owner {
            None => self.due.first().map(|(at, _)| *at),
            Some(owner) => {
                let records = self.unfinished(&StreamName::delivery(owner));
                records.filter_map(MessageDeliveryRecord::effective_deadline).min()
            }
        }
    }
}

impl Held {
    fn new(owner: ThreadId) -> Self {
        Self { owner, unfinished: BTreeMap::new(), prepared: None }
    }
}

/// Whether a message is prepared in its own outbox, under its own id.
pub(super) fn is_of(prepared: &Prepared, stream: &StreamName) -> bool {
    prepared.message_id == prepared.key.message_id
        && StreamName::delivery(&prepared.key.owner_thread_id) == *stream
}

fn due(record: &MessageDeliveryRecord) -> Option<(Instant, MessageDeliveryKey)> {
    record.effective_deadline().map(|at| (at, record.key.clone()))
}
