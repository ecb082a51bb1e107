//! What the reference implementation answers to questions about outboxes, up to the first step in
//! which a driver changed something.

use std::sync::Arc;

use futures_executor::block_on;
use recount::{
    DeliveryView, Instant, Metadata, ThreadId, ViewError,
    delivery::{
        BatchSize, DeliveryError, ListMessages, MessageDeliveryKey, Outbox, OutboxCommand,
        OutboxLimits, PrepareMessage,
    },
    log::MemoryLog,
    service::{DueIndex, OutboxService, OwnerError, Owners, Submission},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json, value::RawValue};

use crate::support::Vectors;

#[derive(Deserialize)]
struct Run {
    limits: OutboxLimits,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Step {
    op: String,
    now_millis: Instant,
    args: Box<RawValue>,
    result: Option<Value>,
    error: Option<Value>,
    statuses: Vec<Value>,
}

struct Store {
    limits: OutboxLimits,
    owners: Owners<Outbox>,
    service: OutboxService,
    view: DeliveryView,
}

/// What an operation came to, and what it should have: JSON, or reason and operation.
type Answer = Result<Value, (String, String)>;

fn answer<T: Serialize>(result: Result<T, DeliveryError>) -> Answer {
    let told =
        |error: DeliveryError| (error.reason().as_str().to_owned(), error.operation().to_owned());
    result.map(|value| json!(value)).map_err(told)
}

fn of_log<T>(result: Result<T, OwnerError<DeliveryError>>) -> Result<T, DeliveryError> {
    result.map_err(|error| match error {
        OwnerError::Decide(error) => error,
        other => panic!("{other:?}"),
    })
}

fn of_view<T>(result: Result<T, ViewError>) -> Result<T, DeliveryError> {
    result.map_err(|error| match error {
        ViewError::Query(error) => error,
        other => panic!("{other:?}"),
    })
}

impl Step {
    fn args<T: serde::de::DeserializeOwned>(&self) -> T {
        serde_json::from_str(self.args.get()).unwrap()
    }

    fn expected(&self) -> Answer {
        let word = |error: &Value, field| error[field].as_str().unwrap().to_owned();
        match &self.error {
            Some(error) => Err((word(error, "reason"), word(error, "operation"))),
            None => Ok(self.result.clone().unwrap_or_default()),
        }
    }
}

#[derive(Deserialize)]
struct OfKey {
    key: MessageDeliveryKey,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OfOwner {
    owner_thread_id: ThreadId,
    limit: usize,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Due {
    now_millis: Instant,
    limit: usize,
}

#[derive(Deserialize)]
struct Insert {
    prepare: Box<PrepareMessage>,
}

impl Store {
    fn new(limits: OutboxLimits) -> Self {
        let log = Arc::new(MemoryLog::new());
        let owners = Owners::new(log.clone());
        let service = OutboxService::over(owners.clone());
        Self { limits, owners, service, view: DeliveryView::new(log) }
    }

    /// All answers that there are, which must be one.
    fn answers(&self, step: &Step) -> Vec<Answer> {
        match step.op.as_str() {
            "insert" => {
                let Insert { prepare } = step.args();
                let key = prepare.key.clone();
                let command = OutboxCommand::Prepare { message: prepare, limits: self.limits };
                let now = step.now_millis;
                let submission = Submission { command, metadata: Metadata::default(), now };
                let result = of_log(block_on(self.owners.submit(&key.owner_thread_id, submission)));
                let record = result.map(|_| block_on(self.service.get(&key)).unwrap());
                vec![answer(record)]
            }
            "get" => {
                let OfKey { key } = step.args();
                vec![
                    answer(of_log(block_on(self.service.get(&key)))),
                    answer(of_view(block_on(self.view.get(&key)))),
                ]
            }
            "list" => {
                let list: ListMessages = step.args();
                vec![
                    answer(of_log(block_on(self.service.list(&list)))),
                    answer(of_view(block_on(self.view.list(&list)))),
                ]
            }
            "readPending" => {
                let OfOwner { owner_thread_id, limit } = step.args();
                vec![
                    answer(of_log(block_on(self.service.read_pending(&owner_thread_id, limit)))),
                    answer(of_view(block_on(self.view.read_pending(&owner_thread_id, limit)))),
                ]
            }
            "due" => {
                let Due { now_millis, limit } = step.args();
                let limit = BatchSize::new(limit).unwrap();
                vec![answer(Ok(block_on(self.view.due(now_millis, limit, None)).unwrap()))]
            }
            "nextDeadline" => {
                vec![answer(Ok(block_on(self.view.next_deadline(None)).unwrap()))]
            }
            op => panic!("{op}"),
        }
    }
}

#[test]
fn vectors_delivery_driver_questions() {
    for file in Vectors::all("delivery-driver.jsonl") {
        let mut questions = 0;
        for (place, run) in file.cases::<Run>().unwrap() {
            let store = Store::new(run.limits);
            let mut before: &[Value] = &[];
            for (number, step) in run.steps.iter().enumerate() {
                if matches!(step.op.as_str(), "process" | "runDue" | "retry") {
                    if step.statuses != before {
                        break;
                    }
                    continue;
                }
                for answer in store.answers(step) {
                    questions += 1;
                    assert_eq!(answer, step.expected(), "{place}, step {number}: {}", step.op);
                }
                before = &step.statuses;
            }
        }
        assert!(questions > 500, "{questions}");
    }
}
