//! The loop of a driver, on a clock of tokio's that goes on by itself where everybody waits.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use futures_util::future::{BoxFuture, FutureExt as _};
use recount::{
    Instant, ThreadId,
    delivery::{
        BatchSize, MessageDeliveryKey, MessageDeliveryStatus as Status, PrepareMessage, RetryReason,
    },
    log::{MemoryLog, ReadError},
    service::{
        AdmissionError, Clock, DeliveryDriver, DueIndex, Failpoint, FailpointError, NewMessage,
        Point, Upcoming,
    },
};
use recount_core::doc;
use tokio::sync::Notify;

use super::process::{Destinations, Process, Running};
use crate::support::histories::millis;

pub(crate) fn on_paused_time<T>(work: impl Future<Output = T>) -> T {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.unwrap().block_on(work)
}

pub(crate) fn running(host: Arc<Destinations>) -> (Process, Running) {
    let clock = Running(tokio::time::Instant::now());
    (Process::new(Arc::new(MemoryLog::new()), clock.clone(), host), clock)
}

fn sleep(millis: u64) -> tokio::time::Sleep {
    tokio::time::sleep(Duration::from_millis(millis))
}

/// Whose waits are so long that nothing but what is tested ends them.
const AN_HOUR: u64 = 3_600_000;

#[test]
fn it_sleeps_until_the_next_deadline_and_stops_when_it_is_told() {
    on_paused_time(async {
        let host = Destinations::with(|call| {
            let reason = RetryReason::Transport;
            let answer = if call < 2 {
                Err(AdmissionError::Retryable { reason, diagnostic: None })
            } else {
                Ok(())
            };
            std::future::ready(answer).boxed()
        });
        let (process, clock) = running(host);
        process.service.prepare(doc::message("m-1")).await.unwrap();
        process.driver.clone().with_poll_millis(AN_HOUR).run(sleep(20_000)).await;
        let record = process.record("m-1");
        // 1 s and 2 s after the failures, and 5 s after each question.
        assert_eq!((record.status, record.retry.attempts), (Status::Processed, 5));
        assert_eq!(record.retry.last_attempt_at_millis, Some(millis(14_000)));
        assert_eq!(clock.now(), millis(21_000), "it stopped at once");
    });
}

#[test]
fn a_wake_of_this_process_and_a_poll_for_others_tell_of_what_is_new() {
    on_paused_time(async {
        let (process, clock) = running(Destinations::kind());
        let send = async {
            sleep(500).await;
            let PrepareMessage { key, envelope, policy, predecessor, .. } = doc::message("m-1");
            let lifetime_millis = 3_600_000;
            let message = NewMessage { key, envelope, lifetime_millis, policy, predecessor };
            let sent = process.service.send(message.clone()).await.unwrap();
            sleep(100).await;
            let again = process.service.send(message).await.unwrap();
            assert_eq!(again.created_at_millis, sent.created_at_millis, "a repeat is no conflict");
            assert_eq!(again.status, Status::Accepted);
            process.service.settled(&again.key).await.unwrap();
        };
        let driver = process.driver.clone().with_poll_millis(AN_HOUR);
        futures_util::future::join(driver.run(sleep(4_000)), send).await;
        let record = process.record("m-1");
        assert_eq!(record.created_at_millis, millis(1_500));
        assert_eq!((record.retry.attempts, record.status), (2, Status::Accepted));
        assert_eq!(record.retry.last_attempt_at_millis, Some(millis(1_600)));

        let log = Arc::new(MemoryLog::new());
        let here = Process::new(log.clone(), clock.clone(), Destinations::kind());
        let elsewhere = Process::new(log, clock.clone(), Destinations::kind());
        let began = clock.now().as_millis();
        let prepare = async {
            sleep(100).await;
            elsewhere.service.prepare(doc::message("m-1")).await.unwrap();
        };
        let driver = here.driver.clone().with_poll_millis(700);
        futures_util::future::join(driver.run(sleep(1_000)), prepare).await;
        let polled = elsewhere.record("m-1").retry.last_attempt_at_millis;
        assert_eq!(polled, Some(millis(began + 700)));
    });
}

#[test]
fn told_to_stop_it_begins_nothing_and_records_what_is_under_way() {
    on_paused_time(async {
        let asked = Arc::new(Notify::new());
        let seen = asked.clone();
        let host = Destinations::with(move |_| {
            seen.notify_one();
            sleep(20_000).map(Ok).boxed()
        });
        let (process, clock) = running(host);
        for id in ["m-1", "m-2"] {
            process.service.prepare(doc::message(id)).await.unwrap();
        }
        let driver = process.driver.clone().with_concurrency(1).unwrap();
        driver.run(async { asked.notified().await }).await;
        assert_eq!(clock.now(), millis(21_000), "it waited for the answer");
        let records = ["m-1", "m-2"].map(|id| process.record(id));
        assert_eq!([records[0].status, records[1].status], [Status::Accepted, Status::Pending]);
        assert_eq!([records[0].version, records[1].version], [3, 1]);
        driver.run(std::future::ready(())).await;
        assert_eq!(process.record("m-2").version, 1, "stopped before it began");
    });
}

#[test]
fn a_slow_destination_holds_up_its_own_messages_alone() {
    on_paused_time(async {
        let host = Destinations::with(|call| {
            if call == 0 {
                std::future::pending().boxed()
            } else {
                std::future::ready(Ok(())).boxed()
            }
        });
        let (process, _) = running(host);
        let ids: Vec<_> = (0..200).map(|number| format!("m-{number:03}")).collect();
        for id in &ids {
            let mut message = doc::message(id);
            message.key.owner_thread_id = ThreadId::new(format!("sender-{}", &id[2..4])).unwrap();
            process.service.prepare(message).await.unwrap();
        }
        process.driver.clone().with_concurrency(2).unwrap().run(sleep(26_000)).await;
        let due = process.view.upcoming(None, BatchSize::MAX).await.unwrap();
        assert_eq!(due.len(), 1, "all others are processed");
        assert_eq!(due[0].1.to_string(), "sender-00/m-000");
    });
}

/// A clock that runs, and may be set.
#[derive(Clone)]
struct Settable(Running, Arc<AtomicI64>);

impl Clock for Settable {
    fn now(&self) -> Instant {
        let now = self.0.now().as_millis().checked_add_signed(self.1.load(Ordering::SeqCst));
        millis(now.unwrap())
    }

    fn sleep(&self, millis: u64) -> BoxFuture<'static, ()> {
        self.0.sleep(millis)
    }
}

#[test]
fn a_clock_that_is_set_forward_is_noticed_at_the_next_poll_and_one_set_back_makes_it_late() {
    on_paused_time(async {
        let clock = Settable(Running(tokio::time::Instant::now()), Arc::default());
        let offset = clock.1.clone();
        let log = Arc::new(MemoryLog::new());
        let process = Process::new(log, clock.clone(), Destinations::kind());
        offset.store(7_200_000, Ordering::SeqCst);
        let mut message = doc::message("m-1");
        message.deadline_at_millis = millis(100_000_000);
        message.policy.settlement_poll_millis = 3_600_000;
        process.service.prepare(message).await.unwrap();
        let set = async {
            sleep(100).await;
            // An hour forward: the first question is due. Then two back: the second is late.
            offset.fetch_add(3_600_000, Ordering::SeqCst);
            sleep(1_000).await;
            assert_eq!(process.record("m-1").retry.attempts, 2);
            offset.fetch_sub(7_200_000, Ordering::SeqCst);
            sleep(10_000_000).await;
            assert_eq!(process.record("m-1").retry.attempts, 2);
        };
        // It stands still where everybody waits, so that four hours are nothing.
        futures_util::future::join(process.driver.run(sleep(14_000_000)), set).await;
        assert_eq!(process.record("m-1").status, Status::Processed);
    });
}

/// A port that tells of messages that nobody prepared, more than go into a page.
struct WithGhosts(Arc<recount::DeliveryView>, Mutex<usize>);

impl DueIndex for WithGhosts {
    type Key = MessageDeliveryKey;
    type Owner = ThreadId;

    fn catch_up(&self) -> BoxFuture<'_, Result<(), ReadError>> {
        self.0.catch_up()
    }

    fn due<'a>(
        &'a self,
        now: Instant,
        limit: BatchSize,
        owner: Option<&'a ThreadId>,
    ) -> BoxFuture<'a, Result<Vec<MessageDeliveryKey>, ReadError>> {
        self.0.due(now, limit, owner)
    }

    fn upcoming<'a>(
        &'a self,
        after: Option<&'a (Instant, MessageDeliveryKey)>,
        limit: BatchSize,
    ) -> BoxFuture<'a, Result<Upcoming<MessageDeliveryKey>, ReadError>> {
        async move {
            *self.1.lock().unwrap() += 1;
            let ghost = |number| (Instant::ZERO, doc::message(&format!("ghost-{number:03}")).key);
            let all = (0..250).map(ghost).chain(self.0.upcoming(None, BatchSize::MAX).await?);
            Ok(all.filter(|it| after.is_none_or(|after| it > after)).take(limit.get()).collect())
        }
        .boxed()
    }

    fn next_deadline<'a>(
        &'a self,
        owner: Option<&'a ThreadId>,
    ) -> BoxFuture<'a, Result<Option<Instant>, ReadError>> {
        self.0.next_deadline(owner)
    }
}

#[test]
fn messages_that_fail_are_left_alone_a_while_and_hide_no_others() {
    on_paused_time(async {
        let (process, _) = running(Destinations::kind());
        process.service.prepare(doc::message("m-1")).await.unwrap();
        let due = Arc::new(WithGhosts(process.view.clone(), Mutex::default()));
        let driver =
            DeliveryDriver::new(process.service.clone(), Destinations::kind(), due.clone());
        driver.run(sleep(10_500)).await;
        assert_eq!(process.record("m-1").status, Status::Processed);
        // 250 of them fail at most a hundred times a second, and a look has up to three pages.
        let looks = *due.1.lock().unwrap();
        assert!(looks < 11 * 100 * 3, "{looks} looks");
    });
}

/// Fails at each claim, and counts.
#[derive(Default)]
struct NoClaims(Mutex<u64>);

impl Failpoint for NoClaims {
    fn hit(&self, point: Point) -> Result<(), FailpointError> {
        if point == Point::BeforeAppend("Claim") {
            *self.0.lock().unwrap() += 1;
            return Err(FailpointError { point });
        }
        Ok(())
    }
}

#[test]
fn a_log_that_fails_is_asked_again_after_a_second() {
    on_paused_time(async {
        let (log, claims) = (Arc::new(MemoryLog::new()), Arc::new(NoClaims::default()));
        let clock = Running(tokio::time::Instant::now());
        let process = Process::failing(log, clock, Destinations::kind(), claims.clone());
        process.service.prepare(doc::message("m-1")).await.unwrap();
        process.driver.run(sleep(9_500)).await;
        assert_eq!(*claims.0.lock().unwrap(), 10);
        assert_eq!(process.record("m-1").version, 1);
    });
}
