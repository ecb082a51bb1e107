//! Timing: cron expressions, intervals and zones.

mod cases;
mod naive;
mod program;
mod requests;
mod vectors;
