//! Whole logs that are copied and replayed, and single streams out of many.

use std::{
    fs::File,
    hint::black_box,
    io::{BufWriter, Write as _},
    path::Path,
};

use futures_util::TryStreamExt as _;
use recount_core::{
    EventBatch, StreamHead, StreamName, doc,
    log::{
        Direction, EventLog, RowSource, copy,
        jsonl::{JsonlDestination, JsonlRows, ZstdDestination},
        sqlite::{SqliteDestination, SqliteLog, SqliteRows},
    },
};
use recount_projections::{ReplayOptions, VerifyOptions, replay, verify};

use crate::{
    generate::Plan,
    measure::{Job, compare, count, median, number, timed},
    writing::draft,
};

pub(crate) fn measure_whole_logs(dir: &Path, runs: usize, events: usize) -> Result<(), String> {
    let events = count(events);
    let (text, database) = (dir.join("whole.jsonl"), dir.join("whole.db"));
    let plan = Plan { events, streams: events / 20, ..Plan::default() };
    let out = File::create_new(&text).map_err(|error| error.to_string())?;
    let mut out = BufWriter::new(out);
    plan.write(&mut out).and_then(|_| out.flush()).map_err(|error| error.to_string())?;
    let jsonl = || File::open(&text).map(JsonlRows::new).map_err(|error| error.to_string());
    let sqlite = || SqliteRows::open(&database).map_err(|error| error.to_string());
    let to_sqlite = |path: &Path| SqliteDestination::open(path).map_err(|error| error.to_string());
    copy(jsonl()?, &mut to_sqlite(&database)?).map_err(|error| error.to_string())?;
    let length = |path: &Path| std::fs::metadata(path).map_or(0, |file| file.len());
    println!(
        "{events} events: {:.1} bytes each as JSON Lines, {:.1} as SQLite\n",
        number(length(&text)) / number(events),
        number(length(&database)) / number(events)
    );

    println!("copies, durable; the yardstick is `cp` of the text with a sync");
    let jobs = [
        Job::new("cp and fsync", None, |path| {
            timed_result(|| {
                let to = path.join("copy");
                std::fs::copy(&text, &to).and_then(|_| File::open(to)?.sync_all())
            })
        }),
        Job::new("JSON Lines to SQLite", Some(0), |path| {
            timed_result(|| {
                copy(jsonl()?, &mut to_sqlite(&path.join("copy.db"))?).map_err(|it| it.to_string())
            })
        }),
        Job::new("SQLite to JSON Lines", Some(0), |path| {
            timed_result(|| {
                let mut to =
                    JsonlDestination::open(path.join("copy.jsonl")).map_err(|it| it.to_string())?;
                copy(sqlite()?, &mut to).map_err(|it| it.to_string())
            })
        }),
        Job::new("SQLite to JSON Lines, zstd", Some(0), |path| {
            timed_result(|| {
                let mut to = ZstdDestination::open(path.join("copy.jsonl.zst"))
                    .map_err(|it| it.to_string())?;
                copy(sqlite()?, &mut to).map_err(|it| it.to_string())
            })
        }),
    ];
    compare(dir, runs, (events, "events"), &jobs)?;

    println!("from SQLite beside the same from JSON Lines");
    let jobs = [
        Job::new("replay JSON Lines, 1 job", None, |_| replayed(jsonl()?, 1)),
        Job::new("replay SQLite, 1 job", Some(0), |_| replayed(sqlite()?, 1)),
        Job::new("replay JSON Lines, 2 jobs", None, |_| replayed(jsonl()?, 2)),
        Job::new("replay SQLite, 2 jobs", Some(2), |_| replayed(sqlite()?, 2)),
        Job::new("verify JSON Lines, 2 jobs", None, |_| verified(jsonl()?, 2)),
        Job::new("verify SQLite, 2 jobs", Some(4), |_| verified(sqlite()?, 2)),
    ];
    compare(dir, runs, (events, "events"), &jobs)
}

fn timed_result<T, E: ToString>(work: impl FnOnce() -> Result<T, E>) -> Result<f64, String> {
    let (result, time) = timed(work);
    result.map_err(|error| error.to_string())?;
    Ok(time.as_secs_f64())
}

fn replayed(rows: impl RowSource + Send, jobs: usize) -> Result<f64, String> {
    let mut options = ReplayOptions::default();
    options.jobs = jobs;
    timed_result(|| {
        replay(rows, &options, |record| {
            black_box(record);
            Ok(())
        })
    })
}

fn verified(rows: impl RowSource + Send, jobs: usize) -> Result<f64, String> {
    let mut options = VerifyOptions::default();
    options.jobs = jobs;
    timed_result(|| verify(rows, &options, |_| Ok(())))
}

/// Streams of 20 events, interleaved, of which single ones are read.
pub(crate) fn measure_streams(dir: &Path, runs: usize, streams: usize) -> Result<(), String> {
    const READS: usize = 200;
    let path = dir.join("streams.db");
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let names: Vec<_> = (0..streams)
        .map(|of| StreamName::parse(&format!("delivery-stream-{of}")).expect("a name"))
        .collect();
    runtime.block_on(fill(&path, &names))?;
    let read = async |log: &SqliteLog, name| -> Result<usize, String> {
        let events = log.read_stream(name, None, Direction::Forward, usize::MAX);
        let events: Vec<_> = events.try_collect().await.map_err(|error| error.to_string())?;
        Ok(events.len())
    };
    let (mut first, mut later) = (Vec::new(), Vec::new());
    let mut at = 0;
    for _ in 0..runs {
        let (log, time) = timed(|| {
            let log = SqliteLog::open(&path).map_err(|error| error.to_string())?;
            let events = runtime.block_on(read(&log, &names[at % streams]))?;
            (events == 20).then_some(log).ok_or(format!("{events} events in a stream"))
        });
        let log = log?;
        first.push(time.as_secs_f64() * 1e6);
        for _ in 0..READS {
            // Far from the one before.
            at = (at + 7_919) % streams;
            let (events, time) = timed(|| runtime.block_on(read(&log, &names[at])));
            assert_eq!(events?, 20);
            later.push(time.as_secs_f64() * 1e6);
        }
    }
    println!("a stream of 20 events out of {}", streams * 20);
    println!(
        "  {:.0} µs with the log open, {:.0} µs with opening it\n",
        median(later),
        median(first)
    );
    Ok(())
}

async fn fill(path: &Path, names: &[StreamName]) -> Result<(), String> {
    let log = SqliteLog::open(path).map_err(|error| error.to_string())?;
    let at = doc::message("m").created_at_millis;
    let mut heads: Vec<Option<StreamHead>> = vec![None; names.len()];
    for _ in 0..20 {
        for (names, heads) in names.chunks(10_000).zip(heads.chunks_mut(10_000)) {
            let mut answers = Vec::with_capacity(names.len());
            for (name, head) in names.iter().zip(heads) {
                let batch = EventBatch::seal(name.clone(), *head, [draft()], at);
                let batch = batch.map_err(|error| error.to_string())?;
                *head = Some(batch.head());
                answers.push(log.append(batch));
            }
            for answer in answers {
                answer.await.map_err(|error| error.to_string())?;
            }
        }
    }
    let head = log.head().await.map_err(|error| error.to_string())?;
    let last = head.map_or(0, |head| head.position.get() + 1);
    (last == count(names.len() * 20)).then_some(()).ok_or(format!("{last} events"))
}
