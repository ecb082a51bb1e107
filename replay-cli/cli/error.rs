//! Every error of the program: a message, and what to do.

use std::{borrow::Cow, error::Error, io, path::PathBuf};

use recount_core::{
    MessageId,
    delivery::MessageDeliveryKey,
    log::{CopyError, jsonl, jsonl::RepairError, sqlite},
    schedule::{CronError, NoFiring},
    service::DeliveryFailure,
};
use recount_projections::ReplayError;

use super::output::{self, ERROR, HINT};

/// Why a command could not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub(super) enum CliError {
    #[error("{} cannot be opened", .path.display())]
    Open { path: PathBuf, source: io::Error },
    #[error("{name} cannot be read")]
    Read { name: String, source: io::Error },
    #[error("{name} is {what}, not a log")]
    OtherFile { name: String, what: &'static str, hint: &'static str },
    #[error("{name} is not known to this build")]
    OtherBackend { name: String },
    #[error(transparent)]
    Database { source: sqlite::OpenError },
    #[error("{} cannot be copied to", .path.display())]
    OpenTo { path: PathBuf, source: io::Error },
    #[error("what kind of file {name} is to be is not clear")]
    UnknownKind { name: String },
    #[error("{source_name} and {name} are the same file")]
    SameFile { source_name: String, name: String },
    #[error(transparent)]
    JsonlDestination { source: jsonl::OpenError },
    #[error("{name} cannot be copied to: {source}")]
    Copy { name: String, source: Box<CopyError> },
    #[error(transparent)]
    Repair { source: RepairError },
    #[error("{name}: {source}")]
    Replay { name: String, source: ReplayError },
    #[error("there is no message {} of {:?} in {name}", .key.message_id, .key.owner_thread_id)]
    NoMessage { name: String, key: MessageDeliveryKey, has_outbox: bool, others: Vec<MessageId> },
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
    #[error("the demo cannot go on: its log gave up")]
    Demo(#[from] DeliveryFailure),
    #[error("{source}\n{shown}")]
    Cron { source: CronError, shown: String },
    #[error("it never fires: {0}")]
    NoFiring(NoFiring),
    #[error("the output cannot be written")]
    Output(#[source] io::Error),
}

impl CliError {
    /// What to do about it.
    fn hint(&self) -> Option<Cow<'static, str>> {
        if let Self::NoMessage { name, key, has_outbox, others } = self {
            return Some(no_message(name, key, *has_outbox, others).into());
        }
        self.fixed_hint().map(Cow::from)
    }

    fn fixed_hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::Open { .. } => {
                "SOURCE is the path of a .jsonl, .jsonl.zst or SQLite file, or - for standard input"
            }
            Self::Repair { source: RepairError::Compressed { .. } } => {
                "the same `recount copy` finishes what it was interrupted in; any whole rows are \
                 copied with `recount copy FILE NEW.jsonl`"
            }
            Self::Repair { source: RepairError::Database { .. } } => {
                "SQLite mends what a crash left when it opens the file; `recount verify` says \
                 whether it is a log"
            }
            Self::Repair { source: RepairError::Damaged { .. } | RepairError::NoLog { .. } } => {
                "`recount verify` says what is wrong; repair moves nothing but a cut last row"
            }
            Self::OtherFile { hint, .. } => hint,
            Self::OtherBackend { .. } => {
                "this build reads and writes .jsonl, .jsonl.zst and SQLite files"
            }
            Self::Database { source } => return of_database(source),
            Self::OpenTo { .. } => {
                "DEST is the path of a .jsonl, .zst, .db, .sqlite or .sqlite3 file, or - for \
                 standard output"
            }
            Self::UnknownKind { .. } => {
                "let its name end in .jsonl, .zst (JSON Lines, compressed), .db, .sqlite or \
                 .sqlite3, or name - for standard output"
            }
            Self::SameFile { .. } => "a log is copied to another file",
            Self::JsonlDestination { source: jsonl::OpenError::Locked { .. } } => {
                "wait until it is done, and copy again: that goes on where it is"
            }
            Self::Copy { source, .. } => return of_copy(source),
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
            Self::Cron { source, .. } if source.field.is_some() => {
                "fields are numbers, names, *, ranges like 1-5, lists like 1,15 and steps like */10"
            }
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

/// What to do where a message is not there.
fn no_message(
    name: &str,
    key: &MessageDeliveryKey,
    has_outbox: bool,
    others: &[MessageId],
) -> String {
    let owner = &key.owner_thread_id;
    if !has_outbox {
        return format!("{owner:?} owns nothing there: `recount replay {name}` lists all messages");
    }
    let other = |id: &MessageId| {
        let (owner_thread_id, message_id) = (owner.clone(), id.clone());
        MessageDeliveryKey { owner_thread_id, message_id }.to_string()
    };
    let others: Vec<_> = others.iter().map(other).collect();
    let key = key.to_string();
    let owner = key.split('/').next().unwrap_or_default();
    let others = others.join(", ");
    format!("its outbox has {others}; `recount replay {name} --owner {owner}` lists all")
}

/// What to do where a destination was not copied to.
fn of_copy(error: &CopyError) -> Option<&'static str> {
    Some(match error {
        CopyError::Damaged { .. } => {
            "nothing was changed: `recount verify` says what is wrong; copy to a new file"
        }
        CopyError::CutFrame { .. } => {
            "nothing was changed: its whole rows can be copied to a new file with `recount copy`, \
             and so can the source"
        }
        CopyError::Interfered { .. } => {
            "copy again when nobody else writes to it: what was copied is its beginning"
        }
        CopyError::Storage { source } => match source.downcast_ref() {
            Some(error) => return of_database(error),
            None => "copy again: that goes on where it is",
        },
        _ => return None,
    })
}

/// What to do where a database cannot be opened.
fn of_database(error: &sqlite::OpenError) -> Option<&'static str> {
    Some(match error {
        sqlite::OpenError::Foreign { .. } => {
            "name the database that Recount keeps its log in; it is never one of another program"
        }
        sqlite::OpenError::NoDatabase { .. } => {
            "it begins as one and is damaged: take a copy of it from before"
        }
        sqlite::OpenError::Altered { .. } => {
            "what is left of it may be copied to a new file with `recount copy`"
        }
        _ => return None,
    })
}
