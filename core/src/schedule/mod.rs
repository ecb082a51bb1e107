//! Schedules: inputs that are submitted at times.
//!
//! For now their timing: at an instant, after a delay, at an interval, or by cron.

mod cron;
mod timing;

pub use cron::{Cron, CronError, CronErrorKind, CronField, Firing, NoFiring, Odd, tzdb_version};
pub use timing::{Due, SkippedRange, Timing, TimingError, TimingRequest};
