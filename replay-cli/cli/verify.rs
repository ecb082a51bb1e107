//! `recount verify`: whether every rule was kept.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

use clap::Args;
use recount_core::{Severity, delivery::OutboxLimits, log::Place};
use recount_projections::{Expected, Finding, Report, Rule, Rules, VerifyOptions};
use serde_json::{Value, json};

use super::{
    Format, Outcome,
    error::CliError,
    output::{ERROR, GOOD, WARNING, fields, paint, plain, record_json, record_line},
    source::{Reading, Source},
};

/// Check that every rule was kept
///
/// Reads the log once and decides every event again. A violation names the rule, the place, and
/// the record before and after; checking goes on, without the message that broke the rule. What
/// the rules are: docs/invariants.md.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// Check these rules only: ids such as D8, or a letter for all of its rules
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    only: Vec<Rule>,
    /// Leave these rules out
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    skip: Vec<Rule>,
    /// Fail unless the log has so many events with this root, as an earlier run printed them
    #[arg(long, value_name = "COUNT:ROOT")]
    expect: Option<Expected>,
    /// Hold every outbox to the limits in this JSON file, not to the recorded ones
    #[arg(long, value_name = "FILE")]
    limits: Option<PathBuf>,
    /// Skip and count events of unknown types and versions; the exit status is then 2
    #[arg(long)]
    skip_unknown: bool,
    /// How many violations, and how many warnings, are printed for people; all are counted
    #[arg(long, value_name = "N", default_value_t = 20)]
    findings: u64,
    /// Show what was delivered in records, too
    #[arg(long)]
    payload: bool,
    #[command(flatten)]
    reading: Reading,
}

impl Arguments {
    /// Those of a plain `recount verify PATH`.
    pub(super) fn of(path: &Path) -> Self {
        Self {
            reading: Reading::of(path),
            only: Vec::new(),
            skip: Vec::new(),
            expect: None,
            limits: None,
            skip_unknown: false,
            findings: 20,
            payload: false,
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  recount verify agent.jsonl
  recount verify agent.jsonl --expect=504:b1859135…   (as an earlier run printed it)
  recount verify --only L,D8 --format jsonl - < agent.jsonl";

pub(super) fn run(arguments: &Arguments) -> Result<Outcome, CliError> {
    let mut options = VerifyOptions::default();
    if !arguments.only.is_empty() {
        options.rules = Rules::only(&arguments.only);
    }
    options.rules = options.rules.without(&arguments.skip);
    options.jobs = arguments.reading.jobs();
    options.limits = arguments.limits.as_deref().map(read_limits).transpose()?;
    options.expected = arguments.expect;
    options.skip_unknown = arguments.skip_unknown;
    let source = arguments.reading.source.open()?;
    let out = source.progress.output(anstream::stdout().lock());
    let mut printer = Printer { arguments, out, errors: 0, warnings: 0 };
    let report = recount_projections::verify(source.rows, &options, |finding| {
        printer.finding(&finding).map_err(|error| io::Error::other(OutputFailed(error)))
    });
    let report = match report {
        Ok(report) => report,
        Err(error) => return Err(tell_apart(error, &arguments.reading.source)),
    };
    printer.report(&report).map_err(CliError::Output)?;
    Ok(if report.is_violated() {
        Outcome::Violated
    } else if report.is_incomplete() {
        Outcome::Unknown
    } else {
        Outcome::Holds
    })
}

/// An error of the output, on its way through the reader of the source.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct OutputFailed(pub(super) io::Error);

pub(super) fn tell_apart(error: io::Error, source: &Source) -> CliError {
    match error.downcast::<OutputFailed>() {
        Ok(OutputFailed(error)) => CliError::Output(error),
        Err(error) => source.unreadable(error),
    }
}

fn read_limits(path: &Path) -> Result<OutboxLimits, CliError> {
    let path = path.to_owned();
    let text = match fs::read(&path) {
        Ok(text) => text,
        Err(source) => return Err(CliError::Open { path, source }),
    };
    match serde_json::from_slice::<OutboxLimits>(&text) {
        Ok(limits) if limits.is_valid() => Ok(limits),
        Ok(_) => Err(CliError::ZeroLimit { path }),
        Err(source) => Err(CliError::Limits { path, source }),
    }
}

struct Printer<'a, W: Write> {
    arguments: &'a Arguments,
    out: W,
    errors: u64,
    warnings: u64,
}

impl<W: Write> Printer<'_, W> {
    fn finding(&mut self, finding: &Finding) -> io::Result<()> {
        let is_first = self.errors + self.warnings == 0;
        // Apart, so that many warnings cannot hide a violation.
        let printed = match finding.severity() {
            Severity::Error => &mut self.errors,
            Severity::Warning => &mut self.warnings,
        };
        *printed += 1;
        match self.arguments.reading.format {
            Format::Human if *printed > self.arguments.findings => Ok(()),
            Format::Human => human_finding(&mut self.out, finding),
            Format::Json => {
                let begin = if is_first { "{\"findings\":[" } else { "," };
                write!(self.out, "{begin}{}", self.finding_json(finding))
            }
            Format::Jsonl => writeln!(self.out, "{}", self.finding_json(finding)),
        }
    }

    fn finding_json(&self, finding: &Finding) -> Value {
        let record = |record: &Option<Box<_>>| {
            record.as_ref().map(|record| record_json(record, self.arguments.payload))
        };
        json!({
            "kind": "finding",
            "severity": finding.severity(),
            "invariant": finding.invariant,
            "position": finding.place.position,
            "stream": finding.place.stream,
            "line": finding.place.line,
            "byteOffset": finding.place.offset,
            "messageId": finding.message_id,
            "why": finding.why,
            "before": record(&finding.before),
            "after": record(&finding.after),
        })
    }

    fn report(&mut self, report: &Report) -> io::Result<()> {
        match self.arguments.reading.format {
            Format::Human => self.human_report(report)?,
            Format::Json => {
                let is_empty = self.errors + self.warnings == 0;
                let begin = if is_empty { "{\"findings\":[" } else { "" };
                writeln!(self.out, "{begin}],\"report\":{}}}", report_json(report))?;
            }
            Format::Jsonl => writeln!(self.out, "{}", report_json(report))?,
        }
        self.out.flush()
    }

    fn human_report(&mut self, report: &Report) -> io::Result<()> {
        let more = |printed: u64| printed.saturating_sub(self.arguments.findings);
        let more = [(more(self.errors), "violation"), (more(self.warnings), "warning")];
        let more: Vec<_> = more
            .into_iter()
            .filter(|(number, _)| *number > 0)
            .map(|(number, noun)| count(number, &format!("more {noun}")))
            .collect();
        if !more.is_empty() {
            writeln!(self.out, "and {}: --format jsonl prints all\n", more.join(", "))?;
        }
        let coverage = &report.coverage;
        writeln!(self.out, "{}", verdict(report))?;
        let mut lines = vec![
            (
                "events",
                format!(
                    "{} in {}, {}",
                    coverage.events,
                    count(coverage.streams, "stream"),
                    count(coverage.messages, "message")
                ),
            ),
            ("checked", coverage_line(report)),
        ];
        if let Some(mismatch) = &report.mismatch {
            lines.push(("expected", mismatch.clone()));
        }
        if let Some(last) = report.last_position {
            lines.push(("last position", last.to_string()));
        }
        if let Some(log_id) = report.log_id {
            lines.push(("log id", log_id.to_string()));
        }
        match report.root {
            Some(root) => {
                lines.push(("root", root.to_string()));
                if !report.is_violated() {
                    let events = coverage.events;
                    lines.push(("to hold it to this", format!("--expect={events}:{root}")));
                }
            }
            None => lines.push(("root", "none, since a row could not be read".to_owned())),
        }
        fields(&mut self.out, &lines)
    }
}

fn verdict(report: &Report) -> String {
    let warnings = match report.warnings {
        0 => String::new(),
        number => format!(", {}", count(number, "warning")),
    };
    let unreadable = match report.coverage.unreadable {
        0 => String::new(),
        number => format!(", {} that cannot be read", count(number, "row")),
    };
    if report.is_violated() {
        let violations = match report.violations {
            0 => "not the log that was expected".to_owned(),
            number => count(number, "violation"),
        };
        return format!("{} {violations}{unreadable}{warnings}", paint(ERROR, "broken:"));
    }
    if report.coverage.events == 0 && report.coverage.unreadable > 0 {
        let lines = count(report.coverage.unreadable, "row");
        let cannot_tell = paint(WARNING, "cannot tell:");
        return format!("{cannot_tell} none of {lines} is an event; is this a log of Recount?");
    }
    if report.is_incomplete() {
        let skipped = match report.coverage.unknown_skipped {
            0 => String::new(),
            number => format!(", {} skipped", count(number, "unknown event")),
        };
        let what = format!("no violation in what was read{unreadable}{skipped}{warnings}");
        return format!("{} {what}", paint(WARNING, "cannot tell:"));
    }
    if report.coverage.events == 0 {
        return format!("{} there is no event to check", paint(GOOD, "ok:"));
    }
    let rules =
        if report.rules == Rules::ALL { "every rule" } else { "every rule that was asked for" };
    format!("{} {rules} was kept{warnings}", paint(GOOD, "ok:"))
}

/// What was checked, what was not, and why.
fn coverage_line(report: &Report) -> String {
    let coverage = &report.coverage;
    let unchecked: u64 = coverage.unchecked.values().chain(coverage.ignored.values()).sum();
    let left_out = coverage.events_set_aside + coverage.unknown_skipped + unchecked;
    let full = coverage.events.saturating_sub(left_out);
    let mut line = format!("{full} of {} against {}", coverage.events, report.rules);
    if coverage.messages_set_aside > 0 {
        let messages = count(coverage.messages_set_aside, "message");
        line.push_str(&format!("; {messages} set aside"));
    }
    if coverage.events_set_aside > 0 {
        let events = count(coverage.events_set_aside, "later event");
        line.push_str(&format!(", {events} of theirs not applied"));
    }
    for (why, number) in &coverage.unchecked {
        line.push_str(&format!("; {number} not decided: {why}"));
    }
    for (why, number) in &coverage.ignored {
        line.push_str(&format!("; {number} changed nothing: {why}"));
    }
    if coverage.unknown_skipped > 0 {
        line.push_str(&format!(
            "; {} of unknown type or version skipped",
            coverage.unknown_skipped
        ));
    }
    if coverage.unreadable > 0 {
        line.push_str(&format!("; {} not read", count(coverage.unreadable, "row")));
    }
    line
}

pub(super) fn count(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

fn human_finding(out: &mut impl Write, finding: &Finding) -> io::Result<()> {
    let head = match (finding.invariant, finding.severity()) {
        (None, _) => paint(ERROR, "unreadable"),
        (Some(rule), Severity::Error) => paint(ERROR, format_args!("violation {rule}")),
        (Some(rule), Severity::Warning) => paint(WARNING, format_args!("warning {rule}")),
    };
    writeln!(out, "{head} at {}", place(&finding.place))?;
    let mut lines = Vec::new();
    if let Some(rule) = finding.invariant {
        lines.push(("rule", rule.rule().to_owned()));
    }
    if let Some(id) = &finding.message_id {
        lines.push(("message", plain(id)));
    }
    lines.push(("why", plain(&finding.why)));
    for (name, record) in [("before", &finding.before), ("after", &finding.after)] {
        lines.extend(record.as_ref().map(|record| (name, record_line(record))));
    }
    fields(out, &lines)?;
    writeln!(out)
}

fn place(place: &Place) -> String {
    plain(&place.to_string())
}

fn report_json(report: &Report) -> Value {
    json!({
        "kind": "report",
        "rules": report.rules.to_string(),
        "violations": report.violations,
        "warnings": report.warnings,
        "coverage": report.coverage,
        "lastPosition": report.last_position,
        "logId": report.log_id,
        "root": report.root,
        "mismatch": report.mismatch,
    })
}
