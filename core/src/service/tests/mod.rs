//! Owners over logs that do what a script says.

mod cancel;
mod faults;
mod groups;
mod moody;
mod random;
mod scripted;
mod streams;

use std::{
    future::poll_fn,
    pin::pin,
    sync::{Arc, atomic::Ordering},
    task::Poll,
};

use futures_util::TryStreamExt;
use scripted::{Scripted, Step};

use super::*;
use crate::{
    DomainEvent, EventBatch, Instant, MessageId, Metadata, PersistedJson, RecordedEvent,
    StreamName, ThreadId,
    delivery::{
        DeliveryError, DeliveryEvent, MessageDeliveryChange, MessageDeliveryCommand, Outbox,
        OutboxCommand, OutboxLimits,
    },
    doc,
    log::{AppendError, Direction, EventLog, MemoryLog},
};

type Answer = Result<Option<Committed<DeliveryEvent>>, OwnerError<DeliveryError>>;

fn owners(log: &Arc<Scripted>) -> Owners<Outbox> {
    Owners::new(Arc::clone(log) as Arc<dyn EventLog>)
}

fn sender() -> ThreadId {
    "sender".parse().unwrap()
}

fn millis(millis: u64) -> Instant {
    Instant::from_millis(millis).unwrap()
}

fn submission(command: OutboxCommand, now: u64) -> Submission<OutboxCommand> {
    Submission { command, metadata: Metadata::default(), now: millis(now) }
}

/// A message to be prepared, at 1 000, in an outbox with much room.
fn prepare(message_id: &str) -> Submission<OutboxCommand> {
    prepare_at(message_id, 1_000)
}

fn prepare_at(message_id: &str, now: u64) -> Submission<OutboxCommand> {
    let mut message = doc::message(message_id);
    message.created_at_millis = millis(now);
    let limits = OutboxLimits {
        max_envelope_bytes: 1 << 30,
        max_pending_per_owner: 100_000,
        max_retained_per_owner: 100_000,
        ..OutboxLimits::default()
    };
    submission(OutboxCommand::Prepare { message: Box::new(message), limits }, now)
}

/// A message with so much to say.
fn prepare_large(message_id: &str, length: usize) -> Submission<OutboxCommand> {
    let mut prepare = prepare(message_id);
    if let OutboxCommand::Prepare { message, .. } = &mut prepare.command {
        let input = PersistedJson::parse(&format!("\"{}\"", "x".repeat(length))).unwrap();
        message.envelope.input_digest = input.digest();
        message.envelope.input = input;
    }
    prepare
}

fn change(
    message_id: &str,
    expected_version: u64,
    now: u64,
    change: MessageDeliveryChange,
) -> Submission<OutboxCommand> {
    let message_id = MessageId::new(message_id).unwrap();
    let command = MessageDeliveryCommand { expected_version, now_millis: millis(now), change };
    submission(OutboxCommand::Change { message_id, command }, now)
}

fn claim(message_id: &str, now: u64) -> Submission<OutboxCommand> {
    change(message_id, 1, now, MessageDeliveryChange::Claim)
}

/// The event that an answer must have.
fn committed(answer: Answer) -> Committed<DeliveryEvent> {
    answer.unwrap().unwrap()
}

/// The words of a refusal.
fn refusal(answer: Answer) -> String {
    answer.unwrap_err().to_string()
}

/// The stream in the log, and what it folds to.
async fn folded(log: &MemoryLog) -> (Vec<RecordedEvent>, Outbox) {
    let stream = StreamName::delivery(&sender());
    let events = log.read_stream(&stream, None, Direction::Forward, usize::MAX);
    let events: Vec<_> = events.try_collect().await.unwrap();
    let mut outbox = Outbox::new(sender());
    for RecordedEvent { event, .. } in &events {
        let (event_type, version) = (event.event_type(), event.schema_version());
        let DomainEvent::Delivery(event) =
            DomainEvent::decode(event_type, version, event.data()).unwrap();
        outbox.evolve(&event);
    }
    (events, outbox)
}

/// Holds that what is in memory is what the log folds to, and that nothing is under way.
async fn assert_settled(owners: &Owners<Outbox>, log: &MemoryLog) {
    let (events, outbox) = folded(log).await;
    let lease = owners.registry().lease(&sender());
    let desk = lease.owner.desk.lock().await;
    assert!(desk.flight.is_none() && desk.taken.is_empty());
    let known = desk.known.as_ref().expect("the stream was read");
    assert_eq!(known.head, events.last().map(|it| it.event.head()));
    assert_eq!(known.aggregate, outbox);
}

/// Polls a future so often, and drops it then; `None` where it had no answer by then.
async fn dropped_after<T>(polls: usize, work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    let mut left = polls;
    poll_fn(|context| match work.as_mut().poll(context) {
        Poll::Ready(answer) => Poll::Ready(Some(answer)),
        Poll::Pending if left == 0 => Poll::Ready(None),
        Poll::Pending => {
            left -= 1;
            Poll::Pending
        }
    })
    .await
}
