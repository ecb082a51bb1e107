//! Logs that are larger than what may be held of them.

use std::{
    fs::File,
    io::{BufWriter, Write as _},
    process::Command,
};

use crate::generate::{Plan, Written};

/// Runs the program with so much address space as a limit, and returns what it printed.
fn limited(mebibytes: u64, arguments: &str, log: &std::path::Path) -> String {
    let program = env!("CARGO_BIN_EXE_recount");
    let limit = mebibytes * 1_024;
    let line = format!("ulimit -v {limit} && exec '{program}' {arguments} '{}'", log.display());
    let output = Command::new("sh").args(["-c", &line]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments} within {mebibytes} MiB: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// A log of a plan, verified and replayed within 64 MiB.
fn within_64_mib(plan: Plan) -> Written {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("large.jsonl");
    let mut out = BufWriter::new(File::create(&path).unwrap());
    let written = plan.write(&mut out).unwrap();
    out.flush().unwrap();
    let told = limited(64, "verify --jobs 1 --skip D12", &path);
    assert!(told.contains(&format!("checked             {0} of {0}", plan.events)), "{told}");
    let told = limited(64, "replay --jobs 1", &path);
    let summary = format!("{} records from {} events", written.messages, plan.events);
    assert!(told.contains(&summary), "{}", &told[told.len() - 200..]);
    written
}

#[test]
fn o_25_memory_follows_what_is_unfinished_and_not_the_log() {
    let plan = Plan { events: 100_000, streams: 5_000, unfinished: 200, ..Plan::default() };
    let once = within_64_mib(plan);
    let twice = within_64_mib(Plan { events: 200_000, ..plan });
    assert_eq!(once.unfinished, twice.unfinished);
    assert!(twice.bytes > 64 << 20, "the log is larger than what may be held of it");
}

#[test]
fn o_25_a_hundred_thousand_events_of_one_outbox_are_read_in_the_same_memory() {
    within_64_mib(Plan { events: 100_000, is_one_stream: true, ..Plan::default() });
}
