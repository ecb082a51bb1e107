//! No secret here is one: they are put together from pieces, so that nobody's scanner is alarmed.

use proptest::prelude::*;

use super::*;

fn redacted(text: &str) -> String {
    let Diagnostic::Value { value: Scalar::Text(text) } = Diagnostic::text(text).redacted() else {
        panic!("a text stays a text")
    };
    text
}

/// `§` stands for the secret in a carrier, and then for what is told instead of it.
fn check(carrier: &str, secret: &str) {
    let seen = redacted(&carrier.replace('§', secret));
    assert_eq!(seen, carrier.replace('§', REDACTED), "{secret}");
    assert_eq!(redacted(&seen), seen, "twice");
}

const BODY: &str = "R4nd0mLettersAndD1gits9xQ7Lm2Vb";

#[test]
fn what_a_name_is_given_is_gone_and_the_rest_stays() {
    for carrier in [
        // Addresses and forms.
        "GET https://api.example.com/v1/jobs?token=§&page=2 failed",
        "GET /v1/jobs?key=§&page=2: 403",
        "https://h/?page=2&sig=§",
        "https://h/cb#access_token=§&state=7",
        "error sending request for url (https://h/v1?api_key=§): timed out",
        "https://b.s3.amazonaws.com/o?X-Amz-Date=20261201&X-Amz-Signature=§&x=1",
        "https://b.s3.amazonaws.com/o?X-Amz-Security-Token=§&X-Amz-Expires=60",
        "https://h/?a=1&amp;client_secret=§&amp;b=2",
        r#"{"url":"https://h/?a=1\u0026key=§\u0026b=2"}"#,
        "to=https%3A%2F%2Fh%3Fkey%3D§",
        "grant_type=password&username=bob&password=§",
        "user[password]=§&user[name]=bob",
        // Headers, and dumps of them.
        "> X-Api-Key: §\n> Accept: */*",
        "Authorization: Bearer §\nAccept: */*",
        "authorization: §",
        "Proxy-Authorization: Basic § (sent)",
        "Authorization: AWS4-HMAC-SHA256 §\nHost: h",
        "map[Accept:[*/*] Authorization:[Bearer §] Host:[h]]",
        r#"{"authorization": "Bearer §", "accept": "*/*"}"#,
        "curl -H 'Authorization: token §' https://h/",
        "Cookie: §\nHost: h",
        "set-cookie: §",
        r#"headers: {"set-cookie": ["§", "§"], "server": "h"}"#,
        "{ 'x-goog-api-key': '§', accept: '*/*' }",
        // JSON, as it is and within strings.
        r#"{"apiKey":"§","model":"m-1"}"#,
        r#"{"user": "bob", "password" : "§"}"#,
        r#"body: "{\"apiKey\":\"§\",\"model\":\"m-1\"}""#,
        r#"log: "body: \"{\\\"clientSecret\\\":\\\"§\\\",\\\"n\\\":1}\"""#,
        // Debug output.
        r#"Config { host: "h", password: "§", port: 5432 }"#,
        r#"Config { token: Some("§"), retries: 3 }"#,
        r#"Config { secret: Secret(Some("§")), retries: 3 }"#,
        r#"Auth { token: AccessToken { value: "§" }, user: "bob" }"#,
        r#"env["API_TOKEN"] = "§";"#,
        r#"[("user", "bob"), ("x-api-key", "§"), ("authorization", "Token §")]"#,
        "the api key: § is not known",
        "aws secret access key: §",
        "`curl -u bob:§ https://h/` ended with 22",
        "`curl --user 'bob:§' https://h/` ended with 22",
        "Config { refresh_token: §, retries: 3 }",
        // Environments, settings, command lines, stacks.
        "PATH=/bin\nPGPASSWORD=§\nHOME=/root",
        "AWS_SECRET_ACCESS_KEY=§ AWS_REGION=eu-west-1",
        "Server=h;User=sa;Pwd=§;Encrypt=yes",
        "AccountName=a;AccountKey=§;EndpointSuffix=core.windows.net",
        "user=bob,password=§,host=h",
        "db:\n  password: §\n  host: h",
        "//registry.npmjs.org/:_authToken=§",
        "`mysql --user bob --password § jobs` ended with 1",
        r#""mysql" "--user" "bob" "--password" "§" "jobs""#,
        r#"args: ["--api-key", "§", "x"]"#,
        "`deploy --api-key=§ --to eu` ended with 1",
        "<user>bob</user><password>§</password>",
        "\n    at connect (https://h/app.js?token=§:12:7)".trim_end_matches(":12:7)"),
        r"first line\npassword=§\nlast line",
        "invalid token: §",
    ] {
        check(carrier, BODY);
    }
}

#[test]
fn tokens_are_known_by_their_first_letters() {
    let hex = "0123456789abcdef0123456789abcdef";
    let letters = "Zx81".repeat(9);
    let tokens: [(&[&str], &str); 27] = [
        (&["gh", "p_"], &letters),
        (&["gh", "s_"], &letters),
        (&["github", "_pat_"], "11ABCDEFG0aBcDeFgHiJkL_mNoPqRsTuVwXyZ0123456789"),
        (&["gl", "pat-"], "x1Y2z3A4b5C6d7E8f9G0"),
        (&["s", "k-"], &letters),
        (&["s", "k-", "proj-"], "aB3_dE5-gH7_jK9-mN1_pQ3"),
        (&["s", "k-", "ant-"], "api03-aB3_dE5-gH7_jK9-mN1_pQ3"),
        (&["sk", "_live_"], "4eC39HqLyjWDarjtT1zdp7dc"),
        (&["xo", "xb-"], "123456789012-1234567890123-AbCdEfGhIjKlMnOpQrStUvWx"),
        (&["xa", "pp-"], "1-A0123456789-1234567890123-abcdef"),
        (&["AK", "IA"], "IOSFODNN7EXAMPLE"),
        (&["AS", "IA"], "IOSFODNN7EXAMPLE"),
        (&["AI", "za"], "SyA1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q"),
        (&["ya", "29."], "a0AfH6SMBx1y2z3A4b5C6"),
        (&["GOC", "SPX-"], "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9a"),
        (&["np", "m_"], &letters),
        (&["pypi", "-AgE"], "IcHlwaS5vcmcCJDAxMjM0NTY3ODk"),
        (&["hf", "_"], "AbCdEfGhIjKlMnOpQrStUvWxYz01234567"),
        (&["SG", "."], "aB3dE5gH7jK9mN1pQ3sT5v.aB3dE5gH7jK9mN1pQ3sT5vW7"),
        (&["do", "p_v1_"], &hex.repeat(2)),
        (&["shp", "at_"], hex),
        (&["wh", "sec_"], "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
        (&["hv", "s."], "CAESIJ1y2z3A4b5C6d7E8f9G0"),
        (&["gl", "sa_"], "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9aB1cD_0a1b2c3d"),
        (&["ey", "J"], "hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dQw4w9WgXcQ_-x"),
        (&["bot", "123456789:"], "AAF1y2z3A4b5C6d7E8f9G0h1I2j3K4l5M6n"),
        (&["hooks.slack", ".com/services/"], "T01ABCDEF/B01ABCDEF/aBcDeFgHiJkLmN"),
    ];
    for (first, secret) in tokens {
        let first = first.concat();
        for carrier in [
            "§",
            "refused: § is not known",
            "tried (§), then gave up",
            r#"Session("§", 7)"#,
            r#"{"user":"§"}"#,
            r"line\n§\nline",
            "https://h/x/§?a=b",
        ] {
            check(&carrier.replace('§', &format!("{first}§")), secret);
        }
    }
}

#[test]
fn schemes_addresses_and_keys_hide_what_lets_in() {
    for (carrier, secret) in [
        ("sent Bearer §, got 401", BODY),
        ("sent bearer § twice", "abc123"),
        ("basic § was refused", concat!("dXNlcjp", "wYXNz")),
        ("DATABASE_URL=postgres://u:§@db.internal/jobs?sslmode=require", "p"),
        ("postgres://u:§@h:5432/jobs: refused", "p@ss:w0rd"),
        ("redis://:§@h:6379/0 is down", "pa/ss#w?rd"),
        ("cannot clone https://§@git.example.com/a/b.git", "x-oauth:abc"),
        ("cannot clone https://§@git.example.com/a/b.git", "0123456789abcdef"),
        (r#"Url("amqp://guest:§@h/%2f")"#, "guest"),
        ("bob:§@tcp(h:3306)/jobs", "hunter2"),
    ] {
        check(carrier, secret);
    }
    let line = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj";
    for kind in ["", "RSA ", "EC ", "OPENSSH "] {
        for (end, last) in [("\n", "Zm9v\n"), ("\r\n", "Zm8=\r\n"), (r"\n", r"Zm9v\n"), ("\n", "")]
        {
            let [begin, close] =
                ["BEGIN", "END"].map(|it| format!("-----{it} {kind}PRIVATE KEY-----"));
            let key = format!("{end}{line}{end}{line}{end}{last}");
            let seen = redacted(&format!("cannot read {begin}{key}{close} of x"));
            let rest =
                seen.strip_prefix(&format!("cannot read {begin}[redacted]")).unwrap_or(&seen);
            assert_eq!(rest, format!("{end}{close} of x"));
            let cut = redacted(&format!("cannot read {begin}{end}{line}"));
            assert_eq!(cut, format!("cannot read {begin}[redacted]"));
        }
    }
}

#[test]
fn ordinary_failures_are_told_in_full() {
    let digest = "3f".repeat(32);
    let digest = format!("digest {digest} is not {digest}, expected sha256:{digest}");
    for text in [
        "no token was given",
        "key not found: planner/m-1",
        "duplicate key: planner/m-1",
        "Key (owner, id)=(planner, m-1) already exists",
        "key=planner/m-1 is there twice",
        "monkey=banana",
        "Bearer of bad news",
        "Bearer authentication is required",
        "basic authentication failed for bob",
        r#"WWW-Authenticate: Bearer realm="jobs", error="invalid_token""#,
        "unexpected token: comma at line 3",
        "Unexpected token } in JSON at position 7",
        "invalid signature: expected three parts",
        "authorization failed: policy planner does not allow m-1",
        r#""authorization":{"policyId":"policy","decisionId":"d-1"}"#,
        r#"authorization: AuthorizationDecision { policy_id: "policy" }"#,
        r#"{"password":null,"token":"","secret":false}"#,
        "Config { password: None, token: None }",
        r#"{"max_tokens": 4096, "promptTokens": 17}"#,
        "tokens: 512, token_type: bearer",
        "PWD=/srv/app OLDPWD=/srv",
        "0f8fad5b-d9cb-469f-a165-70867728950e at 2026-12-01T04:35:48.123Z",
        "   3: recount_core::auth::token::verify\n             at ./src/auth/token.rs:45:12",
        "    at Secret.read (/srv/app/secret.js:12:7)",
        "connect to https://host:8080/@scope/pkg: connection refused (os error 111)",
        "ssh://git@host/a/b and git@host:a/b, ask bob@example.com",
        "cannot find -----BEGIN PRIVATE KEY----- in key.pem",
        "npm_config_registry=https://registry.npmjs.org/ npm_lifecycle_event=test",
        "the task-0123456789abcdef0123456789 on disk-0123456789abcdef0123456789",
        "cannot find crate sk-learn-contrib of the workspace",
        "if token == expected && Option<Token>::is_some",
        "Error: secret \"db\" not found in namespace \"jobs\"",
        "password:",
        "cannot load secret: permission denied",
        "invalid password: connection refused by peer",
        "authorization: denied by policy budget",
        "missing fields: [\"password\", \"email\"]",
        "primary key: planner/m-1 is there twice",
        "give --password, --token or --user",
        "required arguments were not provided: --token <TOKEN>",
        "the option --token needs a value",
        &digest,
        "ключ не найден: planner/m-1 🚀",
    ] {
        assert_eq!(redacted(text), text);
    }
}

#[test]
fn every_text_of_a_diagnostic_is_redacted() {
    let text = format!("a?token={BODY}");
    let node = Diagnostic::text(&text);
    let context = [("password", "hunter2"), ("job", &*text), (&*text, "7"), ("key", "m-1")];
    let error = ErrorDiagnostic {
        cause: Some(Diagnostic::Cause {
            reasons: vec![
                CauseReason::Fail { error: node.clone() },
                CauseReason::Die { defect: node.clone() },
                CauseReason::Interrupt { fiber_id: Some(Scalar::Text(text.clone())) },
            ],
            truncated: None,
        }),
        code: Some(Scalar::Text(text.clone())),
        context: Some(context.map(|(key, value)| (key.to_owned(), value.to_owned())).into()),
        error_tag: Some(text.clone()),
        errors: Some(vec![node.clone()]),
        message: Some(text.clone()),
        name: Some(text.clone()),
        omitted_fields: Some(vec![text.clone()]),
        reason: Some(node),
        stack: Some(text.clone()),
        truncated: None,
    };
    let whole = Diagnostic::Error(Box::new(error));
    let before = serde_json::to_string(&whole).unwrap();
    let after = serde_json::to_string(&whole.redacted()).unwrap();
    assert_eq!(before.matches(BODY).count(), 13);
    let expected = before.replace(BODY, REDACTED).replace("hunter2", REDACTED);
    assert_eq!(after, expected);
}

#[test]
fn keys_that_become_the_same_are_told() {
    let context = ["a", "b"].map(|it| (format!("?token={it}"), it.to_owned())).into();
    let error = ErrorDiagnostic { context: Some(context), ..ErrorDiagnostic::default() };
    let redacted = Diagnostic::Error(Box::new(error)).redacted();
    let Diagnostic::Error(error) = redacted else { panic!("an error stays one") };
    assert_eq!(error.context.unwrap().len(), 1);
    assert_eq!(error.truncated, Some(true));
}

/// A look ahead from each place to the end would take minutes here.
#[test]
fn long_texts_take_as_long_as_they_are() {
    for (unit, expected) in [
        ("password=a,", "password=[redacted],"),
        ("🚀token: é1234567 ", "🚀token: [redacted] "),
        ("<password>a</", "<password>[redacted]</"),
        ("token:'a' ", "token:'[redacted]' "),
        ("ftp://a:b/", "ftp://a:b/"),
        ("-----BEGIN PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----"),
    ] {
        let times = (1 << 20) / unit.len();
        let seen = redacted(&unit.repeat(times));
        assert!(seen == expected.repeat(times), "{unit}: {:?}", seen.get(..80));
    }
}

/// Pieces of which texts are made that come close to what is known.
fn pieces() -> impl Strategy<Value = String> {
    let pieces = [
        "token",
        "key",
        "password",
        "Authorization",
        "cookie",
        "api",
        "_",
        "-",
        ".",
        "--",
        "=",
        ":",
        "=>",
        "://",
        "@",
        "/",
        "?",
        "&",
        ";",
        ",",
        "%3D",
        "%26",
        "\\u003d",
        "\\n",
        "\\",
        "\"",
        "'",
        "`",
        "\n",
        " ",
        "[",
        "]",
        "{",
        "}",
        "(",
        ")",
        "<",
        ">",
        "</",
        "Bearer",
        "basic",
        "http",
        "s",
        "eyJ",
        "AKIA",
        "IOSFODNN7EXAMPLE",
        "gh",
        "p_",
        "a1B2c3D4e5F6g7H8i9J0k1",
        "[redacted]",
        "@tcp(",
        "Some(",
        "é",
        "🚀",
        "-----BEGIN ",
        "PRIVATE KEY-----",
        "-----END ",
        "x",
        "7",
        "true",
    ];
    proptest::collection::vec(proptest::sample::select(pieces.to_vec()), 0..24)
        .prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn twice_is_once(text in prop_oneof![".{0,200}", pieces()]) {
        let once = redacted(&text);
        prop_assert_eq!(redacted(&once), once);
    }

    #[test]
    fn what_is_redacted_and_bounded_is_within_the_bounds(text in pieces(), times in 1..500_usize) {
        let bounded = Diagnostic::text(text.repeat(times)).redacted().bounded();
        let Diagnostic::Value { value: Scalar::Text(kept) } = &bounded else { panic!("{bounded:?}") };
        prop_assert!(kept.encode_utf16().count() <= 16 * 1_024);
        prop_assert_eq!(bounded.clone().bounded(), bounded);
    }

    #[test]
    fn a_secret_never_survives_in_a_known_carrier(
        secret in "[A-Za-z0-9]{6,40}[0-9]",
        carrier in proptest::sample::select(vec![
            "?token=§", "&sig=§&", "password: §", "\"apiKey\":\"§\"", "\\\"apiKey\\\":\\\"§\\\"",
            "Authorization: Bearer §", "Cookie: a=§; b=c", "postgres://u:§@h/db", "https://§@h/",
            "API_TOKEN=§", "secret: Some(\"§\")", "--password §", "<password>§</password>",
            "Bearer §", "x-api-key: §", "'client_secret': '§'",
        ]),
        before in "[a-z 0-9\u{e9}\u{1f680}.,;:()]{0,30}",
        after in "[a-z 0-9\u{e9}\u{1f680}.,;:()]{0,30}",
    ) {
        let seen = redacted(&format!("{before} {} {after}", carrier.replace('§', &secret)));
        prop_assert!(!seen.contains(&secret), "{}", seen);
        prop_assert!(seen.contains(REDACTED), "{}", seen);
    }

    #[test]
    fn a_secret_of_any_letters_is_gone_however_deep_it_is_quoted(
        secret in "[ -~\u{e9}\u{1f680}]{5,40}!", depth in 0..4_usize,
    ) {
        let nested = |secret: &str| {
            let mut text = serde_json::json!({"n": 1, "password": secret, "z": "kept"}).to_string();
            for _ in 0..depth {
                text = serde_json::json!({"body": text, "status": 401}).to_string();
            }
            text
        };
        prop_assert_eq!(redacted(&nested(&secret)), nested(REDACTED));
        let debug = |secret: &str| format!("{:?}", [("user", "bob"), ("x", &format!("pwd={secret:?};"))]);
        prop_assert_eq!(redacted(&debug(&secret)), debug(REDACTED));
    }
}
