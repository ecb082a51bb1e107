//! No credential of a failure reaches an event.

use recount_core::{
    Diagnostic, ErrorDiagnostic, Failure, Legal, Outcome, Settlement,
    delivery::{
        DeliveryEvent, MessageDeliveryChange as Change, Outbox, OutboxLimits, ParkReason,
        RetryReason,
    },
    doc,
};
use serde_json::json;

use crate::support::histories::{grant, in_every_state, outbox_with, settlement, wish};

const SECRET: &str = "hunter2-of-the-destination";

/// What a destination's client may say, long enough to be cut within its credentials.
fn failure() -> Diagnostic {
    let message = format!("POST https://bob:{SECRET}@h/inbox?token={SECRET}&page=2: 401");
    let body = format!(r#"{{"apiKey":"{SECRET}"}} Authorization: Bearer {SECRET}"#);
    let long = format!("{} redis://u:{SECRET}@h", "x".repeat(16 * 1_024 - 30));
    let context = [("password".to_owned(), SECRET.to_owned())].into();
    Diagnostic::Error(Box::new(ErrorDiagnostic {
        cause: Some(Diagnostic::text(body)),
        context: Some(context),
        errors: Some(vec![Diagnostic::text(long)]),
        message: Some(message),
        ..ErrorDiagnostic::default()
    }))
}

fn failed(settlement: Box<Settlement>) -> Box<Settlement> {
    let failure = json!({
        "errorTag": "Denied",
        "message": format!("denied: password={SECRET}"),
        "context": {"apiToken": SECRET},
        "diagnostic": failure(),
    });
    let failure: Failure = serde_json::from_value(failure).unwrap();
    Box::new(Settlement { outcome: Outcome::Failed, failure: Some(failure), ..*settlement })
}

/// Each change that keeps a diagnostic, with the outbox that grants it.
fn changes() -> Vec<(Outbox, u64, Change)> {
    let states = in_every_state(&doc::message("m-1"));
    let state = |name| states.iter().find(|(state, _)| *state == name).unwrap().1.clone();
    let diagnostic = || Some(Box::new(failure()));
    let settlement = failed(settlement(state("asked").record("m-1").unwrap()));
    let mut once = doc::message("m-1");
    once.policy.max_automatic_attempts = 1;
    let mut last_attempt = outbox_with(&[once]);
    grant(&mut last_attempt, "m-1", 1_000, Change::Claim);
    let code = "denied".parse().unwrap();
    let retry = Change::Retry { reason: RetryReason::Transport, diagnostic: diagnostic() };
    let reason = ParkReason::StatusUnavailable;
    vec![
        (state("leased"), 2_000, Change::Refuse { code, diagnostic: diagnostic() }),
        (state("leased"), 2_000, retry.clone()),
        (last_attempt, 2_000, retry),
        (state("accepted"), 2_000, Change::Park { reason, diagnostic: diagnostic() }),
        (state("asked"), 7_000, Change::Process { settlement }),
    ]
}

#[test]
fn no_credential_of_a_diagnostic_reaches_an_event() {
    for (outbox, now, change) in changes() {
        let event = outbox.decide(&wish(&outbox, "m-1", now, change)).unwrap().unwrap();
        let data = event.to_data();
        let text = data.as_str();
        assert!(!text.contains("hunter2"), "{text}");
        assert!(text.contains("POST https://[redacted]@h/inbox?token=[redacted]&page=2: 401"));
        assert!(text.contains(r"Authorization: Bearer [redacted]"), "{text}");
        assert!(text.contains(r#""context":{"password":"[redacted]"}"#), "{text}");
        assert_eq!(outbox.legal(&event, Some(&OutboxLimits::default())), Legal::Ok);
    }
}

/// What counts as a credential changes with versions: a log from before stays legal.
#[test]
fn an_event_that_holds_what_is_redacted_today_is_legal() {
    let mut checked = 0;
    for (outbox, now, change) in changes() {
        let mut event = outbox.decide(&wish(&outbox, "m-1", now, change)).unwrap().unwrap();
        let older = Some(Box::new(failure().bounded()));
        match &mut event {
            DeliveryEvent::Refused(event) => event.diagnostic = older,
            DeliveryEvent::Retried(event) => event.diagnostic = older,
            DeliveryEvent::Parked(event) => event.diagnostic = older,
            _ => continue,
        }
        assert!(event.to_data().as_str().contains(SECRET));
        assert_eq!(outbox.legal(&event, Some(&OutboxLimits::default())), Legal::Ok);
        checked += 1;
    }
    assert_eq!(checked, 4);
}
