//! Whole runs of the reference implementation: what is inserted, asked, processed and recovered, what
//! hosts answer, and what stands there at the end.

use std::{collections::BTreeSet, sync::Arc};

use futures_executor::block_on;
use recount::{
    DeliveryView, Instant, Metadata, ThreadId, ViewError,
    delivery::{
        BatchSize, ListMessages, MessageDeliveryKey, MessageDeliveryRecord, Outbox, OutboxLimits,
        PrepareMessage,
    },
    log::MemoryLog,
    service::{Clock as _, DeliveryDriver, DeliveryFailure, DueIndex, OutboxService, Owners},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json, value::RawValue};

use super::hosts::{Asked, ScriptedHost, SetClock};
use crate::support::Vectors;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Run {
    #[expect(dead_code, reason = "the place names it")]
    name: String,
    limits: OutboxLimits,
    driver_limits: DriverLimits,
    submission_status_supported: bool,
    steps: Vec<Step>,
    records: Vec<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct DriverLimits {
    batch_size: usize,
    concurrency: usize,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Step {
    op: String,
    now_millis: Instant,
    args: Box<RawValue>,
    admissions: Vec<Asked>,
    result: Option<Value>,
    error: Option<Value>,
    statuses: Vec<Value>,
    now_after_millis: Instant,
}

/// All that an operation may be given.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Args {
    key: Option<MessageDeliveryKey>,
    prepare: Option<Box<PrepareMessage>>,
    owner_thread_id: Option<ThreadId>,
    after: Option<recount::MessageId>,
    pending_only: Option<bool>,
    limit: Option<usize>,
    now_millis: Option<Instant>,
    expected_version: Option<u64>,
    deadline_at_millis: Option<Instant>,
}

/// What an operation came to: JSON, or reason and operation of an error.
type Answer = Result<Value, (String, String)>;

fn answer<T: Serialize>(result: Result<T, DeliveryFailure>) -> Answer {
    result.map(|value| json!(value)).map_err(|failure| {
        let reason = failure.reason().unwrap_or_else(|| panic!("{failure:?}"));
        (reason.as_str().to_owned(), failure.operation().unwrap().to_owned())
    })
}

fn of_view<T: Serialize>(result: Result<T, ViewError>) -> Answer {
    answer(result.map_err(|error| match error {
        ViewError::Query(error) => DeliveryFailure::from(error),
        other => panic!("{other:?}"),
    }))
}

/// Of diagnostics only the kind is compared, as the reference's have stacks of their own.
fn comparable(mut value: Value) -> Value {
    match &mut value {
        Value::Object(fields) => {
            if let Some(Value::Object(diagnostic)) = fields.get_mut("lastFailureDiagnostic") {
                diagnostic.retain(|name, _| matches!(name.as_str(), "_tag" | "errorTag"));
            }
            for field in fields.values_mut() {
                *field = comparable(field.take());
            }
        }
        Value::Array(values) => {
            for value in values {
                *value = comparable(value.take());
            }
        }
        _ => {}
    }
    value
}

struct Store {
    clock: SetClock,
    host: Arc<ScriptedHost>,
    service: OutboxService,
    view: Arc<DeliveryView>,
    driver: DeliveryDriver,
    owners: BTreeSet<ThreadId>,
}

impl Store {
    fn new(run: &Run) -> Self {
        let log = Arc::new(MemoryLog::new());
        let clock = SetClock::default();
        let view = Arc::new(DeliveryView::new(log.clone()));
        let service = OutboxService::new(Owners::<Outbox>::new(log), Arc::new(clock.clone()))
            .with_limits(run.limits)
            .with_metadata(Metadata::of_actor("driver"));
        let has_status = run.submission_status_supported;
        let script = std::sync::Mutex::default();
        let host = Arc::new(ScriptedHost { clock: clock.clone(), has_status, script });
        let driver = DeliveryDriver::new(service.clone(), host.clone(), view.clone())
            .with_batch(BatchSize::new(run.driver_limits.batch_size).unwrap())
            .with_concurrency(run.driver_limits.concurrency)
            .unwrap();
        Self { clock, host, service, view, driver, owners: BTreeSet::new() }
    }

    /// All answers that there are, which must be one.
    fn answers(&mut self, step: &Step) -> Vec<Answer> {
        let args: Args = read(step.args.get());
        let (service, view, driver) = (&self.service, &self.view, &self.driver);
        match step.op.as_str() {
            "insert" => {
                let message = *args.prepare.unwrap();
                self.owners.insert(message.key.owner_thread_id.clone());
                vec![answer(block_on(service.prepare(message)))]
            }
            "process" => vec![answer(block_on(driver.process(&args.key.unwrap())))],
            "runDue" => vec![answer(block_on(driver.run_due(args.owner_thread_id.as_ref())))],
            "retry" => {
                let (version, deadline) =
                    (args.expected_version.unwrap(), args.deadline_at_millis.unwrap());
                vec![answer(block_on(driver.retry(&args.key.unwrap(), version, deadline)))]
            }
            "get" => {
                let key = args.key.unwrap();
                vec![answer(block_on(service.get(&key))), of_view(block_on(view.get(&key)))]
            }
            "list" => {
                let list = ListMessages {
                    owner_thread_id: args.owner_thread_id.unwrap(),
                    limit: args.limit.unwrap(),
                    after: args.after,
                    pending_only: args.pending_only.unwrap_or_default(),
                };
                vec![answer(block_on(service.list(&list))), of_view(block_on(view.list(&list)))]
            }
            "readPending" => {
                let (owner, limit) = (args.owner_thread_id.unwrap(), args.limit.unwrap());
                vec![
                    answer(block_on(service.read_pending(&owner, limit))),
                    of_view(block_on(view.read_pending(&owner, limit))),
                ]
            }
            "due" => {
                let limit = BatchSize::new(args.limit.unwrap()).unwrap();
                let due = block_on(view.due(args.now_millis.unwrap(), limit, None));
                vec![answer(due.map_err(DeliveryFailure::Due))]
            }
            "nextDeadline" => {
                let next = block_on(view.next_deadline(args.owner_thread_id.as_ref()));
                vec![answer(next.map_err(DeliveryFailure::Due))]
            }
            op => panic!("{op}"),
        }
    }

    fn records(&self) -> Vec<MessageDeliveryRecord> {
        let of = |owner: &ThreadId| {
            let list = ListMessages {
                owner_thread_id: owner.clone(),
                limit: 4_096,
                after: None,
                pending_only: false,
            };
            block_on(self.service.list(&list)).unwrap().items
        };
        self.owners.iter().flat_map(of).collect()
    }
}

fn read<T: DeserializeOwned>(text: &str) -> T {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn expected(step: &Step) -> Answer {
    let word = |error: &Value, field| error[field].as_str().unwrap().to_owned();
    match &step.error {
        Some(error) => Err((word(error, "reason"), word(error, "operation"))),
        None => Ok(comparable(step.result.clone().unwrap_or_default())),
    }
}

/// Values in an order that does not follow from who made them first.
fn in_order(mut values: Vec<Value>) -> Vec<Value> {
    values.sort_by_key(Value::to_string);
    values
}

#[test]
fn vectors_delivery_driver() {
    for file in Vectors::all("delivery-driver.jsonl") {
        let (mut steps, mut asked) = (0, 0);
        for (place, run) in file.cases::<Run>().unwrap() {
            let mut store = Store::new(&run);
            for (number, step) in run.steps.iter().enumerate() {
                let place = format!("{place}, step {number}: {} {}", step.op, step.args);
                store.clock.set(step.now_millis);
                asked += step.admissions.len();
                *store.host.script.lock().unwrap() = step.admissions.iter().cloned().collect();
                for answer in store.answers(step) {
                    steps += 1;
                    assert_eq!(answer.map(comparable), expected(step), "{place}");
                }
                assert!(store.host.script.lock().unwrap().is_empty(), "{place}: not asked");
                assert_eq!(store.clock.now(), step.now_after_millis, "{place}");
                let status = |record: &MessageDeliveryRecord| {
                    let key = &record.key;
                    json!([key.owner_thread_id, key.message_id, record.status, record.version])
                };
                let statuses = store.records().iter().map(status).collect();
                assert_eq!(in_order(statuses), in_order(step.statuses.clone()), "{place}");
            }
            let records = store.records().iter().map(|it| comparable(json!(it))).collect();
            let expected = run.records.iter().cloned().map(comparable).collect();
            assert_eq!(in_order(records), in_order(expected), "{place}");
        }
        assert!(steps > 2_600 && asked > 300, "{steps} steps, {asked} questions");
    }
}
