//! One binary for all integration tests, a file a theme.

mod cli;
mod deliveries;
mod house;
mod invariants;
mod lab;
mod support;
mod tamper;
mod vectors;
