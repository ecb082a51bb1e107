//! Expected values of the reference implementation, in the project's own copies and in those of
//! the folder that `RECOUNT_VECTORS` names.

use std::collections::BTreeMap;

use recount_core::{
    Diagnostic, Digest, DomainEvent, EventBatch, EventDraft, Instant, Legal, Metadata,
    PersistedJson, Receipt, RecordedEvent, RefusalCode, Revision, Settlement, StreamHead,
    StreamName, canonicalize,
    delivery::{
        DeliveryError, DeliveryEvent, Evolved, MessageDeliveryChange as Change,
        MessageDeliveryCommand, MessageDeliveryKey, MessageDeliveryRecord, Outbox, OutboxCommand,
        OutboxLimits, PrepareMessage,
    },
    write_row,
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, value::RawValue};

use crate::support::{Vectors, apply, histories::refuse_at_once, stored};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Spelling {
    json: String,
    canonical: String,
    sha256: Digest,
}

#[test]
fn vectors_canonical_json() {
    for file in Vectors::all("canonical-json.jsonl") {
        for (place, case) in file.cases::<Spelling>().unwrap() {
            assert_eq!(canonicalize(&case.json).as_ref(), Ok(&case.canonical), "{place}");
            assert_eq!(Digest::of_bytes(case.canonical.as_bytes()), case.sha256, "{place}");
            // What the API takes, it takes in the same spelling.
            if let Ok(json) = PersistedJson::parse(&case.json) {
                assert_eq!(json.as_str(), case.canonical, "{place}");
            }
            let again = PersistedJson::parse(&case.canonical).map(|json| json.digest());
            assert_eq!(again, Ok(case.sha256), "{place}");
        }
    }
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Refusal {
    reason: String,
    operation: String,
}

impl From<DeliveryError> for Refusal {
    fn from(error: DeliveryError) -> Self {
        let reason = error.reason().as_str().to_owned();
        Self { reason, operation: error.operation().to_owned() }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Case {
    prepare: Box<RawValue>,
    error: Option<Refusal>,
    record: Option<Value>,
    #[serde(default)]
    steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Step {
    change: Box<RawValue>,
    error: Option<Refusal>,
    after: Option<Value>,
    deadline: Option<u64>,
    uses_capacity: Option<bool>,
    #[serde(default)]
    invalid_record: bool,
}

#[test]
fn vectors_delivery_reducer() {
    let files = Vectors::all("delivery-reducer.jsonl");
    let granted = files.iter().map(|file| {
        let cases = file.cases::<Case>().unwrap();
        cases.iter().map(|(place, case)| reduce(place, case)).sum::<usize>()
    });
    let granted: Vec<_> = granted.collect();
    assert_eq!(granted[0], 1_833, "changes that the project's own copy grants");
}

/// Runs a case on the record alone and in an outbox beside it; the number of granted changes.
fn reduce(place: &str, case: &Case) -> usize {
    let message: PrepareMessage = serde_json::from_str(case.prepare.get()).expect(place);
    let limits = OutboxLimits::default();
    let mut outbox = Outbox::new(message.key.owner_thread_id.clone());
    if let Some(predecessor) =
        message.predecessor.as_ref().filter(|id| **id != message.key.message_id)
    {
        refuse_at_once(&mut outbox, predecessor);
    }
    let prepare = OutboxCommand::Prepare { message: Box::new(message.clone()), limits };
    let in_outbox = apply(&mut outbox, &prepare);
    let mut record = match message.decide(&limits) {
        Ok(prepared) => {
            assert_eq!(in_outbox, Ok(Some(prepared.clone().into())), "{place}");
            MessageDeliveryRecord::of(&prepared)
        }
        Err(error) => {
            assert_eq!(in_outbox, Err(error.clone()), "{place}");
            assert_eq!(Some(Refusal::from(error)), case.error, "{place}");
            return 0;
        }
    };
    assert_eq!(case.error, None, "{place}");
    let mut expected = case.record.clone().expect("neither an error nor a record");
    assert_eq!(serde_json::to_value(&record).unwrap(), expected, "{place}");
    let mut granted = 0;
    for (number, step) in case.steps.iter().enumerate() {
        let place = format!("{place}, step {number}: {}", step.change);
        if change(&place, step, &mut record, &mut outbox) {
            granted += 1;
            let Some(Value::Object(after)) = &step.after else { panic!("{place}") };
            let fields = expected.as_object_mut().expect("a record is an object");
            fields.extend(after.clone());
            let deadline = record.effective_deadline().map(Instant::as_millis);
            assert_eq!(deadline, step.deadline, "{place}");
            assert_eq!(Some(record.uses_capacity()), step.uses_capacity, "{place}");
        }
        assert_eq!(serde_json::to_value(&record).unwrap(), expected, "{place}");
        assert_eq!(outbox.record(&record.key.message_id), Some(&record), "{place}");
    }
    granted
}

/// A change as the vectors write it: every field that one may have.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Wish {
    #[serde(rename = "_tag")]
    tag: String,
    expected_version: u64,
    now_millis: Instant,
    receipt: Option<Receipt>,
    settlement: Option<Box<Settlement>>,
    code: Option<RefusalCode>,
    reason: Option<Value>,
    diagnostic: Option<Box<Diagnostic>>,
    deadline_at_millis: Option<Instant>,
    until_millis: Option<Instant>,
}

impl Wish {
    fn command(self, place: &str) -> MessageDeliveryCommand {
        fn word<T: DeserializeOwned>(reason: Option<Value>, place: &str) -> T {
            serde_json::from_value(reason.expect(place)).expect(place)
        }
        let Self { diagnostic, reason, .. } = self;
        let change = match self.tag.as_str() {
            "Claim" => Change::Claim,
            "Accept" => Change::Accept { receipt: self.receipt.expect(place) },
            "Process" => Change::Process { settlement: self.settlement.expect(place) },
            "ObservePending" => Change::ObservePending,
            "Refuse" => Change::Refuse { code: self.code.expect(place), diagnostic },
            "Retry" => Change::Retry { reason: word(reason, place), diagnostic },
            "Park" => Change::Park { reason: word(reason, place), diagnostic },
            "Recover" => {
                Change::Recover { deadline_at_millis: self.deadline_at_millis.expect(place) }
            }
            "Defer" => Change::Defer { until_millis: self.until_millis.expect(place) },
            tag => panic!("{place}: {tag}"),
        };
        let Self { expected_version, now_millis, .. } = self;
        MessageDeliveryCommand { expected_version, now_millis, change }
    }
}

/// Whether the change was granted.
fn change(
    place: &str,
    step: &Step,
    record: &mut MessageDeliveryRecord,
    outbox: &mut Outbox,
) -> bool {
    let wish: Wish = serde_json::from_str(step.change.get()).expect(place);
    let command = wish.command(place);
    let decided = record.decide(&command);
    let message_id = record.key.message_id.clone();
    let in_outbox = apply(outbox, &OutboxCommand::Change { message_id, command });
    assert_eq!(in_outbox, decided.clone().map(Some), "{place}");
    match decided {
        Err(error) if step.invalid_record => {
            assert_eq!((error.reason().as_str(), error.operation()), ("corrupt", "encode"));
            false
        }
        Err(error) => {
            assert_eq!(Some(Refusal::from(error)), step.error, "{place}");
            false
        }
        Ok(event) => {
            assert!(step.error.is_none() && !step.invalid_record, "{place}: {event:?}");
            assert_eq!(stored(&event), event, "{place}");
            assert_eq!(record.legal(&event), Legal::Ok, "{place}");
            assert_eq!(record.evolve(&event), Evolved::Applied, "{place}");
            true
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    events: usize,
    heads: BTreeMap<String, StreamHead>,
    records: Vec<Value>,
    #[serde(rename = "root")]
    _root: Digest,
}

#[test]
fn vectors_log_sample_is_read_folded_and_written_again() {
    for file in Vectors::all("log-sample.jsonl") {
        let expected = file.beside("log-sample.expected.json");
        let expected: Expected = serde_json::from_str(&expected).unwrap();
        let mut streams: BTreeMap<StreamName, (Outbox, StreamHead)> = BTreeMap::new();
        for (place, line) in file.lines() {
            let RecordedEvent { position, event } =
                RecordedEvent::read(line.as_bytes()).expect(&place);
            let decoded =
                DomainEvent::decode(event.event_type(), event.schema_version(), event.data());
            let Ok(DomainEvent::Delivery(delivery)) = &decoded else { panic!("{place}") };
            let head = streams.get(event.stream()).map(|(_, head)| *head);
            assert_eq!(event.expected(), head, "{place}");

            let metadata: Metadata = serde_json::from_str(event.metadata()).expect(&place);
            let draft = EventDraft::of(decoded.as_ref().unwrap(), metadata);
            let batch =
                EventBatch::seal(event.stream().clone(), head, [draft], event.recorded_at());
            let mut row = Vec::new();
            write_row(&mut row, position, &batch.expect(&place).events()[0]);
            assert_eq!(String::from_utf8(row).unwrap(), format!("{line}\n"), "{place}");

            let (outbox, head) = streams.entry(event.stream().clone()).or_insert_with(|| {
                let DeliveryEvent::Prepared(first) = delivery else { panic!("{place}") };
                let owner = first.key.owner_thread_id.clone();
                assert_eq!(StreamName::delivery(&owner), *event.stream());
                let head = StreamHead { revision: Revision::ZERO, digest: Digest::ZERO };
                (Outbox::new(owner), head)
            });
            assert_eq!(outbox.legal(delivery, None), Legal::Ok, "{place}");
            if let DeliveryEvent::Prepared(prepared) = delivery {
                assert_eq!(prepared.check_content(None), Ok(()), "{place}");
            }
            assert_eq!(outbox.evolve(delivery), Evolved::Applied, "{place}");
            *head = event.head();
        }
        assert_eq!(file.lines().count(), expected.events);
        assert!(expected.events > 0);
        let heads = streams.iter().map(|(name, (_, head))| (name.to_string(), *head));
        assert_eq!(heads.collect::<BTreeMap<_, _>>(), expected.heads);
        let outboxes = streams.values().map(|(outbox, _)| outbox);
        let folded = outboxes
            .flat_map(Outbox::records)
            .map(|record| (record.key.clone(), serde_json::to_value(record).unwrap()));
        let records = expected.records.into_iter().map(|record| {
            let key: MessageDeliveryKey = serde_json::from_value(record["key"].clone()).unwrap();
            (key, record)
        });
        assert_eq!(folded.collect::<BTreeMap<_, _>>(), records.collect::<BTreeMap<_, _>>());
    }
}
