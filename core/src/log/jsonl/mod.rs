//! Logs as JSON Lines: one row a line, for exchange, archives and offline replay.

mod commit;
mod destination;
mod log;
mod repair;
mod rows;
#[cfg(test)]
mod tests;
mod writer;
#[cfg(feature = "zstd")]
mod zstd;

pub use destination::JsonlDestination;
pub use log::{JsonlLog, OpenError};
pub use repair::{RepairError, Repaired, repair};
pub use rows::JsonlRows;
pub use writer::JsonlWriter;
#[cfg(feature = "zstd")]
pub use zstd::{ZstdDestination, ZstdReader, ZstdWriter};

use std::{fs::File, io::Read, path::Path};

use super::{EventReader, ReadError};

/// Reads the events of a text in order, and checks that they are a log.
pub type JsonlReader<R> = EventReader<JsonlRows<R>>;

impl JsonlReader<File> {
    /// Reads a file; it is opened for reading only.
    ///
    /// # Errors
    ///
    /// [`ReadError::Storage`] where it cannot be opened.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ReadError> {
        let file = File::open(path).map_err(|error| ReadError::Storage { source: error.into() })?;
        Ok(Self::new(file))
    }
}

impl<R: Read> JsonlReader<R> {
    /// Reads a text from its beginning; it is read in large blocks, so `source` needs no buffer.
    pub fn new(source: R) -> Self {
        Self::of(JsonlRows::new(source))
    }
}
