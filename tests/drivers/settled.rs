//! Hosts that are told when a destination is done.

use std::sync::{Arc, OnceLock};

use futures_executor::block_on;
use futures_util::future::FutureExt as _;
use recount::{
    delivery::{MessageDeliveryStatus as Status, ParkReason},
    log::MemoryLog,
    service::{DueIndex as _, OutboxService},
};
use recount_core::doc;

use super::{
    hosts::{Patient, SetClock},
    process::{Destinations, Process, at, prepared},
};
use crate::support::histories::millis;

/// A process whose message was admitted at 1 000, and is looked at again at 6 000.
fn admitted() -> (Process, SetClock) {
    let clock = at(1_000);
    let process = prepared(Destinations::kind(), &clock);
    let record = block_on(process.driver.process(&doc::message("m-1").key)).unwrap();
    assert_eq!((record.status, record.version), (Status::Accepted, 3));
    assert_eq!(record.effective_deadline(), Some(millis(6_000)));
    (process, clock)
}

#[test]
fn a_message_is_looked_at_at_once_and_telling_it_again_changes_nothing() {
    let (process, clock) = admitted();
    let key = doc::message("m-1").key;
    clock.set(millis(2_000));
    let told = block_on(process.service.settled(&key)).unwrap();
    assert_eq!((told.version, told.effective_deadline()), (4, Some(millis(2_000))));
    assert_eq!(block_on(process.service.settled(&key)).unwrap(), told, "it is due already");
    assert_eq!(block_on(process.view.next_deadline(None)).unwrap(), Some(millis(2_000)));
    // The destination is asked, not believed: it is done at the second question.
    let record = block_on(process.driver.process(&key)).unwrap();
    assert_eq!(
        (record.status, record.effective_deadline()),
        (Status::Accepted, Some(millis(7_000)))
    );
    block_on(process.service.settled(&key)).unwrap();
    let record = block_on(process.driver.process(&key)).unwrap();
    assert_eq!((record.status, record.retry.attempts), (Status::Processed, 3));
    assert_eq!(block_on(process.service.settled(&key)).unwrap(), record, "it is finished");
}

#[test]
fn what_is_told_while_an_attempt_is_under_way_counts_once_that_is_recorded() {
    let clock = at(1_000);
    let service = Arc::new(OnceLock::<OutboxService>::new());
    let told = service.clone();
    // Destinations that are done before they have answered.
    let host = Destinations::with(move |_| {
        let told = told.clone();
        async move {
            let key = doc::message("m-1").key;
            told.get().unwrap().settled(&key).await.map(drop).unwrap();
            Ok(())
        }
        .boxed()
    });
    let process = Process::new(Arc::new(MemoryLog::new()), Patient(clock), host);
    service.set(process.service.clone()).unwrap();
    let key = doc::message("m-1").key;
    block_on(process.service.prepare(doc::message("m-1"))).unwrap();
    let record = block_on(process.driver.process(&key)).unwrap();
    assert_eq!((record.status, record.version), (Status::Accepted, 4));
    assert_eq!(record.effective_deadline(), Some(millis(1_000)), "no answer is thrown away for it");
    let record = block_on(process.driver.process(&key)).unwrap();
    assert_eq!((record.status, record.version), (Status::Accepted, 7));
    let record = block_on(process.driver.process(&key)).unwrap();
    assert_eq!(record.status, Status::Processed);
}

#[test]
fn an_attempt_of_another_process_ends_in_favour_of_the_next() {
    let (log, clock) = (Arc::new(MemoryLog::new()), at(1_000));
    let other = Process::new(log.clone(), clock.clone(), Destinations::kind());
    let telling = Arc::new(OnceLock::<OutboxService>::new());
    let told = telling.clone();
    let host = Destinations::with(move |call| {
        let told = told.clone();
        async move {
            if call == 1 {
                told.get().unwrap().settled(&doc::message("m-1").key).await.map(drop).unwrap();
            }
            Ok(())
        }
        .boxed()
    });
    telling.set(other.service.clone()).unwrap();
    let process = Process::new(log, Patient(clock.clone()), host.clone());
    let key = doc::message("m-1").key;
    block_on(process.service.prepare(doc::message("m-1"))).unwrap();
    block_on(process.driver.process(&key)).unwrap();
    clock.set(millis(6_000));
    let record = block_on(process.driver.process(&key)).unwrap();
    assert_eq!((record.status, record.version), (Status::Accepted, 5), "its answer came too late");
    assert_eq!(record.effective_deadline(), Some(millis(6_000)));
    let record = block_on(process.driver.process(&key)).unwrap();
    assert_eq!((record.status, record.retry.attempts), (Status::Processed, 3));
}

#[test]
fn nothing_is_recorded_of_what_is_not_admitted_or_left_to_a_person() {
    let clock = at(1_000);
    let process = prepared(Destinations::kind(), &clock);
    let key = doc::message("m-1").key;
    let record = block_on(process.service.settled(&key)).unwrap();
    assert_eq!((record.status, record.version), (Status::Pending, 1));
    let parked = block_on(process.service.park(&key, 1, ParkReason::Deadline)).unwrap();
    assert_eq!(block_on(process.service.settled(&key)).unwrap(), parked);
    let unknown = block_on(process.service.settled(&doc::message("m-2").key)).unwrap_err();
    assert_eq!(unknown.to_string(), "there is no message sender/m-2");
}
