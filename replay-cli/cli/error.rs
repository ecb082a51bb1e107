//! Every error of the program: a message, and what to do.

use std::{error::Error, io, path::PathBuf};

use recount_core::log::{AppendError, jsonl::RepairError};
use recount_projections::ReplayError;

use super::output::{self, ERROR, HINT};

/// Why a command could not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub(super) enum CliError {
    #[error("{} cannot be opened", .path.display())]
    Open { path: PathBuf, source: io::Error },
    #[error("{name} cannot be read")]
    Read { name: String, source: io::Error },
    #[error("{name} is {what}, not a log of JSON Lines")]
    OtherFile { name: String, what: &'static str, hint: &'static str },
    #[error("{name} is not read by this build")]
    OtherBackend { name: String },
    #[error(transparent)]
    Repair { source: RepairError },
    #[error("{name} cannot be replayed: {source}")]
    Replay { name: String, source: ReplayError },
    #[error("the limits in {} cannot be read", .path.display())]
    Limits { path: PathBuf, source: serde_json::Error },
    #[error("every limit in {} must be positive", .path.display())]
    ZeroLimit { path: PathBuf },
    #[error("{} exists already", .path.display())]
    Exists { path: PathBuf },
    #[error("{} cannot be written", .path.display())]
    Create { path: PathBuf, source: io::Error },
    #[error("the demo's log cannot be opened")]
    DemoLog { source: recount_core::log::Source },
    #[error("the demo's log does not take an event")]
    Append { source: AppendError },
    #[error("the output cannot be written")]
    Output(#[source] io::Error),
}

impl CliError {
    /// What to do about it.
    fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::Open { .. } => {
                "SOURCE is the path of a .jsonl or .jsonl.zst file, or - for standard input"
            }
            Self::Repair { source: RepairError::Damaged { .. } | RepairError::NoLog { .. } } => {
                "`recount verify` says what is wrong; repair moves nothing but a cut last row"
            }
            Self::OtherFile { hint, .. } => hint,
            Self::OtherBackend { .. } => "export the log as JSON Lines and name that file",
            Self::Replay { source: ReplayError::Bad { .. }, .. } => {
                "`recount verify` says what else is wrong; --keep-going skips such events and counts \
                 them"
            }
            Self::Limits { .. } | Self::ZeroLimit { .. } => {
                "a limits file is JSON: {\"maxEnvelopeBytes\":262144,\"maxPendingPerOwner\":100,\
                 \"maxPendingUpdatesPerOwner\":32,\"maxRetainedPerOwner\":1000,\
                 \"maxRetainedUpdatesPerOwner\":256}"
            }
            Self::Exists { .. } => "name another folder with --dir: a log is never written over",
            Self::Create { .. } => "name a folder that can be written to with --dir",
            _ => return None,
        })
    }

    /// Prints message, causes and hint to standard error.
    pub(super) fn print(&self) {
        let mut text = format!("{} {self}", output::paint(ERROR, "error:"));
        // What a message has said already is not said again.
        let mut said = self.to_string();
        let mut cause = self.source();
        while let Some(error) = cause {
            let message = error.to_string();
            if !said.contains(&message) {
                text.push_str(&format!(": {message}"));
                said.push_str(&message);
            }
            cause = error.source();
        }
        if let Some(hint) = self.hint() {
            text.push_str(&format!("\n{} {hint}", output::paint(HINT, "hint:")));
        }
        anstream::eprintln!("{text}");
    }
}
