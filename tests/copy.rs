//! `recount copy`: from kind to kind, interrupted, refused.

use std::{
    fs::{self, File},
    io::{BufWriter, Read as _, Write as _},
    path::Path,
    process::{Child, Output, Stdio},
    time::Duration,
};

use recount::{Digest, log::jsonl::ZstdReader};
use serde_json::{Value, json};

use crate::{
    cli::{Shell, log},
    generate::Plan,
    lab::{life, pinned, prepared, rows},
};

const SAMPLE: &[u8] = include_bytes!("vectors/log-sample.jsonl");

/// One file of every kind.
const FILES: [&str; 3] = ["a.jsonl", "a.jsonl.zst", "a.db"];

fn generated(events: u64) -> Vec<u8> {
    let mut text = Vec::new();
    let plan = Plan { events, streams: events / 20, unfinished: events / 100, ..Plan::default() };
    plan.write(BufWriter::new(&mut text)).unwrap();
    text
}

fn status(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

impl Shell {
    fn holds(&self, arguments: &str) -> Output {
        let output = self.output(arguments, b"");
        assert_eq!(status(&output).0, Some(0), "{arguments}: {output:?}");
        output
    }

    /// The rows of a file of any kind.
    fn rows(&self, name: &str) -> Vec<u8> {
        self.holds(&format!("copy {name} -")).stdout
    }

    fn digest(&self, name: &str) -> Digest {
        Digest::of_bytes(&fs::read(self.path(name)).unwrap())
    }
}

#[test]
fn every_kind_is_copied_to_every_kind_byte_for_byte() {
    for text in [SAMPLE.to_vec(), generated(3_000)] {
        let shell = Shell::new().with("text.jsonl", &text);
        let report = shell.json("verify text.jsonl --format json")["report"].clone();
        for from in FILES {
            shell.holds(&format!("copy text.jsonl from-{from}"));
            for to in FILES {
                let to = format!("{from}-to-{to}");
                shell.holds(&format!("copy from-{from} {to}"));
                assert_eq!(shell.rows(&to), text, "{to}");
                assert_eq!(
                    shell.json(&format!("verify {to} --format json"))["report"],
                    report,
                    "{to}"
                );
            }
        }
        for kind in ["a.jsonl", "a.jsonl.zst"] {
            let of = |from: &str| fs::read(shell.path(&format!("{from}-to-{kind}"))).unwrap();
            assert_eq!(of("a.db"), of("a.jsonl"), "two exports are the same bytes");
            assert_eq!(of("a.db"), of("a.jsonl.zst"), "two exports are the same bytes");
        }
        assert_eq!(fs::read(shell.path("a.db-to-a.jsonl")).unwrap(), text);
        let piped =
            shell.output("copy - piped.db", &fs::read(shell.path("from-a.jsonl.zst")).unwrap());
        assert_eq!(status(&piped), (Some(0), String::new()));
        assert_eq!(shell.rows("piped.db"), text);
    }
}

#[test]
fn a_database_is_verified_and_replayed_as_its_text_is() {
    let shell = Shell::new().with("a.jsonl", SAMPLE);
    shell.holds("copy a.jsonl a.db");
    let before = shell.digest("a.db");
    let told = |command: &str, name: &str| {
        let mut told = shell.json(&format!("{command} {name} --format json --payload"));
        for finding in told["findings"].as_array_mut().into_iter().flatten() {
            // Only a text has these.
            assert_eq!(finding["line"].is_null(), name == "a.db");
            finding["line"].take();
            finding["byteOffset"].take();
        }
        told
    };
    for command in ["verify", "replay"] {
        assert!(told(command, "a.db") == told(command, "a.jsonl"), "{command}");
    }
    assert_eq!(shell.digest("a.db"), before, "reading never changes a source");
}

/// Starts a copy and gives it a part of the text, all of which it has read when this returns.
fn start(shell: &Shell, to: &str, text: &[u8]) -> Child {
    let mut command = shell.command(&format!("copy - {to}"));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    child.stdin.as_mut().unwrap().write_all(text).unwrap();
    child
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    let status = child.wait().unwrap();
    assert!(!status.success(), "it was to be killed");
}

#[test]
fn a_copy_that_is_killed_is_finished_by_the_same_copy() {
    let text = generated(20_000);
    let shell = Shell::new().with("text.jsonl", &text);
    for name in FILES {
        shell.holds(&format!("copy text.jsonl whole-{name}"));
        // It waits for more when it is killed; then the next one, which has less to write.
        for eighths in [1, 2, 5, 7] {
            kill(start(&shell, name, &text[..text.len() / 8 * eighths]));
        }
        shell.holds(&format!("copy text.jsonl {name}"));
        assert_eq!(shell.rows(name), text, "{name}");
        if name != "a.db" {
            assert_eq!(shell.digest(name), shell.digest(&format!("whole-{name}")), "{name}");
        }
        shell.holds(&format!("verify {name}"));
    }
}

#[test]
fn a_copy_that_is_killed_at_any_moment_is_finished_by_the_same_copy() {
    let text = generated(10_000);
    let shell = Shell::new().with("text.jsonl", &text);
    for name in FILES {
        shell.holds(&format!("copy text.jsonl whole-{name}"));
        for round in 0..6_u64 {
            let name = format!("{round}-{name}");
            for turn in 0..3 {
                let mut command = shell.command(&format!("copy text.jsonl {name}"));
                let mut child = command.stdout(Stdio::null()).spawn().unwrap();
                // Somewhere within the time that it takes, or behind it.
                let micros = (round * 7_919 + turn * 104_729) % 60_000;
                std::thread::sleep(Duration::from_micros(micros));
                child.kill().unwrap();
                child.wait().unwrap();
            }
            shell.holds(&format!("copy text.jsonl {name}"));
            assert_eq!(shell.rows(&name), text, "{name}");
        }
        if name != "a.db" {
            for round in 0..6 {
                let name = format!("{round}-{name}");
                assert_eq!(shell.digest(&name), shell.digest(&format!("whole-{}", &name[2..])));
            }
        }
    }
}

#[test]
fn copies_to_one_destination_at_the_same_time_do_not_mix() {
    let (ours, others) = (generated(4_000), SAMPLE);
    for name in FILES {
        let shell = Shell::new().with("ours.jsonl", &ours).with("others.jsonl", others);
        let start = |from: &str| {
            let mut command = shell.command(&format!("copy {from} {name}"));
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let children =
            ["ours.jsonl", "others.jsonl", "ours.jsonl", "others.jsonl", "ours.jsonl"].map(start);
        for child in children {
            let (code, told) = status(&child.wait_with_output().unwrap());
            let is_right = match code {
                // What is there is the same log, or another one.
                Some(0 | 1) => told.is_empty(),
                _ => told.contains("is locked: ") || told.contains("another process appended"),
            };
            assert!(is_right, "{name}: {code:?} {told}");
        }
        let there = shell.rows(name);
        assert!(ours.starts_with(&there) || others.starts_with(&there), "{name}: a mix");
        assert!(!there.is_empty(), "{name}: one of them has copied something");
    }
}

#[test]
fn a_copy_says_what_it_did() {
    let all = rows(&[life("a"), life("b")].concat());
    let shell = Shell::new().with("a.jsonl", all.concat()).with("part.jsonl", all[..4].concat());
    let told = [
        shell.run("copy part.jsonl agent.db"),
        shell.run("copy a.jsonl agent.db"),
        shell.run("copy agent.db agent.jsonl.zst --format json"),
        shell.run("copy agent.jsonl.zst again.jsonl --format jsonl"),
        shell.run("copy a.jsonl again.jsonl"),
        shell.run_with("copy - agent.sqlite3", &all[..1].concat()),
    ];
    pinned(|| insta::assert_snapshot!(told.join("\n")));
    let output = shell.output("copy agent.db -", b"");
    assert_eq!(output.stdout, all.concat());
    pinned(|| insta::assert_snapshot!("copy-to-output", String::from_utf8(output.stderr).unwrap()));
    // What is told to hold it to, holds.
    let told = shell.run("copy a.jsonl agent.db");
    let command = told.split("recount verify ").nth(1).unwrap().lines().next().unwrap();
    shell.holds(&format!("verify {command}"));
}

#[test]
fn a_destination_that_is_another_log_is_left_as_it_is() {
    let all = rows(&[life("a"), life("b")].concat());
    let other = rows(&[life("a"), life("c")].concat());
    let others = [(0, rows(&life("z")).concat()), (5, other.concat()), (5, other[..6].concat())];
    for name in FILES {
        for (position, other) in &others {
            let shell = Shell::new().with("a.jsonl", all.concat()).with("other.jsonl", other);
            shell.holds(&format!("copy other.jsonl to-{name}"));
            let before = shell.digest(&format!("to-{name}"));
            let output = shell.output(&format!("copy a.jsonl to-{name} --format json"), b"");
            let value: Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!((output.status.code(), &value["result"]), (Some(1), &json!("differs")));
            assert_eq!(value["position"], *position, "{name}");
            assert_eq!(shell.digest(&format!("to-{name}")), before, "{name}");
        }
        let shell =
            Shell::new().with("all.jsonl", all.concat()).with("part.jsonl", all[..3].concat());
        shell.holds(&format!("copy all.jsonl {name}"));
        let before = shell.digest(name);
        let output = shell.output(&format!("copy part.jsonl {name} --format json"), b"");
        let value: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((output.status.code(), &value["result"]), (Some(1), &json!("longer")));
        assert_eq!((&value["atSource"], &value["atDestination"]), (&json!(3), &json!(10)));
        assert_eq!(shell.digest(name), before, "{name}");
    }
    let shell = Shell::new()
        .with("a.jsonl", all.concat())
        .with("part.jsonl", all[..3].concat())
        .with("other.jsonl", rows(&[life("a"), vec![prepared("c", |_| ())]].concat()).concat());
    let told = [
        shell.run("copy a.jsonl other.jsonl"),
        shell.run("copy part.jsonl a.jsonl"),
        shell.run("copy a.jsonl other.jsonl --format json"),
    ];
    pinned(|| insta::assert_snapshot!(told.join("\n")));
}

#[test]
fn what_is_before_the_damage_of_a_source_is_copied() {
    let mut all = rows(&life("m"));
    all[3] = String::from_utf8(all[3].clone()).unwrap().replace("1170", "1171").into_bytes();
    let compressed = zstd::encode_all(&all.concat()[..], 3).unwrap();
    let shell = Shell::new()
        .with("edited.jsonl", all.concat())
        .with("torn.jsonl", &all.concat()[..all[0].len() + 50])
        .with("cut.jsonl.zst", &compressed[..compressed.len() - 9]);
    let told = [
        shell.run("copy edited.jsonl a.db"),
        shell.run("copy torn.jsonl b.jsonl --format json"),
        shell.run("copy cut.jsonl.zst c.jsonl"),
    ];
    pinned(|| insta::assert_snapshot!(told.join("\n")));
    assert_eq!(shell.rows("a.db"), all[..3].concat());
    assert_eq!(fs::read(shell.path("b.jsonl")).unwrap(), all[0]);
}

#[test]
fn what_cannot_be_copied_says_why() {
    let text = log(&life("m"));
    let shell = Shell::new()
        .with("a.jsonl", &text)
        .with("notes.txt", "These are my notes.\n")
        .with("torn.jsonl", [&text, &b"{\"digest\":\"x"[..]].concat())
        .with("a.gz", b"\x1f\x8b....")
        .with("old.zst", &zstd::encode_all(&text[..], 19).unwrap()[..300])
        .with("broken.zst", b"\x28\xb5\x2f\xfd not so");
    fs::create_dir(shell.path("folder")).unwrap();
    let told: Vec<_> = [
        "copy a.jsonl",
        "copy a.jsonl b.txt",
        "copy a.jsonl notes.txt",
        "copy a.jsonl torn.jsonl",
        "copy a.jsonl a.gz",
        "copy a.jsonl old.zst",
        "copy a.jsonl broken.zst",
        "copy a.jsonl folder",
        "copy a.jsonl missing/b.jsonl",
        "copy a.jsonl postgres://host/b",
        "copy missing.jsonl new.db",
        "copy a.jsonl /dev/null",
    ]
    .iter()
    .map(|arguments| shell.run(arguments))
    .collect();
    pinned(|| insta::assert_snapshot!(told.join("\n")));
    assert!(!shell.path("new.db").exists() && !shell.path("b.txt").exists());
}

#[test]
fn databases_that_are_no_logs_are_named_for_what_they_are() {
    let shell = Shell::new().with("a.jsonl", log(&life("m")));
    shell.holds("copy a.jsonl a.db");
    // Where the header says whose the file is, and of which version.
    let with = |name: &str, at: usize, bytes: [u8; 4]| {
        let mut header = fs::read(shell.path("a.db")).unwrap();
        header[at..at + 4].copy_from_slice(&bytes);
        fs::write(shell.path(name), header).unwrap();
    };
    with("foreign.db", 68, [0, 0, 0, 7]);
    with("newer.db", 60, [0, 0, 0, 9]);
    with("broken.db", 16, [0xff; 4]);
    let database = fs::read(shell.path("a.db")).unwrap();
    let told = [
        shell.run("verify foreign.db"),
        shell.run("replay newer.db"),
        shell.run("copy broken.db b.jsonl"),
        shell.run("copy a.jsonl foreign.db"),
        shell.run_with("verify -", &database),
        shell.run("repair a.db"),
    ];
    let folder = format!("{}/", shell.dir.path().canonicalize().unwrap().display());
    pinned(|| insta::assert_snapshot!(told.join("\n").replace(&folder, "")));
    assert_eq!(fs::read(shell.path("a.db")).unwrap(), database);
}

#[test]
fn repair_leaves_what_it_is_not_for() {
    let mut frames = zstd::encode_all(&log(&life("m"))[..], 3).unwrap();
    let shell = Shell::new().with("cut.zst", &frames[..frames.len() - 9]);
    let told = shell.run("repair cut.zst");
    pinned(|| insta::assert_snapshot!(told));
    // One that ends like a line is none either.
    frames.push(b'\n');
    let shell = Shell::new().with("cut.zst", &frames);
    assert!(shell.run("repair cut.zst").contains("cut.zst is compressed"));
    assert_eq!(fs::read(shell.path("cut.zst")).unwrap(), frames);
}

#[test]
fn a_log_that_has_grown_is_copied_again() {
    let text = generated(6_000);
    let half = text.len() / 2;
    let part = line_end(&text[..half]);
    let shell = Shell::new().with("a.jsonl", &text).with("part.jsonl", &text[..part]);
    for name in ["copy.jsonl", "copy.jsonl.zst", "copy.db"] {
        shell.holds(&format!("copy part.jsonl {name}"));
        let before = fs::read(shell.path(name)).unwrap();
        let value = shell.json(&format!("copy a.jsonl {name} --format json"));
        let is_cut_elsewhere = name == "copy.jsonl.zst";
        assert_eq!(
            (&value["events"], &value["isCutElsewhere"]),
            (&json!(6_000), &json!(is_cut_elsewhere))
        );
        assert_eq!(shell.rows(name), text);
        if name != "copy.db" {
            assert!(fs::read(shell.path(name)).unwrap().starts_with(&before), "{name}");
        }
    }
    let told = shell.run("copy part.jsonl more.zst") + &shell.run("copy a.jsonl more.zst");
    assert!(told.contains("whole frames are never changed"), "{told}");
}

fn line_end(text: &[u8]) -> usize {
    text.iter().rposition(|byte| *byte == b'\n').unwrap() + 1
}

#[cfg(unix)]
#[test]
fn a_log_is_not_copied_onto_itself() {
    let text = log(&life("m"));
    let shell = Shell::new().with("a.jsonl", &text);
    shell.holds("copy a.jsonl a.db");
    fs::create_dir(shell.path("folder")).unwrap();
    for name in ["a.jsonl", "a.db"] {
        fs::hard_link(shell.path(name), shell.path(&format!("hard-{name}"))).unwrap();
        std::os::unix::fs::symlink(name, shell.path(&format!("soft-{name}"))).unwrap();
        let before = shell.digest(name);
        for other in
            [name, &format!("folder/../{name}"), &format!("hard-{name}"), &format!("soft-{name}")]
        {
            let told = shell.run(&format!("copy {name} {other}"));
            let expected = format!("error: {name} and {other} are the same file\n");
            assert!(told.contains(&expected) && told.ends_with("[status 2]\n"), "{told}");
        }
        assert_eq!(shell.digest(name), before);
    }
    let file = || File::options().read(true).append(true).open(shell.path("a.jsonl")).unwrap();
    let from = shell.command("copy - a.jsonl").stdin(file()).output().unwrap();
    assert!(status(&from).1.contains("standard input and a.jsonl are the same file"), "{from:?}");
    let to = shell.command("copy a.jsonl -").stdout(file()).output().unwrap();
    assert!(status(&to).1.contains("a.jsonl and standard output are the same file"), "{to:?}");
    assert_eq!(fs::read(shell.path("a.jsonl")).unwrap(), text);
}

#[test]
fn a_file_that_is_open_for_writing_is_not_copied_to() {
    let text = log(&life("m"));
    let shell = Shell::new().with("a.jsonl", &text);
    let open = recount::log::jsonl::JsonlLog::open(shell.path("b.jsonl")).unwrap();
    let told = shell.run("copy a.jsonl b.jsonl");
    pinned(|| insta::assert_snapshot!(told));
    drop(open);
    shell.holds("copy a.jsonl b.jsonl");
}

#[cfg(target_os = "linux")]
#[test]
fn an_output_that_is_full_or_gone_is_told() {
    let shell = Shell::new().with("a.jsonl", generated(2_000));
    let full = File::options().write(true).open("/dev/full").unwrap();
    let output = shell.command("copy a.jsonl -").stdout(full).output().unwrap();
    let told = "error: the output cannot be written: No space left on device (os error 28)\n";
    assert_eq!(status(&output), (Some(2), told.to_owned()));
    let mut child = shell
        .command("copy a.jsonl -")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    assert_eq!(status(&child.wait_with_output().unwrap()), (Some(2), String::new()));
}

#[test]
fn a_compressed_copy_is_read_by_others() {
    let text = generated(6_000);
    let shell = Shell::new().with("a.jsonl", &text);
    shell.holds("copy a.jsonl a.jsonl.zst");
    let decoded = |path: &Path| zstd::decode_all(File::open(path).unwrap()).unwrap();
    assert_eq!(decoded(&shell.path("a.jsonl.zst")), text);
    let mut read = Vec::new();
    let file = File::open(shell.path("a.jsonl.zst")).unwrap();
    ZstdReader::new(file).unwrap().read_to_end(&mut read).unwrap();
    assert_eq!(read, text);
}
