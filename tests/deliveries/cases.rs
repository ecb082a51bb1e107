//! Cases from public fault reports, by their number.

use std::collections::BTreeMap;

use recount_core::{
    Diagnostic, DomainEvent, EventBatch, EventDraft, Metadata, Outcome, Receipt, Settlement,
    StreamName,
    delivery::{
        Conflict, DeliveryError, DeliveryEvent as Event, MessageDeliveryChange as Change,
        MessageDeliveryPolicy, MessageDeliveryStatus as Status, Outbox, OutboxLimits, ParkReason,
        ParkedBy, PrepareMessage, RetryReason,
    },
    doc,
};
use serde_json::{Value, json};

use crate::support::{
    fold,
    histories::{
        behind, grant, id, in_every_state, millis, outbox_with, prepare, receipt, sender,
        settlement, wish, with_input, worker_update,
    },
    stored, view,
};

#[test]
fn o_14_a_repeat_changes_nothing_and_other_content_is_a_conflict_in_every_state() {
    let limits = OutboxLimits::default();
    let original = with_input(doc::message("m-1"), r#"{"a":1,"b":[]}"#);
    let respelt = with_input(doc::message("m-1"), r#"{ "b" : [ ], "a" : 1.0 }"#);
    let mut others = vec![with_input(original.clone(), r#"{"a":2,"b":[]}"#)];
    let mut other = |change: &dyn Fn(&mut PrepareMessage)| {
        let mut message = original.clone();
        change(&mut message);
        others.push(message);
    };
    other(&|it| it.predecessor = Some(id("m-0")));
    other(&|it| it.policy.retry_base_millis += 1);
    other(&|it| it.created_at_millis = millis(1_001));
    other(&|it| it.deadline_at_millis = millis(3_601_001));
    other(&|it| it.envelope.admission_key = "another".parse().unwrap());
    for (state, outbox) in in_every_state(&original) {
        let before = view(&outbox);
        for repeat in [&original, &respelt] {
            assert_eq!(outbox.decide(&prepare(repeat, limits)), Ok(None), "{state}");
        }
        for other in &others {
            let error = outbox.decide(&prepare(other, limits)).unwrap_err();
            assert_eq!(error, DeliveryError::OtherIdentity { message_id: id("m-1") }, "{state}");
        }
        assert_eq!(view(&outbox), before, "{state}");
    }
}

#[test]
fn o_15_an_empty_id_is_refused_wherever_one_is_accepted_and_a_blank_one_kept() {
    let message = PrepareMessage {
        predecessor: Some(id("m-0")),
        ..with_input(worker_update("m-1"), r#"{"id":""}"#)
    };
    let mut message = serde_json::to_value(message).unwrap();
    message["envelope"]["admissionGroup"] = "group".into();
    message["envelope"]["admissionFence"] = json!({"policyId": "p", "key": "k", "revision": "r"});
    for path in [
        "/key/ownerThreadId",
        "/key/messageId",
        "/predecessor",
        "/envelope/threadId",
        "/envelope/agentId",
        "/envelope/admissionKey",
        "/envelope/admissionGroup",
        "/envelope/admissionFence/policyId",
        "/envelope/admissionFence/key",
        "/envelope/admissionFence/revision",
        "/envelope/deliveryPrincipal",
        "/envelope/authorization/policyId",
        "/envelope/authorization/decisionId",
    ] {
        let with = |text: &str| {
            let mut message = message.clone();
            *message.pointer_mut(path).expect(path) = text.into();
            message
        };
        let error = serde_json::from_value::<PrepareMessage>(with("")).unwrap_err().to_string();
        assert!(error.contains(" is empty"), "{path}: {error}");
        let blank: PrepareMessage = serde_json::from_value(with(" ")).expect(path);
        assert_eq!(serde_json::to_value(&blank).unwrap(), with(" "), "{path}");
    }
    let data = r#"{"atMillis":5,"leaseUntilMillis":9,"messageId":""}"#;
    let error = DomainEvent::decode("delivery.claimed", 1, data).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the data of delivery.claimed does not decode at $.messageId: message id is empty"
    );
}

#[test]
fn o_16_an_attempt_that_nothing_is_heard_of_is_charged_and_the_last_one_parks() {
    let mut message = doc::message("m-1");
    message.policy.max_automatic_attempts = 3;
    let mut outbox = outbox_with(&[message.clone()]);
    let mut events = Vec::new();
    let mut now = 1_000;
    for attempt in 1..=3 {
        events.push(grant(&mut outbox, "m-1", now, Change::Claim));
        let record = outbox.record("m-1").unwrap();
        assert_eq!((record.retry.attempts, record.retry.automatic_attempts), (attempt, attempt));
        now = record.lease_until_millis.unwrap().as_millis();
    }
    let parked = grant(&mut outbox, "m-1", now, Change::Claim);
    let Event::Parked(parked) = parked else { panic!("{parked:?}") };
    assert_eq!((parked.by, parked.reason), (ParkedBy::Claim, ParkReason::Exhausted));
    let record = outbox.record("m-1").unwrap();
    assert_eq!((record.retry.attempts, record.park_reason), (3, Some(ParkReason::Exhausted)));
    let claim = wish(&outbox, "m-1", now + 1, Change::Claim);
    let why = Conflict::Status(Status::Parked);
    assert_eq!(outbox.decide(&claim), Err(DeliveryError::Conflict { change: "Claim", why }));
    events.push(parked.into());
    let replayed = fold(outbox_with(&[message]), &events);
    assert_eq!(view(&replayed), view(&outbox));
}

#[test]
fn o_16_a_deferral_is_no_attempt_and_a_leased_message_can_be_parked() {
    let mut message = behind("m-1", "m-0");
    message.policy.max_automatic_attempts = 1;
    let mut outbox = outbox_with(&[doc::message("m-0"), message]);
    for now in 1_000..1_005 {
        let until_millis = millis(now + 1);
        grant(&mut outbox, "m-1", now, Change::Defer { until_millis });
        assert_eq!(outbox.record("m-1").unwrap().retry.attempts, 0);
    }
    grant(&mut outbox, "m-0", 1_000, Change::Claim);
    let code = "gone".parse().unwrap();
    grant(&mut outbox, "m-0", 1_000, Change::Refuse { code, diagnostic: None });
    let claimed = grant(&mut outbox, "m-1", 1_005, Change::Claim);
    assert_eq!(claimed.event_type(), "delivery.claimed");
    assert_eq!(outbox.record("m-1").unwrap().retry.attempts, 1);
    let reason = ParkReason::StatusUnavailable;
    grant(&mut outbox, "m-1", 1_006, Change::Park { reason, diagnostic: None });
    let record = outbox.record("m-1").unwrap();
    assert_eq!((record.status, record.lease_until_millis), (Status::Parked, None));
}

fn retry(outbox: &mut Outbox, now: u64, text: &str) -> Event {
    let diagnostic = Some(Box::new(Diagnostic::text(text)));
    grant(outbox, "m-1", now, Change::Retry { reason: RetryReason::Transport, diagnostic })
}

#[test]
fn o_17_a_pause_doubles_up_to_its_cap_and_never_wraps() {
    let mut message = doc::message("m-1");
    message.policy.max_automatic_attempts = 100;
    message.deadline_at_millis = millis(8_640_000_000_000_000);
    let mut outbox = outbox_with(&[message.clone()]);
    let mut now = 1_000;
    let mut pauses = vec![0];
    for _ in 1..100 {
        grant(&mut outbox, "m-1", now, Change::Claim);
        let retried = retry(&mut outbox, now, "away");
        let Event::Retried(retried) = retried else { panic!("{retried:?}") };
        pauses.push(retried.next_attempt_at_millis.as_millis() - now);
        now = retried.next_attempt_at_millis.as_millis();
    }
    let of = [1, 2, 6, 7, 54, 55, 64, 65, 99].map(|attempt: usize| pauses[attempt]);
    assert_eq!(of[..4], [1_000, 2_000, 32_000, 60_000]);
    assert_eq!(of[4..], [60_000; 5]);
    assert!(pauses.is_sorted(), "{pauses:?}");
    grant(&mut outbox, "m-1", now, Change::Claim);
    let last = retry(&mut outbox, now, "away");
    let Event::Parked(last) = last else { panic!("{last:?}") };
    assert_eq!((last.by, last.reason), (ParkedBy::Retry, ParkReason::Exhausted));

    // A steep policy passes what 64 bits hold, and stays at its cap.
    let policy = MessageDeliveryPolicy {
        retry_base_millis: 1 << 20,
        retry_max_millis: (1 << 53) - 1,
        ..MessageDeliveryPolicy::default()
    };
    let pauses: Vec<_> = (1..=100).map(|attempt| policy.retry_delay_millis(attempt)).collect();
    assert!(pauses.is_sorted() && pauses[0] == 1 << 20, "{pauses:?}");

    // Beside the last instant there is, the sums stay at it.
    message.created_at_millis = millis(8_639_999_999_999_990);
    message.policy.retry_base_millis = (1 << 53) - 1;
    message.policy.retry_max_millis = (1 << 53) - 1;
    let mut outbox = outbox_with(&[message]);
    let claimed = grant(&mut outbox, "m-1", 8_639_999_999_999_995, Change::Claim);
    let Event::Claimed(claimed) = claimed else { panic!("{claimed:?}") };
    assert_eq!(claimed.lease_until_millis, millis(8_640_000_000_000_000));
    let retried = retry(&mut outbox, 8_639_999_999_999_996, "away");
    let Event::Retried(retried) = retried else { panic!("{retried:?}") };
    assert_eq!(retried.next_attempt_at_millis, millis(8_640_000_000_000_000));
}

#[test]
fn o_18_a_retry_is_never_after_the_deadline_and_the_last_failure_stays_visible() {
    let e7 = Some(Box::new(Diagnostic::text("E7")));
    for (base, next) in [(1_000, 100_000), (500, 100_000), (499, 99_999)] {
        let mut message = doc::message("m-1");
        message.deadline_at_millis = millis(100_000);
        message.policy.retry_base_millis = base;
        let mut outbox = outbox_with(&[message]);
        grant(&mut outbox, "m-1", 99_400, Change::Claim);
        retry(&mut outbox, 99_500, "E7");
        let record = outbox.record("m-1").unwrap();
        assert_eq!(record.retry.next_attempt_at_millis, millis(next), "{base}");

        let again = grant(&mut outbox, "m-1", next, Change::Claim);
        let expected = if next < 100_000 { "delivery.claimed" } else { "delivery.parked" };
        assert_eq!(again.event_type(), expected);
        let record = outbox.record("m-1").unwrap();
        assert_eq!(record.retry.last_failure, Some(RetryReason::Transport), "{base}");
        assert_eq!(record.last_failure_diagnostic, e7, "{base}");
        if next < 100_000 {
            assert_eq!(record.lease_until_millis, Some(millis(100_000)), "cut to the deadline");
        } else {
            assert_eq!(record.park_reason, Some(ParkReason::Deadline), "{base}");
        }
    }
}

#[test]
fn o_18_a_retry_that_parks_keeps_its_reason_in_the_event_and_its_diagnostic_in_the_record() {
    // At the deadline, with the attempts used up too: the deadline is named.
    for (now, max_attempts, reason) in [
        (100_000, 8, ParkReason::Deadline),
        (100_000, 1, ParkReason::Deadline),
        (99_999, 1, ParkReason::Exhausted),
    ] {
        let mut message = doc::message("m-1");
        message.deadline_at_millis = millis(100_000);
        message.policy.max_automatic_attempts = max_attempts;
        let mut outbox = outbox_with(&[message]);
        grant(&mut outbox, "m-1", 99_400, Change::Claim);
        let parked = retry(&mut outbox, now, "E7");
        let Event::Parked(parked) = parked else { panic!("{parked:?}") };
        assert_eq!((parked.by, parked.reason), (ParkedBy::Retry, reason));
        assert_eq!(parked.retry_reason, Some(RetryReason::Transport));
        let record = outbox.record("m-1").unwrap();
        assert_eq!(record.retry.last_failure, None, "the retry as it was");
        assert_eq!(record.last_failure_diagnostic, Some(Box::new(Diagnostic::text("E7"))));
    }
}

#[test]
fn o_20_a_repeated_key_is_refused_wherever_it_stands_in_a_wish() {
    let message = serde_json::to_string(&with_input(worker_update("m-1"), r#"{"rev":1}"#)).unwrap();
    assert!(serde_json::from_str::<PrepareMessage>(&message).is_ok());
    let digest = "0".repeat(64);
    let tools = format!(
        r#""replay":{{"agent":"{digest}","tools":{{"a":"{digest}","\u0061":"{digest}"}}}},"#
    );
    let mut accepted = Vec::new();
    for (at, twice) in [
        (r#""key":{"#, r#""key":{"messageId":"m-1","#),
        (r#""threadId":"#, r#""threadId":"other","threadId":"#),
        (r#""rev":1"#, r#""rev":1,"r\u0065v":2"#),
        (r#""workerId":"w""#, r#""workerId":"w","workerId":"w""#),
        (r#""definitions":{"#, &format!(r#""definitions":{{{tools}"#)),
    ] {
        let text = message.replacen(at, twice, 1);
        assert_ne!(text, message, "{at}");
        accepted.extend(serde_json::from_str::<PrepareMessage>(&text).map(|_| twice.to_owned()));
    }
    for twice in [
        r#"{"_tag":"Error","context":{"a":"1","a":"2"}}"#,
        r#"{"_tag":"Error","message":"m","message":"n"}"#,
        r#"{"_tag":"Value","value":1,"value":2}"#,
    ] {
        accepted.extend(serde_json::from_str::<Diagnostic>(twice).map(|_| twice.to_owned()));
    }
    assert_eq!(accepted, [""; 0]);
}

#[test]
fn o_21_a_number_is_an_integer_in_range_or_refused_with_its_path() {
    let message = serde_json::to_string(&with_input(doc::message("m-1"), "[7]")).unwrap();
    for (field, good) in [
        ("createdAtMillis", "1000"),
        ("deadlineAtMillis", "3601000"),
        ("maxAutomaticAttempts", "8"),
        ("retryMaxMillis", "60000"),
        ("schemaVersion", "1"),
    ] {
        let good = format!(r#""{field}":{good}"#);
        for bad in
            ["1.0", "1e2", "-0", "01", "-1", "18446744073709551616", "1e400", "\"1\"", "null"]
        {
            let text = message.replacen(&good, &format!(r#""{field}":{bad}"#), 1);
            assert_ne!(text, message, "{field}");
            assert!(serde_json::from_str::<PrepareMessage>(&text).is_err(), "{field}: {bad}");
        }
    }
    let late = message.replacen("3601000", "8640000000000001", 1);
    let error = serde_json::from_str::<PrepareMessage>(&late).unwrap_err().to_string();
    assert!(error.starts_with("8640000000000001 ms is past the last instant"), "{error}");
    let inexact = message.replacen("[7]", r#"{"n":[9007199254740993]}"#, 1);
    let error = serde_json::from_str::<PrepareMessage>(&inexact).unwrap_err().to_string();
    let expected = "the number 9007199254740993 would become 9007199254740992 at $.n[0] (byte 6)";
    assert!(error.starts_with(expected), "{error}");
}

/// Parks a message with a diagnostic; what is folded from the stored event is what is held.
fn is_stored_exactly(diagnostic: Value) {
    let diagnostic: Diagnostic = serde_json::from_value(diagnostic).unwrap();
    let mut outbox = outbox_with(&[doc::message("m-1")]);
    let diagnostic = Some(Box::new(diagnostic));
    let park = Change::Park { reason: ParkReason::StatusUnavailable, diagnostic };
    let event = grant(&mut outbox, "m-1", 1_000, park);
    let replayed = fold(outbox_with(&[doc::message("m-1")]), [&stored(&event)]);
    assert_eq!(view(&replayed), view(&outbox));
}

#[test]
fn o_21_a_number_in_a_diagnostic_is_stored_exactly() {
    for number in [json!(1), json!(1.0), json!(-0.0), json!(0.1), json!(1e21), json!(5e-324)] {
        is_stored_exactly(json!({"_tag": "Value", "value": number}));
        is_stored_exactly(json!({"_tag": "Error", "code": number}));
    }
    for inexact in [json!(9_007_199_254_740_993_u64), json!(u64::MAX), json!(i64::MIN + 1)] {
        is_stored_exactly(json!({"_tag": "Value", "value": inexact}));
    }
}

#[test]
fn o_21_the_fibre_of_an_interruption_is_stored_exactly() {
    for id in [json!(3), json!(3.0), json!(9_007_199_254_740_993_u64)] {
        let interrupt = json!({"_tag": "Interrupt", "fiberId": id});
        is_stored_exactly(json!({"_tag": "Cause", "reasons": [interrupt]}));
    }
}

/// A settlement's content and the numbers of policy, limits and receipt are plain fields: what
/// could not be read back must be refused where it is decided.
#[test]
fn o_21_nothing_is_decided_that_could_not_be_read_back() {
    const PAST: u64 = 1 << 53;
    let states: BTreeMap<_, _> = in_every_state(&doc::message("m-1")).into_iter().collect();
    let change = |state: &str, now, change| {
        let outbox = &states[state];
        outbox.decide(&wish(outbox, "m-1", now, change))
    };
    let put = |change: fn(&mut PrepareMessage, &mut OutboxLimits)| {
        let (mut message, mut limits) = (doc::message("m-1"), OutboxLimits::default());
        change(&mut message, &mut limits);
        sender().decide(&prepare(&message, limits))
    };
    let record = states["asked"].record("m-1").unwrap();
    let process = |edit: fn(&mut Settlement)| {
        let mut settlement = settlement(record);
        edit(&mut settlement);
        change("asked", 7_000, Change::Process { settlement })
    };
    let receipt = Receipt { queue_sequence: PAST, ..receipt(record) };
    let answers = [
        ("retry_max_millis", put(|it, _| it.policy.retry_max_millis = u64::MAX)),
        ("settlement_poll_millis", put(|it, _| it.policy.settlement_poll_millis = PAST)),
        ("max_envelope_bytes", put(|_, it| it.max_envelope_bytes = u64::MAX)),
        ("max_retained_per_owner", put(|_, it| it.max_retained_per_owner = PAST)),
        ("queue_sequence", change("leased", 2_000, Change::Accept { receipt })),
        ("outcome", process(|it| it.outcome = Outcome::Failed)),
        ("settled_at", process(|it| it.settled_at = "yesterday".to_owned())),
    ];
    let unreadable = answers.into_iter().filter_map(|(what, answer)| {
        let event = answer.ok().flatten()?;
        let data = event.to_data();
        DomainEvent::decode(event.event_type(), 1, data.as_str()).is_err().then_some(what)
    });
    assert_eq!(unreadable.collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn o_21_a_number_in_custom_metadata_is_kept_or_refused_and_never_changed() {
    let event = doc::message("m-1").decide(&OutboxLimits::default()).unwrap();
    let event = DomainEvent::Delivery(event.into());
    let changed = ["7", "9007199254740993", "18446744073709551615"].into_iter().filter(|number| {
        let text = format!(r#"{{"custom":{{"n":{number}}}}}"#);
        let Ok(metadata) = serde_json::from_str::<Metadata>(&text) else { return false };
        let stream = StreamName::parse("delivery-sender").unwrap();
        let draft = EventDraft::of(&event, metadata);
        let sealed = EventBatch::seal(stream, None, [draft], millis(0));
        sealed.is_ok_and(|batch| batch.events()[0].metadata() != text)
    });
    assert_eq!(changed.collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn a_diagnostic_nested_past_its_bounds_is_stored_exactly() {
    let mut chain = json!({"_tag": "Value", "value": "root"});
    let mut causes = chain.clone();
    for _ in 0..60 {
        chain = json!({"_tag": "Error", "cause": chain, "errors": [{"_tag": "Value", "value": 1}]});
        causes = json!({"_tag": "Cause", "reasons": [{"_tag": "Fail", "error": causes}]});
    }
    is_stored_exactly(chain);
    is_stored_exactly(causes);
}

#[test]
fn a_diagnostic_that_uses_up_its_bounds_is_legal_where_it_was_decided() {
    let errors = vec![json!({"_tag": "Value", "value": "x".repeat(16_384)}); 8];
    is_stored_exactly(json!({"_tag": "Error", "errors": errors, "message": "one too many"}));
    // The number that no double holds becomes text, where there is no room for any.
    let inexact = 9_007_199_254_740_993_u64;
    is_stored_exactly(json!({"_tag": "Error", "errors": errors, "code": inexact}));
}
