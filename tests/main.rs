//! One binary for all integration tests, a file a theme.

mod cli;
mod copy;
mod deliveries;
#[path = "../benches/generate/mod.rs"]
mod generate;
mod house;
mod invariants;
mod lab;
mod large;
mod processes;
mod support;
mod tamper;
mod vectors;
mod views;
