//! One message that is asked about.

use std::io::{self, Write};

use clap::{Args, ValueHint};
use recount_core::{StreamName, delivery::MessageDeliveryKey};
use recount_projections::{Timeline, TimelineOptions};

use super::{
    Format, Outcome,
    error::CliError,
    output::{WARNING, paint, plain},
    source::{Looking, Source},
    verify::count,
};

/// The arguments of every command about one message.
#[derive(Args, Debug)]
pub(super) struct Asked {
    /// The log: a .jsonl, .jsonl.zst or SQLite file, or - for standard input
    #[arg(value_hint = ValueHint::FilePath)]
    source: Source,
    /// Which message: its owner, a slash and its id, as in planner/offer-4; a slash within an id
    /// is written %2F. Where only the id is known, `recount replay SOURCE --message ID` tells the key
    #[arg(value_name = "KEY")]
    key: MessageDeliveryKey,
    #[command(flatten)]
    looking: Looking,
    /// How the result is printed
    #[arg(long, value_enum, default_value_t)]
    pub(super) format: Format,
}

impl Asked {
    /// Reads all that happened to the message, which must be there.
    pub(super) fn timeline(&self, with_changes: bool) -> Result<Timeline, CliError> {
        let stream = StreamName::delivery(&self.key.owner_thread_id);
        let rows = self.source.open_stream(&stream)?.rows;
        let mut options = TimelineOptions::default();
        options.with_changes = with_changes;
        (options.until, options.keep_going) = (self.looking.until, self.looking.keep_going);
        let timeline = recount_projections::timeline(rows, &self.key, &options)
            .map_err(|error| self.source.cannot_replay(error))?;
        if timeline.record.is_none() {
            return Err(CliError::NoMessage {
                name: self.source.name(),
                key: self.key.clone(),
                has_outbox: timeline.outbox_events > 0,
                others: timeline.outbox_messages,
            });
        }
        Ok(timeline)
    }

    /// How the log is named on the command line.
    pub(super) fn source_name(&self) -> String {
        self.source.name()
    }
}

/// What the exit status says of a timeline.
pub(super) fn outcome(timeline: &Timeline) -> Outcome {
    let is_ignored = timeline.entries.iter().any(|entry| entry.ignored.is_some());
    if !timeline.skipped.is_empty() || is_ignored { Outcome::Unknown } else { Outcome::Holds }
}

/// Says what was skipped, and why.
pub(super) fn warn_of_skipped(out: &mut impl Write, timeline: &Timeline) -> io::Result<()> {
    if timeline.skipped.is_empty() {
        return Ok(());
    }
    let skipped = count(timeline.skipped.len() as u64, "row");
    writeln!(out, "\n{} {skipped} skipped, so that this may be wrong", paint(WARNING, "warning:"))?;
    for (place, why) in timeline.skipped.iter().take(SHOWN_SKIPPED) {
        writeln!(out, "  {}: {}", plain(&place.to_string()), plain(why))?;
    }
    Ok(())
}

/// How many of the rows that were skipped are told one by one.
const SHOWN_SKIPPED: usize = 5;
