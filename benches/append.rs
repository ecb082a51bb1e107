//! Logs that are written and read, each job beside its yardstick in the same round.
//!
//! `cargo bench --bench append -- [--runs N] [--events N] [--streams N] [--only PART]`;
//! `docs/performance.md` says how to read it. The yardstick of an append is a bare file: length,
//! CRC-32 and the same bytes, `fdatasync` after each group.

#[path = "append/bare.rs"]
mod bare;
#[path = "generate/mod.rs"]
mod generate;
mod measure;
#[path = "append/reading.rs"]
mod reading;
#[path = "append/writing.rs"]
mod writing;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use measure::{Options, median, number, print_table};

const USAGE: &str = "\
cargo bench --bench append -- [OPTIONS]
  --runs N      rounds (7)
  --single N    appends of one task in a round (10_000)
  --shared N    appends of 64 tasks together in a round (64_000)
  --events N    events of the log that is copied and replayed (200_000)
  --streams N   streams of 20 events, of which single ones are read (50_000)
  --dir DIR     where the logs are written (the target folder)
  --only PART   writing, copying or streams";

const NAMES: [&str; 7] =
    ["--runs", "--single", "--shared", "--events", "--streams", "--dir", "--only"];

fn main() -> ExitCode {
    measure::exit(run())
}

fn run() -> Result<(), String> {
    let options = Options::read(USAGE, &NAMES, &[])?;
    let size =
        |name, quick, real| options.value(name, if options.is_smoke() { quick } else { real });
    let runs = size("--runs", 1, 7)?.max(1);
    let is_wanted = |part| options.text("--only").is_none_or(|only| only == part);
    // On the disk that the project is on: temporary files may be in memory.
    let dir = tempfile::tempdir_in(options.text("--dir").unwrap_or(env!("CARGO_TARGET_TMPDIR")));
    let dir = dir.map_err(|error| format!("no temporary directory: {error}"))?;
    println!("medians of {runs} rounds\n");
    if is_wanted("writing") {
        let (single, shared) = (size("--single", 5, 10_000)?, size("--shared", 640, 64_000)?);
        writing::measure(dir.path(), runs, single, shared)?;
    }
    if is_wanted("copying") {
        reading::measure_whole_logs(dir.path(), runs, size("--events", 2_000, 200_000)?)?;
    }
    if is_wanted("streams") {
        reading::measure_streams(dir.path(), runs, size("--streams", 50, 50_000)?)?;
    }
    Ok(())
}

/// A job that is run in every round.
struct Job<'a> {
    name: &'a str,
    /// Which of the jobs is its yardstick.
    beside: Option<usize>,
    /// Does it once on a path where nothing is, and returns how many seconds it took.
    run: Box<Run<'a>>,
}

impl<'a> Job<'a> {
    fn new(
        name: &'a str,
        beside: Option<usize>,
        run: impl Fn(&Path) -> Result<f64, String> + 'a,
    ) -> Self {
        Self { name, beside, run: Box::new(run) }
    }
}

type Run<'a> = dyn Fn(&Path) -> Result<f64, String> + 'a;

/// Runs jobs in turn, round by round, and prints how they compare.
///
/// `unit` names what a job does `count` of; a rate is that of the median, a ratio is the median of
/// the rounds' own.
fn compare(
    dir: &Path,
    runs: usize,
    (count, unit): (u64, &str),
    jobs: &[Job<'_>],
) -> Result<(), String> {
    let mut rounds = Vec::new();
    for round in 0..runs {
        let mut seconds = Vec::new();
        for (at, job) in jobs.iter().enumerate() {
            let path: PathBuf = dir.join(format!("{round}-{at}"));
            std::fs::create_dir(&path).map_err(|error| error.to_string())?;
            seconds.push((job.run)(&path).map_err(|error| format!("{}: {error}", job.name))?);
            std::fs::remove_dir_all(&path).map_err(|error| error.to_string())?;
        }
        rounds.push(seconds);
    }
    let rows: Vec<_> =
        jobs.iter().enumerate().map(|(at, job)| row(job, at, &rounds, count)).collect();
    print_table(&["job", "s", &format!("{unit}/s"), "time ratio", "rate ratio"], &rows);
    println!();
    Ok(())
}

/// A job's line in the table.
fn row(job: &Job<'_>, at: usize, rounds: &[Vec<f64>], count: u64) -> Vec<String> {
    let seconds = median(rounds.iter().map(|round| round[at]));
    let mut line = vec![
        job.name.to_owned(),
        format!("{seconds:.3}"),
        format!("{:.0}", number(count) / seconds),
    ];
    if let Some(beside) = job.beside {
        let ratios = || rounds.iter().map(|round| round[at] / round[beside]);
        let (low, high) = (ratios().fold(f64::NAN, f64::min), ratios().fold(f64::NAN, f64::max));
        let middle = median(ratios());
        line.push(format!("{middle:.2} ({low:.2} to {high:.2})"));
        line.push(format!("{:.2}", 1.0 / middle));
    }
    line
}
