//! `recount completions` and `recount man`: what a shell and a reader want to have.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

use clap::{Args, Command, CommandFactory, ValueHint};
use clap_complete::Shell;

use super::{Outcome, error::CliError};

/// Print a script that completes commands in a shell
#[derive(Args, Debug)]
#[command(after_help = COMPLETIONS)]
pub(super) struct Completions {
    /// Which shell
    #[arg(value_enum)]
    shell: Shell,
}

const COMPLETIONS: &str = "\
Examples:
  recount completions bash > ~/.local/share/bash-completion/completions/recount
  recount completions zsh > ~/.zfunc/_recount
  recount completions fish > ~/.config/fish/completions/recount.fish";

/// Print the manual page, or write one for each command
#[derive(Args, Debug)]
#[command(after_help = MAN)]
pub(super) struct Man {
    /// The folder to write a page for each command into
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    dir: Option<PathBuf>,
}

const MAN: &str = "\
Examples:
  recount man | man -l -
  recount man --dir /usr/local/share/man/man1";

pub(super) fn completions(arguments: &Completions) -> Result<Outcome, CliError> {
    // The generator takes a writer for one that never fails.
    let mut script = Vec::new();
    let mut command = super::Arguments::command();
    clap_complete::generate(arguments.shell, &mut command, "recount", &mut script);
    print(&script)
}

pub(super) fn man(arguments: &Man) -> Result<Outcome, CliError> {
    let mut pages = Vec::new();
    collect(super::Arguments::command(), "", &mut pages);
    let Some(dir) = &arguments.dir else {
        let (_, command) = &pages[0];
        return print(&page(command).map_err(CliError::Output)?);
    };
    for (name, command) in &pages {
        write_page(&dir.join(format!("{name}.1")), command)?;
    }
    let told = format!("{} pages in {}\n", pages.len(), dir.display());
    print(told.as_bytes())
}

fn print(text: &[u8]) -> Result<Outcome, CliError> {
    let mut out = io::stdout().lock();
    out.write_all(text).and_then(|()| out.flush()).map_err(CliError::Output)?;
    Ok(Outcome::Holds)
}

fn write_page(path: &Path, command: &Command) -> Result<(), CliError> {
    let written = page(command).and_then(|page| fs::write(path, page));
    written.map_err(|source| CliError::Create { path: path.to_owned(), source })
}

fn page(command: &Command) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    Ok(page)
}

/// A command and all below it, each with the name of its page.
fn collect(command: Command, above: &str, pages: &mut Vec<(String, Command)>) {
    let mut command = command.disable_help_subcommand(true);
    // So that each one has the options of those above it.
    command.build();
    let name = match above {
        "" => command.get_name().to_owned(),
        above => format!("{above}-{}", command.get_name()),
    };
    let command = command.display_name(name.clone());
    let below: Vec<_> = command.get_subcommands().cloned().collect();
    pages.push((name.clone(), command));
    for command in below {
        collect(command, &name, pages);
    }
}
