//! `recount replay`: the records that a log's events fold to.

use std::{
    collections::BTreeMap,
    io::{self, BufWriter, Write},
    path::Path,
};

use clap::{Args, ValueEnum};
use recount_core::{
    MessageId, ThreadId,
    delivery::{MessageDeliveryKey, MessageDeliveryRecord, MessageDeliveryStatus, RetryReason},
};
use recount_projections::{ReplayError, ReplayOptions, ReplaySummary};
use serde_json::json;

use super::{
    Format, Outcome,
    error::CliError,
    output::{STRONG, Table, instant, paint, record_json, standing, warn_of_bad},
    source::{Looking, Reading},
    verify::{OutputFailed, count, tell_apart},
};

/// Rebuild the records from the events
///
/// Prints every message's record: finished ones in the order in which they finished, then the
/// unfinished ones by owner and id. The log itself is checked; whether its messages kept the rules
/// is for `recount verify` to say, and why one stands where it does for `recount explain`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// Which view is rebuilt
    #[arg(long, value_enum, default_value_t)]
    view: View,
    /// Only messages of this owner
    #[arg(long, value_name = "THREAD", value_parser = MessageDeliveryKey::parse_owner)]
    owner: Option<ThreadId>,
    /// Only messages with this id, whoever owns them
    #[arg(long, value_name = "ID")]
    message: Option<MessageId>,
    /// Only messages that stand so
    #[arg(long, value_enum, value_delimiter = ',')]
    status: Vec<Status>,
    /// Show what was delivered in records, too
    #[arg(long)]
    payload: bool,
    #[command(flatten)]
    looking: Looking,
    #[command(flatten)]
    reading: Reading,
}

impl Arguments {
    /// Those of a plain `recount replay PATH`.
    pub(super) fn of(path: &Path) -> Self {
        Self {
            view: View::Deliveries,
            owner: None,
            message: None,
            status: Vec::new(),
            payload: false,
            looking: Looking::default(),
            reading: Reading::of(path),
        }
    }
}

/// What is rebuilt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum View {
    /// Messages.
    #[default]
    Deliveries,
}

/// Where a message stands.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Status {
    Pending,
    Accepted,
    Processed,
    Refused,
    Parked,
}

impl From<Status> for MessageDeliveryStatus {
    fn from(status: Status) -> Self {
        match status {
            Status::Pending => Self::Pending,
            Status::Accepted => Self::Accepted,
            Status::Processed => Self::Processed,
            Status::Refused => Self::Refused,
            Status::Parked => Self::Parked,
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  recount replay agent.jsonl
  recount replay agent.db --status parked
  recount replay agent.db --owner planner --until 2026-11-30T09:01:00Z
  recount replay agent.jsonl.zst --format jsonl --payload";

pub(super) fn run(arguments: &Arguments) -> Result<Outcome, CliError> {
    let mut options = ReplayOptions::default();
    options.jobs = arguments.reading.jobs();
    (options.until, options.keep_going) = (arguments.looking.until, arguments.looking.keep_going);
    options.owner.clone_from(&arguments.owner);
    options.message.clone_from(&arguments.message);
    options.statuses = arguments.status.iter().copied().map(Into::into).collect();
    let View::Deliveries = arguments.view;
    let source = arguments.reading.source.open()?;
    let out = BufWriter::new(source.progress.output(anstream::stdout().lock()));
    let mut printer = Printer::new(arguments, out);
    let summary = recount_projections::replay(source.rows, &options, |record| {
        printer.record(record).map_err(|error| io::Error::other(OutputFailed(error)))
    });
    let result = match summary {
        Ok(summary) => Ok(summary),
        Err(ReplayError::Io(error)) => return Err(tell_apart(error, &arguments.reading.source)),
        Err(error) => Err(arguments.reading.source.cannot_replay(error)),
    };
    // What was rebuilt before an error is printed, too.
    printer.finish(result.as_ref().ok()).map_err(CliError::Output)?;
    let summary = result?;
    let is_whole = summary.skipped == 0 && summary.ignored == 0;
    Ok(if is_whole { Outcome::Holds } else { Outcome::Unknown })
}

struct Printer<'a, W: Write> {
    arguments: &'a Arguments,
    out: Output<W>,
    by_standing: BTreeMap<&'static str, u64>,
}

enum Output<W: Write> {
    Table(Table<W>),
    Json { out: W, printed: u64 },
}

impl<'a, W: Write> Printer<'a, W> {
    fn new(arguments: &'a Arguments, out: W) -> Self {
        let out = match arguments.reading.format {
            Format::Human => Output::Table(Table::new(out, &COLUMNS)),
            Format::Json | Format::Jsonl => Output::Json { out, printed: 0 },
        };
        Self { arguments, out, by_standing: BTreeMap::new() }
    }

    fn record(&mut self, record: &MessageDeliveryRecord) -> io::Result<()> {
        *self.by_standing.entry(record.status.as_str()).or_default() += 1;
        match &mut self.out {
            Output::Table(table) => table.row(cells(record)),
            Output::Json { out, printed } => {
                *printed += 1;
                let value = record_json(record, self.arguments.payload);
                match (self.arguments.reading.format, *printed) {
                    (Format::Jsonl, _) => writeln!(out, "{value}"),
                    (_, 1) => write!(out, "{{\"records\":[\n{value}"),
                    (_, _) => write!(out, ",\n{value}"),
                }
            }
        }
    }

    fn finish(self, summary: Option<&ReplaySummary>) -> io::Result<()> {
        match self.out {
            Output::Table(table) => {
                let mut out = table.finish()?;
                if let Some(summary) = summary {
                    human_summary(&mut out, summary, &self.by_standing)?;
                    self.arguments.looking.note(&mut out, summary.is_cut, summary.last_position)?;
                }
                out.flush()
            }
            Output::Json { mut out, printed } => {
                if self.arguments.reading.format == Format::Json {
                    let begin = if printed == 0 { "{\"records\":[" } else { "" };
                    writeln!(out, "{begin}],\"summary\":{}}}", json!(summary))?;
                }
                out.flush()
            }
        }
    }
}

/// The columns, and how soon one is left out where they do not fit.
const COLUMNS: [(&str, u8); 6] = [
    ("key", 0),
    ("standing", 0),
    ("version", 3),
    ("attempts", 1),
    ("next look", 0),
    ("last failure", 2),
];

fn cells(record: &MessageDeliveryRecord) -> Vec<String> {
    vec![
        record.key.to_string(),
        standing(record),
        record.version.to_string(),
        record.retry.attempts.to_string(),
        instant(record.effective_deadline()),
        record.retry.last_failure.map_or("-", RetryReason::as_str).to_owned(),
    ]
}

fn human_summary(
    out: &mut impl Write,
    summary: &ReplaySummary,
    by_standing: &BTreeMap<&'static str, u64>,
) -> io::Result<()> {
    let standings: Vec<_> =
        by_standing.iter().map(|(standing, number)| format!("{number} {standing}")).collect();
    let standings = match standings.join(", ") {
        none if none.is_empty() => none,
        some => format!(": {some}"),
    };
    let events = count(summary.events, "event");
    let records = count(summary.records, "record");
    writeln!(out, "\n{} from {events}{standings}", paint(STRONG, records))?;
    warn_of_bad(out, summary.skipped, summary.ignored)
}
