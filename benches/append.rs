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

use std::process::ExitCode;

use measure::Options;

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
