//! Messages on their way, one event at a time.

use std::{
    collections::{BTreeMap, HashMap},
    io::{self, Write},
};

use recount_core::{
    DomainEvent, EventBatch, EventDraft, Instant, MessageId, Metadata, Position, StreamHead,
    StreamName,
    delivery::{
        DeliveryEvent, MessageDeliveryChange, MessageDeliveryCommand, MessageDeliveryKey,
        MessageDeliveryPolicy, MessageDeliveryRecord, MessageDeliveryStatus, Outbox, OutboxCommand,
        OutboxLimits, ParkReason, PrepareMessage,
    },
    write_row,
};

use super::{
    Plan, Written, content,
    random::Random,
    script::{Script, Step},
};

/// 2026-01-05T08:00:00Z.
const START: u64 = 1_767_600_000_000;
/// From creation or recovery to the deadline: longer than any script takes.
const DEADLINE: u64 = 6 * 3_600_000;
/// The same for a message that is to be parked at its deadline.
const SHORT_DEADLINE: u64 = 180_000;
/// Events of a script on average, which only sets how many messages an outbox gets.
const EVENTS_PER_MESSAGE: u64 = 8;
/// How much of the limits an outbox may use: a message that stays unfinished finds a place.
const MAX_MESSAGES: u64 = 900;

pub(super) struct Generator<W> {
    plan: Plan,
    limits: OutboxLimits,
    random: Random,
    out: W,
    row: Vec<u8>,
    now: u64,
    events: u64,
    /// Events that the work under way will still have.
    owed: u64,
    /// Messages that were begun to be left unfinished.
    left: u64,
    streams: HashMap<u64, Stream>,
    /// The streams that take new messages.
    open: Vec<u64>,
    /// Messages that the open streams will still have.
    promised: u64,
    /// What is to be done, by when it is due and in which order it came.
    work: BTreeMap<(u64, u64), Work>,
    sequence: u64,
    written: Written,
}

/// An outbox with unfinished work, or one that takes more.
struct Stream {
    name: StreamName,
    outbox: Outbox,
    head: Option<StreamHead>,
    /// How many messages it will still have.
    quota: u64,
    /// How many of its messages have steps left.
    under_way: u64,
    /// The last message that will finish.
    last: Option<MessageId>,
}

/// A message with steps left.
struct Work {
    stream: u64,
    message_id: MessageId,
    steps: Vec<Step>,
}

impl<W: Write> Generator<W> {
    pub(super) fn new(plan: Plan, out: W) -> Self {
        let defaults = OutboxLimits::default();
        let limits = if plan.is_one_stream {
            OutboxLimits {
                max_pending_per_owner: 1_000_000,
                max_pending_updates_per_owner: 1_000_000,
                max_retained_per_owner: 1_000_000_000,
                max_retained_updates_per_owner: 1_000_000_000,
                ..defaults
            }
        } else {
            defaults
        };
        let streams = if plan.is_one_stream { 1 } else { plan.streams.max(1) };
        Self {
            plan: Plan {
                streams,
                live: plan.live.clamp(1, 4_000),
                unfinished: plan.unfinished.min(plan.events / Script::MAX_EVENTS),
                ..plan
            },
            limits,
            random: Random::new(plan.seed),
            out,
            row: Vec::new(),
            now: START,
            events: 0,
            owed: 0,
            left: 0,
            streams: HashMap::new(),
            open: Vec::new(),
            promised: 0,
            work: BTreeMap::new(),
            sequence: 0,
            written: Written::default(),
        }
    }

    pub(super) fn run(mut self) -> io::Result<Written> {
        while self.events < self.plan.events {
            self.advance()?;
        }
        self.out.flush()?;
        Ok(self.written)
    }

    /// Begins a message, or does what is due first.
    fn advance(&mut self) -> io::Result<()> {
        let free = self.plan.events - self.events - self.owed;
        let under_way = u64::try_from(self.work.len()).expect("a length is a u64");
        let is_idle = self.work.first_key_value().is_none_or(|((due, _), _)| *due > self.now);
        if free > 0 && under_way < self.plan.live && (is_idle || self.random.in_thousand(500)) {
            self.prepare(free)
        } else {
            self.step()
        }
    }

    fn prepare(&mut self, free: u64) -> io::Result<()> {
        let stays = self.stays_unfinished(free);
        let script = self.script(free, stays);
        let id = self.stream();
        let message_id = content::message_id(self.written.messages, &mut self.random);
        let is_update = self.random.in_thousand(80);
        let envelope = content::envelope(&message_id, is_update, &mut self.random);
        self.tick(0);
        let is_short = script.steps.contains(&Step::ClaimLate);
        let life = if is_short { SHORT_DEADLINE } else { DEADLINE };
        let stream = self.streams.get_mut(&id).expect("an open stream is kept");
        let message = PrepareMessage {
            key: MessageDeliveryKey {
                owner_thread_id: stream.outbox.owner().clone(),
                message_id: message_id.clone(),
            },
            envelope,
            created_at_millis: instant(self.now),
            deadline_at_millis: instant(self.now + life),
            policy: MessageDeliveryPolicy::default(),
            predecessor: stream.last.clone().filter(|_| script.waits),
        };
        stream.quota -= 1;
        stream.under_way += 1;
        if !stays {
            stream.last = Some(message_id.clone());
        }
        self.promised -= 1;
        self.left += u64::from(stays);
        self.written.messages += 1;
        self.written.unfinished += 1;
        self.owed += script.events();
        let wish = OutboxCommand::Prepare { message: Box::new(message), limits: self.limits };
        self.append(id, &wish)?;
        self.schedule(Work { stream: id, message_id, steps: script.steps });
        Ok(())
    }

    /// Whether the next message is to stay unfinished: they are spread over the whole log.
    fn stays_unfinished(&self, free: u64) -> bool {
        let planned = (self.plan.events - free + Script::MAX_EVENTS).min(self.plan.events);
        let wanted = u128::from(self.plan.unfinished) * u128::from(planned);
        u128::from(self.left) * u128::from(self.plan.events) < wanted
    }

    /// A script that leaves no rest too short for one more.
    fn script(&mut self, free: u64, stays: bool) -> Script {
        if free > Script::MAX_EVENTS {
            let script = if stays {
                Script::unfinished(&mut self.random)
            } else {
                Script::finished(&mut self.random)
            };
            if free - script.events() >= 3 {
                return script;
            }
        }
        Script::filling(free.min(Script::MAX_EVENTS), !stays)
    }

    /// An outbox that has place for one more message.
    fn stream(&mut self) -> u64 {
        loop {
            let most = (self.plan.live / 4).max(1);
            let is_new = self.written.streams < self.plan.streams
                && u64::try_from(self.open.len()).is_ok_and(|open| open < most);
            if is_new || self.open.is_empty() {
                self.open_stream();
            }
            let length = u64::try_from(self.open.len()).expect("a length is a u64");
            let index = usize::try_from(self.random.below(length)).expect("an index is a usize");
            let id = self.open[index];
            let stream = &self.streams[&id];
            if stream.quota > 0 && has_place(&stream.outbox, &self.limits) {
                return id;
            }
            self.promised -= stream.quota;
            self.open.swap_remove(index);
            self.drop_if_done(id);
        }
    }

    fn open_stream(&mut self) {
        let id = self.written.streams;
        self.written.streams += 1;
        let owner = content::owner(id, &mut self.random);
        let quota = self.quota();
        self.promised += quota;
        let stream = Stream {
            name: StreamName::delivery(&owner),
            outbox: Outbox::new(owner),
            head: None,
            quota,
            under_way: 0,
            last: None,
        };
        self.streams.insert(id, stream);
        self.open.push(id);
    }

    /// How many messages a new outbox gets: most a few, one in twenty many.
    fn quota(&mut self) -> u64 {
        if self.plan.is_one_stream {
            return u64::MAX;
        }
        let events = self.plan.events - self.events - self.owed;
        let messages = (events / EVENTS_PER_MESSAGE).saturating_sub(self.promised);
        let streams = (self.plan.streams + 1).saturating_sub(self.written.streams);
        let mean = messages / streams.max(1) + 1;
        let quota = if self.random.in_thousand(50) {
            mean * self.random.between(5, 15)
        } else {
            self.random.between(1, mean)
        };
        quota.clamp(1, MAX_MESSAGES)
    }

    fn step(&mut self) -> io::Result<()> {
        let ((due, _), mut work) = self.work.pop_first().expect("what is owed is under way");
        let step = *work.steps.last().expect("work has steps left");
        let record = self.record(&work);
        if step == Step::Claim && is_behind(record, &self.streams[&work.stream].outbox) {
            // A driver may look seldom: each look would be a deferral.
            self.insert(due + record.policy.settlement_poll_millis, work);
            return Ok(());
        }
        let (version, thread_id) = (record.version, record.envelope.thread_id.clone());
        let receipt = record.receipt.clone();
        self.tick(due);
        let now = instant(self.now);
        let random = &mut self.random;
        let change = match step {
            Step::Claim | Step::ClaimLate => MessageDeliveryChange::Claim,
            Step::Accept => {
                MessageDeliveryChange::Accept { receipt: content::receipt(&thread_id, random) }
            }
            Step::Observe => MessageDeliveryChange::ObservePending,
            Step::Process => {
                let receipt = receipt.expect("it was accepted");
                let settlement = Box::new(content::settlement(&receipt, now, random));
                MessageDeliveryChange::Process { settlement }
            }
            Step::Refuse => MessageDeliveryChange::Refuse {
                code: random.pick(&["closed", "not-allowed"]).parse().expect("a code"),
                diagnostic: random.in_thousand(300).then(|| Box::new(content::diagnostic(random))),
            },
            Step::Retry => MessageDeliveryChange::Retry {
                reason: content::retry_reason(random),
                diagnostic: random.in_thousand(600).then(|| Box::new(content::diagnostic(random))),
            },
            Step::Park => MessageDeliveryChange::Park {
                reason: ParkReason::StatusUnavailable,
                diagnostic: None,
            },
            Step::Recover => {
                MessageDeliveryChange::Recover { deadline_at_millis: now.saturating_add(DEADLINE) }
            }
            Step::Defer => MessageDeliveryChange::Defer {
                until_millis: now
                    .saturating_add(MessageDeliveryPolicy::default().settlement_poll_millis),
            },
        };
        let command = MessageDeliveryCommand { expected_version: version, now_millis: now, change };
        let message_id = work.message_id.clone();
        self.append(work.stream, &OutboxCommand::Change { message_id, command })?;
        work.steps.pop();
        self.schedule(work);
        Ok(())
    }

    /// Decides, folds, seals and writes one event.
    fn append(&mut self, id: u64, wish: &OutboxCommand) -> io::Result<()> {
        let stream = self.streams.get_mut(&id).expect("a stream with work is kept");
        let event = match stream.outbox.decide(wish) {
            Ok(Some(event)) => event,
            denied => panic!("the generator wishes what is granted: {denied:?} for {wish:?}"),
        };
        let before = stream.outbox.record(event.message_id());
        let is_lost = before.is_some_and(|record| record.lost_attempt(&event).is_some());
        stream.outbox.evolve(&event);
        if stream.outbox.forget(event.message_id()).is_some() {
            self.written.unfinished -= 1;
        }
        let metadata = metadata(&event);
        let draft = EventDraft::of(&DomainEvent::Delivery(event), metadata);
        let batch = EventBatch::seal(stream.name.clone(), stream.head, [draft], instant(self.now))
            .expect("one event of our time");
        stream.head = Some(batch.head());
        let position = Position::new(self.events).expect("a log is short of 2^53");
        self.row.clear();
        write_row(&mut self.row, position, &batch.events()[0]);
        self.out.write_all(&self.row)?;
        self.written.bytes += u64::try_from(self.row.len()).expect("a length is a u64");
        self.written.lost_attempts += u64::from(is_lost);
        self.events += 1;
        self.owed -= 1;
        Ok(())
    }

    /// Puts the next step of some work where it is due.
    fn schedule(&mut self, work: Work) {
        let Some(step) = work.steps.last().copied() else {
            let stream = self.streams.get_mut(&work.stream).expect("it was appended to");
            stream.under_way -= 1;
            self.drop_if_done(work.stream);
            return;
        };
        let record = self.record(&work);
        let look = record.effective_deadline().map_or(0, Instant::as_millis);
        let deadline = record.deadline_at_millis.as_millis();
        let random = &mut self.random;
        let due = match step {
            Step::Claim | Step::Defer => look + random.below(50),
            Step::ClaimLate => deadline + random.below(2_000),
            Step::Recover => self.now + random.between(20_000, 120_000),
            Step::Park => self.now + random.between(5, 3_000),
            _ if random.in_thousand(900) => self.now + random.between(2, 200),
            _ => self.now + random.between(200, 4_000),
        };
        self.insert(due, work);
    }

    fn insert(&mut self, due: u64, work: Work) {
        self.sequence += 1;
        self.work.insert((due, self.sequence), work);
    }

    fn record(&self, work: &Work) -> &MessageDeliveryRecord {
        let record = self.streams[&work.stream].outbox.record(&work.message_id);
        record.expect("a message with steps left is in memory")
    }

    /// The clock goes on by some milliseconds, and to what is due. With 4 000 messages under way
    /// it never passes a lease of 30 s before its outcome's turn comes.
    fn tick(&mut self, due: u64) {
        self.now = due.max(self.now + self.random.between(1, 3));
    }

    /// Drops an outbox that will have no more events.
    fn drop_if_done(&mut self, id: u64) {
        if self.streams[&id].under_way == 0 && !self.open.contains(&id) {
            self.streams.remove(&id);
        }
    }
}

fn instant(millis: u64) -> Instant {
    Instant::from_millis(millis).expect("an instant of our time")
}

/// Whether an outbox is some way from each of its limits.
fn has_place(outbox: &Outbox, limits: &OutboxLimits) -> bool {
    let counts = outbox.counts();
    [
        (counts.pending, limits.max_pending_per_owner),
        (counts.pending_updates, limits.max_pending_updates_per_owner),
        (counts.retained, limits.max_retained_per_owner),
        (counts.retained_updates, limits.max_retained_updates_per_owner),
    ]
    .iter()
    .all(|(held, limit)| held < limit)
}

/// Whether a message still waits for the one before it.
fn is_behind(record: &MessageDeliveryRecord, outbox: &Outbox) -> bool {
    let before = record.predecessor.as_ref().and_then(|id| outbox.record(id));
    record.status == MessageDeliveryStatus::Pending
        && before.is_some_and(|before| !before.is_admission_known())
}

/// Hosts and people sign what they wish; a driver signs nothing.
fn metadata(event: &DeliveryEvent) -> Metadata {
    match event {
        DeliveryEvent::Prepared(event) => Metadata {
            actor: Some(event.envelope.delivery_principal.to_string()),
            correlation_id: Some(event.envelope.authorization.decision_id.to_string()),
            ..Metadata::default()
        },
        DeliveryEvent::Recovered(_) => Metadata::of_actor("operator:ada"),
        _ => Metadata::default(),
    }
}
