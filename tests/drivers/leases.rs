//! Attempts that are overtaken by others: the version decides, not who they are.

use std::sync::{Arc, Mutex, OnceLock};

use futures_executor::block_on;
use futures_util::future::FutureExt as _;
use recount::{
    delivery::MessageDeliveryStatus as Status,
    log::{Direction, EventLog, MemoryLog},
    service::DeliveryDriver,
};
use recount_core::doc;

use super::{
    hosts::{Patient, SetClock},
    process::{Destinations, Process, at},
};
use crate::support::histories::millis;

/// Two processes of the same name; while the first waits for its first answer, the clock is set and
/// the second makes an attempt, if it may.
fn overtaken_at(now: u64) -> (Process, SetClock, Arc<Destinations>, Arc<Mutex<Vec<u64>>>) {
    let (log, clock) = (Arc::new(MemoryLog::new()), at(1_000));
    let second = Arc::new(OnceLock::<DeliveryDriver>::new());
    let versions = Arc::new(Mutex::new(Vec::new()));
    let (other, time, seen) = (second.clone(), clock.clone(), versions.clone());
    let destinations = Destinations::with(move |call| {
        let (other, time, seen) = (other.clone(), time.clone(), seen.clone());
        async move {
            if call == 0 {
                time.set(millis(now));
                let record = other.get().unwrap().process(&doc::message("m-1").key).await.unwrap();
                seen.lock().unwrap().push(record.version);
            }
            Ok(())
        }
        .boxed()
    });
    let process = |log: &Arc<MemoryLog>| {
        Process::new(log.clone(), Patient(clock.clone()), destinations.clone())
    };
    let [first, other] = [process(&log), process(&log)];
    assert!(second.set(other.driver).is_ok());
    block_on(first.service.prepare(doc::message("m-1"))).unwrap();
    (first, clock, destinations, versions)
}

/// The events of a process's log: type and what the clock read.
fn events(log: &dyn EventLog) -> Vec<String> {
    let events = log.read_all(None, Direction::Forward, usize::MAX);
    let events: Vec<_> = block_on(futures_util::TryStreamExt::try_collect(events)).unwrap();
    let types = events.iter().map(|it: &recount::RecordedEvent| it.event.event_type().to_string());
    types.map(|it| it.trim_start_matches("delivery.").to_owned()).collect()
}

#[test]
fn o_13_an_attempt_that_was_overtaken_records_nothing_and_both_answers_are_one_receipt() {
    // The lease ends at 31 000: from then on another may begin, and has.
    let (first, clock, destinations, versions) = overtaken_at(31_000);
    let record = block_on(first.driver.process(&doc::message("m-1").key)).unwrap();
    assert_eq!(*versions.lock().unwrap(), [4], "the second claimed, and recorded its answer");
    assert_eq!((record.version, record.status), (4, Status::Accepted), "what the first is told");
    assert_eq!(record.retry.attempts, 2);
    let receipt = record.receipt.as_ref().unwrap();
    assert_eq!(destinations.admitted.lock().unwrap().values().collect::<Vec<_>>(), [receipt]);
    first.finish(&clock).unwrap();
    assert_eq!(first.record("m-1").status, Status::Processed);
    let told = events(&*first.log);
    let expected = ["prepared", "claimed", "claimed", "accepted"];
    assert_eq!(told[..4], expected.map(ToOwned::to_owned));
}

#[test]
fn o_13_at_the_very_end_of_its_lease_the_holder_may_still_record_where_nobody_else_began() {
    // A moment before, the second finds nothing to do.
    let (first, _, _, versions) = overtaken_at(30_999);
    let record = block_on(first.driver.process(&doc::message("m-1").key)).unwrap();
    assert_eq!(*versions.lock().unwrap(), [2]);
    assert_eq!((record.version, record.status), (3, Status::Accepted));

    for (answered, status) in [(31_000, Status::Accepted), (31_001, Status::Pending)] {
        let clock = at(1_000);
        let time = clock.clone();
        let host = Destinations::with(move |_| {
            time.set(millis(answered));
            std::future::ready(Ok(())).boxed()
        });
        let process = super::process::prepared(host, &clock);
        let record = block_on(process.driver.process(&doc::message("m-1").key)).unwrap();
        assert_eq!(record.status, status, "an answer at {answered}");
    }
}
