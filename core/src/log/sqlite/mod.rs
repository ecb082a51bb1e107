//! A log in one SQLite database: the embedded default.

mod file;
mod log;
mod pages;
mod rows;
mod schema;
#[cfg(test)]
mod tests;
mod writer;

pub use file::{Durability, Moved, OpenError};
pub use log::SqliteLog;
pub use rows::SqliteRows;
