//! `recount cron`: when an expression fires.

use std::io::{self, Write};

use clap::{Args, value_parser};
use recount_core::{
    Instant,
    schedule::{Cron, CronError, Firing, Odd, tzdb_version},
    service::Clock,
};
use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr;

use super::{
    Format, Outcome,
    error::CliError,
    output::{STRONG, Table, duration, paint, plain},
    verify::count,
};
use crate::SystemClock;

/// Show when a cron expression fires
///
/// The next firings, in the zone's time and in UTC. It is marked where a clock that is put forward moves
/// one, since its time does not exist that day, and where one that is put back shows its time a
/// second time, when it does not fire. The zones' rules are compiled in; their version is told.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// Five fields: minute, hour, day of the month, month, weekday; or six, with seconds first
    expression: String,
    /// The zone: an id such as Europe/Berlin, or an offset such as +05:30
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    zone: String,
    /// After when, in RFC 3339 [default: now]
    #[arg(long, value_name = "TIME", value_parser = time)]
    after: Option<Instant>,
    /// How many
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = value_parser!(u16).range(1..=10_000))]
    count: u16,
    /// How to print it
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    format: Format,
}

const EXAMPLES: &str = "\
Examples:
  recount cron '0 9 * * MON-FRI' --zone America/New_York
  recount cron '30 2 * * *' --zone Europe/Berlin --after 2026-03-28T00:00:00Z
  recount cron '0 0 29 2 *' --count 3 --format jsonl";

fn time(text: &str) -> Result<Instant, String> {
    let example = "is no time like 2026-11-30T09:00:00Z";
    Instant::parse_rfc3339(text).ok_or_else(|| format!("{text:?} {example}"))
}

pub(super) fn run(arguments: &Arguments) -> Result<Outcome, CliError> {
    let Arguments { expression, zone, .. } = arguments;
    let cron = Cron::new(expression, zone)
        .map_err(|source| CliError::Cron { shown: pointed(expression, zone, &source), source })?;
    let after = arguments.after.unwrap_or_else(|| SystemClock.now());
    let firings = cron.preview(after, arguments.count.into()).map_err(CliError::NoFiring)?;
    let out = &mut anstream::stdout().lock();
    let written = match arguments.format {
        Format::Human => human(out, &cron, after, &firings),
        Format::Json => writeln!(
            out,
            "{}",
            json!({
                "kind": "cron", "expression": expression, "timeZone": zone, "tzdb": tzdb_version(),
                "afterMillis": after, "firings": firings.iter().map(value).collect::<Vec<_>>(),
            })
        ),
        Format::Jsonl => firings.iter().try_for_each(|firing| writeln!(out, "{}", value(firing))),
    };
    written.and_then(|()| out.flush()).map_err(CliError::Output)?;
    Ok(Outcome::Holds)
}

fn human(out: &mut impl Write, cron: &Cron, after: Instant, firings: &[Firing]) -> io::Result<()> {
    let (expression, zone) = (plain(cron.expression()), plain(cron.zone()));
    let version = tzdb_version();
    writeln!(
        out,
        "{} in {zone}, after {after}, by zone data {version}\n",
        paint(STRONG, expression)
    )?;
    let mut table = Table::new(out, &[("local time", 0), ("UTC", 0), ("", 1)]);
    for firing in firings {
        let odd = firing.odd.as_ref().map(told).unwrap_or_default();
        table.row(vec![firing.local.clone(), firing.at.to_string(), odd])?;
    }
    table.finish()?;
    Ok(())
}

/// What is odd about a firing, in words.
fn told(odd: &Odd) -> String {
    match odd {
        Odd::Moved { missing, by_millis, lost } => {
            let lost = match lost {
                0 => String::new(),
                lost => format!("; {} there are lost", count(*lost, "more time")),
            };
            let by = duration(*by_millis);
            format!("moved: the clock is put forward by {by}, there is no {missing}{lost}")
        }
        Odd::SilentAgain { at } => {
            format!("the clock is put back: silent when it shows this again, at {at}")
        }
        _ => "odd".to_owned(),
    }
}

fn value(firing: &Firing) -> Value {
    let mut value = json!({"kind": "firing", "atMillis": firing.at, "local": firing.local});
    match &firing.odd {
        Some(Odd::Moved { missing, by_millis, lost }) => {
            value["moved"] = json!({"missing": missing, "byMillis": by_millis, "lost": lost});
        }
        Some(Odd::SilentAgain { at }) => value["silentAgainAtMillis"] = json!(at),
        _ => {}
    }
    value
}

/// What was given, with a mark under what is wrong.
fn pointed(expression: &str, zone: &str, error: &CronError) -> String {
    let is_zone = error.field.is_none() && Cron::new("* * * * *", zone).is_err();
    let text = if is_zone { zone } else { expression };
    let (before, rest) = text.split_at_checked(error.span.start).unwrap_or((text, ""));
    let wrong = rest.get(..error.span.len()).unwrap_or(rest);
    let margin = plain(before).width();
    let marks = "^".repeat(plain(wrong).width().max(1));
    format!("  {}\n  {:margin$}{marks}", plain(text), "")
}
