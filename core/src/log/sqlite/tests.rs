//! Databases: kept, shared, broken.

mod copying;
mod damage;
mod faults;
mod opening;

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use futures_util::TryStreamExt;
use rusqlite::Connection;
use tempfile::TempDir;

use super::*;
use crate::{
    EventBatch, RecordedEvent,
    log::{Direction, EventLog, conformance, conformance::batch},
};

/// A folder with a place for a database.
struct Sample {
    path: PathBuf,
    folder: TempDir,
}

impl Sample {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { path: folder.path().join("agent.db"), folder }
    }

    /// A database with the events of [`three`], which nobody has open.
    async fn of_three() -> Self {
        let sample = Self::new();
        let log = sample.open();
        for batch in three() {
            log.append(batch).await.unwrap();
        }
        sample
    }

    fn open(&self) -> SqliteLog {
        SqliteLog::open(&self.path).unwrap()
    }

    /// Does what no log does.
    fn sql(&self, sql: &str) -> rusqlite::Result<()> {
        Connection::open(&self.path)?.execute_batch(sql)
    }

    /// Does what the triggers keep everybody from.
    fn forge(&self, sql: &str) {
        let triggers = "events_are_only_appended events_are_not_changed events_are_not_deleted \
             streams_are_not_changed streams_are_not_deleted";
        let connection = Connection::open(&self.path).unwrap();
        let mut all = String::new();
        let mut put_back = String::new();
        for trigger in triggers.split_whitespace() {
            let select = "SELECT sql FROM sqlite_schema WHERE name = ?1";
            let text: String = connection.query_row(select, [trigger], |row| row.get(0)).unwrap();
            all.push_str(&format!("DROP TRIGGER {trigger};"));
            put_back.push_str(&format!("{text};"));
        }
        connection.execute_batch(&format!("{all}{sql};{put_back}")).unwrap();
    }
}

/// Two events of one stream, one of another.
fn three() -> [EventBatch; 2] {
    [batch("delivery-a", None, &["1", "2"]), batch("delivery-b", None, &["3"])]
}

/// One more event behind a batch.
fn next_of(before: &EventBatch) -> EventBatch {
    batch(before.stream(), Some(before.head()), &["next"])
}

async fn all(log: &SqliteLog) -> Vec<RecordedEvent> {
    log.read_all(None, Direction::Forward, usize::MAX).try_collect().await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_database_keeps_what_a_log_must() {
    let folder = tempfile::tempdir().unwrap();
    let number = AtomicUsize::new(0);
    conformance::run_all(async || {
        let number = number.fetch_add(1, Ordering::Relaxed);
        let log = SqliteLog::open(folder.path().join(format!("{number}.db"))).unwrap();
        Arc::new(log) as Arc<dyn EventLog>
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_database_is_the_same_log_when_it_is_opened_again() {
    let sample = Sample::new();
    conformance::reopens(async || Arc::new(sample.open()) as Arc<dyn EventLog>).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn several_may_have_a_database_open() {
    let sample = Sample::new();
    conformance::shares(async || Arc::new(sample.open()) as Arc<dyn EventLog>).await;
}

#[tokio::test]
async fn the_files_hold_what_was_answered_when_nobody_closes_them() {
    let sample = Sample::new();
    let log = sample.open();
    for batch in three() {
        log.append(batch).await.unwrap();
    }
    let expected = all(&log).await;
    let copy = Sample::new();
    for end in ["", "-wal"] {
        let of = |sample: &Sample| format!("{}{end}", sample.path.display());
        std::fs::copy(of(&sample), of(&copy)).unwrap();
    }
    assert_eq!(all(&copy.open()).await, expected);
}

#[tokio::test]
async fn a_page_is_bounded_and_the_next_goes_on_behind_it() {
    let sample = Sample::new();
    let log = sample.open();
    let large = "x".repeat(90_000);
    let batch = batch("delivery-a", None, &[&large, "2", &large, &large, "5"]);
    log.append(batch.clone()).await.unwrap();
    let found = all(&log).await;
    assert!(found.iter().map(|it| &it.event).eq(batch.events()));
    let stream = log.read_stream(batch.stream(), None, Direction::Backward, 4);
    let found: Vec<_> = stream.try_collect().await.unwrap();
    assert!(found.iter().map(|it| &it.event).eq(batch.events().iter().rev().take(4)));
}
