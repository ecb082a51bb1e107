//! One binary for all integration tests, a file a theme.

mod cli;
mod copy;
mod deliveries;
mod drivers;
mod explain;
#[path = "../benches/generate/mod.rs"]
mod generate;
mod house;
mod invariants;
mod lab;
mod large;
mod processes;
mod shell;
mod stats;
mod support;
mod tamper;
mod timing;
mod vectors;
mod views;
