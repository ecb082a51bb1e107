//! How things look: styles, tables, records in a line.

use std::{
    borrow::Cow,
    io::{self, Write},
};

use anstyle::{AnsiColor, Style};
use recount_core::{Instant, delivery::MessageDeliveryRecord};
use serde_json::Value;
use textwrap::{Options, WordSeparator, WordSplitter};
use unicode_width::UnicodeWidthStr;

use super::{looks, verify::count};

pub(super) const GOOD: Style = AnsiColor::Green.on_default().bold();
pub(super) const WARNING: Style = AnsiColor::Yellow.on_default().bold();
pub(super) const ERROR: Style = AnsiColor::Red.on_default().bold();
pub(super) const HINT: Style = AnsiColor::Cyan.on_default();
pub(super) const STRONG: Style = Style::new().bold();
pub(super) const FAINT: Style = Style::new().dimmed();

/// A text in a style; the stream it is printed to drops the style where nobody can see it.
pub(super) fn paint(style: Style, text: impl std::fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}

/// Text that cannot move the cursor or change colours: control characters are escaped.
pub(super) fn plain(text: &str) -> String {
    let escape = |char: char| {
        let unsafe_char =
            char.is_control() || matches!(char, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if unsafe_char { char.escape_unicode().to_string() } else { char.to_string() }
    };
    text.chars().map(escape).collect()
}

/// Lines of `name  value`, the names in a column, the values wrapped under themselves.
pub(super) fn fields(
    out: &mut (impl Write + ?Sized),
    fields: &[(impl AsRef<str>, String)],
) -> io::Result<()> {
    indented_fields(out, 2, fields)
}

/// The same, so many columns to the right.
pub(super) fn indented_fields(
    out: &mut (impl Write + ?Sized),
    indent: usize,
    fields: &[(impl AsRef<str>, String)],
) -> io::Result<()> {
    let width = fields.iter().map(|(name, _)| name.as_ref().width()).max().unwrap_or(0);
    let start = indent + width + 2;
    for (name, value) in fields {
        let name = name.as_ref();
        write!(out, "{:indent$}{FAINT}{name:width$}{FAINT:#}  ", "")?;
        let lines = wrap(value, looks::width().map(|all| all.saturating_sub(start)));
        for (number, line) in lines.iter().enumerate() {
            let margin = if number == 0 { 0 } else { start };
            writeln!(out, "{:margin$}{line}", "")?;
        }
    }
    Ok(())
}

/// The lines of a text in so many columns; words that are longer stay whole, so that they can be
/// taken over.
fn wrap(text: &str, width: Option<usize>) -> Vec<Cow<'_, str>> {
    match width {
        None => vec![text.into()],
        Some(width) => {
            let separator = WordSeparator::AsciiSpace;
            let options = Options::new(width.max(1)).break_words(false).word_separator(separator);
            textwrap::wrap(text, options.word_splitter(WordSplitter::NoHyphenation))
        }
    }
}

/// A table that is printed as it grows: its columns are as wide as the first rows need. Where they
/// do not fit beside one another, the least important ones are left out.
pub(super) struct Table<W: Write> {
    out: W,
    widths: Vec<usize>,
    /// How soon a column may be left out; the highest first, and 0 never.
    spare: Vec<u8>,
    /// Rows that are held until the widths are known, the heads first.
    held: Vec<Vec<String>>,
    is_open: bool,
    /// The heads of columns that were left out, and how wide all are together.
    left_out: Option<(String, usize)>,
}

/// How many rows are looked at for the widths.
const HELD_ROWS: usize = 200;

impl<W: Write> Table<W> {
    /// A table of columns, each with a head, and how soon it may be left out: the one with the
    /// highest number first, one with 0 never.
    pub(super) fn new(out: W, columns: &[(&str, u8)]) -> Self {
        let held = vec![columns.iter().map(|(head, _)| (*head).to_owned()).collect()];
        let spare = columns.iter().map(|(_, spare)| *spare).collect();
        let widths = vec![0; columns.len()];
        Self { out, widths, spare, held, is_open: true, left_out: None }
    }

    pub(super) fn row(&mut self, row: Vec<String>) -> io::Result<()> {
        if !self.is_open {
            return self.print(&row, None);
        }
        self.held.push(row);
        if self.held.len() > HELD_ROWS { self.settle() } else { Ok(()) }
    }

    /// Prints what is held and returns the stream.
    pub(super) fn finish(mut self) -> io::Result<W> {
        if self.is_open {
            self.settle()?;
        }
        if let Some((heads, width)) = &self.left_out {
            let note = format!("{heads}: left out, --width {width} has room for all");
            writeln!(self.out, "{}", paint(FAINT, note))?;
        }
        Ok(self.out)
    }

    fn settle(&mut self) -> io::Result<()> {
        self.is_open = false;
        for row in &self.held {
            for (width, cell) in self.widths.iter_mut().zip(row) {
                *width = (*width).max(cell.width());
            }
        }
        if let Some(all) = looks::width() {
            let full = self.widths.clone();
            leave_out(&mut self.widths, &self.spare, all);
            let heads = self.held[0].iter().zip(&self.widths).filter(|(_, width)| **width == 0);
            let heads: Vec<_> = heads.map(|(head, _)| head.as_str()).collect();
            let width = full.iter().map(|width| width + 2).sum::<usize>().saturating_sub(2);
            self.left_out = (!heads.is_empty()).then(|| (heads.join(", "), width));
        }
        for (index, row) in std::mem::take(&mut self.held).iter().enumerate() {
            self.print(row, (index == 0).then_some(FAINT))?;
        }
        Ok(())
    }

    fn print(&mut self, row: &[String], style: Option<Style>) -> io::Result<()> {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&self.widths).filter(|(_, width)| **width > 0) {
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', width.saturating_sub(cell.width()) + 2));
        }
        let line = line.trim_end();
        writeln!(self.out, "{}", style.map_or(line.to_owned(), |style| paint(style, line)))
    }
}

/// Takes the width of columns that may be left out, until the others fit beside one another.
fn leave_out(widths: &mut [usize], spare: &[u8], all: usize) {
    let is_too_wide = |widths: &[usize]| {
        let columns = widths.iter().filter(|width| **width > 0);
        columns.map(|width| width + 2).sum::<usize>() > all + 2
    };
    while is_too_wide(widths) {
        let there = (0..widths.len()).filter(|column| widths[*column] > 0);
        match there.max_by_key(|column| spare[*column]) {
            Some(column) if spare[column] > 0 => widths[column] = 0,
            _ => return,
        }
    }
}

/// Says what was skipped and what changed nothing.
pub(super) fn warn_of_bad(out: &mut impl Write, skipped: u64, ignored: u64) -> io::Result<()> {
    for (number, what) in [(skipped, "skipped"), (ignored, "changed nothing")] {
        if number > 0 {
            let (warning, events) = (paint(WARNING, "warning:"), count(number, "event"));
            writeln!(out, "{warning} {events} {what}; recount verify says why")?;
        }
    }
    Ok(())
}

/// A record in a line.
pub(super) fn record_line(record: &MessageDeliveryRecord) -> String {
    let mut parts = vec![format!("version {}", record.version), standing(record)];
    if let Some(lease) = record.lease_until_millis {
        parts.push(format!("lease until {lease}"));
    } else if let Some(next) = record.effective_deadline() {
        parts.push(format!("next look {next}"));
    }
    let retry = &record.retry;
    parts.push(format!(
        "attempts {} ({} of {} automatic)",
        retry.attempts, retry.automatic_attempts, record.policy.max_automatic_attempts
    ));
    parts.push(format!("deadline {}", record.deadline_at_millis));
    parts.join(", ")
}

/// Where a message stands, and why.
pub(super) fn standing(record: &MessageDeliveryRecord) -> String {
    let status = record.status.as_str();
    let reason = record
        .park_reason
        .map(|it| it.as_str().to_owned())
        .or(record.refusal.as_ref().map(|it| plain(it)));
    reason.map_or(status.to_owned(), |reason| format!("{status} ({reason})"))
}

pub(super) fn instant(instant: Option<Instant>) -> String {
    instant.map_or("-".to_owned(), |instant| instant.to_string())
}

/// A span of time for people, in its two largest units.
pub(super) fn duration(millis: u64) -> String {
    let (seconds, rest) = (millis / 1_000, millis % 1_000);
    let two = |number: u64, unit: u64, of: &str, than: &str| {
        let smaller = number % unit;
        let smaller = if smaller == 0 { String::new() } else { format!(" {smaller} {than}") };
        format!("{} {of}{smaller}", number / unit)
    };
    match seconds {
        0 => format!("{millis} ms"),
        1..60 if rest == 0 => format!("{seconds} s"),
        1..60 => format!("{}.{} s", seconds, rest / 100),
        60..3_600 => two(seconds, 60, "min", "s"),
        3_600..86_400 => two(seconds / 60, 60, "h", "min"),
        _ => two(seconds / 3_600, 24, "d", "h"),
    }
}

/// A record as JSON, without what was delivered unless that is asked for.
pub(super) fn record_json(record: &MessageDeliveryRecord, with_payload: bool) -> Value {
    let mut value = serde_json::to_value(record).expect("a record is JSON");
    if !with_payload {
        without_payload(&mut value);
    }
    value
}

/// Takes what was delivered out of a record, or out of the data of an event.
pub(super) fn without_payload(value: &mut Value) {
    if let Some(Value::Object(envelope)) = value.get_mut("envelope") {
        for secret in ["input", "messageAdmission", "workerAdmission"] {
            envelope.remove(secret);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_of_time_have_their_two_largest_units() {
        for (millis, text) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (1_000, "1 s"),
            (1_250, "1.2 s"),
            (59_999, "59.9 s"),
            (60_000, "1 min"),
            (184_000, "3 min 4 s"),
            (3_600_000, "1 h"),
            (7_380_000, "2 h 3 min"),
            (86_400_000, "1 d"),
            (183_600_000, "2 d 3 h"),
        ] {
            assert_eq!(duration(millis), text);
        }
    }

    #[test]
    fn columns_that_do_not_fit_are_left_out_the_least_important_first() {
        let spare = [0, 3, 1, 0];
        let mut widths = [10, 20, 5, 30];
        leave_out(&mut widths, &spare, 71);
        assert_eq!(widths, [10, 20, 5, 30], "they just fit");
        leave_out(&mut widths, &spare, 70);
        assert_eq!(widths, [10, 0, 5, 30]);
        leave_out(&mut widths, &spare, 20);
        assert_eq!(widths, [10, 0, 0, 30], "what is never left out stays");
    }

    #[test]
    fn long_texts_are_wrapped_at_words_and_long_words_stay_whole() {
        assert_eq!(wrap("one two three", None), ["one two three"]);
        assert_eq!(wrap("one two three", Some(8)), ["one two", "three"]);
        assert_eq!(wrap("is 0123456789abcdef here", Some(8)), ["is", "0123456789abcdef", "here"]);
        assert_eq!(wrap("", Some(8)), [""]);
    }
}
