//! Makes delivery logs that keep every rule, for measurements and tests.
//!
//! Every event is decided by an `Outbox` and sealed as a host's would be, so that the log is as
//! legal as the library is. Streams are interleaved in time order, like a live log's. The same
//! plan gives the same bytes. Memory follows the work under way, not the events.
//!
//! A test includes it with `#[path = "../benches/generate/mod.rs"] mod generate;`.
#![allow(dead_code, reason = "who includes this module uses a part of it")]

mod content;
mod generator;
mod random;
mod script;

use std::io::{self, Write};

use generator::Generator;

/// What a generated log is like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// How many events, exactly.
    pub(crate) events: u64,
    /// About how many streams; more where outboxes of the default limits need it.
    pub(crate) streams: u64,
    /// What makes it another log of the same kind.
    pub(crate) seed: u64,
    /// How many messages are under way at once, beside those that stay unfinished; at most 4 000.
    pub(crate) live: u64,
    /// How many messages are left unfinished at the end, at most one in 25 events.
    pub(crate) unfinished: u64,
    /// Whether all of it is one outbox, with limits to match.
    pub(crate) is_one_stream: bool,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            events: 1_000_000,
            streams: 50_000,
            seed: 1,
            live: 2_000,
            unfinished: 1_000,
            is_one_stream: false,
        }
    }
}

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) bytes: u64,
    pub(crate) streams: u64,
    pub(crate) messages: u64,
    /// Messages that are neither processed nor refused.
    pub(crate) unfinished: u64,
    /// Attempts whose lease ended without an outcome: a warning each (D12).
    pub(crate) lost_attempts: u64,
}

impl Plan {
    /// Writes the log as JSON Lines.
    ///
    /// # Errors
    ///
    /// Those of `out`.
    ///
    /// # Panics
    ///
    /// Where the library denies what it should grant.
    pub(crate) fn write(&self, out: impl Write) -> io::Result<Written> {
        Generator::new(*self, out).run()
    }
}
