//! How far a log is read, on standard error, once that takes a while.

use std::{
    io::{self, IsTerminal, Read, Write},
    time::Duration,
};

use indicatif::{
    HumanFloatCount, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle, TermLike,
};
use recount_core::log::{Block, RowSource};

use super::looks::{self, When};

/// How long nothing is drawn.
const PATIENCE: Duration = Duration::from_secs(1);

/// How often a second it is drawn, at most.
const HERTZ: u8 = 10;

/// How far a log is read.
#[derive(Clone, Debug)]
pub(super) struct Progress {
    bar: ProgressBar,
    when: When,
}

/// What is counted.
#[derive(Clone, Copy, Debug)]
pub(super) enum Unit {
    Bytes,
    Events,
}

impl Progress {
    /// Nothing is read yet of what there is, where that is known.
    pub(super) fn new(total: Option<u64>, unit: Unit) -> Self {
        let bar = match total {
            Some(total) => ProgressBar::new(total),
            None => ProgressBar::no_length(),
        };
        bar.set_draw_target(ProgressDrawTarget::hidden());
        let (done, rate) = match unit {
            Unit::Bytes => ("{binary_bytes}", "{binary_bytes_per_sec}"),
            Unit::Events => ("{human_pos} events", "{rate}"),
        };
        let template = match total {
            Some(_) => format!("{{bar:30}} {{percent:>3}} %  {done}  {rate}  {{eta}} left"),
            None => format!("{{spinner}} {done}  {rate}"),
        };
        if let Ok(style) = ProgressStyle::with_template(&template) {
            let rate = |state: &ProgressState, out: &mut dyn std::fmt::Write| {
                // Nothing is to be done where it cannot be drawn.
                let _ = write!(out, "{}/s", HumanFloatCount(state.per_sec().round()));
            };
            bar.set_style(style.progress_chars("━╸ ").with_key("rate", rate));
        }
        Self { bar, when: looks::progress() }
    }

    fn advance(&self, by: u64) {
        if self.bar.is_hidden()
            && is_shown(self.when, io::stderr().is_terminal(), self.bar.elapsed())
        {
            self.bar.set_draw_target(match self.when {
                When::Always if !io::stderr().is_terminal() => {
                    ProgressDrawTarget::term_like_with_hz(Box::new(Lines), HERTZ)
                }
                _ => ProgressDrawTarget::stderr_with_hz(HERTZ),
            });
        }
        self.bar.inc(by);
    }

    /// Counts what is read of a text.
    pub(super) fn reader<R: Read>(&self, inner: R) -> Counted<R> {
        Counted { inner, progress: self.clone() }
    }

    /// Counts the rows of a table.
    pub(super) fn rows<S: RowSource>(&self, inner: S) -> Counted<S> {
        Counted { inner, progress: self.clone() }
    }

    /// Prints beside what is drawn, where both go to a terminal.
    pub(super) fn output<W: Write>(&self, out: W) -> Beside<W> {
        let bar = io::stdout().is_terminal().then(|| self.bar.clone());
        Beside { out, bar }
    }
}

fn is_shown(when: When, is_terminal: bool, elapsed: Duration) -> bool {
    match when {
        When::Auto => is_terminal && elapsed >= PATIENCE,
        When::Always => true,
        When::Never => false,
    }
}

/// What is read, counted; what was drawn goes with it.
#[derive(Debug)]
pub(super) struct Counted<T> {
    inner: T,
    progress: Progress,
}

impl<T> Drop for Counted<T> {
    fn drop(&mut self) {
        self.progress.bar.finish_and_clear();
    }
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let length = self.inner.read(into)?;
        self.progress.advance(length as u64);
        Ok(length)
    }
}

impl<S: RowSource> RowSource for Counted<S> {
    fn next(&mut self, block: &mut Block) -> io::Result<bool> {
        let is_more = self.inner.next(block)?;
        if is_more {
            self.progress.advance(block.lines().count() as u64);
        }
        Ok(is_more)
    }
}

/// Output that takes what is drawn away for as long as it writes.
pub(super) struct Beside<W> {
    out: W,
    bar: Option<ProgressBar>,
}

impl<W: Write> Write for Beside<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &self.bar {
            Some(bar) if !bar.is_hidden() => bar.suspend(|| self.out.write(bytes)),
            _ => self.out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Standard error that is no terminal: what would be drawn over stands on a line of its own.
#[derive(Debug)]
struct Lines;

impl TermLike for Lines {
    fn width(&self) -> u16 {
        80
    }

    fn move_cursor_up(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_down(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_right(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_left(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn write_line(&self, line: &str) -> io::Result<()> {
        writeln!(io::stderr(), "{}", line.trim_end())
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        let text = text.trim();
        if text.is_empty() { Ok(()) } else { writeln!(io::stderr(), "{text}") }
    }

    fn clear_line(&self) -> io::Result<()> {
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        io::stderr().flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_drawn_where_nobody_waits_or_sees_it() {
        let [soon, later] = [Duration::from_millis(999), PATIENCE];
        assert!(!is_shown(When::Auto, true, soon));
        assert!(is_shown(When::Auto, true, later));
        assert!(!is_shown(When::Auto, false, later));
        assert!(is_shown(When::Always, false, soon));
        assert!(!is_shown(When::Never, true, later));
    }
}
