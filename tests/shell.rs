//! The program in a terminal, in a pipe, and beside a shell.

use std::{fs, io, process::Stdio};

use crate::{
    cli::{Shell, log},
    generate::Plan,
    lab::{life, pinned, prepared},
};

fn generated(events: u64) -> Vec<u8> {
    let mut text = Vec::new();
    Plan { events, streams: 200, unfinished: 20, ..Plan::default() }.write(&mut text).unwrap();
    text
}

#[test]
fn what_is_printed_for_people_fits_the_width_that_is_asked_for() {
    let mut events = life("a-message-with-a-name-that-is-long");
    events.push(prepared("m", |_| ()));
    let shell = Shell::new().with("a.jsonl", log(&events));
    let told = [100, 80, 60].map(|width| {
        [
            shell.run(&format!("replay a.jsonl --width {width}")),
            shell.run(&format!("verify a.jsonl --width {width}")),
        ]
        .concat()
    });
    pinned(|| insta::assert_snapshot!(told.join("\n")));
    let told = shell.run("replay a.jsonl --width 39");
    assert!(told.contains("39 is not in 40..=65535"), "{told}");
}

#[test]
fn colours_are_where_they_are_asked_for() {
    let shell = Shell::new().with("a.jsonl", log(&life("m")));
    let has_colours = |arguments: &str, variables: &[(&str, &str)]| {
        let output = shell.command(arguments).envs(variables.iter().copied()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        output.stdout.contains(&b'\x1b')
    };
    assert!(!has_colours("verify a.jsonl", &[]), "a pipe sees none");
    assert!(has_colours("verify a.jsonl --color always", &[]));
    assert!(has_colours("verify a.jsonl", &[("CLICOLOR_FORCE", "1")]));
    assert!(!has_colours("verify a.jsonl --color never", &[("CLICOLOR_FORCE", "1")]));
    assert!(!has_colours("verify a.jsonl", &[("TERM", "xterm-256color")]), "a pipe is no terminal");
    let forced = [("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")];
    assert!(has_colours("--color always verify a.jsonl", &forced), "what is asked for goes first");
    assert!(
        has_colours("--color=always --help", &[])
            && has_colours("verify --help --color always", &[])
    );
    assert!(!has_colours("--help --color never", &[("CLICOLOR_FORCE", "1")]));
}

/// Runs a command of a shell on a terminal, and returns all that it shows there.
#[cfg(target_os = "linux")]
fn on_a_terminal(shell: &Shell, command: &str, variables: &[(&str, &str)]) -> String {
    let command = command.replace("recount", env!("CARGO_BIN_EXE_recount"));
    let mut script = std::process::Command::new("script");
    script.args(["-qec", &command, "/dev/null"]).current_dir(shell.dir.path());
    script.env("TERM", "xterm").envs(variables.iter().copied());
    let output = script.stdin(Stdio::null()).output().expect("script is part of util-linux");
    String::from_utf8(output.stdout).unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn a_terminal_shows_colours_and_nothing_of_progress_where_nobody_waits() {
    let shell = Shell::new().with("a.jsonl", log(&life("m")));
    let shown = on_a_terminal(&shell, "recount verify a.jsonl", &[]);
    assert!(shown.contains("\x1b[1m\x1b[32mok:"), "{shown:?}");
    assert!(!shown.contains('%'), "{shown:?}");
    let plain = on_a_terminal(&shell, "recount verify a.jsonl", &[("NO_COLOR", "1")]);
    assert!(plain.contains("ok: every rule") && !plain.contains('\x1b'), "{plain:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_terminal_shows_how_far_it_is_once_that_takes_a_while_and_then_the_result_alone() {
    let shell = Shell::new().with("a.jsonl", generated(2_000));
    let slow = "(head -c 1000000 a.jsonl; sleep 1.2; tail -c +1000001 a.jsonl) | recount verify -";
    let shown = on_a_terminal(&shell, slow, &[]);
    assert!(shown.contains("MiB/s"), "{shown:?}");
    let end = shown.rfind("MiB/s").unwrap();
    let (drawn, result) = shown.split_at(end);
    assert!(drawn.contains('\r') && result.contains("\x1b[2K"), "it is drawn over: {shown:?}");
    assert!(result.contains("every rule was kept"), "{shown:?}");
}

#[test]
fn progress_is_told_on_standard_error_and_changes_no_output() {
    let shell = Shell::new().with("a.jsonl", generated(2_000));
    for name in ["a.db", "a.jsonl.zst"] {
        let told = shell.run(&format!("copy a.jsonl {name} --progress always"));
        assert!(told.contains("[stderr] ") && told.contains(" 100 % "), "{told}");
    }
    for source in ["a.jsonl", "a.db", "a.jsonl.zst"] {
        for command in ["verify", "replay"] {
            let run = |progress| {
                let output = shell.output(&format!("{command} {source} {progress}"), b"");
                (output.stdout, String::from_utf8(output.stderr).unwrap())
            };
            let (silent, nothing) = run("");
            assert_eq!(nothing, "", "nobody sees it");
            assert_eq!(run("--progress never"), (silent.clone(), nothing));
            let (same, told) = run("--progress always");
            assert!(same == silent, "{command} {source}");
            assert!(told.contains(" 100 % ") && told.contains(" left"), "{told}");
            let unit = if source == "a.db" { "2,000 events" } else { "iB" };
            assert!(told.contains(unit), "{told}");
        }
    }
    let input = fs::read(shell.path("a.jsonl")).unwrap();
    let output = shell.output("verify - --progress always", &input);
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("MiB") && !told.contains('%'), "its end is not known: {told}");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let shell = Shell::new().with("a.jsonl", generated(5_000));
    for (arguments, status) in [
        ("replay a.jsonl", 2),
        ("replay a.jsonl --format jsonl", 2),
        ("replay a.jsonl --format json", 2),
        ("verify a.jsonl", 2),
        ("verify a.jsonl --format jsonl", 2),
        ("copy a.jsonl -", 2),
        ("completions bash", 2),
        ("man", 2),
        ("--help", 0),
        ("verify --help", 0),
        ("--version", 0),
    ] {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let output = shell.command(arguments).stdout(writer).output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!((told.as_str(), output.status.code()), ("", Some(status)), "{arguments}");
    }
}

#[test]
fn completions_and_manual_pages_are_of_every_command() {
    let shell = Shell::new().with("file", "");
    let help = shell.run("--help");
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands: Vec<_> = commands
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.strip_prefix("  ")?.split(' ').next().filter(|it| !it.is_empty()))
        .filter(|name| *name != "help")
        .collect();
    assert!(commands.contains(&"explain") && commands.len() >= 9, "{commands:?}");
    for name in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = shell.output(&format!("completions {name}"), b"");
        let script = String::from_utf8(output.stdout).unwrap();
        for command in &commands {
            assert!(script.contains(command), "{name} knows nothing of {command}");
        }
    }
    let script = shell.output("completions bash", b"").stdout;
    fs::write(shell.path("recount.bash"), script).unwrap();
    let mut bash = std::process::Command::new("bash");
    let checked = bash.args(["-n", "recount.bash"]).current_dir(shell.dir.path()).status();
    assert!(checked.unwrap().success());

    fs::create_dir(shell.path("man")).unwrap();
    let told = shell.run("man --dir man");
    for command in commands {
        let page = fs::read_to_string(shell.path(&format!("man/recount-{command}.1"))).unwrap();
        assert!(page.contains(".SH SYNOPSIS") && page.contains(command), "{page}");
        assert!(page.contains("\\-\\-width"), "{command} has the options of all commands");
    }
    assert!(fs::read_to_string(shell.path("man/recount-show-delivery.1")).is_ok());
    let whole = shell.output("man", b"").stdout;
    assert_eq!(fs::read(shell.path("man/recount.1")).unwrap(), whole);
    let told = [told, shell.run("man --dir nowhere"), shell.run("man --dir file")];
    pinned(|| insta::assert_snapshot!(told.join("\n")));
}
