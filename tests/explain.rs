//! `recount show` and `recount explain`: what happened to a message, and where it stands.

use serde_json::{Value, json};

use crate::{
    cli::{Shell, log},
    lab::{Written, delivery, life, pinned, prepared, receipt},
};

/// A message whose attempts all failed.
fn exhausted(id: &str) -> Vec<Written> {
    let mut events = vec![prepared(id, |_| ())];
    for (attempt, said) in [(0, "refused connection"), (1, "reset"), (2, "no route to host")] {
        let at = 1_000 + 100 * attempt;
        events.push(delivery("claimed", id, at, json!({"leaseUntilMillis": at + 100})));
        let diagnostic = json!({
            "_tag": "Error", "name": "Unreachable", "message": "POST /inbox failed",
            "cause": {"_tag": "Value", "value": said},
        });
        events.push(if attempt == 2 {
            let parked = json!({
                "by": "retry", "reason": "exhausted", "retryReason": "transport",
                "diagnostic": diagnostic,
            });
            delivery("parked", id, at + 30, parked)
        } else {
            let failed = json!({
                "reason": "transport", "diagnostic": diagnostic, "nextAttemptAtMillis": at + 100,
            });
            delivery("retried", id, at + 30, failed)
        });
    }
    events
}

fn claimed(id: &str, at: u64) -> Written {
    delivery("claimed", id, at, json!({"leaseUntilMillis": at + 100}))
}

fn accepted(id: &str, at: u64) -> Written {
    let facts = json!({"receipt": receipt(id), "nextAttemptAtMillis": at + 50});
    delivery("accepted", id, at, facts)
}

/// Messages of one outbox in every state, each with a name that says which.
fn in_every_state() -> Vec<Written> {
    let mut events = vec![prepared("fresh", |_| ())];
    events.extend([prepared("under-way", |_| ()), claimed("under-way", 1_000)]);
    events.extend([
        prepared("failed-once", |_| ()),
        claimed("failed-once", 1_000),
        delivery(
            "retried",
            "failed-once",
            1_030,
            json!({"reason": "timeout", "nextAttemptAtMillis": 1_040}),
        ),
    ]);
    events.push(prepared("behind", |data| data["predecessor"] = json!("fresh")));
    events.push(prepared("behind-nothing", |data| data["predecessor"] = json!("nobody")));
    events.extend([
        prepared("admitted", |_| ()),
        claimed("admitted", 1_000),
        accepted("admitted", 1_020),
    ]);
    events.extend([
        prepared("asked", |_| ()),
        claimed("asked", 1_000),
        accepted("asked", 1_020),
        claimed("asked", 1_070),
        delivery("observed", "asked", 1_080, json!({"nextAttemptAtMillis": 1_130})),
        claimed("asked", 1_130),
    ]);
    events.extend([prepared("lost", |_| ()), claimed("lost", 1_000), claimed("lost", 1_100)]);
    events.extend(life("done"));
    let mut failed = life("done-badly");
    let last = failed.last_mut().unwrap();
    last.data["settlement"]["outcome"] = json!("failed");
    last.data["settlement"]["failure"] =
        json!({"errorTag": "ToolError", "message": "the calendar is closed"});
    events.extend(failed);
    let because = json!({"_tag": "Value", "value": "offers are not taken"});
    events.extend([
        prepared("unwanted", |_| ()),
        claimed("unwanted", 1_000),
        delivery("refused", "unwanted", 1_010, json!({"code": "offer", "diagnostic": because})),
    ]);
    events.extend(exhausted("exhausted"));
    events.extend([
        prepared("too-late", |_| ()),
        delivery("parked", "too-late", 100_000, json!({"by": "claim", "reason": "deadline"})),
    ]);
    let because = json!({"_tag": "Value", "value": "its queue was lost"});
    events.extend([
        prepared("left-alone", |_| ()),
        claimed("left-alone", 1_000),
        accepted("left-alone", 1_020),
        delivery(
            "parked",
            "left-alone",
            1_030,
            json!({"by": "park", "reason": "status-unavailable", "diagnostic": because}),
        ),
    ]);
    let mut helped = exhausted("helped");
    helped.push(delivery(
        "recovered",
        "helped",
        9_000,
        json!({"deadlineAtMillis": 200_000, "generation": 1}),
    ));
    events.extend(helped);
    for (index, event) in events.iter_mut().enumerate() {
        event.recorded_at = 1_050 + index as u64;
    }
    events
}

#[test]
fn explain_says_where_a_message_stands_in_every_state() {
    let events = in_every_state();
    let shell = Shell::new().with("a.jsonl", log(&events));
    let mut names: Vec<&str> = Vec::new();
    for event in &events {
        let name = event.data["messageId"].as_str().unwrap();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    assert_eq!(names.len(), 15);
    let told =
        names.iter().map(|name| shell.run(&format!("explain a.jsonl sender/{name} --width 90")));
    let told: Vec<_> = told.collect();
    pinned(|| insta::assert_snapshot!(told.join("\n")));
}

#[test]
fn show_tells_each_event_and_what_it_changed() {
    let shell = Shell::new().with("a.jsonl", log(&in_every_state()));
    let told = [
        shell.run("show delivery a.jsonl sender/exhausted"),
        shell.run("show delivery a.jsonl sender/lost"),
        shell.run("show delivery a.jsonl sender/done-badly --payload --width 70"),
        shell.run("show delivery a.jsonl sender/helped --until 49"),
        shell.run("show delivery a.jsonl sender/unwanted --format jsonl"),
    ];
    pinned(|| insta::assert_snapshot!(told.join("\n")));
}

#[test]
fn explain_and_show_speak_json() {
    let shell = Shell::new().with("a.jsonl", log(&in_every_state()));
    let explained = shell.json("explain a.jsonl sender/exhausted --format json");
    assert_eq!(explained["kind"], "explanation");
    assert_eq!(explained["standing"], "parked, its automatic attempts are used up");
    assert_eq!((&explained["by"], &explained["skipped"]), (&Value::Null, &json!(0)));
    let said: Vec<_> =
        explained["attempts"].as_array().unwrap().iter().map(|it| &it["said"]).collect();
    assert_eq!(
        said,
        [
            "Unreachable: POST /inbox failed: refused connection",
            "Unreachable: POST /inbox failed: reset",
            "Unreachable: POST /inbox failed: no route to host",
        ]
    );
    let expected = json!({"kind": "parked", "reason": "exhausted", "failure": "transport"});
    assert_eq!(explained["attempts"][2]["answer"], expected);

    let shown = shell.json("show delivery a.jsonl sender/exhausted --format json");
    let events = shown["events"].as_array().unwrap();
    assert_eq!(events.len(), 7);
    assert_eq!(
        events[1]["changes"][0],
        json!({"field": "leaseUntilMillis", "before": null, "after": 1_100})
    );
    assert_eq!(shown["record"], explained["record"]);
    let whole = shell.json("show delivery a.jsonl sender/exhausted --format json --payload");
    for value in [&shown["record"], &shown["events"][0]["data"]] {
        assert_eq!(
            value["envelope"].get("input"),
            None,
            "what was delivered is shown when asked for"
        );
    }
    for value in [&whole["record"], &whole["events"][0]["data"]] {
        assert_eq!(value["envelope"]["input"], json!({"text": "hello"}));
    }
}

#[test]
fn a_message_that_is_not_there_is_told_with_those_that_are() {
    let shell = Shell::new().with("a.jsonl", log(&in_every_state())).with("empty.jsonl", "");
    let told = [
        "explain a.jsonl sender/nobody",
        "show delivery a.jsonl stranger/fresh",
        "explain empty.jsonl sender/fresh",
        "explain a.jsonl fresh",
        "explain a.jsonl sender/fresh --until yesterday",
        "explain a.jsonl sender/exhausted --until 0",
        "explain nothing.jsonl sender/fresh",
    ];
    let told: Vec<_> = told.iter().map(|arguments| shell.run(arguments)).collect();
    pinned(|| insta::assert_snapshot!(told.join("\n")));
}

#[test]
fn a_log_is_looked_at_as_it_was() {
    let events = in_every_state();
    let shell = Shell::new().with("a.jsonl", log(&events));
    // The rows are recorded a millisecond apart from 1 050 on.
    for (position, standing) in [(28, "fresh"), (32, "retried"), (45, "parked")] {
        let at = 1_050 + position;
        let time = format!("1970-01-01T00:00:{:02}.{:03}Z", at / 1_000, at % 1_000);
        let by_position = shell.json(&format!("replay a.jsonl --format json --until {position}"));
        let by_time = shell.json(&format!("replay a.jsonl --format json --until {time}"));
        assert_eq!(by_position, by_time, "{standing}");
        assert_eq!(by_position["summary"]["events"], json!(position + 1));
        let cut = Shell::new().with("a.jsonl", log(&events[..=position]));
        let cut = cut.json("replay a.jsonl --format json");
        assert_eq!(cut["records"], by_position["records"]);
        assert_eq!([&cut["summary"]["isCut"], &by_position["summary"]["isCut"]], [false, true]);
    }
    let before = shell.json("explain a.jsonl sender/exhausted --format json --until 36");
    let whole = shell.json("explain a.jsonl sender/exhausted --format json");
    assert_ne!(before["standing"], whole["standing"]);
    let told = shell.run("replay a.jsonl --status parked --until 999");
    assert!(
        told.contains("note: the log ends at position 53, which --until is not before"),
        "{told}"
    );
    // Where a clock went back, a stream is looked at up to the first event that came later.
    let mut back = life("m");
    for (event, at) in back.iter_mut().zip([1_000, 5_000, 2_000, 6_000, 7_000]) {
        event.recorded_at = at;
    }
    let shell = Shell::new().with("back.jsonl", log(&back));
    let replayed = shell.json("replay back.jsonl --format json --until 1970-01-01T00:00:03Z");
    assert_eq!(replayed["summary"]["events"], json!(1));
}

#[test]
fn records_are_picked_by_owner_and_by_where_they_stand() {
    let shell = Shell::new().with("a.jsonl", log(&in_every_state()));
    shell.run("demo --dir demo");
    let all = shell.json("replay demo/demo.db --format json");
    let all = all["records"].as_array().unwrap();
    for (arguments, field, values) in [
        ("--owner planner", "/key/ownerThreadId", vec!["planner"]),
        ("--owner nobody", "/key/ownerThreadId", vec!["nobody"]),
        ("--owner ops%2Fnight%20shift", "/key/ownerThreadId", vec!["ops/night shift"]),
        ("--message report-6", "/key/messageId", vec!["report-6"]),
        ("--status parked", "/status", vec!["parked"]),
        ("--status processed,refused", "/status", vec!["processed", "refused"]),
        ("--status parked --status refused", "/status", vec!["parked", "refused"]),
    ] {
        let picked = shell.json(&format!("replay demo/demo.db --format json {arguments}"));
        let expected: Vec<_> = all
            .iter()
            .filter(|it| values.contains(&it.pointer(field).unwrap().as_str().unwrap()))
            .collect();
        assert_eq!(picked["records"].as_array().unwrap().iter().collect::<Vec<_>>(), expected);
        assert_eq!(picked["summary"]["records"], json!(expected.len()), "{arguments}");
    }
    let told = shell.run("replay a.jsonl --status accepted,parked --until 30");
    pinned(|| insta::assert_snapshot!(told));
}

#[test]
fn a_message_is_the_same_whatever_keeps_it_and_what_is_elsewhere_does_not_matter() {
    let shell = Shell::new().with("a.jsonl", log(&in_every_state()));
    for name in ["a.db", "a.jsonl.zst"] {
        shell.run(&format!("copy a.jsonl {name}"));
    }
    for command in [
        "explain SOURCE sender/exhausted --format json",
        "show delivery SOURCE sender/helped --format jsonl",
    ] {
        let of = |source: &str| shell.output(&command.replace("SOURCE", source), b"").stdout;
        let text = of("a.jsonl");
        assert!(!text.is_empty());
        assert_eq!([of("a.db"), of("a.jsonl.zst")], [text.clone(), text.clone()]);
        let input = log(&in_every_state());
        assert_eq!(shell.output(&command.replace("SOURCE", "-"), &input).stdout, text);
    }
}

#[test]
fn damage_in_the_outbox_is_told_and_damage_elsewhere_is_not_asked_about() {
    let mut events = exhausted("m");
    for other in life("m") {
        events.push(Written { stream: "delivery-other", ..other });
    }
    let rows = crate::lab::rows(&events);
    let without = |index: usize| {
        let rows = rows.iter().enumerate().filter(|(at, _)| *at != index);
        rows.flat_map(|(_, row)| row.clone()).collect::<Vec<u8>>()
    };
    let edited = |index: usize| {
        let mut rows = rows.clone();
        rows[index] =
            String::from_utf8(rows[index].clone()).unwrap().replace("\"m\"", "\"n\"").into();
        rows.concat()
    };
    let shell = Shell::new()
        .with("missing.jsonl", without(3))
        .with("edited.jsonl", edited(4))
        .with("elsewhere.jsonl", edited(8))
        .with("unknown.jsonl", {
            let mut events = events.clone();
            events[5].event_type = "delivery.snoozed";
            log(&events)
        });
    let told = [
        "explain missing.jsonl sender/m",
        "explain missing.jsonl sender/m --keep-going",
        "explain edited.jsonl sender/m",
        "show delivery unknown.jsonl sender/m",
        "show delivery unknown.jsonl sender/m --keep-going --width 80",
    ];
    let told: Vec<_> = told.iter().map(|arguments| shell.run(arguments)).collect();
    pinned(|| insta::assert_snapshot!(told.join("\n")));
    assert_eq!(shell.output("explain elsewhere.jsonl sender/m", b"").status.code(), Some(0));
}

#[test]
fn words_are_of_the_attempt_and_the_person_that_they_are_about() {
    let parked = |id: &str, at: u64, facts: Value| delivery("parked", id, at, facts);
    let recovered = |id: &str, at: u64| {
        delivery("recovered", id, at, json!({"deadlineAtMillis": 200_000, "generation": 1}))
    };
    let failed = |id: &str, at: u64| {
        delivery("retried", id, at, json!({"reason": "transport", "nextAttemptAtMillis": at + 10}))
    };
    let deadline = || json!({"by": "claim", "reason": "deadline"});
    let mut events = vec![prepared("lost-after", |_| ()), claimed("lost-after", 1_000)];
    events.extend([failed("lost-after", 1_030), claimed("lost-after", 1_040)]);
    events.push(parked("lost-after", 100_000, deadline()));
    events.extend([prepared("lost-first", |_| ()), claimed("lost-first", 1_000)]);
    events.extend([parked("lost-first", 100_000, deadline()), recovered("lost-first", 100_100)]);
    let because = json!({"_tag": "Value", "value": "no route"});
    let mut with_cause = failed("by-hand-later", 1_030);
    with_cause.data["diagnostic"] = because;
    events.extend([prepared("by-hand-later", |_| ()), claimed("by-hand-later", 1_000), with_cause]);
    events.push(parked("by-hand-later", 1_035, json!({"by": "park", "reason": "exhausted"})));
    for reason in ["deadline", "exhausted", "status-unavailable"] {
        let id = format!("by-hand-{reason}");
        events.extend([
            prepared(&id, |_| ()),
            parked(&id, 1_500, json!({"by": "park", "reason": reason})),
        ]);
    }
    events.push(prepared("behind", |data| data["predecessor"] = json!("lost-first")));
    events.extend([parked("behind", 100_000, deadline()), recovered("behind", 100_100)]);
    let deferred = json!({"untilMillis": 100_200, "nextAttemptAtMillis": 100_200});
    events.push(delivery("deferred", "behind", 100_100, deferred));
    for (index, event) in events.iter_mut().enumerate() {
        event.recorded_at = 100_100 + index as u64;
    }
    let shell = Shell::new().with("a.jsonl", log(&events));
    let names = [
        "lost-after",
        "lost-first",
        "by-hand-deadline",
        "by-hand-exhausted",
        "by-hand-status-unavailable",
        "by-hand-later",
        "behind",
    ];
    let why = |name: &&str| {
        let explained = shell.json(&format!("explain a.jsonl sender/{name} --format json"));
        format!(
            "{name}: {}: {}",
            explained["standing"].as_str().unwrap(),
            explained["why"].as_str().unwrap()
        )
    };
    let told: Vec<_> = names.iter().map(why).collect();
    pinned(|| insta::assert_snapshot!(told.join("\n")));
}

#[test]
fn what_a_host_was_told_is_told() {
    let at = |now: u64| json!({"nextAttemptAtMillis": now});
    let notified = |now| delivery("notified", "m", now, at(now));
    let mut events = life("m");
    let processed = events.split_off(3);
    events.extend([
        notified(1_040),
        claimed("m", 1_040),
        notified(1_050),
        claimed("m", 1_050),
        delivery("observed", "m", 1_060, at(1_110)),
        notified(1_065),
    ]);
    let shell = Shell::new().with("told.jsonl", log(&events));
    events.extend(processed);
    events[9].data = json!({"messageId": "m", "atMillis": 1_070, "leaseUntilMillis": 1_170});
    let shell = shell.with("done.jsonl", log(&events));
    let told = [
        shell.run("verify done.jsonl"),
        shell.run("explain told.jsonl sender/m"),
        shell.run("explain done.jsonl sender/m"),
        shell.run("stats done.jsonl"),
    ];
    pinned(|| insta::assert_snapshot!(told.join("\n")));
}

#[test]
fn a_row_that_does_not_say_whose_it_is_may_be_of_the_outbox() {
    let mut events = exhausted("m");
    events.truncate(4);
    let whole = log(&events);
    let text = String::from_utf8(whole.clone()).unwrap();
    let last = text.rfind(",\"stream\"").unwrap();
    let garbled = format!("{},\"strexm\"{}", &text[..last], &text[last + 9..]);
    let long = [&whole[..], &vec![b'x'; 17 << 20], b"\n"].concat();
    for (name, text) in
        [("torn", &whole[..whole.len() - 100]), ("garbled", garbled.as_bytes()), ("long", &long)]
    {
        let shell = Shell::new().with("a.jsonl", text);
        let output = shell.output("explain a.jsonl sender/m", b"");
        let told = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(2), "{name}");
        assert!(
            told.contains("warning: 1 row skipped, so that this may be wrong"),
            "{name}: {told}"
        );
        // What is asked about ends before it.
        for command in [
            "explain a.jsonl sender/m --until 2",
            "replay a.jsonl --until 2",
            "stats a.jsonl --until 2",
        ] {
            let output = shell.output(command, b"");
            let is_explained = command.starts_with("explain");
            assert_eq!(
                output.status.code(),
                Some(if is_explained { 2 } else { 0 }),
                "{name}: {command}"
            );
        }
    }
}
