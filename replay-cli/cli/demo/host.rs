//! A host on a clock of its own, whose destinations do as the script says.

use std::collections::{BTreeMap, HashMap, VecDeque};

use futures_executor::block_on;
use recount_core::{
    Diagnostic, DomainEvent, EventBatch, EventDraft, Failure, Instant, Metadata, Outcome, Receipt,
    ReceiptId, RefusalCode, Settlement, SettlementId, StreamHead, StreamName, SubmissionId,
    ThreadId,
    delivery::{
        DeliveryEvent, MessageDeliveryChange as Change, MessageDeliveryCommand, MessageDeliveryKey,
        MessageDeliveryRecord, MessageDeliveryStatus as Status, Outbox, OutboxCommand,
        OutboxLimits, ParkReason,
    },
    log::EventLog,
};

use super::script::{Planned, Random, Step, plan};
use crate::cli::error::CliError;

/// 2026-11-30T09:00:00.000Z: the demo reads no clock, so that a seed always writes the same bytes.
const START_MILLIS: u64 = 1_796_029_200_000;

pub(super) struct Host<'a> {
    log: &'a dyn EventLog,
    now: Instant,
    random: Random,
    outboxes: BTreeMap<ThreadId, Owned>,
    scripts: HashMap<MessageDeliveryKey, VecDeque<Step>>,
    tally: Vec<(&'static str, u64)>,
}

/// An outbox with the head of its stream.
struct Owned {
    outbox: Outbox,
    head: Option<StreamHead>,
}

impl<'a> Host<'a> {
    pub(super) fn new(log: &'a dyn EventLog, seed: u64) -> Self {
        Self {
            log,
            now: Instant::from_millis(START_MILLIS).expect("the start is an instant"),
            random: Random(seed),
            outboxes: BTreeMap::new(),
            scripts: HashMap::new(),
            tally: Vec::new(),
        }
    }

    /// How many events of each type were appended, in the order of their first.
    pub(super) fn tally(self) -> Vec<(&'static str, u64)> {
        self.tally
    }

    /// A message that waits for a person, the first in the order of the keys.
    pub(super) fn parked(&self) -> Option<MessageDeliveryKey> {
        let parked = self.records().filter(|it| it.park_reason.is_some());
        parked.map(|record| record.key.clone()).min()
    }

    pub(super) fn prepare_all(&mut self) -> Result<(), CliError> {
        for Planned { mut message, steps } in plan(&mut self.random, self.now) {
            self.wait(20);
            let lifetime =
                message.deadline_at_millis.as_millis() - message.created_at_millis.as_millis();
            message.created_at_millis = self.now;
            message.deadline_at_millis = self.now.saturating_add(lifetime);
            let key = message.key.clone();
            let message = Box::new(message);
            let command = OutboxCommand::Prepare { message, limits: OutboxLimits::default() };
            self.decide(&key, &command, "planner of the demo")?;
            self.scripts.insert(key, steps);
        }
        Ok(())
    }

    /// Works on whatever is due, then lets a person recover what is parked, until nothing moves.
    pub(super) fn work_until_nothing_moves(&mut self) -> Result<(), CliError> {
        loop {
            if let Some((due, key)) = self.next_due() {
                self.now = self.now.max(due);
                self.attempt(&key)?;
            } else if let Some(key) = self.next_to_recover() {
                self.wait(60_000);
                self.pop(&key);
                let deadline_at_millis = self.now.saturating_add(3_600_000);
                self.change(&key, Change::Recover { deadline_at_millis }, "operator")?;
            } else {
                return Ok(());
            }
        }
    }

    fn records(&self) -> impl Iterator<Item = &MessageDeliveryRecord> {
        self.outboxes.values().flat_map(|owned| owned.outbox.records())
    }

    fn record(&self, key: &MessageDeliveryKey) -> &MessageDeliveryRecord {
        let owned = self.outboxes.get(&key.owner_thread_id);
        owned.and_then(|it| it.outbox.record(&key.message_id)).expect("the demo prepared it")
    }

    fn next_due(&self) -> Option<(Instant, MessageDeliveryKey)> {
        let due = |record: &MessageDeliveryRecord| {
            Some((record.effective_deadline()?, record.key.clone()))
        };
        self.records().filter_map(due).min()
    }

    fn next_to_recover(&self) -> Option<MessageDeliveryKey> {
        let waits = |record: &&MessageDeliveryRecord| {
            let next = self.scripts.get(&record.key).and_then(VecDeque::front);
            record.status == Status::Parked && next == Some(&Step::Recover)
        };
        self.records().filter(waits).map(|record| record.key.clone()).min()
    }

    /// One attempt at a message that is due.
    fn attempt(&mut self, key: &MessageDeliveryKey) -> Result<(), CliError> {
        let record = self.record(key);
        if self.waits_for_predecessor(record) {
            let until_millis = self.now.saturating_add(record.policy.settlement_poll_millis);
            return self.change(key, Change::Defer { until_millis }, "driver");
        }
        self.change(key, Change::Claim, "driver")?;
        if self.record(key).status == Status::Parked {
            return Ok(());
        }
        let step = self.pop(key);
        let answer = answer(self.record(key), step);
        self.wait(400);
        match answer {
            Some(change) => self.change(key, change, "driver"),
            None => Ok(()),
        }
    }

    fn waits_for_predecessor(&self, record: &MessageDeliveryRecord) -> bool {
        let Some(message_id) = record.predecessor.clone() else { return false };
        let key = MessageDeliveryKey { message_id, ..record.key.clone() };
        record.status == Status::Pending && !self.record(&key).is_admission_known()
    }

    fn pop(&mut self, key: &MessageDeliveryKey) -> Option<Step> {
        self.scripts.get_mut(key)?.pop_front()
    }

    fn wait(&mut self, up_to_millis: usize) {
        let millis = 1 + self.random.below(up_to_millis);
        self.now = self.now.saturating_add(u64::try_from(millis).unwrap_or(1));
    }

    fn change(
        &mut self,
        key: &MessageDeliveryKey,
        change: Change,
        actor: &str,
    ) -> Result<(), CliError> {
        let expected_version = self.record(key).version;
        let command = MessageDeliveryCommand { expected_version, now_millis: self.now, change };
        let message_id = key.message_id.clone();
        self.decide(key, &OutboxCommand::Change { message_id, command }, actor)
    }

    /// Decides, appends what was decided, and folds it.
    fn decide(
        &mut self,
        key: &MessageDeliveryKey,
        command: &OutboxCommand,
        actor: &str,
    ) -> Result<(), CliError> {
        let owner = &key.owner_thread_id;
        let kept = self
            .outboxes
            .entry(owner.clone())
            .or_insert_with(|| Owned { outbox: Outbox::new(owner.clone()), head: None });
        let event = kept.outbox.decide(command).expect("the demo only wishes what is allowed");
        let Some(event) = event else { return Ok(()) };
        let draft =
            EventDraft::of(&DomainEvent::Delivery(event.clone()), Metadata::of_actor(actor));
        let batch = EventBatch::seal(StreamName::delivery(owner), kept.head, [draft], self.now)
            .expect("the demo's clock is in this century");
        let appended =
            block_on(self.log.append(batch)).map_err(|source| CliError::Append { source })?;
        kept.head = Some(appended.head);
        kept.outbox.evolve(&event);
        self.count(&event);
        Ok(())
    }

    fn count(&mut self, event: &DeliveryEvent) {
        let name = event.event_type();
        match self.tally.iter_mut().find(|(counted, _)| *counted == name) {
            Some((_, number)) => *number += 1,
            None => self.tally.push((name, 1)),
        }
    }
}

/// What the script has the destination answer; nothing where the answer is lost.
fn answer(record: &MessageDeliveryRecord, step: Option<Step>) -> Option<Change> {
    let id = &record.key.message_id;
    let because = |text: &str| Some(Box::new(Diagnostic::text(text)));
    Some(match step? {
        Step::Accept => Change::Accept {
            receipt: Receipt {
                queue_sequence: record.retry.attempts,
                receipt_id: ReceiptId::new(format!("receipt-{id}")).ok()?,
                submission_id: SubmissionId::new(format!("submission-{id}")).ok()?,
                thread_id: record.envelope.thread_id.clone(),
            },
        },
        Step::Refuse => {
            let code = RefusalCode::new("unwanted").ok()?;
            Change::Refuse { code, diagnostic: because("no agent here takes offers") }
        }
        Step::Retry(reason) => {
            Change::Retry { reason, diagnostic: because("connection closed by peer") }
        }
        Step::Working => Change::ObservePending,
        Step::Complete => settle(record, Outcome::Completed, None)?,
        Step::Fail => {
            let failure = Failure {
                context: None,
                diagnostic: None,
                error_tag: "ToolFailed".to_owned(),
                message: "the agent's tool did not answer".to_owned(),
            };
            settle(record, Outcome::Failed, Some(failure))?
        }
        Step::Unknown => {
            let diagnostic = because("the destination lost its queue");
            Change::Park { reason: ParkReason::StatusUnavailable, diagnostic }
        }
        Step::Lost | Step::Recover => return None,
    })
}

fn settle(
    record: &MessageDeliveryRecord,
    outcome: Outcome,
    failure: Option<Failure>,
) -> Option<Change> {
    let receipt = record.receipt.as_ref()?;
    let settlement = Settlement {
        failure,
        outcome,
        receipt_id: receipt.receipt_id.clone(),
        run_disposition: None,
        settled_at: record.retry.last_attempt_at_millis?.to_rfc3339()?,
        settlement_id: SettlementId::new(format!("settlement-{}", record.key.message_id)).ok()?,
        submission_id: receipt.submission_id.clone(),
        usage_summary: None,
    };
    Some(Change::Process { settlement: Box::new(settlement) })
}
