//! What the measurements share: options, medians and tables.
#![allow(dead_code, reason = "who includes this module uses a part of it")]

use std::{
    env,
    fmt::Display,
    hint::black_box,
    path::{Path, PathBuf},
    process::ExitCode,
    str::FromStr,
    time::{Duration, Instant},
};

/// Options of a benchmark: `--name value`, or `--name` alone for a switch.
pub(crate) struct Options {
    words: Vec<String>,
    is_smoke: bool,
}

impl Options {
    /// Reads the command line; anything that is not among the names is refused with the usage.
    pub(crate) fn read(usage: &str, names: &[&str], switches: &[&str]) -> Result<Self, String> {
        let mut words: Vec<String> = env::args().skip(1).collect();
        // `cargo bench` says so; `cargo test --all-targets` does not, and wants a quick look.
        let is_smoke = !words.iter().any(|word| word == "--bench");
        words.retain(|word| word != "--bench");
        let mut rest = words.iter();
        while let Some(word) = rest.next() {
            let is_known = switches.contains(&word.as_str())
                || names.contains(&word.as_str()) && rest.next().is_some();
            if !is_known {
                return Err(format!("{word} is not an option, or lacks its value\n{usage}"));
            }
        }
        Ok(Self { words, is_smoke })
    }

    /// Whether this is a quick look and no measurement: a small log, one run.
    pub(crate) fn is_smoke(&self) -> bool {
        self.is_smoke
    }

    pub(crate) fn has(&self, switch: &str) -> bool {
        self.words.iter().any(|word| word == switch)
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        let at = self.words.iter().position(|word| word == name)?;
        self.words.get(at + 1).map(String::as_str)
    }

    /// The value of an option, or one that stands in for it.
    pub(crate) fn value<T: FromStr<Err: Display>>(&self, name: &str, or: T) -> Result<T, String> {
        self.text(name).map_or(Ok(or), |text| {
            let digits = text.replace('_', "");
            digits.parse().map_err(|error| format!("{name} {text}: {error}"))
        })
    }
}

/// The middle of some numbers; of the middle two, the lower.
pub(crate) fn median(numbers: impl IntoIterator<Item = f64>) -> f64 {
    let mut numbers: Vec<_> = numbers.into_iter().collect();
    numbers.sort_by(f64::total_cmp);
    let middle = numbers.len().saturating_sub(1) / 2;
    numbers.get(middle).copied().unwrap_or(f64::NAN)
}

/// How long something took.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let begin = Instant::now();
    let result = black_box(work());
    (result, begin.elapsed())
}

/// The exit status of what a bench did; what went wrong is printed.
pub(crate) fn exit(result: Result<(), String>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::from(2)
        }
    }
}

/// A count as a number to divide by.
#[expect(clippy::cast_precision_loss, reason = "counts here are far below 2^52")]
pub(crate) fn number(count: u64) -> f64 {
    count as f64
}

/// A length as a count.
pub(crate) fn count(length: usize) -> u64 {
    u64::try_from(length).expect("a length is a u64")
}

/// Prints rows in columns: the first to the left, the others to the right.
pub(crate) fn print_table(head: &[&str], rows: &[Vec<String>]) {
    let widths: Vec<_> = (0..head.len())
        .map(|column| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            cells.map(String::len).chain([head[column].len()]).max().unwrap_or(0)
        })
        .collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let cells = cells.zip(&widths).enumerate().map(|(column, (cell, width))| {
            if column == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        println!("{}", cells.collect::<Vec<_>>().join("  ").trim_end());
    };
    line(&mut head.iter().copied());
    for row in rows {
        line(&mut row.iter().map(String::as_str));
    }
}

/// A job that is run in every round.
pub(crate) struct Job<'a> {
    name: &'a str,
    /// Which of the jobs is its yardstick.
    beside: Option<usize>,
    /// Does it once on a path where nothing is, and returns how many seconds it took.
    run: Box<Run<'a>>,
}

impl<'a> Job<'a> {
    pub(crate) fn new(
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
pub(crate) fn compare(
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
