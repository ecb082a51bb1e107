//! The search ends soon, goes forward, and what is due is what a walk finds.
#![no_main]

use libfuzzer_sys::fuzz_target;
use recount_core::{Instant, schedule::Cron};

const ZONES: [&str; 8] = [
    "UTC",
    "-03:30",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Africa/Casablanca",
    "America/Havana",
];

/// A field of some bytes: characters that mean something in one.
fn field(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char::from(b"0123456789*,-/"[usize::from(*byte) % 14])).collect()
}

fuzz_target!(|given: ([[u8; 4]; 5], u8, u64, u32)| {
    let (fields, zone, after, more) = given;
    let expression = fields.map(|bytes| field(&bytes)).join(" ");
    let zone = ZONES[usize::from(zone) % ZONES.len()];
    let Ok(cron) = Cron::new(&expression, zone) else { return };
    let Ok(after) = Instant::from_millis(after % 8_640_000_000_000_001) else { return };
    let Ok(first) = cron.next_after(after) else { return };
    assert!(first > after, "{cron} after {after}");
    // Three days at most, which a walk has the patience for.
    let now = first.saturating_add(u64::from(more) % 259_200_000);
    let mut walked = first;
    while let Ok(next) = cron.next_after(walked)
        && next <= now
    {
        assert!(next > walked, "{cron} after {walked}");
        walked = next;
    }
    assert_eq!(cron.last_due(first, now), Ok(walked), "{cron} from {first} at {now}");
});
