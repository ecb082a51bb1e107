//! `recount demo`: real histories through the real rules into a real log.

mod host;
mod script;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use clap::Args;
use recount_core::log::jsonl::JsonlLog;

use super::{
    Outcome,
    error::CliError,
    output::{FAINT, STRONG, fields, paint},
    replay, verify,
};
use host::Host;

/// Write a log of real histories, then verify and replay it
///
/// Three agents send messages to one another on a clock of the demo's own. Their hosts are slow,
/// refuse, lose replies, give up and are helped; each change is decided by the rules of the library
/// and appended to a log. The same seed writes the same bytes.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// Where to write demo.jsonl [default: a new folder among the temporary files]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Which histories to write
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

const EXAMPLES: &str = "\
Examples:
  recount demo
  recount demo --dir ./demo --seed 7";

pub(super) fn run(arguments: &Arguments) -> Result<Outcome, CliError> {
    let path = place(arguments.dir.as_deref())?;
    let log =
        JsonlLog::open(&path).map_err(|source| CliError::DemoLog { source: source.into() })?;
    let mut host = Host::new(&log, arguments.seed);
    host.prepare_all()?;
    host.work_until_nothing_moves()?;
    let tally = host.tally();
    drop(log);
    let out = &mut anstream::stdout();
    let written = write_tally(out, &path, &tally);
    written.map_err(CliError::Output)?;
    heading(out, "Was every rule kept?", "verify", &path)?;
    let verified = verify::run(&verify::Arguments::of(&path))?;
    heading(out, "What does it fold to?", "replay", &path)?;
    let replayed = replay::run(&replay::Arguments::of(&path))?;
    write_next(out, &path).map_err(CliError::Output)?;
    Ok(if verified == Outcome::Holds { replayed } else { verified })
}

/// The file to write, in a folder that is made where it is missing.
fn place(dir: Option<&Path>) -> Result<PathBuf, CliError> {
    let dir = match dir {
        Some(dir) => dir.to_owned(),
        None => (1..10_000)
            .map(|number| std::env::temp_dir().join(format!("recount-demo-{number}")))
            .find(|dir| !dir.exists())
            .unwrap_or_else(std::env::temp_dir),
    };
    let path = dir.join("demo.jsonl");
    if path.exists() {
        return Err(CliError::Exists { path });
    }
    fs::create_dir_all(&dir).map_err(|source| CliError::Create { path: dir, source })?;
    Ok(path)
}

fn write_tally(
    out: &mut impl io::Write,
    path: &Path,
    tally: &[(&'static str, u64)],
) -> io::Result<()> {
    let events: u64 = tally.iter().map(|(_, number)| number).sum();
    writeln!(
        out,
        "Three agents owed one another messages. Their hosts were slow, refused, lost replies, gave \
         up\nand were helped. {events} events tell all of it, in {}:\n",
        paint(STRONG, path.display())
    )?;
    let lines: Vec<_> = tally.iter().map(|(name, number)| (*name, number.to_string())).collect();
    fields(out, &lines)
}

fn heading(
    out: &mut impl io::Write,
    question: &str,
    command: &str,
    path: &Path,
) -> Result<(), CliError> {
    let command = format!("{} {command} {}", program(), path.display());
    writeln!(out, "\n{}  {command}\n", paint(STRONG, question)).map_err(CliError::Output)
}

/// How the program was called, so that what is shown can be called again.
fn program() -> String {
    std::env::args().next().unwrap_or_else(|| "recount".to_owned())
}

fn write_next(out: &mut impl io::Write, path: &Path) -> io::Result<()> {
    let (program, path) = (program(), path.display());
    let commands = [
        (format!("{program} replay {path} --format jsonl"), "every record, for machines"),
        (format!("sed 's/unwanted/accepted/' {path} | {program} verify -"), "an edit is found"),
        (format!("sed 5d {path} | {program} verify -"), "so is a row that is missing"),
    ];
    writeln!(out, "\n{}", paint(STRONG, "Try next"))?;
    for (command, what) in commands {
        writeln!(out, "  {command}\n      {}", paint(FAINT, what))?;
    }
    Ok(())
}
