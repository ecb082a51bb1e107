//! Databases: kept, shared, broken.

use std::{path::PathBuf, sync::Arc};

use tempfile::TempDir;

use super::*;
use crate::log::{EventLog, conformance};

/// A folder with a place for a database.
struct Sample {
    path: PathBuf,
    _folder: TempDir,
}

impl Sample {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { path: folder.path().join("agent.db"), _folder: folder }
    }

    fn open(&self) -> SqliteLog {
        SqliteLog::open(&self.path).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_database_keeps_what_a_log_must() {
    let folder = tempfile::tempdir().unwrap();
    let number = std::sync::atomic::AtomicUsize::new(0);
    conformance::run_all(async || {
        let number = number.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
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
