//! Copying a log into a file of JSON Lines.

use std::{
    fs::File,
    io::{self, ErrorKind, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

use super::{
    JsonlRows, OpenError,
    commit::{Locked, Storage},
    log::open_locked,
};
use crate::{
    RecordedEvent,
    log::{CopyError, Destination, RowSource},
    write_row,
};

/// A file of JSON Lines that a log is copied to, locked as long as this is there.
///
/// What is written is the rows in their one spelling and nothing else, so the same events are the
/// same bytes, wherever they come from and however often the copy was interrupted. Where it was
/// interrupted within a row, the file ends in a cut one, which copying again completes.
///
/// # Examples
///
/// ```
/// use recount_core::log::{copy, jsonl::{JsonlDestination, JsonlRows}};
///
/// let directory = tempfile::tempdir()?;
/// let path = directory.path().join("copy.jsonl");
/// let copied = copy(JsonlRows::new(&b""[..]), &mut JsonlDestination::open(&path)?)?;
/// assert_eq!((copied.events(), std::fs::read(&path)?.len()), (0, 0));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct JsonlDestination {
    output: Output,
    row: Vec<u8>,
}

impl JsonlDestination {
    /// Opens a file, and creates it where there is none.
    ///
    /// # Errors
    ///
    /// [`OpenError::Locked`] while a log or another copy has it open; [`OpenError::Storage`] where
    /// it cannot be opened or is no plain file.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        Self::open_with(path.as_ref(), |file| Box::new(file))
    }

    /// Opens a file whose storage a test may wrap.
    pub(super) fn open_with(
        path: &Path,
        wrap: impl FnOnce(Locked) -> Box<dyn Storage>,
    ) -> Result<Self, OpenError> {
        Ok(Self { output: Output::open(path, wrap)?, row: Vec::new() })
    }
}

impl Destination for JsonlDestination {
    fn rows(&mut self) -> Result<Box<dyn RowSource + '_>, CopyError> {
        Ok(Box::new(JsonlRows::new(self.output.read_from(0).map_err(failed)?)))
    }

    fn write(&mut self, event: RecordedEvent, there: usize) -> Result<(), CopyError> {
        self.row.clear();
        write_row(&mut self.row, event.position, &event.event);
        self.output.write(&self.row[there..]).map_err(failed)
    }

    fn finish(&mut self) -> Result<(), CopyError> {
        self.output.sync().map_err(failed)
    }
}

pub(super) fn failed(error: io::Error) -> CopyError {
    CopyError::Storage { source: error.into() }
}

/// How much is written at a time.
const WRITE_BYTES: usize = 1 << 20;

/// A file that bytes are put behind.
#[derive(Debug)]
pub(super) struct Output {
    path: PathBuf,
    storage: Box<dyn Storage>,
    file: File,
    /// Where the bytes that are held will be.
    length: u64,
    held: Vec<u8>,
}

impl Output {
    pub(super) fn open(
        path: &Path,
        wrap: impl FnOnce(Locked) -> Box<dyn Storage>,
    ) -> Result<Self, OpenError> {
        let failed = |source| OpenError::Storage { path: path.to_owned(), source };
        let file = open_locked(path)?;
        let metadata = file.0.metadata().map_err(failed)?;
        if !metadata.is_file() {
            return Err(failed(io::Error::new(ErrorKind::InvalidInput, "it is no plain file")));
        }
        let (path, length) = (path.to_owned(), metadata.len());
        let reader = file.0.try_clone().map_err(failed)?;
        Ok(Self { path, storage: wrap(file), file: reader, length, held: Vec::new() })
    }

    /// What is there, from an offset on.
    pub(super) fn read_from(&mut self, offset: u64) -> io::Result<io::Take<&File>> {
        self.file.seek(SeekFrom::Start(offset))?;
        Ok((&self.file).take(self.length - offset))
    }

    /// Puts bytes behind the others.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.held.extend_from_slice(bytes);
        if self.held.len() < WRITE_BYTES { Ok(()) } else { self.write_out() }
    }

    fn write_out(&mut self) -> io::Result<()> {
        self.storage.write(&self.held, self.length)?;
        self.length += self.held.len() as u64;
        self.held.clear();
        Ok(())
    }

    /// Cuts off what is behind a length; nothing is held.
    #[cfg(feature = "zstd")]
    pub(super) fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.storage.truncate(length)?;
        self.length = length;
        Ok(())
    }

    /// Makes everything durable, and the file's name.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        self.write_out()?;
        self.storage.sync()?;
        self.storage.sync_name(&self.path)
    }
}
