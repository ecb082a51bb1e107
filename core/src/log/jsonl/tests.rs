//! The log in a file, its reader and its writer.

pub(super) mod copying;
#[cfg(unix)]
mod damage;
mod faults;

use std::{fs, path::PathBuf, sync::Arc};

use futures_util::{FutureExt, StreamExt, TryStreamExt};
use tempfile::TempDir;

use super::*;
use crate::{
    EventBatch, Position, RecordedEvent, StreamHead,
    log::{Direction, EventLog, conformance, conformance::batch},
    write_row,
};

/// A directory with one file in it.
struct Sample {
    path: PathBuf,
    _directory: TempDir,
}

impl Sample {
    fn new(text: &[u8]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log.jsonl");
        fs::write(&path, text).unwrap();
        Self { path, _directory: directory }
    }

    fn text(&self) -> Vec<u8> {
        fs::read(&self.path).unwrap()
    }
}

fn rows(batches: &[&EventBatch]) -> Vec<u8> {
    let mut text = Vec::new();
    for (position, event) in (0..).zip(batches.iter().flat_map(|batch| batch.events())) {
        write_row(&mut text, Position::new(position).unwrap(), event);
    }
    text
}

/// Two batches of two streams, three events in all; the last is not ASCII.
fn three() -> [EventBatch; 2] {
    [batch("delivery-a", None, &["1", "2"]), batch("delivery-b", None, &["ä"])]
}

fn three_rows() -> Vec<u8> {
    let [a, b] = three();
    rows(&[&a, &b])
}

fn next_of(batch: &EventBatch) -> EventBatch {
    conformance::batch(batch.stream(), Some(batch.head()), &["next"])
}

async fn all(log: &JsonlLog) -> Vec<RecordedEvent> {
    log.read_all(None, Direction::Forward, usize::MAX).try_collect().await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_log_in_a_file_keeps_what_a_log_must() {
    let directory = tempfile::tempdir().unwrap();
    let count = std::cell::Cell::new(0);
    conformance::run_all(async || {
        count.set(count.get() + 1);
        let log = JsonlLog::open(directory.path().join(count.get().to_string())).unwrap();
        Arc::new(log) as Arc<dyn EventLog>
    })
    .await;
    let path = directory.path().join("again");
    conformance::reopens(async || Arc::new(JsonlLog::open(&path).unwrap()) as Arc<dyn EventLog>)
        .await;
}

#[tokio::test]
async fn what_is_appended_is_rows_in_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("new.jsonl");
    let log = JsonlLog::open(&path).unwrap();
    for batch in three() {
        log.append(batch).await.unwrap();
        let _ = all(&log).await;
    }
    assert_eq!(fs::read(&path).unwrap(), three_rows());
}

#[test]
fn a_file_is_open_for_writing_once() {
    let sample = Sample::new(&three_rows());
    let log = JsonlLog::open(&sample.path).unwrap();
    // Who reads on does not keep the file.
    let mut subscription = log.subscribe(Position::ZERO);
    let path = sample.path.display();
    assert_eq!(
        JsonlLog::open(&sample.path).unwrap_err().to_string(),
        format!("{path} is locked: another process, or this one, has it open for writing")
    );
    assert_eq!(JsonlReader::open(&sample.path).unwrap().flatten().count(), 3);
    drop(log);
    let _log = JsonlLog::open(&sample.path).unwrap();
    for position in 0..3 {
        let event = subscription.next().now_or_never().unwrap().unwrap().unwrap();
        assert_eq!(event.position.get(), position);
    }
    assert!(subscription.next().now_or_never().unwrap().is_none());
}

#[test]
fn a_log_needs_no_runtime() {
    let sample = Sample::new(&three_rows());
    let log = JsonlLog::open(&sample.path).unwrap();
    let [a, _] = three();
    let mut subscription = log.subscribe(Position::new(3).unwrap());
    drop(log.append(next_of(&a)));
    let started = std::time::Instant::now();
    let appended = loop {
        match subscription.next().now_or_never() {
            Some(event) => break event.unwrap().unwrap(),
            None => assert!(started.elapsed().as_secs() < 10, "the event did not come"),
        }
    };
    assert_eq!(appended.event, next_of(&a).events()[0]);
    let events = log.read_all(None, Direction::Backward, 9).try_collect::<Vec<_>>();
    assert_eq!(events.now_or_never().unwrap().unwrap()[0], appended);
}

#[test]
fn what_was_submitted_is_written_before_the_log_is_gone() {
    let sample = Sample::new(b"");
    let log = JsonlLog::open(&sample.path).unwrap();
    let mut head: Option<StreamHead> = None;
    for _ in 0..500 {
        let next = batch("delivery-a", head, &["1", "2"]);
        head = Some(next.head());
        drop(log.append(next));
    }
    drop(log);
    let events = JsonlReader::open(&sample.path).unwrap().collect::<Result<Vec<_>, _>>().unwrap();
    assert_eq!(events.len(), 1_000);
    assert_eq!(events.last().map(|it| it.event.head()), head);
}

#[test]
fn events_are_written_again_byte_for_byte() {
    let text = three_rows();
    let mut writer = JsonlWriter::new(Vec::new());
    for event in JsonlReader::new(&text[..]) {
        writer.write(&event.unwrap().event).unwrap();
    }
    assert_eq!(writer.finish().unwrap(), text);
}

#[test]
fn an_export_counts_positions_anew() {
    let [a, b] = three();
    let mut writer = JsonlWriter::new(Vec::new());
    for (position, event) in (0..).zip(b.events().iter().chain(a.events())) {
        assert_eq!(writer.write(event).unwrap().get(), position);
    }
    let text = writer.finish().unwrap();
    assert_eq!(text, rows(&[&b, &a]));
    assert_eq!(JsonlReader::new(&text[..]).flatten().count(), 3);
}

#[test]
fn a_row_that_could_not_be_read_is_not_written() {
    let mut writer = JsonlWriter::new(Vec::new());
    let long = batch("delivery-a", None, &[&"x".repeat((16 << 20) - 100)]);
    let error = writer.write(&long.events()[0]).unwrap_err();
    assert_eq!(error.to_string(), "a row of 16777472 bytes is longer than 16777216");
    writer.write(&three()[0].events()[0]).unwrap();
    let text = writer.finish().unwrap();
    assert_eq!(JsonlReader::new(&text[..]).flatten().count(), 1);
}

#[test]
fn an_output_that_is_full_fails_the_writer() {
    let mut room = [0; 100];
    let mut writer = JsonlWriter::new(&mut room[..]);
    writer.write(&three()[0].events()[0]).unwrap();
    assert_eq!(writer.finish().unwrap_err().kind(), std::io::ErrorKind::WriteZero);
}
