//! A log in one SQLite database: the embedded default.

mod destination;
mod file;
mod log;
mod pages;
mod rows;
mod schema;
mod streams;
#[cfg(test)]
mod tests;
mod writer;

pub use destination::SqliteDestination;
pub use file::{Durability, Moved, OpenError};
pub use log::SqliteLog;
pub use rows::SqliteRows;
