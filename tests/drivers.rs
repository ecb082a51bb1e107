//! Drivers: what they record of what hosts answer.

mod behaviour;
mod embedding;
mod hosts;
mod leases;
mod process;
mod running;
mod settled;
mod traces;
mod vectors;
