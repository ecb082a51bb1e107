//! All messages of a source thread, which share a stream.

use hashbrown::{HashMap, hash_map::Entry};

use super::{
    Conflict, DeliveryError, DeliveryEvent, Evolved, Ignored, MessageDeliveryCommand,
    MessageDeliveryRecord, MessageDeliveryStatus, MessageTags, OutboxLimits, PrepareMessage,
    Prepared,
};
use crate::{Illegal, Instant, Invariant, Legal, MessageId, StreamName, ThreadId, Unchecked};

/// All messages of a source thread.
///
/// Insertion, capacity and the rule of the predecessor are decided here, over the records of the
/// messages. Nothing is ever deleted; [`Outbox::forget`] only drops a finished record from memory
/// and keeps what the rules need of it.
///
/// # Examples
///
/// ```
/// use recount_core::{ThreadId, delivery::{Outbox, OutboxCommand, OutboxLimits}};
/// # use recount_core::doc::message;
///
/// let mut outbox = Outbox::new(ThreadId::new("sender")?);
/// let limits = OutboxLimits::default();
/// let prepare = OutboxCommand::Prepare { message: Box::new(message("m-1")), limits };
///
/// let event = outbox.decide(&prepare)?.expect("the message is new");
/// outbox.evolve(&event);
/// assert_eq!(outbox.record("m-1").unwrap().version, 1);
/// assert_eq!(outbox.decide(&prepare)?, None, "a repeat changes nothing");
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outbox {
    owner: ThreadId,
    messages: HashMap<MessageId, Kept>,
    forgotten: MessageTags,
    counts: OutboxCounts,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kept {
    Record(Box<MessageDeliveryRecord>),
    SetAside,
}

/// All that an event of one message can change in an outbox, as it was at some time.
#[derive(Clone, Debug)]
pub struct SavedMessage {
    message_id: MessageId,
    entry: Option<Kept>,
    counts: OutboxCounts,
}

/// A wish about an outbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutboxCommand {
    /// Freeze a message and put it into the outbox.
    Prepare {
        /// The message.
        message: Box<PrepareMessage>,
        /// How much the outbox may hold.
        limits: OutboxLimits,
    },
    /// Change a message.
    Change {
        /// Which message.
        message_id: MessageId,
        /// How.
        command: MessageDeliveryCommand,
    },
}

/// What came of an event that was applied.
#[derive(Clone, Copy, Debug)]
pub struct Followed<'a> {
    /// The message's record after it.
    pub record: &'a MessageDeliveryRecord,
    /// Whether a lease was held before it.
    pub was_leased: bool,
    /// The end of a lease that nothing was heard of, which the event shows (D12).
    pub lost_attempt: Option<Instant>,
}

/// How many messages an outbox holds; worker updates are counted apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutboxCounts {
    /// Ordinary messages that are neither processed nor refused.
    pub pending: u64,
    /// Worker updates that are neither processed nor refused.
    pub pending_updates: u64,
    /// Ordinary messages in all.
    pub retained: u64,
    /// Worker updates in all.
    pub retained_updates: u64,
}

impl OutboxCounts {
    fn of(&mut self, is_update: bool) -> (&mut u64, &mut u64) {
        if is_update {
            (&mut self.pending_updates, &mut self.retained_updates)
        } else {
            (&mut self.pending, &mut self.retained)
        }
    }

    /// Whether one more message has a place.
    fn check_place(mut self, is_update: bool, limits: &OutboxLimits) -> Result<(), DeliveryError> {
        let (pending, retained) = self.of(is_update);
        let checks = if is_update {
            [
                ("pending worker updates", *pending, limits.max_pending_updates_per_owner),
                ("worker updates", *retained, limits.max_retained_updates_per_owner),
            ]
        } else {
            [
                ("pending messages", *pending, limits.max_pending_per_owner),
                ("messages", *retained, limits.max_retained_per_owner),
            ]
        };
        match checks.into_iter().find(|(_, held, limit)| held >= limit) {
            None => Ok(()),
            Some((kind, held, limit)) => Err(DeliveryError::Capacity { kind, held, limit }),
        }
    }
}

impl Outbox {
    /// An outbox without messages.
    pub fn new(owner: ThreadId) -> Self {
        Self {
            owner,
            messages: HashMap::new(),
            forgotten: MessageTags::default(),
            counts: OutboxCounts::default(),
        }
    }

    /// The source thread.
    pub fn owner(&self) -> &ThreadId {
        &self.owner
    }

    /// How many messages there are, the forgotten ones included.
    pub fn counts(&self) -> OutboxCounts {
        self.counts
    }

    /// A message that is in memory.
    pub fn record(&self, message_id: &str) -> Option<&MessageDeliveryRecord> {
        match self.messages.get(message_id) {
            Some(Kept::Record(record)) => Some(record),
            Some(Kept::SetAside) | None => None,
        }
    }

    /// The messages that are in memory, in no order.
    pub fn records(&self) -> impl Iterator<Item = &MessageDeliveryRecord> {
        self.messages.values().filter_map(|entry| match entry {
            Kept::Record(record) => Some(&**record),
            Kept::SetAside => None,
        })
    }

    /// Decides what happens when something is wished; `None` where a repeat changes nothing.
    ///
    /// # Errors
    ///
    /// [`DeliveryError`]: the message's own rules, another message under the same id, no place
    /// left, or a claim before the predecessor's admission is known.
    pub fn decide(&self, command: &OutboxCommand) -> Result<Option<DeliveryEvent>, DeliveryError> {
        match command {
            OutboxCommand::Prepare { message, limits } => self.prepare(message, limits),
            OutboxCommand::Change { message_id, command } => {
                let Some(record) = self.record(message_id) else {
                    let message_id = message_id.clone();
                    return Err(DeliveryError::NotFound { message_id });
                };
                let event = record.decide(command)?;
                match self.waits_for(record, &event) {
                    Some((predecessor, _)) => Err(DeliveryError::Conflict {
                        change: command.change.tag(),
                        why: Conflict::Predecessor { predecessor: predecessor.clone() },
                    }),
                    None => Ok(Some(event)),
                }
            }
        }
    }

    fn prepare(
        &self,
        message: &PrepareMessage,
        limits: &OutboxLimits,
    ) -> Result<Option<DeliveryEvent>, DeliveryError> {
        if !limits.is_valid() {
            return Err(DeliveryError::Limits);
        }
        if message.key.owner_thread_id != self.owner {
            return Err(DeliveryError::OtherOutbox {
                expected: self.owner.clone(),
                found: message.key.owner_thread_id.clone(),
            });
        }
        let event = message.decide(limits)?;
        let id = &message.key.message_id;
        match self.messages.get(&**id) {
            Some(Kept::Record(record)) if is_same(record, &event) => return Ok(None),
            None if self.forgotten.contains(id) => {
                return Err(DeliveryError::Forgotten { message_id: id.clone() });
            }
            None => {}
            _ => {
                return Err(DeliveryError::OtherIdentity { message_id: id.clone() });
            }
        }
        limits.check_envelope(&event.envelope)?;
        self.counts.check_place(event.envelope.is_worker_update(), limits)?;
        Ok(Some(event.into()))
    }

    /// The predecessor that an event should have waited for, and whether it was set aside.
    fn waits_for<'a>(
        &self,
        record: &'a MessageDeliveryRecord,
        event: &DeliveryEvent,
    ) -> Option<(&'a MessageId, bool)> {
        let is_claim = matches!(event, DeliveryEvent::Claimed(_))
            && record.status == MessageDeliveryStatus::Pending;
        let predecessor = record.predecessor.as_ref().filter(|_| is_claim)?;
        let (is_known, is_aside) = match self.messages.get(&**predecessor) {
            Some(Kept::Record(record)) => (record.is_admission_known(), false),
            Some(Kept::SetAside) => (false, true),
            None => (self.forgotten.contains(predecessor), false),
        };
        (!is_known).then_some((predecessor, is_aside))
    }

    /// Applies an event of this outbox; it never fails.
    pub fn evolve(&mut self, event: &DeliveryEvent) -> Evolved {
        match self.follow(event) {
            Ok(_) => Evolved::Applied,
            Err(why) => Evolved::Ignored(why),
        }
    }

    /// Applies an event of this outbox, and shows what came of it.
    ///
    /// # Errors
    ///
    /// [`Ignored`] where it changed nothing.
    pub fn follow(&mut self, event: &DeliveryEvent) -> Result<Followed<'_>, Ignored> {
        if let DeliveryEvent::Prepared(prepared) = event {
            return self.begin(prepared);
        }
        let id = event.message_id();
        let record = match self.messages.get_mut(&**id) {
            Some(Kept::Record(record)) => record,
            Some(Kept::SetAside) => return Err(Ignored::SetAside),
            None if self.forgotten.contains(id) => return Err(Ignored::Finished),
            None => return Err(Ignored::Unknown),
        };
        let was_leased = record.lease_until_millis.is_some();
        let lost_attempt = record.lost_attempt(event);
        if let Evolved::Ignored(why) = record.evolve(event) {
            return Err(why);
        }
        if record.status.is_finished() {
            let (pending, _) = self.counts.of(record.envelope.is_worker_update());
            *pending = pending.saturating_sub(1);
        }
        Ok(Followed { record, was_leased, lost_attempt })
    }

    fn begin(&mut self, prepared: &Prepared) -> Result<Followed<'_>, Ignored> {
        let place = match self.messages.entry(prepared.message_id.clone()) {
            Entry::Vacant(place) => place,
            Entry::Occupied(entry) => {
                return Err(match entry.get() {
                    Kept::Record(_) => Ignored::Repeated,
                    Kept::SetAside => Ignored::SetAside,
                });
            }
        };
        if self.forgotten.contains(place.key()) {
            return Err(Ignored::Repeated);
        }
        let (pending, retained) = self.counts.of(prepared.envelope.is_worker_update());
        *pending += 1;
        *retained += 1;
        match place.insert(Kept::Record(Box::new(MessageDeliveryRecord::of(prepared)))) {
            Kept::Record(record) => Ok(Followed { record, was_leased: false, lost_attempt: None }),
            Kept::SetAside => Err(Ignored::SetAside),
        }
    }

    /// Whether `decide` could have answered with this event here.
    ///
    /// `limits` stand in for those that a `prepared` recorded. The content of a `prepared` is not
    /// looked at: [`Prepared::check_content`] does that, which needs no state.
    pub fn legal(&self, event: &DeliveryEvent, limits: Option<&OutboxLimits>) -> Legal {
        let id = event.message_id();
        match (self.messages.get(&**id), event) {
            (Some(Kept::SetAside), _) => Legal::Unchecked(Unchecked::SetAside),
            (Some(Kept::Record(record)), event) => match record.legal(event) {
                Legal::Ok => self.legal_order(record, event),
                other => other,
            },
            (None, DeliveryEvent::Prepared(_)) if self.forgotten.contains(id) => {
                Legal::violation(Invariant::D1, "the message was prepared before")
            }
            (None, event) if self.forgotten.contains(id) => {
                let why = format!("{} after processed or refused", event.event_type());
                Legal::violation(Invariant::D8, why)
            }
            (None, DeliveryEvent::Prepared(prepared)) => {
                self.legal_prepare(prepared, limits.unwrap_or(&prepared.limits))
            }
            (None, event) => {
                let why = format!("{} of a message that was never prepared", event.event_type());
                Legal::violation(Invariant::D1, why)
            }
        }
    }

    fn legal_order(&self, record: &MessageDeliveryRecord, event: &DeliveryEvent) -> Legal {
        match self.waits_for(record, event) {
            None => Legal::Ok,
            Some((_, true)) => Legal::Unchecked(Unchecked::Predecessor),
            Some((predecessor, false)) => Legal::violation(
                Invariant::D9,
                format!("claimed before its predecessor {predecessor:?} was admitted or refused"),
            ),
        }
    }

    fn legal_prepare(&self, prepared: &Prepared, limits: &OutboxLimits) -> Legal {
        if prepared.key.owner_thread_id != self.owner {
            let found = StreamName::delivery(&prepared.key.owner_thread_id);
            let why = format!("the key's owner has the stream {found}");
            return Legal::violation(Invariant::L8, why);
        }
        if let Err(illegal) = prepared.check_alone() {
            return Legal::Violation(illegal);
        }
        match self.counts.check_place(prepared.envelope.is_worker_update(), limits) {
            Ok(()) => Legal::Ok,
            Err(_) if self.has_set_aside() => Legal::Unchecked(Unchecked::Counts),
            Err(error) => {
                Legal::Violation(Illegal { invariant: Invariant::D10, why: error.to_string() })
            }
        }
    }

    fn has_set_aside(&self) -> bool {
        self.messages.values().any(|entry| matches!(entry, Kept::SetAside))
    }

    /// Drops a finished message from memory and returns it.
    ///
    /// Its places stay taken, its id stays known, and so does its admission.
    ///
    /// # Examples
    ///
    /// ```
    /// use recount_core::delivery::{Evolved, Ignored, MessageDeliveryStatus, Outbox, OutboxLimits, Refused};
    /// use recount_core::{RefusalCode, ThreadId};
    /// # use recount_core::doc::message;
    ///
    /// let mut outbox = Outbox::new(ThreadId::new("sender")?);
    /// let prepared = message("m-1").decide(&OutboxLimits::default())?;
    /// let (at_millis, message_id) = (prepared.at_millis, prepared.message_id.clone());
    /// let code = RefusalCode::new("unwanted")?;
    /// outbox.evolve(&prepared.into());
    /// assert_eq!(outbox.forget("m-1"), None, "it is not finished");
    ///
    /// let refused = Refused { at_millis, code, diagnostic: None, message_id }.into();
    /// outbox.evolve(&refused);
    /// let record = outbox.forget("m-1").expect("it is refused");
    /// assert_eq!(record.status, MessageDeliveryStatus::Refused);
    /// assert_eq!(outbox.counts().retained, 1);
    /// assert_eq!(outbox.evolve(&refused), Evolved::Ignored(Ignored::Finished));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn forget(&mut self, message_id: &str) -> Option<MessageDeliveryRecord> {
        self.record(message_id).filter(|record| record.status.is_finished())?;
        let Some(Kept::Record(record)) = self.messages.remove(message_id) else {
            return None;
        };
        self.forgotten.insert(message_id);
        if self.messages.is_empty() {
            // An outbox that is done keeps no room for what it once had.
            self.messages = HashMap::new();
        }
        Some(*record)
    }

    /// Keeps what an event of a message can change, so that the event can be taken back.
    ///
    /// # Examples
    ///
    /// ```
    /// use recount_core::{ThreadId, delivery::{DeliveryEvent, Outbox, OutboxLimits}};
    /// # use recount_core::doc::message;
    ///
    /// let mut outbox = Outbox::new(ThreadId::new("sender")?);
    /// let before = outbox.clone();
    /// let prepared: DeliveryEvent = message("m-1").decide(&OutboxLimits::default())?.into();
    /// let saved = outbox.saved(prepared.message_id());
    /// outbox.evolve(&prepared);
    /// assert_ne!(outbox, before);
    /// outbox.put_back(saved);
    /// assert_eq!(outbox, before);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn saved(&self, message_id: &MessageId) -> SavedMessage {
        SavedMessage {
            message_id: message_id.clone(),
            entry: self.messages.get(message_id).cloned(),
            counts: self.counts,
        }
    }

    /// Takes back the one event that was applied since [`Outbox::saved`].
    ///
    /// Where several were, what was saved last is put back first.
    pub fn put_back(&mut self, saved: SavedMessage) {
        let SavedMessage { message_id, entry, counts } = saved;
        match entry {
            Some(entry) => self.messages.insert(message_id, entry),
            None => self.messages.remove(&message_id),
        };
        self.counts = counts;
    }

    /// Whether a message broke a rule before and is not followed any more.
    pub fn is_set_aside(&self, message_id: &str) -> bool {
        matches!(self.messages.get(message_id), Some(Kept::SetAside))
    }

    /// Stops following a message that broke a rule; its events change nothing from now on.
    ///
    /// # Examples
    ///
    /// ```
    /// use recount_core::delivery::{Outbox, OutboxLimits};
    /// use recount_core::{Legal, ThreadId, Unchecked};
    /// # use recount_core::doc::message;
    ///
    /// let mut outbox = Outbox::new(ThreadId::new("sender")?);
    /// let prepared = message("m-1").decide(&OutboxLimits::default())?.into();
    /// outbox.evolve(&prepared);
    /// outbox.set_aside(prepared.message_id());
    /// assert_eq!(outbox.legal(&prepared, None), Legal::Unchecked(Unchecked::SetAside));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_aside(&mut self, message_id: &MessageId) {
        self.messages.insert(message_id.clone(), Kept::SetAside);
    }
}

/// Whether a repeat is of the same message: all that does not change is the same.
fn is_same(record: &MessageDeliveryRecord, prepared: &Prepared) -> bool {
    record.key == prepared.key
        && *record.envelope == prepared.envelope
        && record.predecessor == prepared.predecessor
        && record.policy == prepared.policy
        && record.created_at_millis == prepared.created_at_millis
        && record.initial_deadline_at_millis == prepared.deadline_at_millis
}
