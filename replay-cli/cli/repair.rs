//! `recount repair`: a cut last row is moved aside.

use std::{io::Write, path::PathBuf};

use clap::Args;
use recount_core::log::jsonl::Repaired;
use serde_json::json;

use super::{Format, Outcome, error::CliError};

/// Move a cut last row aside, so that the rest is a log again
///
/// A crash or a full disk may leave a log whose last row is cut. Its bytes go to a file beside the
/// log, and then the log ends where its last whole row does. This is the one command that changes
/// a source; it touches nothing but a cut last row, and no log that is open for writing.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The log: a .jsonl file
    file: PathBuf,
    /// How the result is printed
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

const EXAMPLES: &str = "\
Examples:
  recount repair agent.jsonl";

pub(super) fn run(arguments: &Arguments) -> Result<Outcome, CliError> {
    let repaired = recount_core::log::jsonl::repair(&arguments.file)
        .map_err(|source| CliError::Repair { source })?;
    let file = arguments.file.display();
    let (told, value) = match &repaired {
        Repaired::Moved { offset, length, to } => {
            let to = to.display();
            (
                format!("moved {length} bytes, a row cut at byte {offset} of {file}, to {to}"),
                json!({"kind": "repair", "moved": {"byteOffset": offset, "length": length, "to": to.to_string()}}),
            )
        }
        Repaired::Unended => (
            format!("{file} needs no repair: its last row is whole, only its line end is missing"),
            json!({"kind": "repair", "moved": null}),
        ),
        _ => (
            format!("{file} needs no repair: its last row is whole"),
            json!({"kind": "repair", "moved": null}),
        ),
    };
    let out = &mut anstream::stdout();
    match arguments.format {
        Format::Human => writeln!(out, "{told}"),
        Format::Json | Format::Jsonl => writeln!(out, "{value}"),
    }
    .map_err(CliError::Output)?;
    Ok(Outcome::Holds)
}
