//! Programs that are run to be measured.

use std::{
    fs::{self, File},
    io::{self, Read, Seek},
    path::Path,
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use recount_core::log::{Block, RowSource, jsonl::JsonlRows};

use crate::measure::count;

/// How often a program's memory is looked at.
const LOOK: Duration = Duration::from_millis(5);

/// A program with its arguments, and what the table calls it.
pub(crate) struct Job<'a> {
    pub(crate) name: &'a str,
    words: Vec<String>,
}

/// What one run took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    pub(crate) seconds: f64,
    /// The most memory that was resident, as last seen before the end.
    pub(crate) peak_kib: u64,
}

impl<'a> Job<'a> {
    /// The yardstick.
    pub(crate) fn openssl(file: &Path) -> Self {
        Self::new("openssl dgst -sha256", &["openssl", "dgst", "-sha256"], file)
    }

    /// A command of the program that this package builds.
    pub(crate) fn recount(name: &'a str, words: &[&str], file: &Path) -> Self {
        Self::new(name, &[&[env!("CARGO_BIN_EXE_recount")], words].concat(), file)
    }

    fn new(name: &'a str, words: &[&str], file: &Path) -> Self {
        let file = file.to_string_lossy();
        Self { name, words: words.iter().copied().chain([&*file]).map(str::to_owned).collect() }
    }

    /// The same on one core.
    pub(crate) fn pinned(mut self) -> Self {
        let pin = ["taskset", "-c", "0"].map(str::to_owned);
        self.words.splice(0..0, pin);
        self
    }

    /// Runs it to its end, with no output.
    ///
    /// # Errors
    ///
    /// In words: it is not there, or it did not succeed.
    pub(crate) fn run(&self) -> Result<Measured, String> {
        let failed = |error: io::Error| format!("{}: {}: {error}", self.name, self.words[0]);
        let mut errors = tempfile::tempfile().map_err(failed)?;
        let begin = Instant::now();
        let mut child = Command::new(&self.words[0])
            .args(&self.words[1..])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(errors.try_clone().map_err(failed)?)
            .spawn()
            .map_err(failed)?;
        let (id, is_done) = (child.id(), AtomicBool::new(false));
        let (status, seconds, peak_kib) = thread::scope(|scope| {
            let peak = scope.spawn(|| watch(id, &is_done));
            let status = child.wait();
            let seconds = begin.elapsed().as_secs_f64();
            is_done.store(true, Ordering::Relaxed);
            (status, seconds, peak.join().unwrap_or(0))
        });
        let status = status.map_err(failed)?;
        if status.success() {
            return Ok(Measured { seconds, peak_kib });
        }
        let mut said = String::new();
        let _ = errors.rewind().and_then(|()| errors.read_to_string(&mut said));
        let said = said.lines().next().unwrap_or("it said nothing");
        Err(format!("{}: {status}: {said}", self.name))
    }
}

/// The highest peak that the system tells of a process, until it is done.
fn watch(id: u32, is_done: &AtomicBool) -> u64 {
    let mut peak = 0;
    while !is_done.load(Ordering::Relaxed) {
        peak = peak.max(peak_kib(id).unwrap_or(0));
        thread::sleep(LOOK);
    }
    peak
}

fn peak_kib(id: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

/// The lines of a file.
pub(crate) fn count_lines(file: &Path) -> io::Result<u64> {
    let mut reader = JsonlRows::new(File::open(file)?);
    let mut block = Block::default();
    let mut lines = 0;
    while reader.next(&mut block)? {
        lines += count(block.lines().count());
    }
    Ok(lines)
}

/// What the figures depend on.
pub(crate) fn print_machine() {
    let model = fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("model name"))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    });
    let cores = thread::available_parallelism().map_or(0, usize::from);
    println!("{cores} cores, {}", model.as_deref().unwrap_or("an unknown processor"));
    for words in [["openssl", "version"], ["rustc", "--version"]] {
        if let Ok(output) = Command::new(words[0]).arg(words[1]).output() {
            println!("{}", String::from_utf8_lossy(&output.stdout).trim());
        }
    }
    println!("recount {}", env!("CARGO_PKG_VERSION"));
}
