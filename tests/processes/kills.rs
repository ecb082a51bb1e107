//! Processes that are killed while they append.

use std::{
    collections::{BTreeMap, HashMap},
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::Child,
    thread,
    time::Duration,
};

use futures_util::TryStreamExt as _;
use recount::{
    Position, RecordedEvent,
    log::{Direction, EventLog, sqlite::SqliteLog},
};

use super::{Sender, assert_verified, child, part, said};

const TEST: &str = "processes::kills::what_was_answered_outlives_two_hundred_kills";
const ROUNDS: u64 = 210;
const TASKS: u64 = 16;

#[test]
fn what_was_answered_outlives_two_hundred_kills() {
    if let Some((round, path)) = part() {
        return append_until_killed(&round, path.as_ref());
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.db");
    let (mut seen, mut unanswered, mut answered) = (0, 0, 0);
    for round in 0..ROUNDS {
        let mut process = child(TEST, &round.to_string(), &path).spawn().unwrap();
        let told = kill_after(&mut process, round);
        let events = check(&path, seen, &told);
        seen += events.len() as u64;
        answered += told.len();
        unanswered += batches(&events).len() - told.len();
    }
    // Else it was not in the middle of anything that they were killed.
    assert!(answered > 500 && unanswered > 50, "{answered} answered, {unanswered} not");
    assert_verified(&path, seen);
}

/// Kills a process some moments after its first answer, and returns what it told until then.
fn kill_after(process: &mut Child, round: u64) -> Vec<String> {
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let is_told = |line: &String| said(line).is_some();
    let first = lines.by_ref().map(Result::unwrap).find(is_told).expect("the first answer");
    thread::sleep(Duration::from_micros(round * 7_919 % 20_000));
    process.kill().unwrap();
    process.wait().unwrap();
    let told = [first].into_iter().chain(lines.map(Result::unwrap));
    let mut told: Vec<_> = told.filter_map(|line| said(&line).map(ToOwned::to_owned)).collect();
    // The last line may be cut: whoever is told half of it was not told.
    told.retain(|line| line.ends_with('.'));
    told
}

/// Holds a log to what its killed writer told, and returns what that one appended.
fn check(path: &Path, before: u64, told: &[String]) -> Vec<RecordedEvent> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let log = SqliteLog::open(path).unwrap();
        let from = Position::new(before);
        let events = log.read_all(from, Direction::Forward, usize::MAX);
        let events: Vec<_> = events.try_collect().await.unwrap();
        let head = log.head().await.unwrap().unwrap();
        let expected = before + events.len() as u64 - 1;
        assert_eq!(head.position.get(), expected, "the tail is where the last event is");
        let batches = batches(&events);
        for line in told {
            let (first, head) = line.trim_end_matches('.').split_once(' ').unwrap();
            let found = batches.get(&first.parse().unwrap());
            assert_eq!(found.map(String::as_str), Some(head), "an answered batch is lost: {line}");
        }
        events
    })
}

/// The first positions of all batches with their heads; each is whole.
fn batches(events: &[RecordedEvent]) -> BTreeMap<u64, String> {
    let mut batches = BTreeMap::new();
    let mut rest = events;
    while let Some(first) = rest.first() {
        let id = message_id(first);
        let size: usize = id.rsplit_once("-of-").unwrap().1.parse().unwrap();
        assert!(size <= rest.len(), "a batch of {size} is there by half: {}", rest.len());
        let (batch, behind) = rest.split_at(size);
        assert!(batch.iter().all(|event| message_id(event) == id), "a batch is in pieces: {id}");
        let last = &batch[size - 1].event;
        batches.insert(first.position.get(), format!("{} {}", last.stream(), last.digest()));
        rest = behind;
    }
    batches
}

fn message_id(event: &RecordedEvent) -> String {
    let data: HashMap<String, serde_json::Value> =
        serde_json::from_str(event.event.data()).unwrap();
    data["messageId"].as_str().unwrap().to_owned()
}

/// Appends from many tasks, and tells of each answer, without an end.
fn append_until_killed(round: &str, path: &Path) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    runtime.block_on(async {
        let log = std::sync::Arc::new(SqliteLog::open(path).unwrap());
        let tasks: Vec<_> = (0..TASKS)
            .map(|task| {
                let log = std::sync::Arc::clone(&log);
                let mut sender = Sender::new(&format!("{round}-{task}"));
                tokio::spawn(async move {
                    for size in [1, 2, 3].into_iter().cycle() {
                        let batch = sender.next(size);
                        let appended = log.append(batch.clone()).await.unwrap();
                        let line = format!(
                            "> {} {} {}.\n",
                            appended.first_position,
                            batch.stream(),
                            appended.head.digest
                        );
                        std::io::stdout().write_all(line.as_bytes()).unwrap();
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
}
