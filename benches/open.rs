//! Opening a log for work by a checkpoint, which should follow what is unfinished, and by folding
//! it, which follows what happened.
//!
//! `cargo bench --bench open -- [--runs N] [--events N] [--unfinished N]`; `docs/performance.md`
//! says how to read it. The log is opened at two lengths, the second ten times the first, with the
//! same number of unfinished messages, and once with a tenth of them.

#[path = "generate/mod.rs"]
mod generate;
mod measure;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use futures_executor::block_on;
use recount_core::{
    Instant,
    delivery::BatchSize,
    log::{
        EventLog, copy,
        jsonl::JsonlRows,
        sqlite::{SqliteDestination, SqliteLog},
    },
    service::DueIndex,
};
use recount_projections::{DeliveryView, Resumed};

use generate::Plan;
use measure::{Options, median, print_table, timed};

const USAGE: &str = "\
cargo bench --bench open -- [OPTIONS]
  --runs N        rounds (15)
  --events N      events of the shorter log (100_000)
  --unfinished N  unfinished messages (1_000)
  --dir DIR       where the logs are written (the target folder)";

const NAMES: [&str; 4] = ["--runs", "--events", "--unfinished", "--dir"];

fn main() -> ExitCode {
    measure::exit(run())
}

/// A log with a checkpoint at its head.
struct Prepared {
    events: u64,
    unfinished: u64,
    log: PathBuf,
    checkpoint: PathBuf,
    checkpoint_bytes: u64,
    /// How long it took to fold all of it, in seconds.
    folding: f64,
}

/// What one opening took, in microseconds.
#[derive(Clone, Copy)]
struct Opening {
    log: f64,
    view: f64,
    due: f64,
}

fn run() -> Result<(), String> {
    let options = Options::read(USAGE, &NAMES, &[])?;
    let size =
        |name, quick, real| options.value(name, if options.is_smoke() { quick } else { real });
    let (runs, events) = (size("--runs", 2, 15)?.max(1), size("--events", 1_000, 100_000)?);
    let unfinished: u64 = size("--unfinished", 20, 1_000)?;
    let dir = tempfile::tempdir_in(options.text("--dir").unwrap_or(env!("CARGO_TARGET_TMPDIR")));
    let dir = dir.map_err(|error| format!("no temporary directory: {error}"))?;
    let plans = [(events, unfinished), (events * 10, unfinished), (events * 10, unfinished / 10)];
    let logs = plans.iter().map(|(events, unfinished)| prepare(dir.path(), *events, *unfinished));
    let logs: Vec<_> = logs.collect::<Result<_, _>>()?;

    let mut rounds = Vec::new();
    for _ in 0..runs {
        rounds.push(logs.iter().map(open).collect::<Result<Vec<_>, _>>()?);
    }
    println!("medians of {runs} rounds\n");
    let mut rows = Vec::new();
    for (at, log) in logs.iter().enumerate() {
        let of = |part: fn(&Opening) -> f64| median(rounds.iter().map(|round| part(&round[at])));
        let ratio = median(rounds.iter().map(|round| round[at].view / round[0].view));
        rows.push(vec![
            log.events.to_string(),
            log.unfinished.to_string(),
            (log.checkpoint_bytes / 1_024).to_string(),
            format!("{:.2}", of(|it| it.log) / 1e3),
            format!("{:.2}", of(|it| it.view) / 1e3),
            format!("{ratio:.2}"),
            format!("{:.0}", of(|it| it.due)),
            format!("{:.0}", log.folding * 1e3),
        ]);
    }
    let head = [
        "events",
        "unfinished",
        "checkpoint, KiB",
        "log open, ms",
        "view by checkpoint, ms",
        "ratio to the first",
        "100 due, µs",
        "view by folding, ms",
    ];
    print_table(&head, &rows);
    Ok(())
}

fn prepare(dir: &Path, events: u64, unfinished: u64) -> Result<Prepared, String> {
    let name = format!("{events}-{unfinished}");
    let (log, checkpoint) = (dir.join(format!("{name}.db")), dir.join(format!("{name}.view")));
    let plan = Plan { events, streams: events / 20, unfinished, ..Plan::default() };
    let mut text = Vec::new();
    let written = plan.write(&mut text).map_err(|error| error.to_string())?;
    let mut to = SqliteDestination::open(&log).map_err(|error| error.to_string())?;
    copy(JsonlRows::new(&*text), &mut to).map_err(|error| error.to_string())?;
    let view = DeliveryView::new(open_log(&log)?);
    let (folded, folding) = timed(|| block_on(view.catch_up()));
    folded.map_err(|error| error.to_string())?;
    block_on(view.save(&checkpoint)).map_err(|error| error.to_string())?;
    let checkpoint_bytes = checkpoint.metadata().map_err(|error| error.to_string())?.len();
    Ok(Prepared {
        events,
        unfinished: written.unfinished,
        log,
        checkpoint,
        checkpoint_bytes,
        folding: folding.as_secs_f64(),
    })
}

fn open_log(path: &Path) -> Result<Arc<dyn EventLog>, String> {
    Ok(Arc::new(SqliteLog::open(path).map_err(|error| error.to_string())?))
}

fn open(prepared: &Prepared) -> Result<Opening, String> {
    let micros = |time: std::time::Duration| time.as_secs_f64() * 1e6;
    let (log, log_time) = timed(|| open_log(&prepared.log));
    let log = log?;
    let (view, view_time) = timed(|| {
        block_on(async {
            let (view, resumed) = DeliveryView::resume(log, &prepared.checkpoint).await?;
            view.catch_up().await?;
            Ok::<_, recount_core::log::ReadError>((view, resumed))
        })
    });
    let (view, resumed) = view.map_err(|error| error.to_string())?;
    if !matches!(resumed, Resumed::From(_)) {
        return Err(format!("the checkpoint was not used: {resumed:?}"));
    }
    let (due, due_time) = timed(|| block_on(view.due(Instant::MAX, BatchSize::MAX, None)));
    let due = due.map_err(|error| error.to_string())?;
    if due.is_empty() {
        return Err("nothing is due".to_owned());
    }
    Ok(Opening { log: micros(log_time), view: micros(view_time), due: micros(due_time) })
}
