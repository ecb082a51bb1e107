//! Logs as JSON Lines: one row a line, for exchange, archives and offline replay.

mod blocks;
mod commit;
mod log;
mod reader;
mod repair;
#[cfg(test)]
mod tests;
mod writer;

pub use blocks::{Block, BlockReader, Line, Oversized};
pub use log::{JsonlLog, OpenError};
pub use reader::JsonlReader;
pub use repair::{RepairError, Repaired, repair};
pub use writer::JsonlWriter;
