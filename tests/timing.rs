//! Timing: cron expressions, intervals and zones.

mod cases;
mod naive;
mod requests;
mod vectors;
