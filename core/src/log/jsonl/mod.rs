//! Logs as JSON Lines: one row a line, for exchange, archives and offline replay.

mod blocks;

pub use blocks::{Block, BlockReader, Line, Oversized};
