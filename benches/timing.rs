//! How long it takes to find the next firing of a cron expression, and what is due after ten years.
//!
//! `cargo bench --bench timing -- [--runs N]`; `docs/performance.md` says how to read it. The yardstick of
//! both is jiff alone: an instant to a wall time and back, without which no firing in a zone is found.

mod measure;

use std::process::ExitCode;

use jiff::{Timestamp, tz::TimeZone};
use recount_core::{Instant, schedule::Cron};

use measure::{Options, median, number, print_table, timed};

const USAGE: &str = "\
cargo bench --bench timing -- [OPTIONS]
  --runs N    rounds (7)
  --calls N   calls in a round (20_000)";

const RULES: [&str; 3] = ["* * * * *", "0 9 * * MON-FRI", "0 0 29 2 *"];
const ZONES: [&str; 3] = ["UTC", "America/New_York", "Australia/Lord_Howe"];
const TEN_YEARS: u64 = 3_653 * 86_400_000;
/// 2026-11-30T09:00:00Z.
const NOW: u64 = 1_796_029_200_000;

fn main() -> ExitCode {
    measure::exit(run())
}

fn run() -> Result<(), String> {
    let options = Options::read(USAGE, &["--runs", "--calls"], &[])?;
    let size =
        |name, quick, real| options.value(name, if options.is_smoke() { quick } else { real });
    let (runs, calls) = (size("--runs", 1, 7)?.max(1), size("--calls", 100, 20_000)?.max(1));
    println!("medians of {runs} rounds of {calls} calls at instants over a year, microseconds\n");
    let mut rows = Vec::new();
    for zone in ZONES {
        for rule in RULES {
            rows.push(row(zone, rule, runs, calls)?);
        }
    }
    let heads =
        ["zone", "expression", "jiff alone", "next", "ratio", "due after ten years", "ratio"];
    print_table(&heads, &rows);
    Ok(())
}

fn row(zone: &str, rule: &str, runs: u64, calls: u64) -> Result<Vec<String>, String> {
    let cron = Cron::new(rule, zone).map_err(|error| error.to_string())?;
    let of_zone = TimeZone::get(zone).map_err(|error| error.to_string())?;
    let cursor = cron.next_after(instant(NOW - TEN_YEARS)).map_err(|error| error.to_string())?;
    let each = |call: &dyn Fn(u64) -> u64| {
        // Over a year, so that it is not one day that is measured.
        let step = 31_536_000_000 / calls;
        let (sum, time) = timed(|| (0..calls).fold(0_u64, |sum, at| sum ^ call(NOW + at * step)));
        std::hint::black_box(sum);
        time.as_secs_f64() * 1e6 / number(calls)
    };
    let there_and_back = |at: u64| {
        let at = Timestamp::from_millisecond(at.cast_signed()).unwrap_or_default();
        let back = of_zone.to_timestamp(of_zone.to_datetime(at));
        back.map_or(0, |back| back.as_millisecond().cast_unsigned())
    };
    let next = |at| cron.next_after(instant(at)).map_or(0, Instant::as_millis);
    let due = |at| cron.last_due(cursor, instant(at)).map_or(0, Instant::as_millis);
    let mut rounds = Vec::new();
    for _ in 0..runs {
        rounds.push([each(&there_and_back), each(&next), each(&due)]);
    }
    let of = |job: usize| median(rounds.iter().map(|round| round[job]));
    let ratio = |job: usize| median(rounds.iter().map(|round| round[job] / round[0]));
    Ok(vec![
        zone.to_owned(),
        rule.to_owned(),
        format!("{:.3}", of(0)),
        format!("{:.3}", of(1)),
        format!("{:.1}", ratio(1)),
        format!("{:.3}", of(2)),
        format!("{:.1}", ratio(2)),
    ])
}

fn instant(millis: u64) -> Instant {
    Instant::from_millis(millis).expect("an instant of this century")
}
