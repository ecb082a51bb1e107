//! `recount demo`: real histories through the real rules into a real log.

mod host;
mod script;
mod world;

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::{Args, ValueEnum};
use recount_core::{
    delivery::MessageDeliveryKey,
    log::{EventLog, jsonl::JsonlLog, sqlite::SqliteLog},
};

use super::{
    Outcome,
    error::CliError,
    output::{FAINT, STRONG, fields, paint},
    replay, verify,
};
use host::Host;

/// Write a log of real histories, then verify and replay it
///
/// Three agents send messages to one another on a clock of the demo's own. The library's driver
/// delivers them; their destinations are slow, silent, refuse, lose replies, break and are helped.
/// The same seed writes the same events.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// Where to write the log [default: a new folder among the temporary files]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// What the log is kept in
    #[arg(long, value_enum, value_name = "KIND", default_value_t)]
    log: Kind,
    /// Which histories to write
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// What a demo's log is kept in.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Kind {
    /// A database, demo.db
    #[default]
    Sqlite,
    /// A text, demo.jsonl
    Jsonl,
}

impl Kind {
    fn file(self) -> &'static str {
        match self {
            Self::Sqlite => "demo.db",
            Self::Jsonl => "demo.jsonl",
        }
    }

    fn open(self, path: &Path) -> Result<Arc<dyn EventLog>, CliError> {
        let failed = |source| CliError::DemoLog { source };
        Ok(match self {
            Self::Sqlite => Arc::new(SqliteLog::open(path).map_err(|error| failed(error.into()))?),
            Self::Jsonl => Arc::new(JsonlLog::open(path).map_err(|error| failed(error.into()))?),
        })
    }
}

const EXAMPLES: &str = "\
Examples:
  recount demo
  recount demo --dir ./demo --seed 7
  recount demo --dir ./demo --log jsonl";

pub(super) fn run(arguments: &Arguments) -> Result<Outcome, CliError> {
    let path = place(arguments.dir.as_deref(), arguments.log.file())?;
    let mut host = Host::new(arguments.log.open(&path)?, arguments.seed)?;
    host.prepare_all()?;
    host.work_until_nothing_moves()?;
    let (parked, tally) = (host.parked()?, host.tally()?);
    drop(host);
    let out = &mut anstream::stdout();
    let written = write_tally(out, &path, &tally);
    written.map_err(CliError::Output)?;
    heading(out, "Was every rule kept?", "verify", &path)?;
    let verified = verify::run(&verify::Arguments::of(&path))?;
    heading(out, "What does it fold to?", "replay", &path)?;
    let replayed = replay::run(&replay::Arguments::of(&path))?;
    write_next(out, &path, arguments.log, parked.as_ref()).map_err(CliError::Output)?;
    Ok(if verified == Outcome::Holds { replayed } else { verified })
}

/// The file to write, in a folder that is made where it is missing.
fn place(dir: Option<&Path>, file: &str) -> Result<PathBuf, CliError> {
    let dir = match dir {
        Some(dir) => dir.to_owned(),
        None => (1..10_000)
            .map(|number| std::env::temp_dir().join(format!("recount-demo-{number}")))
            .find(|dir| !dir.exists())
            .unwrap_or_else(std::env::temp_dir),
    };
    let path = dir.join(file);
    if path.exists() {
        return Err(CliError::Exists { path });
    }
    fs::create_dir_all(&dir).map_err(|source| CliError::Create { path: dir, source })?;
    Ok(path)
}

fn write_tally(out: &mut impl io::Write, path: &Path, tally: &[(String, u64)]) -> io::Result<()> {
    let events: u64 = tally.iter().map(|(_, number)| number).sum();
    writeln!(
        out,
        "Three agents owed one another messages. Their hosts were slow, refused, lost replies, broke\n\
         and were helped. {events} events tell all of it, in {}:\n",
        paint(STRONG, path.display())
    )?;
    let lines: Vec<_> = tally.iter().map(|(name, number)| (&**name, number.to_string())).collect();
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

fn write_next(
    out: &mut impl io::Write,
    path: &Path,
    kind: Kind,
    parked: Option<&MessageDeliveryKey>,
) -> io::Result<()> {
    let (program, text) = (program(), path.with_extension("jsonl"));
    let (path, text) = (path.display(), text.display());
    let mut commands = Vec::new();
    if let Some(key) = parked {
        commands.extend([
            (format!("{program} explain {path} {key}"), "why a message is parked"),
            (format!("{program} show delivery {path} {key}"), "all that happened to it"),
        ]);
    }
    commands
        .push((format!("{program} stats {path}"), "what happened how often, and how long it took"));
    if let Kind::Sqlite = kind {
        commands.push((format!("{program} copy {path} {text}"), "the same log as a text"));
    }
    commands.extend([
        (format!("sed 's/unwanted/accepted/' {text} | {program} verify -"), "an edit is found"),
        (format!("sed 5d {text} | {program} verify -"), "so is a row that is missing"),
    ]);
    writeln!(out, "\n{}", paint(STRONG, "Try next"))?;
    for (command, what) in commands {
        writeln!(out, "  {command}\n      {}", paint(FAINT, what))?;
    }
    Ok(())
}
