//! The program shows when an expression fires.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::{cli::Shell, lab::pinned};

/// Runs `recount cron` with an expression and other arguments.
fn run(expression: &str, arguments: &str) -> (String, String) {
    let shell = Shell::new();
    let output = shell.command("cron").arg(expression).args(arguments.split(' ')).output().unwrap();
    let [stdout, stderr] = [output.stdout, output.stderr].map(|it| String::from_utf8(it).unwrap());
    let status = output.status.code().unwrap();
    let told =
        format!("$ recount cron '{expression}' {arguments}\n{stdout}{stderr}[status {status}]\n");
    (told, stdout)
}

#[test]
fn cron_shows_what_surprises_people_and_points_at_what_is_wrong() {
    let berlin = "--zone Europe/Berlin --after";
    let told = [
        run("0 9 * * MON-FRI", "--zone America/New_York --after 2026-11-30T09:00:00Z"),
        run("30 2 * * *", &format!("{berlin} 2026-03-28T00:00:00Z --count 3")),
        run("*/15 2 * * *", &format!("{berlin} 2026-03-28T02:00:00Z --count 2")),
        run("30 2 * * *", &format!("{berlin} 2026-10-24T02:00:00Z --count 2")),
        run("30 2 * * *", &format!("{berlin} 2026-03-28T12:00:00Z --count 1 --format json")),
        run("30 2 * * *", &format!("{berlin} 2026-10-24T02:00:00Z --count 1 --format jsonl")),
        run("0 9 * * MON-SUX", "--count 1"),
        run("\u{3000}0 9 * JÄN *", "--count 1"),
        run("0 9 * *", "--count 1"),
        run("0 9 * * *", "--zone Mars/Olympus"),
        run("0 0 30 2 *", "--count 1"),
        run("0 9 * * *", "--after yesterday"),
    ];
    let told: Vec<_> = told.into_iter().map(|(told, _)| told).collect();
    pinned(|| insta::assert_snapshot!(told.join("\n")));
}

#[test]
fn cron_begins_now_where_nothing_else_is_said() {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    let before = now();
    let (_, told) = run("* * * * *", "--format json");
    let told: Value = serde_json::from_str(&told).unwrap();
    let after = u128::from(told["afterMillis"].as_u64().unwrap());
    assert!((before..=now()).contains(&after));
    assert_eq!(told["firings"].as_array().unwrap().len(), 5);
}
