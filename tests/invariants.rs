//! For each rule a log that holds it and one that breaks just it.

use recount::{Invariant, Severity, VerifyOptions};
use serde_json::json;

use crate::lab::{self, Written, delivery, digest_of, findings, life, prepared, receipt, rows};

fn check(events: &[Written]) -> Vec<String> {
    let (findings, report) = findings(&rows(events).concat(), &VerifyOptions::default());
    assert_eq!(report.coverage.events, events.len() as u64);
    findings
}

fn edited(index: usize, edit: impl FnOnce(&mut Written)) -> Vec<Written> {
    let mut events = life("m");
    edit(&mut events[index]);
    events
}

/// The text of a life whose row is edited as text.
fn edited_text(index: usize, from: &str, to: &str) -> Vec<String> {
    let mut rows = rows(&life("m"));
    let row = String::from_utf8(rows[index].clone()).unwrap();
    assert_eq!(row.matches(from).count(), 1, "{from}");
    rows[index] = row.replace(from, to).into_bytes();
    findings(&rows.concat(), &VerifyOptions::default()).0
}

/// What breaks a rule, and what is then said.
fn broken(rule: Invariant) -> Vec<String> {
    use Invariant as I;
    match rule {
        I::L1 => edited_text(4, "\"position\":4}", "\"position\":6}"),
        I::L2 => check(&edited(4, |event| {
            event.behind = Some(|mut head| {
                head.revision = head.revision.next();
                head
            });
        })),
        I::L3 => check(&edited(4, |event| {
            event.behind = Some(|mut head| {
                head.digest = recount::Digest::ZERO;
                head
            });
        })),
        I::L4 => edited_text(4, "\"atMillis\":1080", "\"atMillis\":1081"),
        I::L5 => edited_text(4, "{\"digest\":", "{ \"digest\":"),
        I::L6 => check(&edited(4, |event| event.event_type = "delivery.vanished")),
        I::L7 => check(&edited(4, |event| event.recorded_at = 1_000_002)),
        I::L8 => check(
            &life("m")
                .into_iter()
                .map(|it| Written { stream: "delivery-other", ..it })
                .take(1)
                .collect::<Vec<_>>(),
        ),
        I::D1 => check(&edited(0, |event| *event = prepared("other", |_| ())).split_off(0)[..2]),
        I::D2 => check(
            &edited(0, |event| {
                let digest = recount::Digest::of_bytes(b"another input");
                event.data["envelope"]["inputDigest"] = json!(digest);
                event.data["envelopeDigest"] = json!(digest_of(&event.data["envelope"]));
            })[..1],
        ),
        I::D3 => check(&[
            prepared("m", |_| ()),
            delivery("parked", "m", 1_500, json!({"by": "park", "reason": "deadline"})),
            delivery("recovered", "m", 10, json!({"deadlineAtMillis": 20, "generation": 1})),
        ]),
        I::D4 => {
            check(&[prepared("m", |_| ()), delivery("refused", "m", 1_010, json!({"code": "no"}))])
        }
        I::D5 => check(&edited(3, |event| event.data["leaseUntilMillis"] = json!(1_171))[..4]),
        I::D6 => check(&[
            prepared("m", |_| ()),
            delivery("parked", "m", 1_500, json!({"by": "park", "reason": "deadline"})),
            delivery("recovered", "m", 1_600, json!({"deadlineAtMillis": 9_000, "generation": 2})),
        ]),
        I::D7 => {
            check(&edited(4, |event| event.data["settlement"]["receiptId"] = json!("r-other")))
        }
        I::D8 => {
            let mut events = life("m");
            events.push(delivery("claimed", "m", 2_000, json!({"leaseUntilMillis": 2_100})));
            check(&events)
        }
        I::D9 => check(&[
            prepared("first", |_| ()),
            prepared("m", |data| data["predecessor"] = json!("first")),
            delivery("claimed", "m", 1_000, json!({"leaseUntilMillis": 1_100})),
        ]),
        I::D10 => check(&["a", "b", "c"].map(|id| prepared(id, |_| ()))),
        I::D11 => check(&["a", "b"].map(|id| {
            prepared(id, |data| {
                data["envelope"] = lab::envelope(&json!(id), "one key");
                data["envelopeDigest"] = json!(digest_of(&data["envelope"]));
            })
        })),
        I::D12 => check(&[
            prepared("m", |_| ()),
            delivery("claimed", "m", 1_000, json!({"leaseUntilMillis": 1_100})),
            delivery("claimed", "m", 1_100, json!({"leaseUntilMillis": 1_200})),
        ]),
        other => panic!("{other} has no log that breaks it"),
    }
}

#[test]
fn a_log_that_holds_every_rule_has_no_findings() {
    let two = [life("a"), life("b")].concat();
    assert_eq!(check(&two), [""; 0]);
    let worker = prepared("w", |data| {
        data["envelope"]["messageAdmission"] = json!({"_tag": "WorkerUpdate"});
        data["envelopeDigest"] = json!(digest_of(&data["envelope"]));
    });
    assert_eq!(check(&[prepared("a", |_| ()), prepared("b", |_| ()), worker]), [""; 0]);
}

#[test]
fn each_rule_has_a_log_that_breaks_just_it() {
    let mut told = String::new();
    for rule in Invariant::ALL {
        let findings = broken(*rule);
        assert_eq!(findings.len(), 1, "{rule}: {findings:#?}");
        assert!(findings[0].starts_with(&format!("{rule} ")), "{rule}: {findings:#?}");
        told.push_str(&format!("{}\n", findings[0]));
    }
    lab::pinned(|| insta::assert_snapshot!(told));
}

#[test]
fn each_rule_can_be_left_out() {
    use recount::Rules;
    for rule in Invariant::ALL {
        let only = Rules::only(&[rule.id().parse().unwrap()]);
        assert!(only.holds(*rule), "{rule}");
        assert!(!Rules::ALL.without(&[rule.id().parse().unwrap()]).holds(*rule), "{rule}");
    }
    let mut options = VerifyOptions::default();
    options.rules = Rules::ALL.without(&["D12".parse().unwrap()]);
    let lost = [
        prepared("m", |_| ()),
        delivery("claimed", "m", 1_000, json!({"leaseUntilMillis": 1_100})),
        delivery("claimed", "m", 1_100, json!({"leaseUntilMillis": 1_200})),
    ];
    assert_eq!(findings(&rows(&lost).concat(), &options).0, [""; 0]);
}

#[test]
fn checking_goes_on_after_a_violation_without_the_message_that_broke_it() {
    let mut events = life("a");
    events[2].data["nextAttemptAtMillis"] = json!(1_071);
    events.extend(life("b"));
    events.push(delivery("claimed", "b", 2_000, json!({"leaseUntilMillis": 2_100})));
    let (found, report) = findings(&rows(&events).concat(), &VerifyOptions::default());
    assert_eq!(
        found,
        [
            "D5 2 nextAttemptAtMillis is 1071, expected 1070",
            "D8 10 delivery.claimed after processed or refused",
        ]
    );
    assert_eq!(report.coverage.messages_set_aside, 2);
    assert_eq!(report.coverage.events_set_aside, 2);
}

#[test]
fn one_fault_in_the_first_event_of_a_stream_is_one_finding() {
    let mut events = life("a");
    events[0].data["deadlineAtMillis"] = json!(1);
    events.extend(life("b"));
    let (found, report) = findings(&rows(&events).concat(), &VerifyOptions::default());
    assert_eq!(found, ["D3 0 the record is not valid: a deadline is after the creation"]);
    assert_eq!((report.coverage.messages_set_aside, report.coverage.events_set_aside), (1, 4));

    let mut rows = rows(&[life("a"), life("b")].concat());
    rows[0] = String::from_utf8(rows[0].clone()).unwrap().replace("hello", "jello").into_bytes();
    let (found, report) = findings(&rows.concat(), &VerifyOptions::default());
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("L4 0 "), "{found:?}");
    assert_eq!((report.coverage.messages_set_aside, report.coverage.events_set_aside), (1, 4));
}

#[test]
fn what_spans_messages_is_not_decided_once_one_of_them_is_set_aside() {
    let first = prepared("first", |_| ());
    let follows = prepared("m", |data| data["predecessor"] = json!("first"));
    let mut bad = delivery("claimed", "first", 1_000, json!({"leaseUntilMillis": 1_100}));
    bad.data["leaseUntilMillis"] = json!(1);
    let events = [
        first,
        follows,
        bad,
        delivery("claimed", "m", 1_000, json!({"leaseUntilMillis": 1_100})),
        prepared("third", |_| ()),
    ];
    let (found, report) = findings(&rows(&events).concat(), &VerifyOptions::default());
    assert_eq!(found, ["D5 2 leaseUntilMillis is 1, expected 1100"]);
    let unchecked: Vec<_> = report.coverage.unchecked.values().copied().collect();
    assert_eq!(unchecked, [1, 1], "{:?}", report.coverage.unchecked);
}

#[test]
fn what_is_not_asked_for_is_counted_where_it_is_not_applied() {
    let mut unknown = life("m");
    unknown[1].event_type = "delivery.vanished";
    let text = rows(&unknown).concat();
    let mut options = VerifyOptions::default();
    options.skip_unknown = true;
    let (found, report) = findings(&text, &options);
    assert_eq!(
        found, [""; 0],
        "nobody knows what the event did, so nothing is said of the message"
    );
    let coverage = report.coverage;
    assert_eq!((coverage.unknown_skipped, coverage.events_set_aside), (1, 3));

    options.skip_unknown = false;
    options.rules = recount::Rules::ALL.without(&["L6".parse().unwrap(), "D1".parse().unwrap()]);
    let (found, report) = findings(&text, &options);
    assert_eq!(found, [""; 0]);
    assert_eq!(report.coverage.ignored["it was not understood"], 1);
    let (found, report) = findings(&rows(&life("m")[1..]).concat(), &options);
    assert_eq!(found, [""; 0]);
    assert_eq!(report.coverage.ignored["there is no outbox that it is of"], 4);
}

#[test]
fn limits_from_outside_replace_those_that_were_recorded() {
    let events = ["a", "b"].map(|id| prepared(id, |_| ()));
    let mut options = VerifyOptions::default();
    let mut limits =
        recount::delivery::OutboxLimits { max_pending_per_owner: 1, ..Default::default() };
    options.limits = Some(limits);
    let (found, _) = findings(&rows(&events).concat(), &options);
    assert_eq!(
        found,
        [
            "D10 1 the outbox holds 1 pending messages, and may hold 1: raise the limit, or use another \
         outbox"
        ]
    );
    limits = recount::delivery::OutboxLimits { max_envelope_bytes: 10, ..Default::default() };
    options.limits = Some(limits);
    let (found, _) = findings(&rows(&events[..1]).concat(), &options);
    assert_eq!(found.len(), 1);
    assert!(found[0].starts_with("D10 0 the envelope is "), "{found:?}");
}

#[test]
fn a_second_receipt_and_one_of_another_thread_break_d7() {
    let twice = delivery(
        "accepted",
        "m",
        1_080,
        json!({"receipt": receipt("m"), "nextAttemptAtMillis": 1_130}),
    );
    let events = edited(4, |event| *event = twice);
    assert_eq!(check(&events), ["D7 4 delivery.accepted: the message is accepted"]);
    let other = edited(2, |event| event.data["receipt"]["threadId"] = json!("other"));
    assert_eq!(
        check(&other[..3]),
        [
            "D7 2 delivery.accepted: the receipt is of thread \"other\", the message is for \"receiver\""
        ]
    );
}

#[test]
fn the_page_of_invariants_is_that_of_the_code() {
    let mut page = String::from(
        "# Invariants\n\nWhat `recount verify` holds a log to. This page is written from the code: \
         `RECOUNT_WRITE=1 cargo test invariants`.\n\n| id | severity | rule |\n|---|---|---|\n",
    );
    for rule in Invariant::ALL {
        let severity = match rule.severity() {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        page.push_str(&format!("| {rule} | {severity} | {} |\n", rule.rule()));
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/invariants.md");
    if std::env::var_os("RECOUNT_WRITE").is_some() {
        std::fs::write(path, &page).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap(), page);
}
