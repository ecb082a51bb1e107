//! The program `recount`: arguments in, text and an exit status out.

mod copy;
mod cron;
mod demo;
mod destination;
mod error;
mod explain;
mod looks;
mod manual;
mod message;
mod output;
mod progress;
mod repair;
mod replay;
mod show;
mod source;
mod stats;
mod verify;

use std::{io, process::ExitCode};

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

use error::CliError;

/// What a command found, which is its exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// All holds.
    Holds,
    /// A rule does not hold, or a difference was found.
    Violated,
    /// It cannot be told: something could not be read, or was skipped.
    Unknown,
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        Self::from(match outcome {
            Outcome::Holds => 0,
            Outcome::Violated => 1,
            Outcome::Unknown => 2,
        })
    }
}

/// Rebuilds, explains and verifies what agents owe, from the events that were recorded.
#[derive(Debug, Parser)]
#[command(name = "recount", version, max_term_width = 100, after_help = STATUS)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    looks: looks::Looks,
}

const STATUS: &str = "\
SOURCE is a .jsonl, .jsonl.zst or SQLite file, or - for standard input. Reading never changes it.

Exit status: 0 all holds; 1 a rule does not hold, or something differs; 2 it cannot be told: wrong
usage, a source that cannot be read or is damaged, or something was skipped. Warnings change
nothing.";

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::Arguments),
    Verify(verify::Arguments),
    Replay(replay::Arguments),
    Explain(explain::Arguments),
    Show(show::Arguments),
    Stats(stats::Arguments),
    Cron(cron::Arguments),
    Copy(copy::Arguments),
    Repair(repair::Arguments),
    Completions(manual::Completions),
    Man(manual::Man),
}

/// How a result is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    #[default]
    Human,
    /// One JSON value.
    Json,
    /// One JSON value a line.
    Jsonl,
}

/// Runs the program on the process's arguments and streams.
pub fn run() -> ExitCode {
    let command = Arguments::command().color(looks::of_help(std::env::args()));
    let parsed = command.try_get_matches().and_then(|it| Arguments::from_arg_matches(&it));
    let arguments = match parsed {
        Ok(arguments) => arguments,
        Err(error) => {
            // A reader that went away has no use for the usage.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    arguments.looks.apply();
    let result = match &arguments.command {
        Command::Demo(arguments) => demo::run(arguments),
        Command::Verify(arguments) => verify::run(arguments),
        Command::Replay(arguments) => replay::run(arguments),
        Command::Explain(arguments) => explain::run(arguments),
        Command::Show(arguments) => show::run(arguments),
        Command::Stats(arguments) => stats::run(arguments),
        Command::Cron(arguments) => cron::run(arguments),
        Command::Copy(arguments) => copy::run(arguments),
        Command::Repair(arguments) => repair::run(arguments),
        Command::Completions(arguments) => manual::completions(arguments),
        Command::Man(arguments) => manual::man(arguments),
    };
    match result {
        Ok(outcome) => outcome.into(),
        Err(CliError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            Outcome::Unknown.into()
        }
        Err(error) => {
            error.print();
            Outcome::Unknown.into()
        }
    }
}
