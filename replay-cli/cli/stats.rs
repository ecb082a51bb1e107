//! `recount stats`: what happened how often, and how long it took.

use std::{
    collections::BTreeMap,
    io::{self, Write},
};

use clap::Args;
use recount_projections::{Named, Spread, Stats, StatsOptions};
use serde_json::json;

use super::{
    Format, Outcome,
    error::CliError,
    output::{STRONG, Table, WARNING, duration, fields, paint, plain, warn_of_bad},
    source::{Looking, Reading},
    verify::count,
};

/// Count what happened, and how long it took
///
/// Events by type, stream and day; where messages stand; attempts and what came of them; refusals,
/// parks and recoveries; and how long messages took, by the clocks of their hosts. The log itself
/// is checked, its messages are not.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// Name so many of the streams and refusal codes that come up most
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
    #[command(flatten)]
    looking: Looking,
    #[command(flatten)]
    reading: Reading,
}

const EXAMPLES: &str = "\
Examples:
  recount stats agent.db
  recount stats agent.db --until 2026-11-30T09:01:00Z --top 3
  recount stats agent.jsonl.zst --format json";

pub(super) fn run(arguments: &Arguments) -> Result<Outcome, CliError> {
    let reading = &arguments.reading;
    let mut options = StatsOptions::default();
    (options.jobs, options.top) = (reading.jobs(), arguments.top);
    (options.until, options.keep_going) = (arguments.looking.until, arguments.looking.keep_going);
    let stats = recount_projections::stats(reading.source.open()?.rows, &options);
    let stats = stats.map_err(|error| reading.source.cannot_replay(error))?;
    let out = &mut anstream::stdout().lock();
    let written = match reading.format {
        Format::Human => human(out, &stats)
            .and_then(|()| arguments.looking.note(out, stats.is_cut, stats.last_position)),
        Format::Json | Format::Jsonl => {
            let mut whole = json!(stats);
            whole["kind"] = "stats".into();
            writeln!(out, "{whole}")
        }
    };
    written.and_then(|()| out.flush()).map_err(CliError::Output)?;
    let is_whole = stats.skipped == 0 && stats.ignored == 0;
    Ok(if is_whole { Outcome::Holds } else { Outcome::Unknown })
}

fn human(out: &mut impl Write, stats: &Stats) -> io::Result<()> {
    let [events, streams, messages] =
        [(stats.events, "event"), (stats.streams, "stream"), (stats.messages, "message")]
            .map(|(number, noun)| count(number, noun));
    writeln!(out, "{} in {streams}, {messages}", paint(STRONG, events))?;
    if let (Some(first), Some(last)) =
        (stats.first_recorded_at_millis, stats.last_recorded_at_millis)
    {
        writeln!(out, "recorded from {first} to {last}")?;
    }
    let by_standing = stats.messages_by_status.iter().flat_map(|(status, number)| {
        let reasons = (*status == "parked").then_some(&stats.parked_by_reason);
        let reasons = reasons.into_iter().flatten();
        let reasons = reasons.map(|(reason, number)| (format!("  {reason}"), *number));
        std::iter::once(((*status).to_owned(), *number)).chain(reasons)
    });
    section(out, "Messages by where they stand", by_standing)?;
    if stats.overdue > 0 {
        let overdue = paint(WARNING, format_args!("{} overdue", stats.overdue));
        writeln!(out, "  {overdue} when the last event was recorded")?;
    }
    section(out, "Parked ones by their last failure", owned(&stats.parked_by_failure))?;
    section(out, "Parked ones by destination", named(&stats.parked_by_destination))?;
    section(out, "Events by type", owned(&stats.events_by_type))?;
    section(out, "Events by day", owned(&stats.events_by_day))?;
    section(out, "Streams with the most events", named(&stats.busiest_streams))?;
    let attempts = [("made".to_owned(), stats.attempts)];
    let attempts = attempts.into_iter().filter(|(_, made)| *made > 0);
    let answers = stats.answers.iter().map(|(answer, number)| (told(answer), *number));
    section(out, "Attempts, and what came of them", attempts.chain(answers))?;
    section(out, "Refusals by code", named(&stats.refusals))?;
    let parks =
        stats.parks_by_reason.iter().map(|(reason, number)| (format!("parked, {reason}"), *number));
    let others = [
        ("recovered", stats.recoveries),
        ("put off", stats.deferrals),
        ("looked at since its host was told", stats.notifications),
    ];
    let others = others.into_iter().filter(|(_, number)| *number > 0);
    let others = others.map(|(what, number)| (what.to_owned(), number));
    section(out, "How often a message was", parks.chain(others))?;
    spreads(out, stats)?;
    if stats.clock_went_back > 0 {
        let spans = count(stats.clock_went_back, "span");
        let warning = paint(WARNING, "warning:");
        writeln!(out, "{warning} {spans} not in these: a clock went back")?;
    }
    warn_of_bad(out, stats.skipped, stats.ignored)
}

fn owned(counts: &BTreeMap<impl ToString + Ord, u64>) -> impl Iterator<Item = (String, u64)> {
    counts.iter().map(|(name, number)| (name.to_string(), *number))
}

fn named(counts: &[Named]) -> impl Iterator<Item = (String, u64)> {
    counts.iter().map(|named| (named.name.clone(), named.count))
}

/// Names with numbers below a heading; nothing where there are none.
fn section(
    out: &mut impl Write,
    heading: &str,
    lines: impl Iterator<Item = (String, u64)>,
) -> io::Result<()> {
    let lines: Vec<_> = lines.map(|(name, number)| (plain(&name), number)).collect();
    let Some(most) = lines.iter().map(|(_, number)| number.to_string().len()).max() else {
        return Ok(());
    };
    writeln!(out, "\n{}", paint(STRONG, heading))?;
    let lines: Vec<_> =
        lines.into_iter().map(|(name, number)| (name, format!("{number:>most$}"))).collect();
    fields(out, &lines)
}

/// What came of an attempt, in words.
fn told(answer: &str) -> String {
    match (answer, answer.strip_prefix("failed.")) {
        (_, Some(reason)) => format!("failed ({reason})"),
        ("stillPending", _) => "not done yet".to_owned(),
        ("lost", _) => "no answer recorded".to_owned(),
        ("underWay", _) => "no answer recorded yet".to_owned(),
        (answer, _) => answer.to_owned(),
    }
}

fn spreads(out: &mut impl Write, stats: &Stats) -> io::Result<()> {
    let spans = [
        ("prepared to accepted", stats.prepared_to_accepted),
        ("accepted to processed", stats.accepted_to_processed),
        ("prepared to processed", stats.prepared_to_processed),
    ];
    let attempts = stats.attempts_per_message;
    if attempts.count == 0 {
        return Ok(());
    }
    writeln!(out, "\n{}", paint(STRONG, "Messages, and how long they took"))?;
    let columns = [
        ("", 0),
        ("messages", 3),
        ("least", 4),
        ("half", 0),
        ("90 %", 2),
        ("99 %", 0),
        ("most", 1),
        ("mean", 5),
    ];
    let mut table = Table::new(&mut *out, &columns);
    table.row(cells("attempts", attempts, |number| number.to_string()))?;
    for (name, spread) in spans.into_iter().filter(|(_, spread)| spread.count > 0) {
        table.row(cells(name, spread, duration))?;
    }
    table.finish().map(drop)
}

fn cells(name: &str, spread: Spread, told: impl Fn(u64) -> String) -> Vec<String> {
    let Spread { count, min, p50, p90, p99, max, mean } = spread;
    let numbers = [min, p50, p90, p99, max, mean].map(told);
    [name.to_owned(), count.to_string()].into_iter().chain(numbers).collect()
}
