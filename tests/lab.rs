//! Logs that are made by hand, right or wrong, for the tests that check them.

use recount::{
    CanonicalJson, Digest, Envelope, EventBatch, EventDraft, EventType, Instant, Metadata,
    Position, SealedEvent, StreamHead, StreamName, VerifyOptions, log::jsonl::JsonlRows, verify,
    write_row,
};
use serde_json::{Value, json};

/// An event to be written, with everything that can be got wrong.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    pub(crate) stream: &'static str,
    pub(crate) event_type: &'static str,
    pub(crate) data: Value,
    pub(crate) recorded_at: u64,
    /// What the event is sealed behind, in place of the event before it.
    pub(crate) behind: Option<fn(StreamHead) -> StreamHead>,
}

pub(crate) const SENDER: &str = "delivery-sender";

/// An envelope of `sender`'s with its digest.
pub(crate) fn envelope(input: &Value, admission_key: &str) -> Value {
    let definition = "d".repeat(64);
    json!({
        "schemaVersion": 1,
        "threadId": "receiver",
        "deliveryPrincipal": "principal",
        "agentId": "agent",
        "definitions": {"agent": definition, "model": definition, "tools": definition},
        "input": input,
        "inputDigest": Digest::of_bytes(recount::canonicalize(&input.to_string()).unwrap().as_bytes()),
        "admissionKey": admission_key,
        "authorization": {"policyId": "policy", "decisionId": "decision"},
    })
}

pub(crate) fn digest_of(envelope: &Value) -> Digest {
    serde_json::from_value::<Envelope>(envelope.clone()).unwrap().digest()
}

/// `prepared` at 1 000, to be parked from 100 000 on; three attempts of 100 ms.
pub(crate) fn prepared(id: &str, change: impl FnOnce(&mut Value)) -> Written {
    let mut data = json!({
        "messageId": id,
        "atMillis": 1_000,
        "createdAtMillis": 1_000,
        "deadlineAtMillis": 100_000,
        "envelope": envelope(&json!({"text": "hello"}), &format!("admit:{id}")),
        "key": {"ownerThreadId": "sender", "messageId": id},
        "limits": {
            "maxEnvelopeBytes": 10_000,
            "maxPendingPerOwner": 2,
            "maxPendingUpdatesPerOwner": 1,
            "maxRetainedPerOwner": 9,
            "maxRetainedUpdatesPerOwner": 9,
        },
        "policy": {
            "maxAutomaticAttempts": 3,
            "attemptTimeoutMillis": 100,
            "retryBaseMillis": 10,
            "retryMaxMillis": 1_000,
            "settlementPollMillis": 50,
        },
    });
    data["envelopeDigest"] = json!(digest_of(&data["envelope"]));
    change(&mut data);
    happened("prepared", data)
}

/// Any other event of `sender`'s.
pub(crate) fn delivery(what: &str, id: &str, at: u64, facts: Value) -> Written {
    let mut data = json!({"messageId": id, "atMillis": at});
    if let (Value::Object(data), Value::Object(facts)) = (&mut data, facts) {
        data.extend(facts);
    }
    happened(what, data)
}

fn happened(what: &str, data: Value) -> Written {
    let types = [
        "prepared",
        "claimed",
        "accepted",
        "processed",
        "observed",
        "refused",
        "retried",
        "parked",
        "recovered",
        "deferred",
        "notified",
    ];
    assert!(types.contains(&what), "{what}");
    let event_type: &'static str = format!("delivery.{what}").leak();
    Written { stream: SENDER, event_type, data, recorded_at: 0, behind: None }
}

/// A message's whole life: five events.
pub(crate) fn life(id: &str) -> Vec<Written> {
    vec![
        prepared(id, |_| ()),
        delivery("claimed", id, 1_000, json!({"leaseUntilMillis": 1_100})),
        delivery(
            "accepted",
            id,
            1_020,
            json!({"receipt": receipt(id), "nextAttemptAtMillis": 1_070}),
        ),
        delivery("claimed", id, 1_070, json!({"leaseUntilMillis": 1_170})),
        delivery("processed", id, 1_080, json!({"settlement": settlement(id)})),
    ]
}

pub(crate) fn receipt(id: &str) -> Value {
    json!({
        "receiptId": format!("r-{id}"),
        "submissionId": format!("s-{id}"),
        "threadId": "receiver",
        "queueSequence": 7,
    })
}

pub(crate) fn settlement(id: &str) -> Value {
    json!({
        "receiptId": format!("r-{id}"),
        "submissionId": format!("s-{id}"),
        "settlementId": format!("t-{id}"),
        "outcome": "completed",
        "settledAt": "2026-01-01T00:00:00Z",
    })
}

/// Seals events, each behind the one before it in its stream.
pub(crate) fn seal(events: &[Written]) -> Vec<SealedEvent> {
    let mut sealed: Vec<SealedEvent> = Vec::new();
    for (index, event) in events.iter().enumerate() {
        let last = sealed.iter().rev().find(|it| &**it.stream() == event.stream);
        let head = last.map(SealedEvent::head);
        let head = event.behind.map_or(head, |behind| head.map(behind));
        let draft = EventDraft {
            event_type: EventType::new(event.event_type).unwrap(),
            schema_version: 1,
            data: serde_json::from_str::<CanonicalJson>(&event.data.to_string()).unwrap(),
            metadata: Metadata::default(),
        };
        let recorded_at = match event.recorded_at {
            0 => 1_000_000 + index as u64,
            fixed => fixed,
        };
        let recorded_at = Instant::from_millis(recorded_at).unwrap();
        let stream = StreamName::parse(event.stream).unwrap();
        let batch = EventBatch::seal(stream, head, [draft], recorded_at).unwrap();
        sealed.extend(batch.events().iter().cloned());
    }
    sealed
}

/// The rows of a log, each with its line end.
pub(crate) fn rows(events: &[Written]) -> Vec<Vec<u8>> {
    seal(events)
        .iter()
        .enumerate()
        .map(|(index, event)| {
            let mut row = Vec::new();
            write_row(&mut row, Position::new(index as u64).unwrap(), event);
            row
        })
        .collect()
}

/// What `verify` finds, each as `RULE position why`, with the report.
pub(crate) fn findings(text: &[u8], options: &VerifyOptions) -> (Vec<String>, recount::Report) {
    let mut findings = Vec::new();
    let report = verify(JsonlRows::new(text), options, |finding| {
        let rule = finding.invariant.map_or("unreadable".to_owned(), |rule| rule.to_string());
        let position = finding.place.position.map_or("?".to_owned(), |it| it.to_string());
        findings.push(format!("{rule} {position} {}", finding.why));
        Ok(())
    });
    (findings, report.unwrap())
}

/// Runs assertions whose snapshots are kept in `snapshots/`.
pub(crate) fn pinned(assertions: impl FnOnce()) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(concat!(env!("CARGO_MANIFEST_DIR"), "/snapshots"));
    settings.set_omit_expression(true);
    settings.bind(assertions);
}
