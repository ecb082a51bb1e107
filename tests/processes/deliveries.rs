//! Hosts that deliver from one database, and are killed at any time.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    process::Child,
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use futures_util::future::{BoxFuture, FutureExt as _, join_all, join3};
use recount::{
    DeliveryView, Envelope, Invariant, MessageId, Metadata, Receipt, Recount, Settlement,
    StatsOptions, SystemClock, ThreadId, VerifyOptions,
    delivery::{
        BatchSize, ListMessages, MessageDeliveryKey, MessageDeliveryPolicy, MessageDeliveryRecord,
        Outbox, RetryReason,
    },
    log::{
        EventLog,
        sqlite::{SqliteLog, SqliteRows},
    },
    service::{
        Admission, AdmissionError, Clock as _, DueIndex as _, NewMessage, OutboxService, Owners,
        SubmissionStatus,
    },
    stats, verify,
};
use recount_core::doc;
use rusqlite::Connection;
use serde_json::json;

use super::{assert_verified, child, part};

const TEST: &str =
    "processes::deliveries::hosts_that_are_killed_at_any_time_deliver_all_of_it_once";
const HOSTS: usize = 4;
const KILLS: usize = 80;
const MESSAGES: usize = 2_400;
const OWNERS: usize = 40;

#[test]
fn hosts_that_are_killed_at_any_time_deliver_all_of_it_once() {
    if let Some((host, path)) = part() {
        return deliver_until_killed(host.parse().unwrap(), path.as_ref());
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.db");
    drop(SqliteLog::open(&path).unwrap());
    drop(Destinations::open(&path));
    let start = |host: usize| child(TEST, &host.to_string(), &path).spawn().unwrap();
    let kill = |process: &mut Child| {
        assert_eq!(process.try_wait().unwrap(), None, "a host ended by itself");
        process.kill().unwrap();
        process.wait().unwrap();
    };
    let mut hosts: Vec<_> = (0..HOSTS).map(start).collect();
    for number in 0..KILLS {
        thread::sleep(Duration::from_millis(30 + (number * 7_919 % 120) as u64));
        let host = number * 31 % 17 % HOSTS;
        kill(&mut hosts[host]);
        hosts[host] = start(host);
    }
    let log = Arc::new(SqliteLog::open(&path).unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let outboxes =
            OutboxService::new(Owners::<Outbox>::new(log.clone()), Arc::new(SystemClock));
        let view = DeliveryView::new(log.clone());
        let began = Instant::now();
        // While anything is to do, or a host has not prepared all of its messages yet.
        while records(&outboxes).await.len() < MESSAGES
            || !view.upcoming(None, BatchSize::MAX).await.unwrap().is_empty()
        {
            assert!(began.elapsed() < Duration::from_mins(4), "it does not come to an end");
            thread::sleep(Duration::from_millis(200));
        }
        hosts.iter_mut().for_each(kill);
        let lost = check(&path, &records(&outboxes).await);
        assert!(lost > 20, "{lost} attempts lost: else nothing was killed over an attempt");
        let head = log.head().await.unwrap().unwrap();
        assert_verified(&path, head.position.get() + 1);
    });
}

async fn records(outboxes: &OutboxService) -> Vec<MessageDeliveryRecord> {
    let mut records = Vec::new();
    for owner in 0..OWNERS {
        let owner_thread_id = self::owner(owner);
        let list = ListMessages { owner_thread_id, limit: 4_096, after: None, pending_only: false };
        records.extend(outboxes.list(&list).await.unwrap().items);
    }
    records
}

/// Holds what the log says to what the destinations know; returns how many attempts were lost.
fn check(path: &Path, records: &[MessageDeliveryRecord]) -> usize {
    assert_eq!(records.len(), MESSAGES);
    let destinations = Destinations::open(path);
    let admitted = destinations.admitted();
    let mut by_status = BTreeMap::<_, usize>::new();
    let mut known = BTreeSet::new();
    for record in records {
        let is_stated = record.status.is_finished() || record.park_reason.is_some();
        assert!(is_stated, "{} is {:?}", record.key, record.status);
        *by_status.entry(record.status.as_str()).or_default() += 1;
        let key = record.envelope.admission_key.to_string();
        if let Some(receipt) = &record.receipt {
            assert_eq!(admitted.get(&key), Some(&receipt.queue_sequence), "{key}");
            known.insert(key);
        } else if record.refusal.is_some() {
            assert!(!admitted.contains_key(&key), "{key} was refused and admitted");
        }
    }
    let unknown = admitted.keys().filter(|key| !known.contains(*key)).count();
    let parked = by_status.get("parked").copied().unwrap_or_default();
    assert!(unknown <= parked, "{unknown} admitted, and nobody waits for them: {by_status:?}");
    assert!(by_status["processed"] > MESSAGES * 8 / 10, "{by_status:?}");
    assert!(by_status["refused"] > 10, "{by_status:?}");
    let stats = stats(SqliteRows::open(path).unwrap(), &StatsOptions::default()).unwrap();
    let overtaken = stats.answers.get("overtaken").copied().unwrap_or_default();
    assert!(stats.notifications > 100 && overtaken > 0, "{} {overtaken}", stats.notifications);
    let mut findings = BTreeMap::<_, usize>::new();
    let rows = SqliteRows::open(path).unwrap();
    let report = verify(rows, &VerifyOptions::default(), |finding| {
        *findings.entry(finding.invariant.map(Invariant::id)).or_default() += 1;
        Ok(())
    });
    assert!(!report.unwrap().is_violated(), "{findings:?}");
    assert!(findings.keys().all(|rule| *rule == Some("D12")), "{findings:?}");
    findings.values().sum()
}

fn owner(number: usize) -> ThreadId {
    ThreadId::new(format!("sender-{number}")).unwrap()
}

/// The messages of a host; each tenth goes behind the one before it in its outbox.
fn messages(host: usize) -> impl Iterator<Item = NewMessage> {
    (0..MESSAGES).filter(move |number| number % OWNERS % HOSTS == host).map(|number| {
        let id = |number: usize| MessageId::new(format!("m-{number}")).unwrap();
        let predecessor = (number >= OWNERS && number % 10 == 3).then(|| id(number - OWNERS));
        NewMessage {
            key: MessageDeliveryKey {
                owner_thread_id: owner(number % OWNERS),
                message_id: id(number),
            },
            envelope: doc::envelope(&format!("key-{number}")),
            lifetime_millis: 600_000,
            policy: MessageDeliveryPolicy {
                attempt_timeout_millis: 400,
                retry_base_millis: 5,
                retry_max_millis: 80,
                settlement_poll_millis: 15,
                ..MessageDeliveryPolicy::default()
            },
            predecessor,
        }
    })
}

/// Two drivers in one process; both are told to go on for ever.
fn deliver_until_killed(host: usize, path: &Path) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build();
    runtime.unwrap().block_on(async {
        let log = Arc::new(SqliteLog::open(path).unwrap());
        let destinations = Arc::new(Destinations::open(path));
        let driver = |name: &str| {
            Recount::builder(log.clone(), destinations.clone())
                .metadata(Metadata::of_actor(format!("host-{host}-{name}")))
                .concurrency(6)
                .poll_millis(50)
                .build()
        };
        let [first, second] = [driver("a").await.unwrap(), driver("b").await.unwrap()];
        let prepare = async {
            for message in messages(host) {
                first.outboxes().send(message).await.unwrap();
            }
        };
        // Destinations tell some host, which need not be the one that asked them, and now and then twice.
        let tell = async {
            for number in 0.. {
                SystemClock.sleep(7).await;
                let owner = owner((number * 7 + host) % OWNERS);
                for record in first.outboxes().read_pending(&owner, 4_096).await.unwrap() {
                    if record.version % 2 == 1 {
                        first.outboxes().settled(&record.key).await.unwrap();
                    }
                }
            }
        };
        let for_ever = || std::future::pending::<()>();
        let drivers = join_all([first.run(for_ever()), second.run(for_ever())]);
        join3(drivers, prepare, tell).await;
    });
}

/// Destinations in a database of their own, which all hosts reach.
struct Destinations(Mutex<Connection>);

impl Destinations {
    fn open(log: &Path) -> Self {
        let connection = Connection::open(log.with_file_name("destinations.db")).unwrap();
        connection.busy_timeout(Duration::from_secs(20)).unwrap();
        // A killed process loses nothing of it all the same.
        connection
            .execute_batch(
                "PRAGMA journal_mode = WAL;
                 PRAGMA synchronous = OFF;
                 CREATE TABLE IF NOT EXISTS admitted (key TEXT PRIMARY KEY, place INTEGER NOT NULL);
                 CREATE TABLE IF NOT EXISTS calls (key TEXT PRIMARY KEY, number INTEGER NOT NULL);",
            )
            .unwrap();
        Self(Mutex::new(connection))
    }

    fn admitted(&self) -> BTreeMap<String, u64> {
        let connection = self.0.lock().unwrap();
        let mut rows = connection.prepare("SELECT key, place FROM admitted").unwrap();
        let rows = rows.query_map((), |row| Ok((row.get(0)?, natural(row, 1)?))).unwrap();
        rows.map(Result::unwrap).collect()
    }

    /// Which call about a key it is, from 1.
    fn count(&self, key: &str) -> u64 {
        let count = "INSERT INTO calls VALUES (?1, 1)
                     ON CONFLICT DO UPDATE SET number = number + 1 RETURNING number";
        self.0.lock().unwrap().query_row(count, (key,), |row| natural(row, 0)).unwrap()
    }

    /// Takes it once under its key, in the next place.
    fn admit(&self, key: &str) -> u64 {
        let connection = self.0.lock().unwrap();
        let insert = "INSERT INTO admitted SELECT ?1, count(*) FROM admitted WHERE true
                      ON CONFLICT DO NOTHING";
        connection.execute(insert, (key,)).unwrap();
        let place = "SELECT place FROM admitted WHERE key = ?1";
        connection.query_row(place, (key,), |row| natural(row, 0)).unwrap()
    }
}

fn natural(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<u64> {
    Ok(row.get::<_, i64>(column)?.try_into().unwrap())
}

impl Admission for Destinations {
    fn submit<'a>(
        &'a self,
        envelope: &'a Envelope,
    ) -> BoxFuture<'a, Result<Receipt, AdmissionError>> {
        async move {
            let key = &*envelope.admission_key;
            let number: usize = key.trim_start_matches("key-").parse().unwrap();
            let call = self.count(&format!("submit {key}"));
            let diagnostic = None;
            match number % 20 {
                7 => {
                    let code = "unwanted".parse().unwrap();
                    return Err(AdmissionError::Refused { code, diagnostic });
                }
                3 | 13 if call == 1 => {
                    let reason = RetryReason::Transport;
                    return Err(AdmissionError::Retryable { reason, diagnostic });
                }
                11 if call == 1 => std::future::pending().await,
                _ => {}
            }
            let place = self.admit(key);
            // Time to be killed in, when it is admitted and that is not recorded.
            SystemClock.sleep(number as u64 % 8).await;
            Ok(serde_json::from_value(json!({
                "receiptId": format!("receipt {key}"), "submissionId": format!("submission {key}"),
                "threadId": envelope.thread_id, "queueSequence": place,
            }))
            .unwrap())
        }
        .boxed()
    }

    fn submission_status<'a>(
        &'a self,
        receipt: &'a Receipt,
    ) -> Option<BoxFuture<'a, Result<SubmissionStatus, AdmissionError>>> {
        let answer = async move {
            let call = self.count(&format!("status {}", receipt.receipt_id));
            SystemClock.sleep(call % 4).await;
            if call == 1 {
                return Ok(SubmissionStatus::Pending);
            }
            let settlement: Settlement = serde_json::from_value(json!({
                "receiptId": receipt.receipt_id, "submissionId": receipt.submission_id,
                "settlementId": format!("settlement {}", receipt.receipt_id),
                "outcome": "completed", "settledAt": "2026-01-01T00:00:00Z",
            }))
            .unwrap();
            Ok(SubmissionStatus::Settled(settlement.into()))
        };
        Some(answer.boxed())
    }
}
