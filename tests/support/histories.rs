//! Random histories of an outbox, made by nothing but `decide`.

use std::fmt;

use proptest::{collection::vec, prelude::*};
use recount_core::{
    Diagnostic, Digest, ErrorDiagnostic, Instant, MessageId, Outcome, PersistedJson, Receipt,
    Settlement, ThreadId,
    delivery::{
        DeliveryEvent, MessageDeliveryChange as Change, MessageDeliveryCommand,
        MessageDeliveryPolicy, MessageDeliveryRecord, MessageDeliveryStatus as Status, Outbox,
        OutboxCommand, OutboxLimits, ParkReason, PrepareMessage, RetryReason,
    },
    doc,
};

use super::apply;

pub(crate) fn millis(millis: u64) -> Instant {
    Instant::from_millis(millis).expect("the tests' times are instants")
}

pub(crate) fn id(message_id: &str) -> MessageId {
    MessageId::new(message_id).expect("the tests' ids are ids")
}

pub(crate) fn sender() -> Outbox {
    Outbox::new(ThreadId::new("sender").expect("the tests' ids are ids"))
}

pub(crate) fn prepare(message: &PrepareMessage, limits: OutboxLimits) -> OutboxCommand {
    OutboxCommand::Prepare { message: Box::new(message.clone()), limits }
}

/// A message that reports a worker's progress.
pub(crate) fn worker_update(message_id: &str) -> PrepareMessage {
    let mut message = doc::message(message_id);
    let admission = serde_json::json!({"_tag": "WorkerUpdate", "workerId": "w"});
    message.envelope.message_admission = PersistedJson::from_value(&admission).ok();
    message
}

/// A message with this payload, whose input digest is right.
pub(crate) fn with_input(mut message: PrepareMessage, text: &str) -> PrepareMessage {
    message.envelope.input = PersistedJson::parse(text).expect("the tests' inputs are JSON");
    message.envelope.input_digest = message.envelope.input.digest();
    message
}

/// The receipt that the destination of a message answers with.
pub(crate) fn receipt(record: &MessageDeliveryRecord) -> Receipt {
    let fields = serde_json::json!({
        "receiptId": format!("r-{}", record.key.message_id), "submissionId": "s",
        "threadId": record.envelope.thread_id, "queueSequence": 7,
    });
    serde_json::from_value(fields).expect("the fields of a receipt")
}

/// The settlement of [`receipt`].
pub(crate) fn settlement(record: &MessageDeliveryRecord) -> Box<Settlement> {
    let fields = serde_json::json!({
        "receiptId": format!("r-{}", record.key.message_id), "submissionId": "s",
        "settlementId": "t", "outcome": "completed", "settledAt": "2026-11-30T19:32:28Z",
        "usageSummary": {"tokens": 3},
    });
    Box::new(serde_json::from_value(fields).expect("the fields of a settlement"))
}

/// Changes a message at its current version.
pub(crate) fn wish(outbox: &Outbox, message_id: &str, now: u64, change: Change) -> OutboxCommand {
    let expected_version = outbox.record(message_id).map_or(1, |record| record.version);
    let command = MessageDeliveryCommand { expected_version, now_millis: millis(now), change };
    OutboxCommand::Change { message_id: id(message_id), command }
}

/// Changes a message at its current version, which must be granted.
pub(crate) fn grant(
    outbox: &mut Outbox,
    message_id: &str,
    now: u64,
    change: Change,
) -> DeliveryEvent {
    let command = wish(outbox, message_id, now, change);
    let event = apply(outbox, &command).expect("the change is granted");
    event.expect("a change is no repeat")
}

/// Puts a message into an outbox and has it refused, so that those behind it may go.
pub(crate) fn refuse_at_once(outbox: &mut Outbox, message_id: &str) {
    let mut message = doc::message(message_id);
    message.key.owner_thread_id = outbox.owner().clone();
    let command = prepare(&message, OutboxLimits::default());
    apply(outbox, &command).expect("there is a place");
    grant(outbox, message_id, 1_000, Change::Claim);
    let code = "gone".parse().expect("a refusal code");
    grant(outbox, message_id, 1_000, Change::Refuse { code, diagnostic: None });
}

pub(crate) fn behind(message_id: &str, predecessor: &str) -> PrepareMessage {
    PrepareMessage { predecessor: Some(id(predecessor)), ..doc::message(message_id) }
}

pub(crate) fn outbox_with(messages: &[PrepareMessage]) -> Outbox {
    let mut outbox = sender();
    for message in messages {
        apply(&mut outbox, &prepare(message, OutboxLimits::default())).unwrap().unwrap();
    }
    outbox
}

/// An outbox for each status, and one where an attempt is under way, with `m-1` in it.
pub(crate) fn in_every_state(message: &PrepareMessage) -> Vec<(&'static str, Outbox)> {
    let pending = outbox_with(std::slice::from_ref(message));
    let then = |outbox: &Outbox, now, change: Change| {
        let mut outbox = outbox.clone();
        grant(&mut outbox, "m-1", now, change);
        outbox
    };
    let record = pending.record("m-1").unwrap();
    let (receipt, settlement) = (receipt(record), settlement(record));
    let code = "gone".parse().unwrap();
    let leased = then(&pending, 1_000, Change::Claim);
    let reason = RetryReason::Timeout;
    let retrying = then(&leased, 2_000, Change::Retry { reason, diagnostic: None });
    let accepted = then(&leased, 2_000, Change::Accept { receipt });
    let asked = then(&accepted, 7_000, Change::Claim);
    let processed = then(&asked, 7_000, Change::Process { settlement });
    let refused = then(&leased, 2_000, Change::Refuse { code, diagnostic: None });
    let reason = ParkReason::StatusUnavailable;
    let parked = then(&accepted, 2_000, Change::Park { reason, diagnostic: None });
    vec![
        ("pending", pending),
        ("leased", leased),
        ("retrying", retrying),
        ("accepted", accepted),
        ("asked", asked),
        ("processed", processed),
        ("refused", refused),
        ("parked", parked),
    ]
}

/// An outbox that was driven for a while, and all that happened.
#[derive(Clone)]
pub(crate) struct History {
    pub(crate) events: Vec<DeliveryEvent>,
    pub(crate) outbox: Outbox,
}

/// A line an event, as a person reads a log.
impl fmt::Debug for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = |event: &DeliveryEvent| {
            writeln!(f, "{} {}", event.event_type(), event.to_data().as_str())
        };
        self.events.iter().try_for_each(&mut line)
    }
}

impl History {
    /// The outbox as it was before the event at an index.
    pub(crate) fn before(&self, index: usize) -> Outbox {
        let mut outbox = sender();
        for event in &self.events[..index] {
            outbox.evolve(event);
        }
        outbox
    }
}

/// One wish; what is not granted where it comes is passed over.
#[derive(Clone, Copy, Debug)]
struct Wish {
    message: usize,
    kind: usize,
    time: u64,
    noise: u64,
}

/// Histories of five messages under small limits, policies and lives; times go both ways.
pub(crate) fn histories() -> impl Strategy<Value = History> {
    let wish = (0..5_usize, 0..400_usize, any::<u64>(), any::<u64>())
        .prop_map(|(message, kind, time, noise)| Wish { message, kind, time, noise });
    let limits = (2..5_u64, 1..3_u64, 2..6_u64, 1..4_u64);
    (vec(message(), 5), limits, vec(wish, 1..120)).prop_map(|(messages, limits, wishes)| {
        let limits = OutboxLimits {
            max_pending_per_owner: limits.0,
            max_pending_updates_per_owner: limits.1,
            max_retained_per_owner: limits.2,
            max_retained_updates_per_owner: limits.3,
            ..OutboxLimits::default()
        };
        play(&messages, limits, &wishes)
    })
}

fn message() -> impl Strategy<Value = PrepareMessage> {
    let policy = (1..4_u64, 1..60_u64, 1..20_u64, 0..60_u64, 1..40_u64);
    (0..4_u64, 1..20_000_u64, 0..15_usize, policy).prop_map(|(kind, life, predecessor, policy)| {
        let mut message = if kind == 0 { worker_update("m") } else { doc::message("m") };
        message.deadline_at_millis = millis(1_000 + life);
        message.predecessor = (predecessor < 5).then(|| id(&format!("m-{predecessor}")));
        message.policy = MessageDeliveryPolicy {
            max_automatic_attempts: policy.0,
            attempt_timeout_millis: policy.1,
            retry_base_millis: policy.2,
            retry_max_millis: policy.2 + policy.3,
            settlement_poll_millis: policy.4,
        };
        message
    })
}

fn play(messages: &[PrepareMessage], limits: OutboxLimits, wishes: &[Wish]) -> History {
    let mut outbox = sender();
    let mut events = Vec::new();
    let mut clock = 1_000;
    for Wish { message, kind, time, noise } in wishes.iter().copied() {
        let message_id = id(&format!("m-{message}"));
        let command = match outbox.record(&message_id) {
            Some(record) if !record.status.is_finished() || kind % 4 > 0 => {
                clock = read_clock(record, clock, time);
                OutboxCommand::Change {
                    command: MessageDeliveryCommand {
                        expected_version: record.version + u64::from(noise.is_multiple_of(32)),
                        now_millis: millis(clock),
                        change: change(record, kind, clock, noise),
                    },
                    message_id,
                }
            }
            _ => {
                let mut message = messages[message].clone();
                message.key.message_id = message_id;
                prepare(&message, limits)
            }
        };
        events.extend(apply(&mut outbox, &command).ok().flatten());
    }
    History { events, outbox }
}

/// Mostly when something is due; sometimes about then, sometimes earlier than it was.
fn read_clock(record: &MessageDeliveryRecord, clock: u64, time: u64) -> u64 {
    let lease = record.lease_until_millis.map_or(clock, Instant::as_millis);
    let due = record.effective_deadline().map_or(clock, Instant::as_millis);
    match time % 24 {
        0 | 23 => record.deadline_at_millis.as_millis() - (time >> 8) % 2,
        1 | 2 => clock.saturating_sub((time >> 8) % 40),
        3 | 4 => lease + (time >> 8) % 2,
        5..14 => clock + (time >> 8) % 10,
        _ => due.max(clock),
    }
}

/// Mostly what goes with where the message stands.
fn change(record: &MessageDeliveryRecord, kind: usize, clock: u64, noise: u64) -> Change {
    let is_leased = record.lease_until_millis.is_some();
    let likely: &[usize] = match record.status {
        _ if kind.is_multiple_of(8) => &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
        Status::Pending if is_leased => &[1, 1, 4, 5, 5, 0, 8],
        Status::Pending => &[0, 0, 0, 0, 0, 8],
        Status::Accepted if is_leased => &[2, 2, 3, 3, 3, 5, 9],
        Status::Accepted => &[0, 0, 9],
        _ => &[7],
    };
    let diagnostic = diagnostic(noise);
    match likely[kind / 8 % likely.len()] {
        0 => Change::Claim,
        1 => {
            let mut receipt = receipt(record);
            if noise.is_multiple_of(16) {
                receipt.thread_id = "elsewhere".parse().expect("a thread id");
            }
            Change::Accept { receipt }
        }
        2 => {
            let mut settlement = settlement(record);
            if noise.is_multiple_of(16) {
                settlement.submission_id = "another".parse().expect("a submission id");
            } else if noise % 4 == 1 {
                settlement.outcome = Outcome::Aborted;
            }
            Change::Process { settlement }
        }
        3 => Change::ObservePending,
        4 => Change::Refuse { code: "denied".parse().expect("a refusal code"), diagnostic },
        5 => {
            let reasons = [RetryReason::Transport, RetryReason::Timeout, RetryReason::HostClosed];
            let reason = reasons[usize::try_from(noise % 3).unwrap_or(0)];
            Change::Retry { reason, diagnostic }
        }
        6 => Change::Park { reason: ParkReason::StatusUnavailable, diagnostic },
        7 => {
            let life = if noise.is_multiple_of(2) { noise % 40 } else { noise % 5_000 };
            Change::Recover { deadline_at_millis: millis(clock + life) }
        }
        8 => Change::Defer { until_millis: millis(clock + noise % 30) },
        _ => Change::Notify,
    }
}

fn diagnostic(noise: u64) -> Option<Box<Diagnostic>> {
    let digest = Digest::of_bytes(&noise.to_be_bytes()).to_string();
    match noise >> 32 & 3 {
        0 => Some(Diagnostic::text("béta 🚀")),
        1 => Some(Diagnostic::Error(Box::new(ErrorDiagnostic {
            context: Some([("requestId".to_owned(), digest)].into()),
            message: Some("x".repeat(20_000)),
            ..ErrorDiagnostic::default()
        }))),
        _ => None,
    }
    .map(Box::new)
}
