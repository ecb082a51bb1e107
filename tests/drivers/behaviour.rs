//! Hosts that misbehave, clocks that jump, and drivers that die: what is recorded, and who finishes.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_executor::block_on;
use futures_util::future::{BoxFuture, FutureExt as _};
use recount::{
    DeliveryView, Envelope, Metadata, Receipt, VerifyOptions,
    delivery::{MessageDeliveryStatus as Status, Outbox, ParkReason, RetryReason},
    log::{
        EventLog, MemoryLog,
        sqlite::{SqliteLog, SqliteRows},
    },
    service::{
        Admission, AdmissionError, Clock, DeliveryDriver, DeliveryFailure, DueIndex, Failpoint,
        FailpointError, OutboxService, Owners, Point,
    },
    verify,
};
use recount_core::doc;
use serde_json::json;

use super::{
    hosts::{Patient, SetClock},
    process::{Destinations, Process, Running, at, prepared, said},
};
use crate::support::histories::{behind, millis};

#[test]
fn a_host_that_panics_gave_no_answer_that_anybody_knows() {
    let clock = at(1_000);
    let host = Destinations::with(|call| {
        assert!(call % 2 == 1, "no queue at https://u:hunter2@h, call {call}");
        std::future::ready(Ok(())).boxed()
    });
    let process = prepared(host.clone(), &clock);
    let record = block_on(process.driver.process(&doc::message("m-1").key)).unwrap();
    assert_eq!(
        (record.status, record.retry.last_failure),
        (Status::Pending, Some(RetryReason::Ambiguous))
    );
    assert!(
        said(&record).contains("the host panicked: no queue at https://[redacted]@h"),
        "{}",
        said(&record)
    );
    process.finish(&clock).unwrap();
    assert_eq!(process.record("m-1").status, Status::Processed);
    assert_eq!(host.admitted.lock().unwrap().len(), 1);
}

#[test]
fn an_answer_after_the_lease_is_not_recorded_and_the_next_attempt_learns_it() {
    let clock = at(1_000);
    let late = clock.clone();
    let host = Destinations::with(move |call| {
        late.advance(if call == 0 { 30_001 } else { 0 });
        std::future::ready(Ok(())).boxed()
    });
    let process = prepared(host.clone(), &clock);
    let record = block_on(process.driver.process(&doc::message("m-1").key)).unwrap();
    assert_eq!((record.status, record.version), (Status::Pending, 2), "the claim is all there is");
    process.finish(&clock).unwrap();
    let record = process.record("m-1");
    assert_eq!((record.status, record.retry.attempts), (Status::Processed, 4));
    assert_eq!(host.admitted.lock().unwrap().len(), 1, "one admission under one key");
}

/// Destinations that answer for another thread.
struct Elsewhere;

impl Admission for Elsewhere {
    fn submit<'a>(&'a self, _: &'a Envelope) -> BoxFuture<'a, Result<Receipt, AdmissionError>> {
        let receipt = json!({
            "receiptId": "r", "submissionId": "s", "threadId": "elsewhere", "queueSequence": 0,
        });
        std::future::ready(Ok(serde_json::from_value(receipt).unwrap())).boxed()
    }
}

#[test]
fn an_answer_for_another_thread_is_an_error_and_the_lease_ends_by_itself() {
    let (clock, log) = (at(1_000), Arc::new(MemoryLog::new()));
    let view = Arc::new(DeliveryView::new(log.clone()));
    let service = OutboxService::new(Owners::<Outbox>::new(log), Arc::new(clock.clone()));
    let driver = DeliveryDriver::new(service.clone(), Arc::new(Elsewhere), view);
    let key = doc::message("m-1").key;
    block_on(service.prepare(doc::message("m-1"))).unwrap();
    let failure = block_on(driver.process(&key)).unwrap_err();
    assert_eq!(failure.operation(), Some("receipt-identity"));
    let record = block_on(service.get(&key)).unwrap().unwrap();
    assert_eq!((record.version, record.lease_until_millis), (2, Some(millis(31_000))));
}

#[test]
fn a_host_that_cannot_be_asked_leaves_what_it_admitted_to_a_person() {
    struct Mute(Arc<Destinations>);
    impl Admission for Mute {
        fn submit<'a>(
            &'a self,
            envelope: &'a Envelope,
        ) -> BoxFuture<'a, Result<Receipt, AdmissionError>> {
            self.0.submit(envelope)
        }
    }
    let (clock, log) = (at(1_000), Arc::new(MemoryLog::new()));
    let view = Arc::new(DeliveryView::new(log.clone()));
    let service = OutboxService::new(Owners::<Outbox>::new(log), Arc::new(clock.clone()));
    let driver = DeliveryDriver::new(service.clone(), Arc::new(Mute(Destinations::kind())), view);
    block_on(service.prepare(doc::message("m-1"))).unwrap();
    for now in [1_000, 6_000] {
        clock.set(millis(now));
        block_on(driver.run_due(None)).unwrap();
    }
    let record = block_on(service.get(&doc::message("m-1").key)).unwrap().unwrap();
    assert_eq!(record.park_reason, Some(ParkReason::StatusUnavailable));
}

#[test]
fn a_clock_that_jumps_makes_a_driver_late_and_never_wrong() {
    // Back, between the claim and the answer.
    let clock = at(100_000);
    let jumping = clock.clone();
    let host = Destinations::with(move |call| {
        if call == 0 {
            jumping.set(millis(40_000));
        }
        std::future::ready(Ok(())).boxed()
    });
    let process = prepared(host, &clock);
    let record = block_on(process.driver.process(&doc::message("m-1").key)).unwrap();
    assert_eq!(
        (record.status, record.retry.next_attempt_at_millis),
        (Status::Accepted, millis(45_000))
    );
    process.finish(&clock).unwrap();
    assert_eq!(process.record("m-1").status, Status::Processed);

    // Forward, past the deadline.
    let clock = at(1_000);
    let jumping = clock.clone();
    let host = Destinations::with(move |_| {
        jumping.set(millis(10_000_000));
        std::future::ready(Ok(())).boxed()
    });
    let process = prepared(host, &clock);
    let record = block_on(process.driver.process(&doc::message("m-1").key)).unwrap();
    assert_eq!((record.status, record.version), (Status::Pending, 2));
    let record = block_on(process.driver.process(&doc::message("m-1").key)).unwrap();
    assert_eq!(record.park_reason, Some(ParkReason::Deadline));
    // Back again: a person has it tried, and it is.
    clock.set(millis(2_000));
    let recovered =
        block_on(process.driver.retry(&record.key, record.version, millis(20_000_000))).unwrap();
    assert_eq!(recovered.effective_deadline(), Some(millis(2_000)));
}

#[test]
fn a_timeout_that_really_runs_is_recorded_under_its_lease() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let clock = Running(tokio::time::Instant::now());
        let host = Destinations::with(|_| std::future::pending().boxed());
        let process = Process::new(Arc::new(MemoryLog::new()), clock.clone(), host);
        let mut message = doc::message("m-1");
        message.policy.attempt_timeout_millis = 300;
        let key = message.key.clone();
        process.service.prepare(message).await.unwrap();
        let record = process.driver.process(&key).await.unwrap();
        let took = clock.now().as_millis() - 1_000;
        assert_eq!(record.retry.last_failure, Some(RetryReason::Timeout));
        assert!(said(&record).contains("no answer within 270 ms"), "{}", said(&record));
        assert!((270..=300).contains(&took), "{took}");
    });
}

#[test]
fn after_a_failure_nothing_new_is_begun_and_what_is_under_way_is_finished() {
    let clock = at(1_000);
    let host = Destinations::with(|call| {
        async move {
            match call {
                // Long enough for others to fail, and to begin if they may.
                0 => futures_util::future::join_all((0..20).map(|_| once_pending())).await,
                1 => return Err(AdmissionError::Corrupt { diagnostic: None }),
                _ => Vec::new(),
            };
            Ok(())
        }
        .boxed()
    });
    let process = Process::new(Arc::new(MemoryLog::new()), Patient(clock.clone()), host.clone());
    for id in ["m-1", "m-2", "m-3", "m-4"] {
        block_on(process.service.prepare(doc::message(id))).unwrap();
    }
    let driver = process.driver.clone().with_concurrency(2).unwrap();
    let failure = block_on(driver.run_due(None)).unwrap_err();
    assert_eq!(failure.to_string(), "the host's storage is corrupt, admission of sender/m-2");
    let statuses = ["m-1", "m-2", "m-3", "m-4"].map(|id| {
        let record = process.record(id);
        (record.status, record.version)
    });
    let (accepted, pending) = (Status::Accepted, Status::Pending);
    assert_eq!(statuses, [(accepted, 3), (pending, 2), (pending, 1), (pending, 1)]);
    clock.set(millis(40_000));
    let records = block_on(driver.run_due(None)).unwrap();
    assert_eq!(records.len(), 4);
    for (limit, is_one) in [(0, false), (1, true), (32, true), (33, false)] {
        assert_eq!(process.driver.clone().with_concurrency(limit).is_ok(), is_one, "{limit}");
    }
}

#[test]
fn an_envelope_that_is_not_the_one_that_was_prepared_is_not_sent() {
    let (log, clock, host) = (Arc::new(MemoryLog::new()), at(1_000), Destinations::kind());
    let forged = crate::lab::prepared("m-1", |data| data["envelopeDigest"] = json!("0".repeat(64)));
    for event in crate::lab::seal(&[forged]) {
        let draft = recount::EventDraft {
            event_type: event.event_type().clone(),
            schema_version: event.schema_version(),
            data: serde_json::from_str(event.data()).unwrap(),
            metadata: Metadata::default(),
        };
        let batch =
            recount::EventBatch::seal(event.stream().clone(), None, [draft], event.recorded_at());
        block_on(log.append(batch.unwrap())).unwrap();
    }
    let process = Process::new(log, clock, host.clone());
    let failure = block_on(process.driver.process(&doc::message("m-1").key)).unwrap_err();
    assert_eq!(failure.operation(), Some("envelope-digest"));
    assert!(host.admitted.lock().unwrap().is_empty(), "nothing is sent");
    assert_eq!(process.record("m-1").version, 2, "the lease ends by itself");
}

#[test]
fn a_host_with_corrupt_storage_is_told_of_and_leaves_nothing_recorded() {
    let host = Destinations::with(|_| {
        let diagnostic = Some(Box::new(recount::Diagnostic::text("bad page, token=hunter2x")));
        std::future::ready(Err(AdmissionError::Corrupt { diagnostic })).boxed()
    });
    let clock = at(1_000);
    let process = prepared(host, &clock);
    let failure = block_on(process.driver.process(&doc::message("m-1").key)).unwrap_err();
    let DeliveryFailure::HostStorage { diagnostic, .. } = &failure else { panic!("{failure:?}") };
    let known = serde_json::to_string(diagnostic).unwrap();
    assert!(known.contains("bad page, token=[redacted]"), "{known}");
    assert_eq!(process.record("m-1").version, 2);
}

/// Lets others go first, once.
fn once_pending() -> impl Future<Output = ()> {
    let mut is_first = true;
    std::future::poll_fn(move |context| {
        context.waker().wake_by_ref();
        if std::mem::take(&mut is_first) {
            std::task::Poll::Pending
        } else {
            std::task::Poll::Ready(())
        }
    })
}

#[test]
fn no_more_attempts_are_under_way_than_a_driver_may_have() {
    let under_way = Arc::new(Mutex::new((0_usize, 0_usize)));
    let seen = under_way.clone();
    let host = Destinations::with(move |_| {
        let seen = seen.clone();
        async move {
            {
                let mut seen = seen.lock().unwrap();
                seen.0 += 1;
                seen.1 = seen.1.max(seen.0);
            }
            once_pending().await;
            seen.lock().unwrap().0 -= 1;
            Ok(())
        }
        .boxed()
    });
    let clock = at(1_000);
    let process = Process::new(Arc::new(MemoryLog::new()), Patient(clock), host);
    let ids: Vec<_> = (0..20).map(|number| format!("m-{number}")).collect();
    for id in &ids {
        block_on(process.service.prepare(doc::message(id))).unwrap();
    }
    let driver = process.driver.clone().with_concurrency(3).unwrap();
    // Single messages count, too.
    let keys: Vec<_> = ids.iter().map(|id| doc::message(id).key).collect();
    let single = futures_util::future::join_all(keys.iter().map(|key| driver.process(key)));
    let (due, single) = block_on(futures_util::future::join(driver.run_due(None), single));
    assert_eq!((due.unwrap().len(), single.len()), (20, 20));
    assert_eq!(*under_way.lock().unwrap(), (0, 3));
}

/// Fails once, at one of the points in the order in which they come.
struct Once {
    left: Mutex<u64>,
    seen: Mutex<Vec<Point>>,
}

impl Failpoint for Once {
    fn hit(&self, point: Point) -> Result<(), FailpointError> {
        self.seen.lock().unwrap().push(point);
        let mut left = self.left.lock().unwrap();
        *left = left.checked_sub(1).unwrap_or(u64::MAX);
        if *left == 0 { Err(FailpointError { point }) } else { Ok(()) }
    }
}

/// One attempt at a time, so that the same is answered to the same in every run.
fn one_by_one(process: Process) -> Process {
    Process { driver: process.driver.with_concurrency(1).unwrap(), ..process }
}

/// What a host does with three messages, whatever of it was done before.
fn host_work(process: &Process, clock: &SetClock) -> Result<(), DeliveryFailure> {
    let service = &process.service;
    for message in [doc::message("m-1"), behind("m-2", "m-1"), doc::message("m-3")] {
        block_on(service.prepare(message))?;
    }
    // One is held back by a person, and let go.
    let key = doc::message("m-3").key;
    if process.record("m-3").version == 1 {
        block_on(service.park(&key, 1, ParkReason::StatusUnavailable))?;
    }
    let held = process.record("m-3");
    if held.version == 2 {
        block_on(service.recover(&key, held.version, held.deadline_at_millis))?;
    }
    // One is told of, once it was admitted.
    while process.record("m-1").status == Status::Pending {
        let next = block_on(process.view.next_deadline(None))?.expect("it is due some time");
        clock.set(next.max(clock.now()));
        block_on(process.driver.run_due(None))?;
    }
    block_on(service.settled(&doc::message("m-1").key))?;
    process.finish(clock)
}

#[test]
fn a_driver_that_dies_anywhere_leaves_work_that_another_finishes() {
    let folder = tempfile::tempdir().unwrap();
    let mut points = HashSet::new();
    for number in 1.. {
        let path = folder.path().join(format!("{number}.db"));
        let clock = at(1_000);
        // The first has to wait, so that the second is put off behind it, and is refused then.
        let host = Destinations::with(move |call| {
            let diagnostic = None;
            let code = || "unwanted".parse().unwrap();
            let answer = match call % 7 {
                4 => Err(AdmissionError::Refused { code: code(), diagnostic }),
                0 | 3 => {
                    Err(AdmissionError::Retryable { reason: RetryReason::Storage, diagnostic })
                }
                _ => Ok(()),
            };
            std::future::ready(answer).boxed()
        });
        let once = Arc::new(Once { left: Mutex::new(number), seen: Mutex::default() });
        let died = {
            let log = Arc::new(SqliteLog::open(&path).unwrap());
            let process = Process::failing(log, clock.clone(), host.clone(), once.clone());
            host_work(&one_by_one(process), &clock)
        };
        points.extend(once.seen.lock().unwrap().iter().copied());
        let is_last = died.is_ok();
        match died {
            Ok(()) => {}
            Err(DeliveryFailure::Failpoint(_)) => {
                // A new process, which does all of it again.
                let log = Arc::new(SqliteLog::open(&path).unwrap());
                let process = Process::new(log, clock.clone(), host.clone());
                host_work(&one_by_one(process), &clock).unwrap();
            }
            Err(other) => panic!("{other:?}"),
        }
        let process = Process::new(Arc::new(SqliteLog::open(&path).unwrap()), clock, host.clone());
        for id in ["m-1", "m-2", "m-3"] {
            let record = process.record(id);
            let is_parked = record.park_reason.is_some();
            assert!(record.status.is_finished() || is_parked, "{number}: {id} {:?}", record.status);
        }
        assert!(host.admitted.lock().unwrap().len() <= 3, "one admission under one key");
        let mut findings = Vec::new();
        let report =
            verify(SqliteRows::open(&path).unwrap(), &VerifyOptions::default(), |finding| {
                findings.push(finding.why);
                Ok(())
            });
        assert!(!report.unwrap().is_violated(), "{number}: {findings:?}");
        if is_last {
            assert!(number > 40, "{number} points");
            break;
        }
    }
    let of_drivers = ["Defer", "Claim", "Accept", "Retry", "Refuse", "ObservePending", "Process"];
    let of_hosts = ["Prepare", "Park", "Recover", "Notify"];
    for tag in of_drivers.into_iter().chain(of_hosts) {
        for point in [Point::BeforeAppend(tag), Point::AfterAppend(tag)] {
            assert!(points.contains(&point), "nothing dies at {point:?}");
        }
    }
    assert!(points.contains(&Point::AfterAnswer));
}

#[test]
fn o_16_an_attempt_that_kills_its_driver_is_charged_all_the_same() {
    struct Dies;
    impl Failpoint for Dies {
        fn hit(&self, point: Point) -> Result<(), FailpointError> {
            let dies = point == Point::AfterAppend("Claim");
            if dies { Err(FailpointError { point }) } else { Ok(()) }
        }
    }
    let (log, clock) = (Arc::new(MemoryLog::new()), at(1_000));
    let process =
        Process::failing(log.clone(), clock.clone(), Destinations::kind(), Arc::new(Dies));
    let mut message = doc::message("m-1");
    message.policy.max_automatic_attempts = 3;
    block_on(process.service.prepare(message)).unwrap();
    for attempt in 1..=3 {
        let failure = process.finish(&clock).unwrap_err();
        assert!(matches!(failure, DeliveryFailure::Failpoint(_)));
        assert_eq!(process.record("m-1").retry.attempts, attempt);
    }
    let process = Process::new(log, clock.clone(), Destinations::kind());
    process.finish(&clock).unwrap();
    let record = process.record("m-1");
    assert_eq!(record.park_reason, Some(ParkReason::Exhausted));
    assert_eq!(record.retry.attempts, 3, "a fourth claim is none");
}

#[test]
fn several_drivers_share_the_work_and_admit_each_message_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.db");
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build();
    let host = Destinations::with(|call| {
        async move {
            tokio::time::sleep(Duration::from_millis(call % 5)).await;
            let reason = RetryReason::Transport;
            if call % 11 == 3 {
                Err(AdmissionError::Retryable { reason, diagnostic: None })
            } else {
                Ok(())
            }
        }
        .boxed()
    });
    runtime.unwrap().block_on(async {
        let clock = Running(tokio::time::Instant::now());
        let processes: Vec<_> = (0..3)
            .map(|_| {
                Process::new(Arc::new(SqliteLog::open(&path).unwrap()), clock.clone(), host.clone())
            })
            .collect();
        for number in 0..60 {
            let mut message = doc::message(&format!("m-{number}"));
            let owner = format!("sender-{}", number % 7);
            message.key.owner_thread_id = recount::ThreadId::new(owner).unwrap();
            (message.policy.retry_base_millis, message.policy.settlement_poll_millis) = (2, 3);
            processes[number % 3].service.prepare(message).await.unwrap();
        }
        let work = processes.iter().map(|process| async {
            loop {
                process.driver.run_due(None).await.unwrap();
                let Some(next) = process.view.next_deadline(None).await.unwrap() else { return };
                let wait = next.as_millis().saturating_sub(clock.now().as_millis());
                clock.sleep(wait.min(50)).await;
            }
        });
        futures_util::future::join_all(work).await;
    });
    assert_eq!(host.admitted.lock().unwrap().len(), 60);
    let report =
        verify(SqliteRows::open(&path).unwrap(), &VerifyOptions::default(), |_| Ok(())).unwrap();
    assert!(!report.is_violated() && report.coverage.messages == 60, "{report:?}");
}
