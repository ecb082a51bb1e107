//! `recount copy`: a log at another place, checked on the way.

use std::io::{self, ErrorKind, Write};

use clap::{Args, ValueHint};
use recount_core::log::{Copied, CopyError};
use serde_json::{Value, json};

use super::{
    Format, Outcome,
    destination::{Destination, Opened},
    error::CliError,
    output::{ERROR, GOOD, WARNING, fields, paint, plain},
    source::{Kind, Source},
    verify::count,
};

/// Copy a log: export, import, archive, or take over what is new
///
/// Every event is checked on the way. What DEST has already must be the first events of SOURCE;
/// the rest is put behind them, and is durable when this ends. A copy that was interrupted is
/// finished by the same command; the result is the same bytes. Another log is never written over.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The log: a .jsonl, .jsonl.zst or SQLite file, or - for standard input
    #[arg(value_hint = ValueHint::FilePath)]
    source: Source,
    /// Where to: a .jsonl, .zst, .db, .sqlite or .sqlite3 file, or - for rows on standard output
    #[arg(value_name = "DEST", value_hint = ValueHint::FilePath)]
    destination: Destination,
    /// How the result is printed; with - as DEST it goes to standard error
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

const EXAMPLES: &str = "\
Examples:
  recount copy agent.db agent.jsonl.zst
  recount copy agent.jsonl agent.db
  recount copy agent.db - | grep planner";

pub(super) fn run(arguments: &Arguments) -> Result<Outcome, CliError> {
    let Arguments { source, destination, .. } = arguments;
    destination.check_is_not(source)?;
    let to = destination.kind()?;
    let from = source.open()?;
    let mut opened = destination.open(to)?;
    let copied = recount_core::log::copy(from.rows, opened.destination());
    let told = Told { arguments, from: from.kind, to, opened: &opened };
    let (outcome, written) = match copied {
        Ok(copied) => (Outcome::Holds, told.copied(&copied, None)),
        Err(CopyError::Source { copied, source }) => {
            (Outcome::Unknown, told.copied(&copied, Some(&with_causes(&source))))
        }
        Err(error @ (CopyError::Differs { .. } | CopyError::Longer { .. })) => {
            (Outcome::Violated, told.another(&error))
        }
        Err(error) => return Err(failure(destination, error)),
    };
    written.map_err(CliError::Output)?;
    Ok(outcome)
}

/// Puts the destination's name to an error of writing to it.
fn failure(destination: &Destination, error: CopyError) -> CliError {
    match error {
        CopyError::Storage { source } if destination.is_output() => {
            let source = source.downcast::<io::Error>();
            CliError::Output(source.map_or_else(io::Error::other, |source| *source))
        }
        source => CliError::Copy { name: destination.name(), source: source.into() },
    }
}

/// What an error says, and what led to it.
fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |error| error.source());
    causes.fold(error.to_string(), |said, cause| {
        let cause = cause.to_string();
        if said.contains(&cause) { said } else { format!("{said}: {cause}") }
    })
}

struct Told<'a> {
    arguments: &'a Arguments,
    from: Kind,
    to: Kind,
    opened: &'a Opened,
}

impl Told<'_> {
    fn copied(&self, copied: &Copied, damage: Option<&str>) -> io::Result<()> {
        let result = if damage.is_some() { "sourceDamaged" } else { "copied" };
        self.print(
            &json!({
                "kind": "copy",
                "result": result,
                "source": self.source_json(),
                "destination": self.destination_json(),
                "events": copied.events(),
                "before": copied.before,
                "copied": copied.copied,
                "lastPosition": copied.last.map(|last| last.position),
                "logId": copied.log_id,
                "root": copied.root,
                "isCutElsewhere": self.opened.is_cut_elsewhere(),
                "damage": damage,
            }),
            |out| self.human_copied(out, copied, damage),
        )
    }

    fn human_copied(
        &self,
        out: &mut dyn Write,
        copied: &Copied,
        damage: Option<&str>,
    ) -> io::Result<()> {
        let name = self.arguments.destination.name();
        let verdict = if damage.is_some() {
            let label = paint(WARNING, "incomplete:");
            format!(
                "{label} {} copied, the rest of the source cannot be read",
                count(copied.copied, "event")
            )
        } else if copied.copied == 0 && copied.before > 0 {
            let label = paint(GOOD, "ok:");
            format!("{label} {name} had all {} already", count(copied.before, "event"))
        } else {
            format!("{} {} copied", paint(GOOD, "ok:"), count(copied.copied, "event"))
        };
        writeln!(out, "{verdict}")?;
        let source = &self.arguments.source;
        let mut lines = vec![
            ("from", format!("{} ({})", source.name(), self.from.name())),
            ("to", format!("{name} ({})", self.to.name())),
        ];
        if let Some(damage) = damage {
            lines.push(("damage", plain(damage)));
        }
        let before = match copied.before {
            0 => String::new(),
            before => format!(", {before} of them before"),
        };
        lines.push(("events there", format!("{}{before}", copied.events())));
        if let Some(last) = copied.last {
            lines.push(("last position", last.position.to_string()));
        }
        if let Some(log_id) = copied.log_id {
            lines.push(("log id", log_id.to_string()));
        }
        lines.push(("root", copied.root.to_string()));
        if self.opened.is_cut_elsewhere() {
            let why = "the text is that of a new copy, the compressed bytes are not: whole frames \
                       are never changed";
            lines.push(("frames", why.to_owned()));
        }
        if !self.arguments.destination.is_output() && copied.events() > 0 {
            let expect = format!("--expect={}:{}", copied.events(), copied.root);
            lines.push(("to hold it to this", format!("recount verify {name} {expect}")));
        }
        fields(out, &lines)
    }

    /// Tells that the destination is another log.
    fn another(&self, error: &CopyError) -> io::Result<()> {
        let mut value = json!({
            "kind": "copy",
            "source": self.source_json(),
            "destination": self.destination_json(),
        });
        match error {
            CopyError::Differs { position, at_source, at_destination } => {
                value["result"] = json!("differs");
                value["position"] = json!(position);
                value["atSource"] = json!(at_source);
                value["atDestination"] = json!(at_destination);
            }
            CopyError::Longer { at_source, at_destination } => {
                value["result"] = json!("longer");
                value["atSource"] = json!(at_source);
                value["atDestination"] = json!(at_destination);
            }
            _ => {}
        }
        self.print(&value, |out| {
            let name = self.arguments.destination.name();
            writeln!(out, "{} nothing was copied to {name}", paint(ERROR, "another log:"))?;
            let lines = match error {
                CopyError::Differs { position, at_source, at_destination } => vec![
                    ("they differ at", format!("position {position}")),
                    ("source's event", at_source.to_string()),
                    ("destination's", at_destination.to_string()),
                ],
                _ => vec![("why", error.to_string())],
            };
            fields(out, &lines)
        })
    }

    fn source_json(&self) -> Value {
        json!({"name": self.arguments.source.name(), "kind": self.from.word()})
    }

    fn destination_json(&self) -> Value {
        json!({"name": self.arguments.destination.name(), "kind": self.to.word()})
    }

    /// Prints beside the rows, where these are what is printed.
    fn print(
        &self,
        value: &Value,
        human: impl Fn(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut out: Box<dyn Write> = if self.arguments.destination.is_output() {
            Box::new(anstream::stderr())
        } else {
            Box::new(anstream::stdout())
        };
        match self.arguments.format {
            Format::Human => human(&mut *out)?,
            Format::Json | Format::Jsonl => writeln!(out, "{value}")?,
        }
        match out.flush() {
            Err(error) if error.kind() != ErrorKind::Interrupted => Err(error),
            _ => Ok(()),
        }
    }
}
