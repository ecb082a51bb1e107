//! A process with a driver, and the destinations that it asks.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_executor::block_on;
use futures_util::future::{BoxFuture, FutureExt as _};
use recount::{
    DeliveryView, Envelope, Instant, Metadata, Receipt, Settlement,
    delivery::{MessageDeliveryRecord, Outbox},
    log::{EventLog, MemoryLog},
    service::{
        Admission, AdmissionError, Clock, DeliveryDriver, DeliveryFailure, DueIndex, Failpoint,
        OutboxService, Owners, SubmissionStatus,
    },
};
use recount_core::doc;
use serde_json::json;

use super::hosts::SetClock;
use crate::support::histories::millis;

/// What a destination does before it answers.
type Mood = dyn Fn(u64) -> BoxFuture<'static, Result<(), AdmissionError>> + Send + Sync;

/// Destinations that admit an input once under a key, and are done with it at the second question.
pub(crate) struct Destinations {
    pub(crate) admitted: Mutex<BTreeMap<String, Receipt>>,
    questions: Mutex<BTreeMap<String, u64>>,
    calls: Mutex<u64>,
    mood: Box<Mood>,
}

impl Destinations {
    pub(crate) fn kind() -> Arc<Self> {
        Self::with(|_| std::future::ready(Ok(())).boxed())
    }

    /// The mood is told which call it is, from 0.
    pub(crate) fn with(
        mood: impl Fn(u64) -> BoxFuture<'static, Result<(), AdmissionError>> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            admitted: Mutex::default(),
            questions: Mutex::default(),
            calls: Mutex::default(),
            mood: Box::new(mood),
        })
    }

    fn call(&self) -> u64 {
        let mut calls = self.calls.lock().unwrap();
        *calls += 1;
        *calls - 1
    }
}

impl Admission for Destinations {
    fn submit<'a>(
        &'a self,
        envelope: &'a Envelope,
    ) -> BoxFuture<'a, Result<Receipt, AdmissionError>> {
        async move {
            // It is admitted first: whatever happens then, it may not be admitted again.
            let receipt = {
                let mut admitted = self.admitted.lock().unwrap();
                let place = admitted.len();
                let key = envelope.admission_key.to_string();
                let receipt = admitted.entry(key.clone()).or_insert_with(|| {
                    serde_json::from_value(json!({
                        "receiptId": format!("r-{key}"), "submissionId": format!("s-{key}"),
                        "threadId": envelope.thread_id, "queueSequence": place,
                    }))
                    .unwrap()
                });
                receipt.clone()
            };
            (self.mood)(self.call()).await.map(|()| receipt)
        }
        .boxed()
    }

    fn submission_status<'a>(
        &'a self,
        receipt: &'a Receipt,
    ) -> Option<BoxFuture<'a, Result<SubmissionStatus, AdmissionError>>> {
        let answer = async move {
            (self.mood)(self.call()).await?;
            let mut questions = self.questions.lock().unwrap();
            let asked = questions.entry(receipt.receipt_id.to_string()).or_default();
            *asked += 1;
            if *asked == 1 {
                return Ok(SubmissionStatus::Pending);
            }
            let settlement: Settlement = serde_json::from_value(json!({
                "receiptId": receipt.receipt_id, "submissionId": receipt.submission_id,
                "settlementId": "t", "outcome": "completed", "settledAt": "2026-01-01T00:00:00Z",
            }))
            .unwrap();
            Ok(SubmissionStatus::Settled(settlement.into()))
        };
        Some(answer.boxed())
    }
}

/// A process that works on a log, until it is dropped.
pub(crate) struct Process {
    pub(crate) log: Arc<dyn EventLog>,
    pub(crate) service: OutboxService,
    pub(crate) view: Arc<DeliveryView>,
    pub(crate) driver: DeliveryDriver,
}

impl Process {
    pub(crate) fn new(
        log: Arc<dyn EventLog>,
        clock: impl Clock + 'static,
        host: Arc<Destinations>,
    ) -> Self {
        Self::failing(log, clock, host, Arc::new(recount::service::NoFailpoint))
    }

    pub(crate) fn failing(
        log: Arc<dyn EventLog>,
        clock: impl Clock + 'static,
        host: Arc<Destinations>,
        failpoint: Arc<dyn Failpoint>,
    ) -> Self {
        let view = Arc::new(DeliveryView::new(log.clone()));
        let service = OutboxService::new(Owners::<Outbox>::new(log.clone()), Arc::new(clock))
            .with_metadata(Metadata::of_actor("driver"))
            .with_failpoint(failpoint);
        let driver = DeliveryDriver::new(service.clone(), host, view.clone());
        Self { log, service, view, driver }
    }

    pub(crate) fn record(&self, id: &str) -> MessageDeliveryRecord {
        let key = doc::message(id).key;
        block_on(self.service.get(&key)).unwrap().unwrap()
    }

    /// Works until nothing is due any more, by a clock that goes to whatever is due next.
    pub(crate) fn finish(&self, clock: &SetClock) -> Result<(), DeliveryFailure> {
        while let Some(next) = block_on(self.view.next_deadline(None))? {
            clock.set(next.max(clock.now()));
            block_on(self.driver.run_due(None))?;
        }
        Ok(())
    }
}

pub(crate) fn at(now: u64) -> SetClock {
    let clock = SetClock::default();
    clock.set(millis(now));
    clock
}

pub(crate) fn prepared(host: Arc<Destinations>, clock: &SetClock) -> Process {
    let process = Process::new(Arc::new(MemoryLog::new()), clock.clone(), host);
    block_on(process.service.prepare(doc::message("m-1"))).unwrap();
    process
}

pub(crate) fn said(record: &MessageDeliveryRecord) -> String {
    serde_json::to_string(&record.last_failure_diagnostic).unwrap()
}

/// A clock of tokio's, which runs.
#[derive(Clone)]
pub(crate) struct Running(pub(crate) tokio::time::Instant);

impl Clock for Running {
    fn now(&self) -> Instant {
        millis(1_000 + u64::try_from(self.0.elapsed().as_millis()).unwrap())
    }

    fn sleep(&self, millis: u64) -> BoxFuture<'static, ()> {
        tokio::time::sleep(Duration::from_millis(millis)).boxed()
    }
}
