//! What the reference implementation answered.

use recount_core::{
    Instant,
    schedule::{Cron, Timing, TimingRequest},
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::support::Vectors;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct NextCase {
    expression: String,
    time_zone: String,
    after_millis: Instant,
    next_millis: Option<Instant>,
    error: Option<String>,
}

impl NextCase {
    fn answer(&self, place: &str) -> Option<Instant> {
        let cron = Cron::new(&self.expression, &self.time_zone);
        cron.unwrap_or_else(|error| panic!("{place}: {error}")).next_after(self.after_millis).ok()
    }
}

#[test]
fn vectors_cron_next() {
    for file in Vectors::all("cron-next.jsonl") {
        for (place, case) in file.cases::<NextCase>().unwrap() {
            assert_eq!(case.answer(&place), case.next_millis, "{place}");
        }
    }
}

#[test]
fn vectors_extra_cron_next_error() {
    for file in Vectors::all("extra-cron-next-error.jsonl") {
        for (place, case) in file.cases::<NextCase>().unwrap() {
            assert!(case.error.is_some(), "{place}");
            assert_eq!(case.answer(&place), None, "{place}");
        }
    }
}

#[test]
fn vectors_extra_cron_next_tz2025c() {
    let data = include_bytes!("../vectors/Africa-Casablanca-2025c.tzif");
    for file in Vectors::all("extra-cron-next-tz2025c.jsonl") {
        let mut differ = 0;
        for (place, case) in file.cases::<NextCase>().unwrap() {
            assert_eq!(case.time_zone, "Africa/Casablanca", "{place}");
            let then = Cron::with_zone_data(&case.expression, &case.time_zone, data).unwrap();
            assert_eq!(then.next_after(case.after_millis).ok(), case.next_millis, "{place}");
            differ += u32::from(case.answer(&place) != case.next_millis);
        }
        assert!(differ > 100, "{differ}: the zone's rules were changed since");
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Invalid {
    expression: String,
    time_zone: String,
    error: String,
}

#[test]
fn vectors_cron_invalid() {
    for file in Vectors::all("cron-invalid.jsonl") {
        for (place, case) in file.cases::<Invalid>().unwrap() {
            let Err(error) = Cron::new(&case.expression, &case.time_zone) else {
                panic!("{place}: {:?} {:?} is taken", case.expression, case.time_zone)
            };
            let expected = match &*case.error {
                "Invalid number of segments in cron expression" => "a cron expression has",
                "Invalid time zone in cron expression" => "the time zone",
                _ => "the ",
            };
            let told = error.to_string();
            assert!(told.starts_with(expected), "{place}: {} is {told}", case.error);
            assert_eq!(error.field.is_some(), expected == "the ", "{place}");
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct DueCase {
    timing: Timing,
    cursor_millis: Instant,
    now_millis: Instant,
    intended_at_millis: Option<Instant>,
    next_at_millis: Option<Instant>,
    skipped_range: Value,
}

#[test]
fn vectors_schedule_due() {
    for file in Vectors::all("schedule-due.jsonl") {
        for (place, case) in file.cases::<DueCase>().unwrap() {
            let due = case.timing.due(case.cursor_millis, case.now_millis).unwrap();
            let intended = due.map(|due| due.intended_at_millis);
            assert_eq!(intended, case.intended_at_millis, "{place}");
            // Where nothing is due the reference tells where the cursor stands.
            assert_eq!(due.and_then(|due| due.next_at_millis), case.next_at_millis, "{place}");
            let skipped = due.and_then(|due| due.skipped_range);
            let skipped = skipped.map(|it| json!({"from": it.from_millis, "to": it.to_millis}));
            assert_eq!(skipped.unwrap_or_default(), case.skipped_range, "{place}");
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct AcceptedCase {
    expression: String,
    time_zone: String,
    #[serde(default)]
    minimum_millis: u64,
    seconds_selected: Option<u32>,
    #[serde(rename = "accepted")]
    is_kept: bool,
}

impl AcceptedCase {
    fn is_accepted(&self) -> bool {
        let request = TimingRequest::Cron {
            expression: self.expression.clone(),
            time_zone: Some(self.time_zone.clone()),
        };
        request.resolve(Instant::ZERO, self.minimum_millis).is_ok()
    }
}

#[test]
fn vectors_extra_cron_seconds_rule() {
    for file in Vectors::all("extra-cron-seconds-rule.jsonl") {
        for (place, case) in file.cases::<AcceptedCase>().unwrap() {
            let cron = Cron::new(&case.expression, &case.time_zone).unwrap();
            assert_eq!(Some(cron.seconds_selected()), case.seconds_selected, "{place}");
            assert_eq!(case.is_accepted(), case.is_kept, "{place}");
        }
    }
}

#[test]
fn vectors_extra_cron_minimum() {
    for file in Vectors::all("extra-cron-minimum.jsonl") {
        for (place, case) in file.cases::<AcceptedCase>().unwrap() {
            assert_eq!(case.is_accepted(), case.is_kept, "{place}: {}", case.expression);
        }
    }
}
