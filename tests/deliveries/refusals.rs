//! What is said where a wish is not granted, and where a record is not valid.

use std::collections::BTreeMap;

use recount_core::{
    PersistedJson,
    delivery::{
        DeliveryError, DeliveryEvent as Event, MessageDeliveryChange as Change,
        MessageDeliveryRecord, OutboxCommand, OutboxLimits, ParkReason, PrepareMessage,
        RetryReason,
    },
    doc,
};
use serde_json::{Value, json};

use crate::support::histories::{
    behind, id, in_every_state, millis, outbox_with, prepare, receipt, settlement, wish,
    worker_update,
};

/// A line for each answer: kind, operation and text.
fn refusals<const N: usize>(answers: [Result<Option<Event>, DeliveryError>; N]) -> String {
    let lines = answers.map(|answer| match answer {
        Ok(granted) => format!("granted {granted:?}"),
        Err(error) => format!("{} {}: {error}", error.reason().as_str(), error.operation()),
    });
    lines.join("\n")
}

#[test]
fn every_refusal_of_a_change_has_its_kind_operation_and_text() {
    let states: BTreeMap<_, _> = in_every_state(&doc::message("m-1")).into_iter().collect();
    let change = |state: &str, now, change| {
        let outbox = &states[state];
        outbox.decide(&wish(outbox, "m-1", now, change))
    };
    let park = Change::Park { reason: ParkReason::Deadline, diagnostic: None };
    let retry = Change::Retry { reason: RetryReason::Timeout, diagnostic: None };
    let defer = |until| Change::Defer { until_millis: millis(until) };
    let recover = |deadline| Change::Recover { deadline_at_millis: millis(deadline) };
    let record = states["asked"].record("m-1").unwrap();
    let mut elsewhere = receipt(record);
    elsewhere.thread_id = "elsewhere".parse().unwrap();
    let mut other = settlement(record);
    other.receipt_id = "other".parse().unwrap();
    let mut stale = wish(&states["pending"], "m-1", 1_000, Change::Claim);
    if let OutboxCommand::Change { command, .. } = &mut stale {
        command.expected_version = 7;
    }
    let waiting = outbox_with(&[behind("m-2", "m-1")]);
    insta::assert_snapshot!(refusals([
        states["pending"].decide(&stale),
        change("processed", 9_000, park),
        change("refused", 9_000, recover(9_001)),
        change("parked", 9_000, Change::Claim),
        change("accepted", 9_000, defer(9_001)),
        change("pending", 1_000, Change::Notify),
        change("parked", 9_000, Change::Notify),
        change("pending", 999, Change::Claim),
        change("pending", 1_000, Change::ObservePending),
        change("leased", 31_001, retry),
        change("leased", 30_999, defer(40_000)),
        change("pending", 1_000, defer(1_000)),
        change("parked", 9_000, recover(9_000)),
        waiting.decide(&wish(&waiting, "m-2", 1_000, Change::Claim)),
        change("leased", 1_000, Change::Accept { receipt: elsewhere }),
        change("asked", 7_000, Change::Process { settlement: other }),
        change("parked", 10, recover(1_000)),
        waiting.decide(&wish(&waiting, "m-3", 1_000, Change::Claim)),
    ]), @r#"
    conflict Claim: Claim: decided on version 7, the message is at 1
    conflict Park: Park: the message is processed
    conflict Recover: Recover: the message is refused
    conflict Claim: Claim: the message is parked
    conflict Defer: Defer: the message is accepted
    conflict Notify: Notify: the message is pending
    conflict Notify: Notify: the message is parked
    conflict Claim: Claim: the message is not due before 1970-01-01T00:00:01.000Z
    conflict ObservePending: ObservePending: no lease is held
    conflict Retry: Retry: the lease ended at 1970-01-01T00:00:31.000Z
    conflict Defer: Defer: a lease is held until 1970-01-01T00:00:31.000Z
    conflict Defer: Defer: 1970-01-01T00:00:01.000Z is not after now, 1970-01-01T00:00:01.000Z
    conflict Recover: Recover: 1970-01-01T00:00:09.000Z is not after now, 1970-01-01T00:00:09.000Z
    conflict Claim: Claim: its predecessor "m-1" is neither admitted nor refused yet: defer it
    corrupt receipt-identity: the receipt is of thread "elsewhere", the message is for "receiver"
    corrupt settlement-identity: the settlement is not about the receipt that is held
    corrupt encode: Recover would make an invalid record: a deadline is after the creation
    not-found change: there is no message "m-3" in this outbox
    "#);
}

#[test]
fn every_refusal_of_a_message_has_its_kind_operation_and_text() {
    let outbox = outbox_with(&[doc::message("m-1"), worker_update("u-1")]);
    let few = |pending, retained| OutboxLimits {
        max_pending_per_owner: pending,
        max_retained_per_owner: retained,
        max_pending_updates_per_owner: pending,
        max_retained_updates_per_owner: retained,
        ..OutboxLimits::default()
    };
    let of_bytes = |bytes| OutboxLimits { max_envelope_bytes: bytes, ..OutboxLimits::default() };
    let put = |message: PrepareMessage, limits| outbox.decide(&prepare(&message, limits));
    let with = |change: fn(&mut PrepareMessage)| {
        let mut message = doc::message("m-2");
        change(&mut message);
        put(message, OutboxLimits::default())
    };
    insta::assert_snapshot!(refusals([
        put(behind("m-1", "m-0"), OutboxLimits::default()),
        put(doc::message("m-2"), few(1, 9)),
        put(doc::message("m-2"), few(9, 1)),
        put(worker_update("u-2"), few(1, 9)),
        put(worker_update("u-2"), few(9, 1)),
        put(doc::message("m-2"), of_bytes(9)),
        with(|it| it.envelope.input = PersistedJson::parse("0").unwrap()),
        with(|it| it.deadline_at_millis = it.created_at_millis),
        with(|it| it.predecessor = Some(id("m-2"))),
        with(|it| it.policy.max_automatic_attempts = 101),
        with(|it| it.policy.attempt_timeout_millis = 300_001),
        with(|it| it.policy.retry_max_millis = 999),
        with(|it| it.policy.settlement_poll_millis = 0),
        put(doc::message("m-2"), of_bytes(0)),
        with(|it| it.key.owner_thread_id = "other".parse().unwrap()),
    ]), @r#"
    conflict insert: message "m-1" exists with other content: a repeat must carry the same envelope, predecessor, policy, creation and deadline
    capacity insert: the outbox holds 1 pending messages, and may hold 1: raise the limit, or use another outbox
    capacity insert: the outbox holds 1 messages, and may hold 1: raise the limit, or use another outbox
    capacity insert: the outbox holds 1 pending worker updates, and may hold 1: raise the limit, or use another outbox
    capacity insert: the outbox holds 1 worker updates, and may hold 1: raise the limit, or use another outbox
    capacity envelope-bytes: the envelope is 518 bytes of canonical JSON, more than 9
    corrupt input-digest: inputDigest is 5aa762ae383fbb727af3c7a36d4940a5b8c40a989452d2304fc958ff3f354e7a, the input's is 5feceb66ffc86f38d952786c6d696c79c2dbc239dd4e91b46729d73a27fb57e9
    validation prepare: the message cannot be prepared: a deadline is after the creation
    validation prepare: the message cannot be prepared: a predecessor is another message
    validation prepare: the message cannot be prepared: a policy has 1 to 100 attempts of 1 to 300000 ms, and pauses of at least 1 ms that do not shrink
    validation prepare: the message cannot be prepared: a policy has 1 to 100 attempts of 1 to 300000 ms, and pauses of at least 1 ms that do not shrink
    validation prepare: the message cannot be prepared: a policy has 1 to 100 attempts of 1 to 300000 ms, and pauses of at least 1 ms that do not shrink
    validation prepare: the message cannot be prepared: a policy has 1 to 100 attempts of 1 to 300000 ms, and pauses of at least 1 ms that do not shrink
    validation insert-state: every limit of an outbox is positive and at most 2^53 - 1
    validation insert-state: the message is of thread "other", this is the outbox of "sender"
    "#);
}

#[test]
fn every_rule_of_a_record_has_its_text() {
    let states: BTreeMap<_, _> = in_every_state(&doc::message("m-1")).into_iter().collect();
    let settled = serde_json::to_value(settlement(states["accepted"].record("m-1").unwrap()));
    let broken = [
        ("pending", "/deadlineAtMillis", json!(1_000)),
        ("pending", "/initialDeadlineAtMillis", json!(1_000)),
        ("pending", "/predecessor", json!("m-1")),
        ("pending", "/policy/retryBaseMillis", json!(0)),
        ("processed", "/settlement", Value::Null),
        ("accepted", "/settlement", settled.unwrap()),
        ("refused", "/refusal", Value::Null),
        ("pending", "/refusal", json!("gone")),
        ("parked", "/parkReason", Value::Null),
        ("pending", "/parkReason", json!("deadline")),
        ("pending", "/retry/parked", json!(true)),
        ("parked", "/retry/parked", json!(false)),
        ("accepted", "/receipt", Value::Null),
        ("accepted", "/status", json!("pending")),
        ("accepted", "/receipt/threadId", json!("elsewhere")),
        ("processed", "/settlement/receiptId", json!("other")),
        ("processed", "/settlement/submissionId", json!("other")),
        ("parked", "/leaseUntilMillis", json!(1)),
        ("processed", "/leaseUntilMillis", json!(1)),
    ];
    let lines = broken.map(|(state, path, value)| {
        let record = states[state].record("m-1").unwrap();
        assert_eq!(record.check(), Ok(()), "{state}");
        let mut fields = serde_json::to_value(record).unwrap();
        match fields.pointer_mut(path) {
            Some(field) => *field = value,
            None => fields[&path[1..]] = value,
        }
        let record: MessageDeliveryRecord = serde_json::from_value(fields).expect(path);
        let rule = record.check().expect_err(path);
        format!("{state} {path} {rule:?}: {rule}")
    });
    insta::assert_snapshot!(lines.join("\n"), @r#"
    pending /deadlineAtMillis Deadline: a deadline is after the creation
    pending /initialDeadlineAtMillis Deadline: a deadline is after the creation
    pending /predecessor Predecessor: a predecessor is another message
    pending /policy/retryBaseMillis Policy: a policy has 1 to 100 attempts of 1 to 300000 ms, and pauses of at least 1 ms that do not shrink
    processed /settlement Settlement: a settlement is held exactly when processed
    accepted /settlement Settlement: a settlement is held exactly when processed
    refused /refusal Refusal: a refusal is held exactly when refused
    pending /refusal Refusal: a refusal is held exactly when refused
    parked /parkReason Park: a park reason is held exactly when parked
    pending /parkReason Park: a park reason is held exactly when parked
    pending /retry/parked Park: a park reason is held exactly when parked
    parked /retry/parked Park: a park reason is held exactly when parked
    accepted /receipt Receipt: a receipt is held when accepted or processed, and not when pending or refused
    accepted /status Receipt: a receipt is held when accepted or processed, and not when pending or refused
    accepted /receipt/threadId ReceiptThread: a receipt names the envelope's thread
    processed /settlement/receiptId SettlementIdentity: a settlement names the receipt and its submission
    processed /settlement/submissionId SettlementIdentity: a settlement names the receipt and its submission
    parked /leaseUntilMillis Lease: no lease is held when processed, refused or parked
    processed /leaseUntilMillis Lease: no lease is held when processed, refused or parked
    "#);
}

#[test]
fn what_only_a_host_in_rust_can_get_wrong_is_refused_before_it_is_an_event() {
    let states: BTreeMap<_, _> = in_every_state(&doc::message("m-1")).into_iter().collect();
    let change = |state: &str, now, change| {
        let outbox = &states[state];
        outbox.decide(&wish(outbox, "m-1", now, change))
    };
    let record = states["asked"].record("m-1").unwrap();
    let mut unsettled = settlement(record);
    unsettled.settled_at = "yesterday".to_owned();
    let mut far = receipt(record);
    far.queue_sequence = 1 << 53;
    let mut forgetful = states["processed"].clone();
    forgetful.forget("m-1").unwrap();
    let asked_at = record.retry.last_attempt_at_millis.unwrap().as_millis();
    insta::assert_snapshot!(refusals([
        change("asked", asked_at, Change::Process { settlement: unsettled }),
        change("leased", 1_000, Change::Accept { receipt: far }),
        forgetful.decide(&prepare(&doc::message("m-1"), OutboxLimits::default())),
    ]), @r#"
    corrupt encode: Process would make an invalid record: a settlement has a failure exactly when it failed, and a time in RFC 3339
    corrupt encode: Accept would make an invalid record: a counter is at most 2^53 - 1
    conflict insert: message "m-1" is finished and not in memory any more: read it from the log
    "#);
}
