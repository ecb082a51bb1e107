//! Histories that somebody tampered with: one event dropped, repeated, swapped with the next, or
//! one field of it edited.

use recount_core::{
    DomainEvent, Instant,
    delivery::{
        DeliveryEvent as Event, MessageDeliveryChange as Change, MessageDeliveryRecord, Outbox,
        OutboxCommand, ParkedBy, PrepareMessage,
    },
};
use serde_json::Value;

use super::histories::{History, prepare, wish};

/// A history with one thing changed.
pub(crate) struct Edit {
    pub(crate) what: String,
    pub(crate) events: Vec<Event>,
    /// Whether no sequence of commands leads to it. What remains is perhaps a history that could
    /// have been: another reason, say, or a wait until another instant.
    pub(crate) is_impossible: bool,
}

/// All edits of the event at an index that lead to another history.
pub(crate) fn edits(history: &History, index: usize) -> Vec<Edit> {
    let events = &history.events;
    let event = &events[index];
    let outbox = history.before(index);
    let before = outbox.record(event.message_id());
    let with = |what: &str, is_impossible, change: &dyn Fn(&mut Vec<Event>)| {
        let mut events = events.clone();
        change(&mut events);
        Edit { what: format!("{what} of {event:?}"), events, is_impossible }
    };
    let mut rest = events[index + 1..].iter();
    let next = rest.clone().next();
    let next_of_message = rest.find(|next| next.message_id() == event.message_id());
    let mut edits = vec![
        with("drop", next_of_message.is_some_and(|next| needs(before, event, next)), &|events| {
            events.remove(index);
        }),
        // Waiting twice until the same instant is allowed, and being told twice.
        with("repeat", !matches!(event, Event::Deferred(_) | Event::Notified(_)), &|events| {
            events.insert(index, event.clone());
        }),
    ];
    if let Some(next) = next {
        let is_same = next.message_id() == event.message_id();
        edits.push(with("swap", is_same && needs(before, event, next), &|events| {
            events.swap(index, index + 1);
        }));
    }
    let data = event.to_data().to_value();
    for (path, value) in changes(&data) {
        let mut data = data.clone();
        set(&mut data, &path, value);
        // What does not decode is found before anything is folded.
        if let Ok(DomainEvent::Delivery(edited)) =
            DomainEvent::decode(event.event_type(), 1, &data.to_string())
        {
            edits.push(with(&path, decides(before, event, &path), &|events| {
                events[index] = edited.clone();
            }));
        }
    }
    // Two deferrals until the same instant may stand in either order.
    edits.retain(|edit| edit.events != *events);
    edits
}

/// Whether the event behind another one of the same message is possible only because of it.
fn needs(before: Option<&MessageDeliveryRecord>, event: &Event, next: &Event) -> bool {
    let is_report = match next {
        Event::Parked(parked) => matches!(parked.by, ParkedBy::Retry | ParkedBy::Observe),
        Event::Prepared(_)
        | Event::Claimed(_)
        | Event::Recovered(_)
        | Event::Deferred(_)
        | Event::Notified(_) => false,
        _ => true,
    };
    match event {
        Event::Prepared(_) | Event::Parked(_) | Event::Recovered(_) => true,
        Event::Claimed(_) => {
            is_report && before.is_some_and(|record| record.lease_until_millis.is_none())
        }
        _ => false,
    }
}

/// Whether a field can have no other value beside the other ones.
fn decides(before: Option<&MessageDeliveryRecord>, event: &Event, path: &str) -> bool {
    // An instant before the deadline was not cut to it, so it moves with what it was computed from.
    let moves = |at: Instant| before.is_some_and(|record| at < record.deadline_at_millis);
    match (event, path) {
        (Event::Prepared(_), "/atMillis" | "/createdAtMillis" | "/envelopeDigest") => true,
        (Event::Prepared(_), path) if path.starts_with("/envelope/") => true,
        (Event::Prepared(_), path) if path.starts_with("/key/") => true,
        (
            _,
            "/messageId"
            | "/leaseUntilMillis"
            | "/nextAttemptAtMillis"
            | "/generation"
            | "/receipt/threadId"
            | "/settlement/receiptId"
            | "/settlement/submissionId",
        ) => true,
        (Event::Claimed(event), "/atMillis") => moves(event.lease_until_millis),
        (Event::Accepted(event), "/atMillis") => moves(event.next_attempt_at_millis),
        (Event::Observed(event), "/atMillis") => moves(event.next_attempt_at_millis),
        (Event::Retried(event), "/atMillis") => moves(event.next_attempt_at_millis),
        (Event::Notified(event), "/atMillis") => moves(event.next_attempt_at_millis),
        (Event::Deferred(event), "/untilMillis") => moves(event.until_millis),
        (Event::Parked(event), "/reason") => event.by != ParkedBy::Park,
        _ => false,
    }
}

/// The other values that the leaves of some data could have; null takes a field away.
fn changes(data: &Value) -> Vec<(String, Value)> {
    let mut changes = Vec::new();
    collect("", data, &mut changes);
    for optional in ["/diagnostic", "/retryReason", "/untilMillis", "/predecessor"] {
        if data.pointer(optional).is_some() {
            changes.push((optional.to_owned(), Value::Null));
        }
    }
    if data.get("by").is_some() {
        changes.push(("/retryReason".to_owned(), "transport".into()));
    }
    changes
}

fn collect(path: &str, value: &Value, changes: &mut Vec<(String, Value)>) {
    let mut push = |value: Value| changes.push((path.to_owned(), value));
    let words: &[&str] = match path {
        "/by" => &["claim", "retry", "observe", "defer", "park"],
        "/reason" | "/retryReason" => {
            &["exhausted", "deadline", "status-unavailable", "transport", "timeout", "host-closed"]
        }
        "/settlement/outcome" => &["completed", "aborted"],
        _ => &[],
    };
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                collect(&format!("{path}/{key}"), value, changes);
            }
        }
        Value::Number(number) => {
            let number = number.as_u64().expect("the numbers of our events are natural");
            push((number + 1).into());
            if let Some(less) = number.checked_sub(1) {
                push(less.into());
            }
        }
        Value::String(text) if !words.is_empty() => {
            words.iter().filter(|word| *word != text).for_each(|word| push((*word).into()));
        }
        Value::String(text) if text.len() == 64 => {
            let first = if text.starts_with('0') { "1" } else { "0" };
            push(format!("{first}{}", &text[1..]).into());
        }
        Value::String(text) => push(format!("{text}x").into()),
        Value::Array(_) | Value::Bool(_) | Value::Null => {}
    }
}

fn set(data: &mut Value, path: &str, value: Value) {
    let (parent, key) = path.rsplit_once('/').expect("a path begins with a slash");
    let parent = data.pointer_mut(parent).and_then(Value::as_object_mut);
    let parent = parent.expect("the parent of a leaf is an object");
    if value.is_null() {
        parent.remove(key);
    } else {
        parent.insert(key.to_owned(), value);
    }
}

/// The command that an event answers, at the version that the message has.
pub(crate) fn command_of(outbox: &Outbox, event: &Event) -> Option<OutboxCommand> {
    let change = match event.clone() {
        Event::Prepared(event) => {
            let message = PrepareMessage {
                key: event.key,
                envelope: (*event.envelope).clone(),
                created_at_millis: event.created_at_millis,
                deadline_at_millis: event.deadline_at_millis,
                policy: event.policy,
                predecessor: event.predecessor,
            };
            return Some(prepare(&message, event.limits));
        }
        Event::Claimed(_) => Change::Claim,
        Event::Accepted(event) => Change::Accept { receipt: event.receipt },
        Event::Processed(event) => Change::Process { settlement: event.settlement },
        Event::Observed(_) => Change::ObservePending,
        Event::Refused(event) => Change::Refuse { code: event.code, diagnostic: event.diagnostic },
        Event::Retried(event) => {
            Change::Retry { reason: event.reason, diagnostic: event.diagnostic }
        }
        Event::Recovered(event) => Change::Recover { deadline_at_millis: event.deadline_at_millis },
        Event::Deferred(event) => Change::Defer { until_millis: event.until_millis },
        Event::Notified(_) => Change::Notify,
        Event::Parked(event) => match event.by {
            ParkedBy::Claim => Change::Claim,
            ParkedBy::Observe => Change::ObservePending,
            ParkedBy::Park => Change::Park { reason: event.reason, diagnostic: event.diagnostic },
            ParkedBy::Retry => {
                Change::Retry { reason: event.retry_reason?, diagnostic: event.diagnostic }
            }
            ParkedBy::Defer => Change::Defer { until_millis: event.until_millis? },
        },
    };
    Some(wish(outbox, event.message_id(), event.at().as_millis(), change))
}
