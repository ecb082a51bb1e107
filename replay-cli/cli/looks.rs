//! How the program was asked to look; set once, before anything is printed.

use std::{io::IsTerminal, sync::OnceLock};

use clap::{Args, ColorChoice, ValueEnum, value_parser};

/// The options that every command has.
#[derive(Args, Clone, Copy, Debug)]
pub(super) struct Looks {
    #[command(flatten)]
    color: colorchoice_clap::Color,
    /// Fit what is printed for people into so many columns [default: the terminal's]
    #[arg(long, global = true, value_name = "COLUMNS", value_parser = value_parser!(u16).range(40..))]
    width: Option<u16>,
    /// Whether to draw how far a log is read, on standard error; by itself that is on a terminal,
    /// once it takes more than a second
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        value_enum,
        default_value_t,
        hide_default_value = true
    )]
    progress: When,
}

/// When something is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum When {
    /// Where somebody sees it.
    #[default]
    Auto,
    /// Also where it is no terminal.
    Always,
    Never,
}

#[derive(Clone, Copy, Debug, Default)]
struct Set {
    width: Option<usize>,
    progress: When,
}

static SET: OnceLock<Set> = OnceLock::new();

impl Looks {
    /// Makes the whole program look so.
    pub(super) fn apply(self) {
        self.color.write_global();
        let of_terminal = || {
            // Whoever reads a pipe can cut lines alone, and put them together again hardly.
            let is_seen = std::io::stdout().is_terminal();
            let size = is_seen.then(terminal_size::terminal_size).flatten();
            size.map(|(terminal_size::Width(columns), _)| usize::from(columns).max(40))
        };
        let width = self.width.map(usize::from).or_else(of_terminal);
        // Tests run commands one after the other; the first look is kept.
        let _ = SET.set(Set { width, progress: self.progress });
    }
}

/// What `--color` asks for, before arguments are read: help and wrong usage have colours, too.
pub(super) fn of_help(arguments: impl Iterator<Item = String>) -> ColorChoice {
    let arguments: Vec<_> = arguments.collect();
    let after = arguments.windows(2).find(|pair| pair[0] == "--color").map(|pair| &*pair[1]);
    let within = || arguments.iter().find_map(|argument| argument.strip_prefix("--color="));
    match after.or_else(within) {
        Some("always") => ColorChoice::Always,
        Some("never") => ColorChoice::Never,
        _ => ColorChoice::Auto,
    }
}

/// How many columns there are; `None` where lines may be of any length.
pub(super) fn width() -> Option<usize> {
    SET.get().copied().unwrap_or_default().width
}

/// When it is drawn how far a log is read.
pub(super) fn progress() -> When {
    SET.get().copied().unwrap_or_default().progress
}
