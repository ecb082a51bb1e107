//! Credentials as they are really met. All are made up, and put together here, so that nothing that
//! looks for secrets in sources finds any.

use proptest::prelude::*;

use super::*;
use crate::{
    delivery::{
        MessageDeliveryChange, MessageDeliveryCommand, MessageDeliveryRecord, OutboxLimits,
        ParkReason, RetryReason,
    },
    doc,
};

fn redacted(text: &str) -> String {
    let mut text = text.to_owned();
    redact(&mut text);
    text
}

#[test]
fn credentials_are_taken_out_and_the_rest_stays() {
    let digits = "4f9a2b7c8d1e6f30";
    let long = format!("{digits}{digits}Zq");
    let jwt = format!("ey{}.ey{}.{digits}", "JhbGciOiJIUzI1NiJ9", "JzdWIiOiJib2IifQ");
    let cases = [
        // Text with `*` where the secret is, and what becomes of it.
        ("hunter2", "connecting to postgres://app:*@db.internal:5432/jobs failed"),
        ("p%40ss/w0rd", "DATABASE_URL=mysql://root:*@10.0.0.7/x"),
        ("s3cr3t", "redis://:*@cache:6379/0: connection refused"),
        (&long, "GET https://api.example/v1/jobs?token=*&page=2 returned 401"),
        (&long, "https://maps.example/geo?key=*&q=a"),
        (&long, "https://b.example/o?X-Amz-Signature=*&X-Amz-Expires=60"),
        (&long, "https://b.example/o?sv=1&sig=*&se=2"),
        ("x9", "https://a.example/?client_secret=*"),
        ("tr0ub4dor", "login failed: password=* user=bob"),
        ("tr0ub4dor", "Password: *"),
        (&long, "api_key: *"),
        (&long, "Api-Key: *, retry later"),
        (&long, "X-Api-Key: *\r\nHost: a.example"),
        (&long, "> authorization: Bearer *\n> accept: */*"),
        ("dXNlcjpwYXNz", "Authorization: Basic *"),
        ("a b c", "Proxy-Authorization: Digest *\nNext: line"),
        (&long, "Authorization: *"),
        ("sid=1; theme=dark", "Cookie: *\nHost: x"),
        (&long, r#"{"apiKey":"*","model":"m"}"#),
        ("a, b; c", r#"{"password" : "*"}"#),
        (&long, r#"body was {\"access_token\":\"*\",\"expires\":3}"#),
        ("it is, long", r#"Config { host: "h", password: "*", port: 1 }"#),
        (&long, r#"Auth { token: Some("*"), user: "u" }"#),
        (&long, "the header was Bearer * and was refused"),
        (&jwt, "session * is over"),
        ("hunter2", "ran: tool --password * --verbose"),
        ("hunter2", "ran: tool --db-password=* --verbose"),
        (digits, "AWS_SECRET_ACCESS_KEY=*"),
        (digits, "Server=s;AccountKey=*;Endpoint=e"),
        (digits, "aws_session_token => *"),
    ];
    for (secret, text) in cases {
        // The first `*` alone, as headers have others.
        let found = redacted(&text.replacen('*', secret, 1));
        let expected = text.replacen('*', REDACTED, 1);
        let expected = match text {
            // The user goes with the password: it is often the token itself.
            _ if text.contains("app:*") => expected.replace("app:", ""),
            _ if text.contains("root:*") => expected.replace("root:", ""),
            _ if text.contains("//:*") => expected.replace("//:", "//"),
            _ => expected,
        };
        assert_eq!(found, expected);
        assert_eq!(redacted(&found), found, "twice is once");
    }
}

#[test]
fn tokens_that_were_made_to_be_known_are_known_anywhere() {
    let digits = "0123456789abcdefABCDEF0123456789abcdef";
    let upper = "ABCDEFGH12345678";
    let tokens = [
        format!("{}p_{digits}", "gh"),
        format!("{}_pat_{digits}", "github"),
        format!("{}at-{digits}", "glp"),
        format!("{}-{digits}", "sk"),
        format!("{}-ant-api03-{digits}", "sk"),
        format!("{}_live_{digits}", "sk"),
        format!("{}b-1234-{digits}", "xox"),
        format!("{}IA{upper}", "AK"),
        format!("{}Sy{digits}", "AIza"),
        format!("{}_{digits}", "npm"),
        format!("{}_{digits}", "hf"),
        format!("{}-{digits}", "pypi"),
        format!("{}.{digits}.{digits}", "SG"),
    ];
    for token in tokens {
        for (before, after) in
            [("", ""), ("the key is ", "."), ("(", ")"), ("x=\"", "\""), ("ü ", " ü")]
        {
            let found = redacted(&format!("{before}{token}{after}"));
            assert_eq!(found, format!("{before}{REDACTED}{after}"), "{token}");
        }
    }
    let hook = redacted("POST https://hooks.slack.com/services/T0/B0/x1y2z3 failed");
    assert_eq!(hook, "POST https://hooks.slack.com/services/[redacted] failed");
    let key = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nabc=\n-----END RSA PRIVATE KEY-----";
    let begin = "-----BEGIN RSA PRIVATE KEY-----[redacted]";
    assert_eq!(
        redacted(&format!("a {key} b")),
        format!("a {begin}-----END RSA PRIVATE KEY----- b")
    );
    assert_eq!(redacted(&format!("a {}", &key[..45])), format!("a {begin}"), "cut, too");
}

#[test]
fn what_an_operator_needs_stays() {
    let digest = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
    for text in [
        "no token was given",
        "invalid token: expired",
        "unexpected token: }",
        "key not found: planner/m-1",
        "admission_key=planner:m-1",
        "monkey=banana, turkey: 12",
        "max_tokens=4096, prompt_tokens: 12",
        "the bearer of bad news",
        "basic authentication required",
        "authorization: denied by policy budget",
        "the signature does not match",
        "password must not be empty",
        "secrets are fun; passwords too",
        "https://host:8080/users/@me: 404",
        "connect to 10.0.0.1:443 timed out (os error 110)",
        "http://a.example/x?page=2&limit=10",
        "task-0123456789abcdef failed, risk-assessment-2026 too",
        "550e8400-e29b-41d4-a716-446655440000",
        "user@example.org has no inbox",
        digest,
    ] {
        assert_eq!(redacted(text), text);
    }
    assert_eq!(redacted(&format!("inputDigest is {digest}")), format!("inputDigest is {digest}"));
}

fn full(text: &str) -> Diagnostic {
    let nested = Some(Diagnostic::text(text));
    let some = || Some(text.to_owned());
    let error = ErrorDiagnostic {
        cause: nested.clone(),
        code: Some(Scalar::Text(text.to_owned())),
        context: Some(BTreeMap::from([
            ("where".to_owned(), text.to_owned()),
            ("api_token".to_owned(), "anything".to_owned()),
        ])),
        error_tag: some(),
        errors: Some(vec![Diagnostic::Cause {
            reasons: vec![
                CauseReason::Fail { error: Diagnostic::text(text) },
                CauseReason::Die { defect: Diagnostic::text(text) },
                CauseReason::Interrupt { fiber_id: Some(Scalar::Text(text.to_owned())) },
            ],
            truncated: None,
        }]),
        message: some(),
        name: some(),
        omitted_fields: Some(vec![text.to_owned()]),
        reason: nested,
        stack: some(),
        truncated: None,
    };
    Diagnostic::Error(Box::new(error))
}

#[test]
fn every_text_of_a_diagnostic_is_looked_at() {
    let clean = serde_json::to_string(&full("password=hunter2").redacted()).unwrap();
    assert!(!clean.contains("hunter2") && !clean.contains("anything"), "{clean}");
    let found = clean.matches("password=[redacted]").count();
    assert_eq!((found, clean.matches(REDACTED).count()), (12, 13));
}

#[test]
fn no_credential_of_a_failure_reaches_an_event() {
    let prepared = doc::message("m-1").decide(&OutboxLimits::default()).unwrap();
    let mut record = MessageDeliveryRecord::of(&prepared);
    let decide = |record: &MessageDeliveryRecord, change| {
        let now_millis = crate::Instant::from_millis(1_500).unwrap();
        let expected_version = record.version;
        record.decide(&MessageDeliveryCommand { expected_version, now_millis, change }).unwrap()
    };
    let claimed = decide(&record, MessageDeliveryChange::Claim);
    record.evolve(&claimed);
    let diagnostic = || Some(Box::new(full("token=hunter2")));
    let settlement = serde_json::json!({
        "outcome": "failed", "receiptId": "r", "submissionId": "s", "settlementId": "t",
        "settledAt": "2026-01-01T00:00:00Z",
        "failure": {
            "errorTag": "E", "message": "password=hunter2", "diagnostic": full("token=hunter2"),
            "context": {"password": "hunter2"},
        },
    });
    let receipt = serde_json::json!({
        "receiptId": "r", "submissionId": "s", "threadId": "receiver", "queueSequence": 1,
    });
    let mut admitted = record.clone();
    let receipt = serde_json::from_value(receipt).unwrap();
    admitted.evolve(&decide(&record, MessageDeliveryChange::Accept { receipt }));
    admitted.lease_until_millis = record.lease_until_millis;
    let settlement = serde_json::from_value(settlement).unwrap();
    let (code, reason) = ("gone".parse().unwrap(), RetryReason::Transport);
    let events = [
        decide(&record, MessageDeliveryChange::Refuse { code, diagnostic: diagnostic() }),
        decide(&record, MessageDeliveryChange::Retry { reason, diagnostic: diagnostic() }),
        decide(
            &record,
            MessageDeliveryChange::Park {
                reason: ParkReason::StatusUnavailable,
                diagnostic: diagnostic(),
            },
        ),
        decide(&admitted, MessageDeliveryChange::Process { settlement }),
    ];
    for event in events {
        let data = event.to_data();
        assert!(!data.as_str().contains("hunter2"), "{data:?}");
        assert!(data.as_str().contains(REDACTED), "{data:?}");
    }
}

/// Texts that are made of what the patterns look for.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "password",
        "token",
        "api_key",
        "authorization",
        "cookie",
        "=",
        ":",
        ": ",
        " ",
        "\"",
        "\\\"",
        "'",
        "Bearer ",
        "basic ",
        "https://",
        "@",
        "/",
        "?",
        "&",
        "key=",
        "abc123def456",
        "[redacted]",
        "[",
        "]",
        "\n",
        "ü",
        "--password ",
        "Some(",
        ")",
        "{",
        "}",
        ",",
        "-----BEGIN PRIVATE KEY-----",
        "-----END PRIVATE KEY-----",
        "eyJhbGciOi.eyJzdWIi",
        "sk-",
        "0123456789abcdef0123",
    ]);
    prop::collection::vec(piece, 0..14).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn taking_out_twice_is_taking_out_once(text in prop_oneof![pieces(), "\\PC{0,60}"]) {
        let once = redacted(&text);
        prop_assert_eq!(redacted(&once), once.clone(), "{:?}", text);
        let diagnostic = Diagnostic::text(text).redacted().bounded();
        prop_assert_eq!(diagnostic.clone().redacted().bounded(), diagnostic);
    }

    #[test]
    fn a_secret_never_survives_in_what_carries_it(
        secret in "[A-Za-z0-9]{10}[0-9][A-Za-z0-9_-]{12,30}",
        before in "[a-z ]{0,20}",
        after in "([ ,;\"'\n)}&].{0,20})?",
        carrier in prop::sample::select(vec![
            "password=", "?token=", "&signature=", "api_key: ", "API-KEY=", "Authorization: Bearer ",
            "authorization: ", "bearer ", "\"secret\":\"", "\\\"clientSecret\\\": \\\"", "cookie: ",
            "token: Some(\"", "--access-token ", "https://bob:", "pwd=", "x-api-key: ",
        ]),
    ) {
        let after = if carrier.contains("://") { format!("@host{after}") } else { after };
        let text = format!("{before} {carrier}{secret}{after}");
        let clean = redacted(&text);
        prop_assert!(!clean.contains(&secret), "{text:?} became {clean:?}");
    }
}
