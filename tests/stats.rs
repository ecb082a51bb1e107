//! `stats`: every number held against a count that keeps all of the log in memory.

use std::collections::BTreeMap;

use recount::{Instant, Stats, StatsOptions, log::jsonl::JsonlRows, stats};
use serde_json::{Value, json};

use crate::{
    cli::{Shell, log},
    generate::Plan,
    lab::{Written, delivery, life, pinned, prepared, receipt, settlement},
};

fn stats_of(text: &[u8], jobs: usize) -> Stats {
    let mut options = StatsOptions::default();
    (options.jobs, options.top) = (jobs, 5);
    stats(JsonlRows::new(text), &options).unwrap()
}

/// A number in the data of an event.
fn millis(data: &Value, field: &str) -> u64 {
    data[field].as_u64().unwrap()
}

/// Counts as anybody would who has memory enough.
fn naive(text: &[u8]) -> Value {
    let rows: Vec<Value> = text
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect();
    let mut counts: BTreeMap<&str, BTreeMap<String, u64>> = BTreeMap::new();
    let mut count = |what, name: &str| {
        *counts.entry(what).or_default().entry(name.to_owned()).or_default() += 1;
    };
    let mut messages: BTreeMap<(String, String), Vec<(String, Value)>> = BTreeMap::new();
    for row in &rows {
        let event = &row["event"];
        let text = |field: &str| event[field].as_str().unwrap().to_owned();
        count("eventsByType", &text("type"));
        count("eventsByDay", &text("recordedAt")[..10]);
        count("streams", &text("stream"));
        let id = event["data"]["messageId"].as_str().unwrap().to_owned();
        let what = text("type").split_off("delivery.".len());
        messages.entry((text("stream"), id)).or_default().push((what, event["data"].clone()));
    }
    let mut spans: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for events in messages.values() {
        let at = |what: &str| {
            let event = events.iter().find(|(it, _)| it == what);
            event.map(|(_, data)| millis(data, "atMillis"))
        };
        let of = |what: &str| events.iter().filter(|(it, _)| it == what).count() as u64;
        spans.entry("attemptsPerMessage").or_default().push(of("claimed"));
        let mut span = |name, from: Option<u64>, to: Option<u64>| {
            if let (Some(from), Some(to)) = (from, to) {
                spans.entry(name).or_default().push(to - from);
            }
        };
        span("preparedToAccepted", at("prepared"), at("accepted"));
        span("acceptedToProcessed", at("accepted"), at("processed"));
        span("preparedToProcessed", at("prepared"), at("processed"));
        for (index, (what, data)) in events.iter().enumerate() {
            // A person may park what nobody is trying.
            let is_tried = index > 0 && events[index - 1].0 == "claimed";
            let word = |field: &str| data[field].as_str().unwrap_or_default().to_owned();
            match what.as_str() {
                "refused" => count("refusals", &word("code")),
                "parked" => count("parksByReason", &word("reason")),
                _ => {}
            }
            match what.as_str() {
                "accepted" => count("answers", "admitted"),
                "observed" => count("answers", "stillPending"),
                "processed" => count("answers", "settled"),
                "refused" => count("answers", "refused"),
                "retried" => count("answers", &format!("failed.{}", word("reason"))),
                "parked" if data.get("retryReason").is_some() => {
                    count("answers", &format!("failed.{}", word("retryReason")));
                }
                "parked" if word("by") == "observe" => count("answers", "stillPending"),
                "parked" if word("by") == "park" && is_tried => count("answers", "parked"),
                _ => {}
            }
        }
    }
    let spread = |numbers: &mut Vec<u64>| {
        numbers.sort_unstable();
        let number = numbers.len() as u64;
        let at =
            |percent: u64| numbers[usize::try_from((number * percent).div_ceil(100)).unwrap() - 1];
        let mean = (numbers.iter().sum::<u64>() + number / 2) / number;
        json!({
            "count": number, "min": numbers[0], "p50": at(50), "p90": at(90), "p99": at(99),
            "max": numbers.last(), "mean": mean,
        })
    };
    let spreads: BTreeMap<_, _> =
        spans.iter_mut().map(|(name, numbers)| (*name, spread(numbers))).collect();
    json!({"events": rows.len(), "messages": messages.len(), "counts": counts, "spreads": spreads})
}

#[test]
fn the_numbers_are_those_of_a_count_that_keeps_everything() {
    for seed in 1..4 {
        let mut text = Vec::new();
        let plan = Plan { events: 4_000, streams: 60, unfinished: 80, seed, ..Plan::default() };
        plan.write(&mut text).unwrap();
        let (stats, expected) = (json!(stats_of(&text, 1)), naive(&text));
        assert_eq!(stats["events"], expected["events"]);
        assert_eq!(stats["messages"], expected["messages"]);
        let counts = &expected["counts"];
        for name in ["eventsByType", "eventsByDay", "parksByReason"] {
            assert_eq!(stats[name], counts[name], "{name}");
        }
        assert_eq!(stats["streams"], json!(counts["streams"].as_object().unwrap().len()));
        for (name, whole) in [("busiestStreams", "streams"), ("refusals", "refusals")] {
            let mut most: Vec<_> = counts[whole].as_object().unwrap().iter().collect();
            most.sort_by_key(|(name, count)| (u64::MAX - count.as_u64().unwrap(), (*name).clone()));
            let most: Vec<_> = most
                .iter()
                .take(5)
                .map(|(name, count)| json!({"name": name, "count": count}))
                .collect();
            assert_eq!(stats[name], json!(most), "{name}");
        }
        let mut answers = stats["answers"].as_object().unwrap().clone();
        let all: u64 = answers.values().map(|count| count.as_u64().unwrap()).sum();
        assert_eq!(json!(all), stats["attempts"], "each attempt has one answer: {answers:?}");
        // These two are in no event.
        answers.retain(|name, _| !matches!(name.as_str(), "lost" | "underWay"));
        assert_eq!(json!(answers), counts["answers"]);
        let by_status: u64 =
            stats["messagesByStatus"].as_object().unwrap().values().filter_map(Value::as_u64).sum();
        assert_eq!(json!(by_status), stats["messages"]);
        for (name, spread) in expected["spreads"].as_object().unwrap() {
            for (part, number) in spread.as_object().unwrap() {
                let (found, number) =
                    (stats[name][part].as_u64().unwrap(), number.as_u64().unwrap());
                let is_exact = !part.starts_with('p');
                let off = found.abs_diff(number);
                assert!(
                    off * 1_000 <= number && !(is_exact && off > 0),
                    "{name} {part}: {found}, {number}"
                );
            }
        }
        for jobs in [2, 5] {
            assert_eq!(json!(stats_of(&text, jobs)), stats);
        }
    }
}

#[test]
fn what_a_clock_that_went_back_leaves_is_counted_apart() {
    let mut events = life("m");
    events[2].data["atMillis"] = json!(900);
    let stats = stats_of(&log(&events), 1);
    assert_eq!((stats.clock_went_back, stats.prepared_to_accepted.count), (1, 0));
    assert_eq!((stats.accepted_to_processed.min, stats.prepared_to_processed.max), (180, 80));
    assert_eq!(stats.first_recorded_at_millis, Instant::from_millis(1_000_000).ok());
}

/// A message of which the last attempt is under way, one that was lost on the way, one left alone.
fn mixed() -> Vec<Written> {
    let claimed =
        |id: &str, at: u64| delivery("claimed", id, at, json!({"leaseUntilMillis": at + 100}));
    let mut events = life("done");
    events.extend([prepared("under-way", |_| ()), claimed("under-way", 1_000)]);
    events.extend([prepared("lost", |_| ()), claimed("lost", 1_000), claimed("lost", 1_100)]);
    events.extend([
        prepared("alone", |_| ()),
        claimed("alone", 1_000),
        delivery(
            "accepted",
            "alone",
            1_020,
            json!({"receipt": receipt("alone"), "nextAttemptAtMillis": 1_070}),
        ),
        claimed("alone", 1_070),
        delivery("parked", "alone", 1_090, json!({"by": "park", "reason": "status-unavailable"})),
    ]);
    events.push(delivery(
        "processed",
        "nobody",
        1_090,
        json!({"settlement": settlement("nobody")}),
    ));
    for (day, event) in events.iter_mut().enumerate() {
        event.recorded_at = 86_399_990 + 5 * day as u64;
    }
    events
}

#[test]
fn stats_are_told_to_people_and_to_machines() {
    let shell = Shell::new().with("a.jsonl", log(&mixed())).with("empty.jsonl", "");
    let told = [
        shell.run("stats a.jsonl"),
        shell.run("stats a.jsonl --width 60 --until 4 --top 1"),
        shell.run("stats a.jsonl --format json"),
        shell.run("stats empty.jsonl"),
    ];
    pinned(|| insta::assert_snapshot!(told.join("\n")));
    let demo = Shell::new();
    demo.run("demo --dir demo");
    let told = demo.run("stats demo/demo.db");
    pinned(|| insta::assert_snapshot!("stats-demo", told));
}

#[test]
fn stats_stop_at_a_bad_event_unless_they_are_to_go_on() {
    let mut rows = crate::lab::rows(&life("m"));
    rows[1] = b"this is not a row\n".to_vec();
    let shell = Shell::new().with("a.jsonl", rows.concat());
    let told = [shell.run("stats a.jsonl"), shell.run("stats a.jsonl --keep-going")];
    pinned(|| insta::assert_snapshot!(told.join("\n")));
}
