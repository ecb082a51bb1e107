//! The program as people meet it: what it prints, where, and its exit status.

use std::{
    fs,
    io::Write as _,
    path::Path,
    process::{Command, Output, Stdio},
};

use recount::Digest;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    lab::{Written, delivery, life, pinned, prepared, rows},
    support::Vectors,
};

/// A folder with the program in it, so to speak.
pub(crate) struct Shell {
    pub(crate) dir: TempDir,
}

impl Shell {
    pub(crate) fn new() -> Self {
        Self { dir: TempDir::new().unwrap() }
    }

    pub(crate) fn with(self, name: &str, content: impl AsRef<[u8]>) -> Self {
        fs::write(self.path(name), content).unwrap();
        self
    }

    pub(crate) fn path(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_recount"));
        command.args(arguments.split_whitespace()).current_dir(self.dir.path()).env_clear();
        command
    }

    pub(crate) fn output(&self, arguments: &str, input: &[u8]) -> Output {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A program that does not read its input closes it; that is its own affair.
        let _ = child.stdin.take().unwrap().write_all(input);
        child.wait_with_output().unwrap()
    }

    /// The command with all that came of it, as one text.
    pub(crate) fn run(&self, arguments: &str) -> String {
        self.run_with(arguments, b"")
    }

    pub(crate) fn run_with(&self, arguments: &str, input: &[u8]) -> String {
        let output = self.output(arguments, input);
        let mut told = format!("$ recount {arguments}\n");
        let stdout = std::str::from_utf8(&output.stdout).unwrap();
        told.push_str(&stdout.replace(env!("CARGO_BIN_EXE_recount"), "recount"));
        for line in std::str::from_utf8(&output.stderr).unwrap().lines() {
            told.push_str(&format!("[stderr] {line}\n"));
        }
        told.push_str(&format!("[status {}]\n", output.status.code().unwrap()));
        told
    }

    pub(crate) fn json(&self, arguments: &str) -> Value {
        serde_json::from_slice(&self.output(arguments, b"").stdout).unwrap()
    }
}

pub(crate) fn log(events: &[Written]) -> Vec<u8> {
    rows(events).concat()
}

/// One message processed, one refused with a claim behind it.
fn broken_log() -> Vec<u8> {
    let mut events = life("good");
    events.extend([
        prepared("bad", |_| ()),
        delivery("claimed", "bad", 1_000, json!({"leaseUntilMillis": 1_100})),
        delivery("refused", "bad", 1_010, json!({"code": "unwanted"})),
        delivery("claimed", "bad", 2_000, json!({"leaseUntilMillis": 2_100})),
        prepared("late", |_| ()),
        delivery("claimed", "late", 1_000, json!({"leaseUntilMillis": 1_101})),
    ]);
    log(&events)
}

#[test]
fn help_tells_what_there_is() {
    let shell = Shell::new();
    pinned(|| {
        insta::assert_snapshot!("help", shell.run("--help"));
        insta::assert_snapshot!("help-demo", shell.run("demo --help"));
        insta::assert_snapshot!("help-verify", shell.run("verify --help"));
        insta::assert_snapshot!("help-replay", shell.run("replay --help"));
        insta::assert_snapshot!("help-explain", shell.run("explain --help"));
        insta::assert_snapshot!("help-show", shell.run("show delivery --help"));
        insta::assert_snapshot!("help-stats", shell.run("stats --help"));
        insta::assert_snapshot!("help-cron", shell.run("cron --help"));
        insta::assert_snapshot!("help-copy", shell.run("copy --help"));
        insta::assert_snapshot!("help-repair", shell.run("repair --help"));
        insta::assert_snapshot!("help-completions", shell.run("completions --help"));
        insta::assert_snapshot!("help-man", shell.run("man --help"));
    });
}

#[test]
fn wrong_usage_says_what_is_wrong() {
    let shell = Shell::new();
    let told: Vec<_> = [
        "",
        "prove x",
        "verify",
        "verify x --only D99",
        "verify x --expect 5",
        "verify x --jobs 0",
        "replay x --format yaml",
    ]
    .iter()
    .map(|arguments| shell.run(arguments))
    .collect();
    pinned(|| insta::assert_snapshot!(told.join("\n")));
}

#[test]
fn demo_writes_verifies_and_replays() {
    let shell = Shell::new();
    let told = shell.run("demo --dir demo");
    pinned(|| insta::assert_snapshot!(told));
    shell.run("demo --dir again --log jsonl");
    let text = fs::read(shell.path("again/demo.jsonl")).unwrap();
    let exported = shell.output("copy demo/demo.db -", b"").stdout;
    assert!(exported == text, "a seed is a log, whatever keeps it");
    shell.run("demo --dir other --seed 2 --log jsonl");
    assert_ne!(fs::read(shell.path("other/demo.jsonl")).unwrap(), text);
}

#[test]
fn demo_never_writes_over_a_log_and_says_where_it_cannot_write() {
    let shell = Shell::new().with("file", "");
    shell.run("demo --dir demo");
    let told = [shell.run("demo --dir demo"), shell.run("demo --dir file/demo")];
    pinned(|| insta::assert_snapshot!(told.join("\n")));
}

#[cfg(target_os = "linux")]
#[test]
fn what_the_system_does_not_give_is_told() {
    let shell = Shell::new().with("a.jsonl", log(&life("m")));
    let full = |arguments: &str| {
        let out = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = shell.command(arguments).stdout(out).output().unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        format!(
            "$ recount {arguments} > /dev/full\n{errors}[status {}]\n",
            output.status.code().unwrap()
        )
    };
    fs::create_dir(shell.path("demo")).unwrap();
    std::os::unix::fs::symlink("nowhere/demo.db", shell.path("demo/demo.db")).unwrap();
    let told = [full("verify a.jsonl"), full("replay a.jsonl"), shell.run("demo --dir demo")];
    pinned(|| insta::assert_snapshot!(told.join("\n")));
    // Which error that is, is for the system to say.
    let told = shell.run("verify /proc/self/mem");
    assert!(told.contains("[stderr] error: /proc/self/mem cannot be read: "), "{told}");
}

#[test]
fn reading_never_changes_a_database() {
    let shell = Shell::new();
    shell.run("demo --dir demo");
    let before = fs::read(shell.path("demo/demo.db")).unwrap();
    for arguments in [
        "verify demo/demo.db --jobs 2",
        "replay demo/demo.db --format jsonl",
        "copy demo/demo.db demo/copy.jsonl",
        "copy demo/demo.db demo/copy.db",
    ] {
        let output = shell.output(arguments, b"");
        assert!(output.status.success(), "{arguments}: {output:?}");
        assert!(fs::read(shell.path("demo/demo.db")).unwrap() == before, "{arguments}");
    }
    let [database, text] = ["demo.db", "copy.jsonl"].map(|name| {
        let output = shell.output(&format!("replay demo/{name} --format jsonl --payload"), b"");
        output.stdout
    });
    assert!(database == text, "a log folds to the same, whatever keeps it");
}

#[test]
fn an_edited_database_is_found_out() {
    let shell = Shell::new();
    shell.run("demo --dir demo");
    let forge = |sql: &str| {
        let connection = rusqlite::Connection::open(shell.path("demo/demo.db")).unwrap();
        connection
            .execute_batch(&format!("DROP TRIGGER IF EXISTS events_are_not_changed; {sql}"))
            .unwrap();
    };
    forge(
        "UPDATE events SET event = replace(event, 'unwanted', 'accepted') WHERE position = (SELECT min(position) FROM events WHERE event LIKE '%unwanted%')",
    );
    forge("UPDATE events SET revision = revision + 900 WHERE position = 100");
    let told = shell.run("verify demo/demo.db");
    pinned(|| insta::assert_snapshot!(told));
}

#[test]
fn demo_of_any_seed_keeps_every_rule() {
    let shell = Shell::new();
    for seed in 2..12 {
        let output = shell.output(&format!("demo --dir {seed} --seed {seed}"), b"");
        assert!(output.status.success(), "{seed}: {}", String::from_utf8_lossy(&output.stdout));
    }
}

#[test]
fn verify_tells_what_holds() {
    let shell = Shell::new().with("a.jsonl", log(&life("m"))).with("empty.jsonl", "");
    let told = [
        shell.run("verify a.jsonl"),
        shell.run("verify a.jsonl --only L,D8 --skip L7"),
        shell.run_with("verify -", &log(&life("m"))),
        shell.run("verify empty.jsonl"),
        shell.run("verify a.jsonl --format json"),
    ];
    pinned(|| insta::assert_snapshot!(told.join("\n")));
}

#[test]
fn verify_tells_what_is_broken() {
    let shell = Shell::new().with("broken.jsonl", broken_log());
    let told = [
        shell.run("verify broken.jsonl"),
        shell.run("verify broken.jsonl --findings 1"),
        shell.run("verify broken.jsonl --skip D8,D5"),
    ];
    pinned(|| insta::assert_snapshot!(told.join("\n")));
}

#[test]
fn warnings_do_not_hide_a_violation() {
    let mut events =
        vec![prepared("m", |data| data["policy"]["maxAutomaticAttempts"] = json!(100))];
    let claim = |at: u64| delivery("claimed", "m", at, json!({"leaseUntilMillis": at + 100}));
    events.extend((0..30).map(|turn| claim(1_000 + 100 * turn)));
    events.push(claim(3_950));
    let shell = Shell::new().with("lost.jsonl", log(&events));
    let told = shell.run("verify lost.jsonl --findings 2");
    pinned(|| insta::assert_snapshot!(told));
}

#[test]
fn verify_speaks_json_a_finding_a_line() {
    let shell = Shell::new().with("broken.jsonl", broken_log());
    let told = shell.run("verify broken.jsonl --format jsonl");
    pinned(|| insta::assert_snapshot!(told));
    let whole = shell.json("verify broken.jsonl --format json");
    let lines: Vec<Value> = told
        .lines()
        .filter(|line| line.starts_with('{'))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let (report, findings) = lines.split_last().unwrap();
    assert_eq!(whole, json!({"findings": findings, "report": report}));
}

#[test]
fn verify_shows_what_was_delivered_only_when_asked() {
    let shell = Shell::new().with("broken.jsonl", broken_log());
    let secret = "hello";
    for arguments in [
        "verify broken.jsonl",
        "verify broken.jsonl --format json",
        "replay broken.jsonl --keep-going --format json",
    ] {
        assert!(!shell.run(arguments).contains(secret), "{arguments}");
    }
    assert!(shell.run("verify broken.jsonl --format json --payload").contains(secret));
    assert!(shell.run("replay broken.jsonl --format json --payload").contains(secret));
}

#[test]
fn verify_tells_what_it_cannot_read() {
    let rows = rows(&life("m"));
    let mut damaged = rows.clone();
    damaged[1] = b"{\"digest\":\"not a row\"}\n".to_vec();
    damaged[3] = b"\xff\xfe\n".to_vec();
    let mut torn = rows.concat();
    torn.truncate(torn.len() - 40);
    let mut long = rows.concat();
    long.extend(std::iter::repeat_n(b'x', (16 << 20) + 1));
    let shell = Shell::new()
        .with("damaged.jsonl", damaged.concat())
        .with("torn.jsonl", torn)
        .with("long.jsonl", long)
        .with("notes.txt", "These are my notes.\nThey are not a log.\n");
    let told = ["damaged.jsonl", "torn.jsonl", "long.jsonl", "notes.txt"]
        .map(|name| shell.run(&format!("verify {name}")));
    pinned(|| insta::assert_snapshot!(told.join("\n")));
}

#[test]
fn other_files_are_named_for_what_they_are() {
    let shell = Shell::new()
        .with("a.db", "SQLite format 3\0 and so on")
        .with("a.zst", b"\x28\xb5\x2f\xfd not so")
        .with("a.gz", b"\x1f\x8b....")
        .with("a.zip", b"PK\x03\x04....")
        .with("a.txt", b"\xff\xfeh\0i\0")
        .with("a.bin", b"\x7fELF\0\0\0\0");
    fs::create_dir(shell.path("folder")).unwrap();
    let sources =
        ["a.db", "a.zst", "a.gz", "a.zip", "a.txt", "a.bin", "folder", "missing", "esdb://host"];
    let told: Vec<_> = sources.iter().map(|name| shell.run(&format!("verify {name}"))).collect();
    let folder = format!("{}/", shell.dir.path().canonicalize().unwrap().display());
    pinned(|| insta::assert_snapshot!(told.join("\n").replace(&folder, "")));
}

#[test]
fn compressed_text_is_read_as_the_text_that_it_is() {
    let text = log(&life("m"));
    let whole = zstd::encode_all(&text[..], 3).unwrap();
    let two =
        [zstd::encode_all(&text[..900], 3).unwrap(), zstd::encode_all(&text[900..], 3).unwrap()];
    let shell = Shell::new()
        .with("a.jsonl", &text)
        .with("a.jsonl.zst", &whole)
        .with("two.jsonl.zst", two.concat())
        .with("cut.jsonl.zst", &whole[..whole.len() - 9]);
    let expected = shell.json("verify a.jsonl --format json");
    assert_eq!(shell.json("verify a.jsonl.zst --format json"), expected);
    assert_eq!(shell.json("verify two.jsonl.zst --format json"), expected);
    let piped = shell.output("verify - --format json", &whole);
    assert_eq!(serde_json::from_slice::<Value>(&piped.stdout).unwrap(), expected);
    let told = shell.run("verify cut.jsonl.zst");
    assert!(
        told.ends_with("error: cut.jsonl.zst cannot be read: incomplete frame\n[status 2]\n"),
        "{told}"
    );
}

#[test]
fn repair_moves_a_cut_row_aside_and_nothing_else() {
    let text = log(&life("m"));
    let shell = Shell::new()
        .with("torn.jsonl", &text[..text.len() - 40])
        .with("whole.jsonl", &text)
        .with("unended.jsonl", &text[..text.len() - 1])
        .with("notes.txt", "These are my notes.\nThey are not a log.");
    let told = [
        shell.run("repair torn.jsonl"),
        shell.run("verify torn.jsonl"),
        shell.run("repair torn.jsonl"),
        shell.run("repair whole.jsonl --format json"),
        shell.run("repair unended.jsonl"),
        shell.run("repair notes.txt"),
        shell.run("repair missing.jsonl"),
    ];
    pinned(|| insta::assert_snapshot!(told.join("\n")));
    let parts = [
        fs::read(shell.path("torn.jsonl")).unwrap(),
        fs::read(shell.path("torn.jsonl.torn-at-2619")).unwrap(),
    ];
    assert_eq!(parts.concat(), text[..text.len() - 40], "nothing is lost");
    assert_eq!(fs::read(shell.path("unended.jsonl")).unwrap(), text[..text.len() - 1]);
}

#[test]
fn unknown_types_and_versions_are_named_and_may_be_skipped() {
    let mut events = life("m");
    events[4].event_type = "delivery.vanished";
    let shell = Shell::new().with("new.jsonl", log(&events));
    let told = [
        shell.run("verify new.jsonl"),
        shell.run("verify new.jsonl --skip-unknown"),
        shell.run("replay new.jsonl"),
        shell.run("replay new.jsonl --keep-going"),
    ];
    pinned(|| insta::assert_snapshot!(told.join("\n")));
}

#[test]
fn a_removed_last_row_is_found_with_expect() {
    let rows = rows(&life("m"));
    let shell =
        Shell::new().with("whole.jsonl", rows.concat()).with("cut.jsonl", rows[..4].concat());
    let root = shell.json("verify whole.jsonl --format json")["report"]["root"].clone();
    let expect = format!("--expect 5:{}", root.as_str().unwrap());
    assert!(shell.output(&format!("verify whole.jsonl {expect}"), b"").status.success());
    let told = shell.run(&format!("verify cut.jsonl {expect}"));
    pinned(|| insta::assert_snapshot!(told));
}

#[test]
fn limits_come_from_a_file() {
    let limits = json!({
        "maxEnvelopeBytes": 10_000, "maxPendingPerOwner": 1, "maxPendingUpdatesPerOwner": 1,
        "maxRetainedPerOwner": 1, "maxRetainedUpdatesPerOwner": 1,
    });
    let zero = limits.to_string().replace("10000", "0");
    let shell = Shell::new()
        .with("a.jsonl", log(&["a", "b"].map(|id| prepared(id, |_| ()))))
        .with("limits.json", limits.to_string())
        .with("zero.json", zero)
        .with("wrong.json", "{\"maxEnvelopeBytes\":1}");
    let told: Vec<_> = ["limits.json", "zero.json", "wrong.json", "missing.json"]
        .iter()
        .map(|name| shell.run(&format!("verify a.jsonl --limits {name}")))
        .collect();
    pinned(|| insta::assert_snapshot!(told.join("\n")));
}

#[test]
fn replay_prints_records() {
    let shell =
        Shell::new().with("a.jsonl", log(&[life("a"), vec![prepared("b", |_| ())]].concat()));
    let told = [
        shell.run("replay a.jsonl"),
        shell.run("replay a.jsonl --format jsonl"),
        shell.run("replay a.jsonl --format json --payload"),
    ];
    pinned(|| insta::assert_snapshot!(told.join("\n")));
}

#[test]
fn replay_stops_at_a_bad_event_unless_it_is_to_go_on() {
    let mut rows = rows(&[life("a"), life("b")].concat());
    rows[6] = String::from_utf8(rows[6].clone()).unwrap().replace("1100", "1101").into_bytes();
    let shell = Shell::new().with("bad.jsonl", rows.concat());
    let told = [shell.run("replay bad.jsonl"), shell.run("replay bad.jsonl --keep-going")];
    pinned(|| insta::assert_snapshot!(told.join("\n")));
}

#[test]
fn vectors_log_sample_is_verified_and_replayed_by_the_program() {
    let by_key = |records: &Value| {
        let mut records = records.as_array().unwrap().clone();
        records.sort_by_key(|record| record["key"].to_string());
        records
    };
    for file in Vectors::all("log-sample.jsonl") {
        let expected: Value =
            serde_json::from_str(&file.beside("log-sample.expected.json")).unwrap();
        let shell = Shell::new().with("sample.jsonl", file.text());
        for jobs in 1..=3 {
            let replay = format!("replay sample.jsonl --format json --payload --jobs {jobs}");
            assert_eq!(by_key(&shell.json(&replay)["records"]), by_key(&expected["records"]));
            let report =
                &shell.json(&format!("verify sample.jsonl --format json --jobs {jobs}"))["report"];
            assert_eq!(report["root"], expected["root"]);
            assert_eq!(report["violations"], 0);
            assert_eq!(report["coverage"]["events"], expected["events"]);
        }
        let events = expected["events"].as_u64().unwrap();
        let expect = format!("{events}:{}", expected["root"].as_str().unwrap());
        let output = shell.output(&format!("verify sample.jsonl --expect {expect}"), b"");
        assert!(output.status.success());
    }
}

#[test]
fn o_22_records_of_one_instant_are_listed_once_each_by_key() {
    let other = |id: &str| {
        prepared(id, |data| {
            data["limits"]["maxPendingPerOwner"] = json!(9);
            data["createdAtMillis"] = json!(if id == "f" { 1_001 } else { 1_000 });
            data["atMillis"] = data["createdAtMillis"].clone();
        })
    };
    let shell = Shell::new().with("a.jsonl", log(&["f", "c", "a", "e", "b", "d"].map(other)));
    let records = shell.json("replay a.jsonl --format json")["records"].clone();
    let ids: Vec<_> =
        records.as_array().unwrap().iter().map(|it| &it["key"]["messageId"]).collect();
    assert_eq!(ids, ["a", "b", "c", "d", "e", "f"]);
}

#[test]
fn reading_never_changes_the_source() {
    let shell = Shell::new().with("broken.jsonl", broken_log());
    let state = |path: &Path| {
        let modified = fs::metadata(path).unwrap().modified().unwrap();
        (Digest::of_bytes(&fs::read(path).unwrap()), modified)
    };
    let before = state(&shell.path("broken.jsonl"));
    for arguments in
        ["verify broken.jsonl", "replay broken.jsonl", "replay broken.jsonl --keep-going"]
    {
        shell.run(arguments);
        assert_eq!(state(&shell.path("broken.jsonl")), before, "{arguments}");
        let names = fs::read_dir(shell.dir.path()).unwrap().count();
        assert_eq!(names, 1, "{arguments} left something behind");
    }
}

#[test]
fn names_from_a_log_cannot_move_the_cursor() {
    let shell = Shell::new().with("a.jsonl", log(&[prepared("\u{1b}[2J\u{202e}m", |_| ())]));
    let told = shell.run("replay a.jsonl");
    assert!(!told.contains('\u{1b}') && !told.contains('\u{202e}'), "{told:?}");
    assert!(told.contains("sender/%1B%5B2J%E2%80%AEm"), "{told}");
}

#[test]
fn the_readme_shows_what_the_program_prints() {
    let shell = Shell::new();
    let printed = [
        shell.run("demo --dir demo"),
        shell.run("explain demo/demo.db planner/report-6 --width 100"),
    ];
    let readme = include_str!("../README.md");
    let shown: Vec<_> = readme.split("```text\n").skip(1).collect();
    assert_eq!(shown.len(), printed.len());
    for (shown, printed) in shown.iter().zip(printed) {
        let shown = shown.split("```").next().unwrap();
        for line in shown.lines().filter(|line| !line.trim().is_empty() && line.trim() != "…") {
            assert!(printed.contains(line), "not printed: {line}");
        }
    }
}
