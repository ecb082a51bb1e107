//! `recount explain`: where one piece of work stands, in words.

use std::io::{self, Write};

use clap::Args;
use recount_projections::{Answer, Attempt, Explanation, Question, Timeline};
use serde_json::json;

use super::{
    Format, Outcome,
    error::CliError,
    message::{self, Asked},
    output::{FAINT, STRONG, WARNING, duration, fields, instant, paint, plain, record_json},
};

/// Explain where a message stands, and what its destination answered
///
/// Tells why it stands there, what moves it next and by when, and each attempt with its answer.
/// It is told as of when the log's last event was recorded, or of --until; no clock is looked at.
/// Only the rows of the message's outbox are read; that none is edited, or missing before another,
/// is checked.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    #[command(flatten)]
    asked: Asked,
}

const EXAMPLES: &str = "\
Examples:
  recount explain agent.db planner/offer-4
  recount explain agent.db planner/offer-4 --until 4711
  recount replay agent.db --status parked   (which messages are parked, to ask about)";

pub(super) fn run(arguments: &Arguments) -> Result<Outcome, CliError> {
    let timeline = arguments.asked.timeline(false)?;
    let Some(explanation) = Explanation::of(&timeline) else { return Ok(Outcome::Unknown) };
    let out = &mut anstream::stdout().lock();
    let written = match arguments.asked.format {
        Format::Human => human(out, &timeline, &explanation, &arguments.asked.source_name()),
        Format::Json | Format::Jsonl => {
            let mut whole = json!(explanation);
            whole["kind"] = "explanation".into();
            whole["key"] = json!(timeline.key);
            whole["record"] = json!(timeline.record.as_ref().map(|it| record_json(it, false)));
            whole["skipped"] = timeline.skipped.len().into();
            writeln!(out, "{whole}")
        }
    };
    written.and_then(|()| out.flush()).map_err(CliError::Output)?;
    Ok(message::outcome(&timeline))
}

fn human(
    out: &mut impl Write,
    timeline: &Timeline,
    explanation: &Explanation,
    source: &str,
) -> io::Result<()> {
    let Explanation { standing, why, next, by, attempts, .. } = explanation;
    let overdue = explanation.overdue_millis.map(duration);
    writeln!(out, "{}  {}\n", paint(STRONG, &timeline.key), plain(standing))?;
    let to = format!("thread {}", explanation.destination);
    let mut lines = vec![("to", plain(&to)), ("why", plain(why)), ("next", plain(next))];
    if by.is_some() {
        let overdue =
            overdue.map(|overdue| format!(", {overdue} ago: {}", paint(WARNING, "overdue")));
        lines.push(("by", format!("{}{}", instant(*by), overdue.unwrap_or_default())));
    }
    lines.push(("as of", instant(explanation.as_of)));
    fields(out, &lines)?;
    if !attempts.is_empty() {
        writeln!(out, "\n{}", paint(STRONG, "What its destination answered"))?;
        let width = attempts.len().to_string().len();
        let lines: Vec<_> = attempts
            .iter()
            .map(|attempt| {
                let Attempt { number, began_at_millis, .. } = attempt;
                (format!("{number:>width$}  {began_at_millis}"), told(attempt))
            })
            .collect();
        fields(out, &lines)?;
    }
    message::warn_of_skipped(out, timeline)?;
    let command = format!("recount show delivery {} {}", plain(source), timeline.key);
    writeln!(out, "\n{}", paint(FAINT, format_args!("Every event: {command}")))
}

/// What was asked, what came of it and how soon, in a line.
fn told(attempt: &Attempt) -> String {
    let asked = match attempt.question {
        Question::Admission => "asked to admit it",
        Question::Settlement => "asked what became of it",
    };
    let began = attempt.began_at_millis.as_millis();
    let after = match attempt.ended_at_millis.map(|end| end.as_millis().checked_sub(began)) {
        None => String::new(),
        Some(Some(millis)) => format!(" after {}", duration(millis)),
        Some(None) => ", by a clock that went back".to_owned(),
    };
    let said = attempt.said.as_ref().map(|said| format!(": {}", plain(said)));
    let (answer, more) = answer(attempt);
    format!("{asked}: {answer}{after}{more}{}", said.unwrap_or_default())
}

/// What came of an attempt, and what more is known of it.
fn answer(attempt: &Attempt) -> (String, String) {
    let lease = attempt.lease_until_millis;
    match &attempt.answer {
        Answer::Admitted { receipt } => {
            ("admitted".to_owned(), format!(", place {} in its queue", receipt.queue_sequence))
        }
        Answer::StillPending => ("not done yet".to_owned(), String::new()),
        Answer::Settled { outcome } => (outcome.as_str().to_owned(), String::new()),
        Answer::Refused { code } => (format!("refused ({})", plain(code)), String::new()),
        Answer::Failed { reason } => (format!("failed ({})", reason.as_str()), String::new()),
        Answer::Parked { reason, failure: None } => {
            (format!("parked ({})", reason.as_str()), String::new())
        }
        Answer::Parked { reason, failure: Some(failure) } => {
            (format!("failed ({})", failure.as_str()), format!(", parked ({})", reason.as_str()))
        }
        Answer::Lost => ("no answer recorded".to_owned(), format!(", its lease ended at {lease}")),
        Answer::Overtaken => ("overtaken by a notice".to_owned(), String::new()),
        Answer::Unread => ("its end was not read".to_owned(), String::new()),
        Answer::UnderWay => {
            ("no answer recorded yet".to_owned(), format!(", its lease ends at {lease}"))
        }
    }
}
