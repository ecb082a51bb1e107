//! The program over one log, each job beside `openssl dgst -sha256` of the same file.
//!
//! `cargo bench --bench replay -- [--events N] [--streams N] [--runs N] …`; `docs/performance.md`
//! says how to read it. What counts are the ratios: each is the median over rounds of a job's time
//! to that of the `openssl` that ran just before it.

#[path = "generate/mod.rs"]
mod generate;
mod measure;
#[path = "replay/process.rs"]
mod process;

use std::{
    fs::{self, File},
    io::BufWriter,
    path::{Path, PathBuf},
    process::ExitCode,
};

use generate::Plan;
use measure::{Options, median, number, print_table};
use process::{Job, Measured};

const USAGE: &str = "\
cargo bench --bench replay -- [OPTIONS]
  --events N      events of the log (1 000 000)
  --streams N     its streams, about (one for 20 events)
  --seed N        another log of the same kind (1)
  --live N        messages under way at once (2 000)
  --unfinished N  messages left unfinished at the end (1 000)
  --one-stream    all of it one outbox
  --runs N        rounds (5)
  --file FILE     measure this log
  --write FILE    only write the log there
  --memory        peak memory for N and 2 N events instead of times";

const NAMES: [&str; 8] =
    ["--events", "--streams", "--seed", "--live", "--unfinished", "--runs", "--file", "--write"];

fn main() -> ExitCode {
    measure::exit(run())
}

fn run() -> Result<(), String> {
    let options = Options::read(USAGE, &NAMES, &["--one-stream", "--memory"])?;
    let plan = plan(&options)?;
    if let Some(file) = options.text("--write") {
        return generate(&plan, Path::new(file));
    }
    let dir = tempfile::tempdir().map_err(|error| format!("no temporary directory: {error}"))?;
    if options.has("--memory") {
        return memory(&plan, dir.path());
    }
    let file = if let Some(file) = options.text("--file") {
        PathBuf::from(file)
    } else {
        let file = dir.path().join("log.jsonl");
        generate(&plan, &file)?;
        file
    };
    let runs = options.value("--runs", if options.is_smoke() { 1 } else { 5 })?.max(1);
    times(&file, runs)
}

fn plan(options: &Options) -> Result<Plan, String> {
    let defaults = Plan::default();
    let events = if options.is_smoke() { 2_000 } else { defaults.events };
    let events = options.value("--events", events)?;
    Ok(Plan {
        events,
        streams: options.value("--streams", events / 20)?,
        seed: options.value("--seed", defaults.seed)?,
        live: options.value("--live", defaults.live)?,
        unfinished: options.value("--unfinished", defaults.unfinished)?,
        is_one_stream: options.has("--one-stream"),
    })
}

fn generate(plan: &Plan, file: &Path) -> Result<(), String> {
    let failed = |error| format!("{}: {error}", file.display());
    let out = BufWriter::with_capacity(1 << 20, File::create_new(file).map_err(failed)?);
    let written = plan.write(out).map_err(failed)?;
    println!(
        "made {} events, {:.1} MB: {} streams, {} messages, {} unfinished, {} lost attempts (D12)",
        plan.events,
        number(written.bytes) / 1e6,
        written.streams,
        written.messages,
        written.unfinished,
        written.lost_attempts,
    );
    Ok(())
}

/// Each job in every round, beside the yardstick.
fn times(file: &Path, runs: usize) -> Result<(), String> {
    let failed = |error| format!("{}: {error}", file.display());
    let bytes = number(fs::metadata(file).map_err(failed)?.len());
    let events = number(process::count_lines(file).map_err(failed)?);
    process::print_machine();
    println!("{events} events, {:.1} MB; medians of {runs} rounds\n", bytes / 1e6);
    // The first run of each brings the file and the program into memory, and tells what is there.
    let yardstick = usable(Job::openssl(file));
    let jobs: Vec<_> = [
        Job::recount("verify, 1 job, one core", &["verify", "--jobs", "1"], file).pinned(),
        Job::recount("verify, 2 jobs", &["verify", "--jobs", "2"], file),
        Job::recount(
            "verify, chain only, 2 jobs",
            &["verify", "--only=L1,L2,L3,L4,L5,L7", "--jobs", "2"],
            file,
        ),
        Job::recount("replay, 1 job", &["replay", "--jobs", "1"], file),
        Job::recount("replay, 2 jobs", &["replay", "--jobs", "2"], file),
    ]
    .into_iter()
    .filter_map(usable)
    .collect();

    let mut yardsticks = Vec::new();
    let mut results = vec![Vec::new(); jobs.len()];
    for _ in 0..runs {
        for (job, results) in jobs.iter().zip(&mut results) {
            let beside = yardstick.as_ref().map(Job::run).transpose()?;
            let result = job.run()?;
            let ratio = beside.map(|beside| result.seconds / beside.seconds);
            yardsticks.extend(beside);
            results.push((result, ratio));
        }
    }
    let line = |name: &str, results: &[(Measured, Option<f64>)]| {
        let seconds = median(results.iter().map(|(it, _)| it.seconds));
        let ratio = median(results.iter().filter_map(|(_, ratio)| *ratio));
        let peak = results.iter().map(|(it, _)| it.peak_kib).max().unwrap_or(0);
        vec![
            name.to_owned(),
            format!("{seconds:.3}"),
            if ratio.is_nan() { "-".to_owned() } else { format!("{ratio:.2}") },
            format!("{:.0}", bytes / 1e6 / seconds),
            format!("{:.0}", events / seconds),
            format!("{:.1}", number(peak) / 1_024.0),
        ]
    };
    let mut table = Vec::new();
    if !yardsticks.is_empty() {
        let yardsticks: Vec<_> = yardsticks.into_iter().map(|it| (it, Some(1.0))).collect();
        table.push(line("openssl dgst -sha256", &yardsticks));
    }
    table.extend(jobs.iter().zip(&results).map(|(job, results)| line(job.name, results)));
    print_table(&["job", "s", "ratio", "MB/s", "events/s", "peak MiB"], &table);
    Ok(())
}

/// Runs a job once; says why where it cannot be measured.
fn usable(job: Job) -> Option<Job> {
    match job.run() {
        Ok(_) => Some(job),
        Err(why) => {
            println!("left out: {why}");
            None
        }
    }
}

/// Peak memory for a log and one twice as long, with as much unfinished work (O-25).
fn memory(plan: &Plan, dir: &Path) -> Result<(), String> {
    let logs = [("once.jsonl", plan.events), ("twice.jsonl", 2 * plan.events)];
    let files = logs.map(|(name, _)| dir.join(name));
    for (file, (_, events)) in files.iter().zip(logs) {
        generate(&Plan { events, ..*plan }, file)?;
    }
    println!();
    let mut table = Vec::new();
    for words in [["verify", "--jobs", "1"], ["verify", "--jobs", "2"], ["replay", "--jobs", "2"]] {
        let name = words.join(" ");
        let peaks: Result<Vec<_>, _> =
            files.iter().map(|file| Job::recount(&name, &words, file).run()).collect();
        match peaks.as_deref() {
            Ok([once, twice]) => table.push(vec![
                name.clone(),
                format!("{:.1}", number(once.peak_kib) / 1_024.0),
                format!("{:.1}", number(twice.peak_kib) / 1_024.0),
                format!(
                    "{:.1}",
                    (number(twice.peak_kib) - number(once.peak_kib)) * 1_024.0
                        / number(plan.events.max(1))
                ),
            ]),
            Ok(_) => {}
            Err(why) => println!("left out: {why}"),
        }
    }
    let head = ["peak memory", "N: MiB", "2 N: MiB", "bytes for one more event"];
    print_table(&head, &table);
    Ok(())
}
