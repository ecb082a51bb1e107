//! `recount show`: all that happened to one piece of work.

use std::io::{self, Write};

use clap::{Args, Subcommand};
use recount_core::delivery::{DeliveryEvent, MessageDeliveryRecord};
use recount_projections::{FieldChange, Timeline, TimelineEntry};
use serde_json::{Value, json};

use super::{
    Format, Outcome,
    error::CliError,
    message::{self, Asked},
    output::{
        FAINT, STRONG, WARNING, duration, fields, indented_fields, instant, paint, plain,
        record_json, standing, without_payload,
    },
    verify::count,
};

/// Show all that happened to one piece of work, and what each event changed
#[derive(Args, Debug)]
pub(super) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Delivery(Delivery),
}

/// Show a message: every event with its time and writer and what it changed, then its record
///
/// Only the rows of the message's outbox are read; that none is edited, or missing before another,
/// is checked. Why a message stands where it does is for `recount explain` to say.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
struct Delivery {
    #[command(flatten)]
    asked: Asked,
    /// Show what was delivered, too
    #[arg(long)]
    payload: bool,
}

const EXAMPLES: &str = "\
Examples:
  recount show delivery agent.db planner/offer-4
  recount show delivery agent.jsonl planner/offer-4 --until 2026-11-30T09:01:00Z
  recount show delivery agent.db a%2Fb/m-1 --format jsonl --payload";

pub(super) fn run(arguments: &Arguments) -> Result<Outcome, CliError> {
    let What::Delivery(delivery) = &arguments.what;
    let timeline = delivery.asked.timeline(true)?;
    let out = &mut anstream::stdout().lock();
    let written = match delivery.asked.format {
        Format::Human => human(out, &timeline, delivery.payload),
        Format::Json => {
            let events: Vec<_> =
                timeline.entries.iter().map(|it| entry_json(it, delivery.payload)).collect();
            let mut whole = end_json(&timeline, delivery.payload);
            whole["events"] = events.into();
            writeln!(out, "{whole}")
        }
        Format::Jsonl => timeline
            .entries
            .iter()
            .map(|entry| entry_json(entry, delivery.payload))
            .chain([end_json(&timeline, delivery.payload)])
            .try_for_each(|line| writeln!(out, "{line}")),
    };
    written.and_then(|()| out.flush()).map_err(CliError::Output)?;
    Ok(message::outcome(&timeline))
}

fn entry_json(entry: &TimelineEntry, with_payload: bool) -> Value {
    let mut data = serde_json::from_str(entry.event.to_data().as_str()).unwrap_or_default();
    if !with_payload {
        without_payload(&mut data);
    }
    json!({
        "kind": "event",
        "position": entry.position,
        "revision": entry.revision,
        "recordedAtMillis": entry.recorded_at,
        "type": entry.event.event_type(),
        "atMillis": entry.event.at(),
        "metadata": entry.metadata,
        "data": data,
        "version": entry.version,
        "changes": entry.changes,
        "lostAttempt": entry.lost_attempt,
        "ignored": entry.ignored.map(recount_core::delivery::Ignored::as_str),
    })
}

fn end_json(timeline: &Timeline, with_payload: bool) -> Value {
    json!({
        "kind": "delivery",
        "key": timeline.key,
        "record": timeline.record.as_ref().map(|record| record_json(record, with_payload)),
        "skipped": timeline.skipped.len(),
    })
}

fn human(out: &mut impl Write, timeline: &Timeline, with_payload: bool) -> io::Result<()> {
    let Some(record) = &timeline.record else { return Ok(()) };
    writeln!(out, "{}  {}\n", paint(STRONG, &timeline.key), standing(record))?;
    let last = timeline.entries.last().map_or(0, |entry| entry.position.get());
    let width = last.to_string().len();
    let mut before = None;
    for entry in &timeline.entries {
        human_entry(out, entry, width, before)?;
        before = Some(entry.event.at().as_millis());
        let lines = match &entry.event {
            DeliveryEvent::Prepared(_) if entry.ignored.is_none() => prepared(record, with_payload),
            _ => changes(entry),
        };
        indented_fields(out, width + 2, &lines)?;
    }
    writeln!(out, "\n{}", paint(STRONG, "Its record now"))?;
    fields(out, &record_fields(record))?;
    message::warn_of_skipped(out, timeline)
}

fn human_entry(
    out: &mut impl Write,
    entry: &TimelineEntry,
    width: usize,
    before: Option<u64>,
) -> io::Result<()> {
    let (position, at) = (entry.position.get(), entry.event.at());
    let after = match before.map(|before| at.as_millis().checked_sub(before)) {
        None => String::new(),
        Some(Some(after)) => format!("+{}", duration(after)),
        Some(None) => "clock went back".to_owned(),
    };
    let what = entry.event.event_type().trim_start_matches("delivery.");
    let by = entry.metadata.actor.as_ref().map(|actor| format!(" by {}", plain(actor)));
    let by = paint(FAINT, by.unwrap_or_default());
    writeln!(out, "{position:width$}  {at}  {after:>10}  {}{by}", paint(STRONG, what))?;
    if let Some(lease) = entry.lost_attempt {
        let warning = paint(WARNING, "no answer was recorded:");
        writeln!(out, "{:width$}  {warning} the lease ended at {lease}", "")?;
    }
    if let Some(why) = entry.ignored {
        let warning = paint(WARNING, "it changed nothing:");
        writeln!(out, "{:width$}  {warning} {}", "", why.as_str())?;
    }
    Ok(())
}

/// What a message was prepared with.
fn prepared(record: &MessageDeliveryRecord, with_payload: bool) -> Vec<(String, String)> {
    let envelope = &record.envelope;
    let mut lines = vec![
        ("to", format!("thread {}, agent {}", envelope.thread_id, envelope.agent_id)),
        ("admission key", envelope.admission_key.to_string()),
        ("deadline", record.initial_deadline_at_millis.to_string()),
    ];
    lines.extend(record.predecessor.iter().map(|id| ("goes after", id.to_string())));
    let policy = &record.policy;
    lines.push((
        "is tried",
        format!(
            "{} times for {} each, {} to {} apart, asked about every {}",
            policy.max_automatic_attempts,
            duration(policy.attempt_timeout_millis),
            duration(policy.retry_base_millis),
            duration(policy.retry_max_millis),
            duration(policy.settlement_poll_millis)
        ),
    ));
    if with_payload {
        lines.push(("input", envelope.input.as_str().to_owned()));
    }
    lines.into_iter().map(|(name, value)| (name.to_owned(), plain(&value))).collect()
}

/// What an event changed, and what is known of a failure.
fn changes(entry: &TimelineEntry) -> Vec<(String, String)> {
    let told = |change: &&FieldChange| {
        change.field != "version" && !change.field.starts_with("lastFailureDiagnostic")
    };
    let line = |change: &FieldChange| {
        let (before, after) = (value(change, &change.before), value(change, &change.after));
        let text = match change.before {
            Value::Null => after,
            _ => format!("{before} → {after}"),
        };
        (words(&change.field), plain(&text))
    };
    let mut lines: Vec<_> = entry.changes.iter().filter(told).map(line).collect();
    // What matters most goes first.
    lines.sort_by_key(|(name, _)| name != "status");
    lines.extend(entry.said().map(|said| ("said".to_owned(), plain(&said))));
    lines
}

/// A field's name in words.
fn words(field: &str) -> String {
    let field = field.strip_prefix("retry.").unwrap_or(field);
    let field = field.strip_suffix("Millis").unwrap_or(field);
    let mut words = String::new();
    for char in field.chars() {
        if char.is_uppercase() {
            words.push(' ');
        }
        words.extend(char.to_lowercase());
    }
    words
}

/// A field's value in words.
fn value(change: &FieldChange, value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(number) if change.field.ends_with("Millis") => {
            let instant =
                number.as_u64().and_then(|it| recount_core::Instant::from_millis(it).ok());
            instant.map_or_else(|| number.to_string(), |instant| instant.to_string())
        }
        other => other.to_string(),
    }
}

/// A record in lines.
pub(super) fn record_fields(record: &MessageDeliveryRecord) -> Vec<(&'static str, String)> {
    let retry = &record.retry;
    let mut lines = vec![
        ("standing", format!("{}, version {}", standing(record), record.version)),
        (
            "attempts",
            format!(
                "{}, {} of {} automatic",
                retry.attempts, retry.automatic_attempts, record.policy.max_automatic_attempts
            ),
        ),
    ];
    if retry.generation > 0 {
        lines.push(("recovered", count(retry.generation, "time")));
    }
    lines.push(("deadline", record.deadline_at_millis.to_string()));
    if record.effective_deadline().is_some() {
        lines.push(("next look", instant(record.effective_deadline())));
    }
    if let Some(lease) = record.lease_until_millis {
        lines.push(("lease until", lease.to_string()));
    }
    if let Some(receipt) = &record.receipt {
        let place = receipt.queue_sequence;
        let receipt =
            format!("{}, submission {}, place {place}", receipt.receipt_id, receipt.submission_id);
        lines.push(("receipt", plain(&receipt)));
    }
    if let Some(settlement) = &record.settlement {
        let outcome = settlement.outcome.as_str();
        lines.push(("settlement", plain(&format!("{outcome} at {}", settlement.settled_at))));
    }
    if let Some(reason) = retry.last_failure {
        lines.push(("last failure", reason.as_str().to_owned()));
    }
    lines
}
