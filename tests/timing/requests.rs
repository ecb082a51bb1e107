//! Requests for timing: what is kept of them, and what is said where they are none.

use recount_core::schedule::{Cron, CronErrorKind, Timing, TimingRequest};
use serde_json::json;

use crate::support::histories::millis;

fn kept(request: &serde_json::Value, minimum: u64) -> Result<Timing, String> {
    let request: TimingRequest = serde_json::from_value(request.clone()).unwrap();
    request.resolve(millis(1_000), minimum).map_err(|error| error.to_string())
}

#[test]
fn what_is_kept_of_a_request() {
    let stored = |request| serde_json::to_value(kept(&request, 60_000).unwrap()).unwrap();
    let at = json!({"_tag": "At", "atMillis": 5});
    assert_eq!(stored(at.clone()), at, "one that is past stays due");
    let after = stored(json!({"_tag": "After", "delayMillis": 1}));
    assert_eq!(after, json!({"_tag": "At", "atMillis": 1_001}));
    let far = stored(json!({"_tag": "After", "delayMillis": (1_u64 << 53) - 1}));
    assert_eq!(far, json!({"_tag": "At", "atMillis": 8_640_000_000_000_000_u64}));
    let anchored = json!({"_tag": "Interval", "everyMillis": 60_000, "anchorMillis": 7});
    assert_eq!(stored(anchored.clone()), anchored);
    let interval = stored(json!({"_tag": "Interval", "everyMillis": 60_000}));
    assert_eq!(
        interval,
        json!({"_tag": "Interval", "everyMillis": 60_000, "anchorMillis": 61_000})
    );
    let cron = stored(json!({"_tag": "Cron", "expression": "0 9 * * MON"}));
    let expected = json!({"_tag": "Cron", "expression": "0 9 * * MON", "timeZone": "UTC"});
    assert_eq!(cron, expected);
}

#[test]
fn every_refusal_of_a_request_has_its_text() {
    let cron = |expression: &str, zone: &str| json!({"_tag": "Cron", "expression": expression, "timeZone": zone});
    let told = [
        (json!({"_tag": "After", "delayMillis": 0}), 60_000),
        (json!({"_tag": "Interval", "everyMillis": 59_999}), 60_000),
        (json!({"_tag": "Interval", "everyMillis": 0}), 0),
        (cron(&"1".repeat(257), "UTC"), 60_000),
        (cron("* * * * *", &"z".repeat(129)), 60_000),
        (cron("* * * *", "UTC"), 60_000),
        (cron("* * * * *", "Mars/Olympus"), 60_000),
        (cron("60 * * * *", "UTC"), 60_000),
        (cron("* * 0 * *", "UTC"), 60_000),
        (cron("* * * FEB-MARCH *", "UTC"), 60_000),
        (cron("* * * * SAT-SUN", "UTC"), 60_000),
        (cron("*/60 * * * *", "UTC"), 60_000),
        (cron("*/ * * * *", "UTC"), 60_000),
        (cron("1,,2 * * * *", "UTC"), 60_000),
        (cron("0,30 * * * * *", "UTC"), 60_000),
        (cron("0 9 * * *", "Europe/Berlin"), 60_001),
        (cron("0,10 * * * *", "+05:30"), 600_001),
        (cron("0 0 30 2 *", "UTC"), 60_000),
    ];
    let told: Vec<_> = told.iter().map(|(request, min)| kept(request, *min).unwrap_err()).collect();
    insta::assert_snapshot!(told.join("\n"), @r#"
    a delay is 1 ms at least
    an interval of 59999 ms is shorter than 60000 ms
    an interval of 0 ms is shorter than 1 ms
    the expression has 257 UTF-16 code units, more than 256
    the time zone has 129 UTF-16 code units, more than 128
    a cron expression has five fields, or six with seconds first, not 4
    the time zone "Mars/Olympus" is not known: an id like Europe/Berlin, or an offset like +05:30
    the minute "60" is no number from 0 to 59
    the day of the month "0" is no number from 1 to 31
    the month "MARCH" is no number from 1 to 12 and no name
    the range "SAT-SUN" of the weekday ends before it begins
    the step "60" of the minute is no number from 1 to 59
    the step "" of the minute is no number from 1 to 59
    the minute "" is no number from 0 to 59
    "0,30 * * * * *" has 2 values for the seconds, where one is allowed
    with a minimum of 60001 ms a cron expression is in UTC or at an offset, not in "Europe/Berlin"
    "0,10 * * * *" can fire 600000 ms after it fired, which is shorter than 600001 ms
    "0 0 30 2 *" never fires: no day is ever like that
    "#);
}

#[test]
fn a_timing_is_read_strictly() {
    for wrong in [
        r#"{"_tag":"At"}"#,
        r#"{"_tag":"At","atMillis":5,"x":1}"#,
        r#"{"_tag":"At","atMillis":5,"atMillis":5}"#,
        r#"{"_tag":"At","atMillis":8640000000000001}"#,
        r#"{"_tag":"Interval","everyMillis":9007199254740992,"anchorMillis":5}"#,
        r#"{"_tag":"Interval","everyMillis":1.0,"anchorMillis":5}"#,
        r#"{"_tag":"Cron","expression":"* * * * *","timeZone":null}"#,
        r#"{"_tag":"Sometimes"}"#,
    ] {
        assert!(serde_json::from_str::<Timing>(wrong).is_err(), "{wrong}");
        assert!(serde_json::from_str::<TimingRequest>(wrong).is_err(), "{wrong}");
    }
    for (stored, why) in [
        (r#"{"_tag":"Interval","everyMillis":0,"anchorMillis":5}"#, "an interval is 1 ms at least"),
        (r#"{"_tag":"Cron","expression":"* *","timeZone":"UTC"}"#, "five fields"),
    ] {
        let error = serde_json::from_str::<Timing>(stored).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn an_error_says_which_bytes_are_wrong() {
    for (expression, zone, wrong) in [
        ("0 9 * * MON,TUX", "UTC", "TUX"),
        ("\u{3000}0 9\u{a0}* 13 *", "UTC", "13"),
        ("5-1/2 * * * *", "UTC", "5-1"),
        ("0 1-5/x * * *", "UTC", "x"),
        ("* *", "UTC", "* *"),
        ("0 , * * *", "UTC", ""),
    ] {
        let error = Cron::new(expression, zone).unwrap_err();
        assert_eq!(&expression[error.span], wrong, "{expression}");
    }
    let error = Cron::new("0 9 * * *", "Moon").unwrap_err();
    assert_eq!((error.field, error.span), (None, 0..4));
    let error = Cron::with_zone_data("0 9 * * *", "Moon", b"TZif?").unwrap_err();
    assert!(matches!(error.kind, CronErrorKind::ZoneData { .. }), "{error}");
    assert!(error.to_string().starts_with("the zone data is no TZif file: "), "{error}");
}

#[test]
fn names_of_zones_are_known_in_any_case_and_old_ones_too() {
    let same = |zone: &str, as_zone: &str| {
        let next = |zone| Cron::new("30 3 * * *", zone).unwrap().next_after(millis(1)).unwrap();
        assert_eq!(next(zone), next(as_zone), "{zone}");
    };
    same("europe/berlin", "Europe/Berlin");
    same("utc", "UTC");
    same("PST", "America/Los_Angeles");
    same("jst", "Asia/Tokyo");
    same("systemv/est5edt", "America/New_York");
    same("+0530", "Asia/Kolkata");
    same("GMT+05:30", "+05:30");
    same("+x+05:30", "+05:30");
    assert!(Cron::new("0 0 * * *", "+99:99").is_ok());
    for refused in
        ["Z", "z", "Factory", "posixrules", "UTC+1", "GMT+0", "+5:30", "é05:30", "+é", "-"]
    {
        assert!(Cron::new("0 0 * * *", refused).is_err(), "{refused}");
    }
}
