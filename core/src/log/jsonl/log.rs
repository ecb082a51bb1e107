//! A log that is kept in one file of JSON Lines.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use futures_util::{FutureExt, future::BoxFuture};
use tokio::sync::watch;

use super::{
    JsonlReader,
    commit::{Committer, Locked, Storage, read_at},
};
use crate::{
    EventBatch, Position, RecordedEvent, Revision, RowError, StreamName,
    log::{
        AppendError, Appended, Damage, Direction, EventLog, EventStream, LogHead, ReadError,
        file::sync_directory_of,
        index::{Entry, Index},
        indexed::{Indexed, Shelf},
        queue::Queue,
        reader::{place, stream_of},
    },
};

/// A log in one file of JSON Lines, with one writer.
///
/// The file is locked while the log is open. One thread writes: it takes what was submitted in the
/// meantime, writes it at once, and answers when it is durable. What could not be written is cut
/// off again, so that the file ends where the log does; where even that fails, the outcome is
/// unknown and the log takes nothing more. A row does not say where its batch ends, so a crash in
/// the middle of a write may leave the first events of a batch, each of them whole.
///
/// A read sees what is there when it is asked for. It reads one row at each poll, on the thread
/// that polls, gives way to other tasks of a tokio runtime from time to time, and needs no runtime.
/// Memory holds some 64 bytes for each event, and the name of each stream.
///
/// Dropping the log waits until what was submitted is written and the file is unlocked; then
/// subscriptions end behind the last event.
///
/// # Examples
///
/// ```
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("log.jsonl");
/// # runtime.block_on(async {
/// use recount_core::{
///     EventBatch, EventDraft, EventType, Instant, Metadata, StreamName,
///     log::{EventLog, jsonl::{JsonlLog, OpenError}},
/// };
///
/// let log = JsonlLog::open(&path)?;
/// let draft = EventDraft {
///     event_type: EventType::new("delivery.claimed")?,
///     schema_version: 1,
///     data: serde_json::from_str("{}")?,
///     metadata: Metadata::default(),
/// };
/// let batch = EventBatch::seal(StreamName::parse("delivery-a")?, None, [draft], Instant::ZERO)?;
/// log.append(batch.clone()).await?;
///
/// assert!(matches!(JsonlLog::open(&path), Err(OpenError::Locked { .. })));
/// drop(log);
/// let log = JsonlLog::open(&path)?;
/// assert_eq!(log.head().await?.unwrap().digest, batch.head().digest);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct JsonlLog {
    indexed: Arc<Indexed<Rows>>,
    committed: watch::Receiver<usize>,
    queue: Queue,
}

/// Why a file could not be opened as a log; it was not changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another log has it open.
    #[error("{} is locked: another process, or this one, has it open for writing", path.display())]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// What is in it is no log, or could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The system did not let it be opened.
    #[error("{} could not be opened", path.display())]
    Storage {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
}

/// Rows in a file.
#[derive(Debug)]
pub(super) struct Rows(File);

/// Where a row is, without its newline.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) offset: u64,
    pub(super) length: usize,
}

impl JsonlLog {
    /// Opens a file for writing, and creates it where there is none.
    ///
    /// The file is read once in full and checked; this blocks. A last row that is complete but has
    /// no newline gets one before the first append.
    ///
    /// # Errors
    ///
    /// [`OpenError::Locked`] while another log has it open; [`OpenError::Read`] where it is
    /// damaged, [`Damage::Torn`] being a cut last row, which [`repair`](super::repair) moves aside.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        Self::open_with(path.as_ref(), |file| file)
    }

    /// Opens a file whose storage a test may wrap.
    pub(super) fn open_with<S: Storage>(
        path: &Path,
        wrap: impl FnOnce(Locked) -> S,
    ) -> Result<Self, OpenError> {
        let failed = |source| OpenError::Storage { path: path.to_owned(), source };
        let file = open_locked(path)?;
        let (index, end) = scan(&file.0)?;
        if end.length == 0 {
            sync_directory_of(path).map_err(failed)?;
        }
        let rows = Rows(file.0.try_clone().map_err(failed)?);
        let (tell, committed) = watch::channel(index.committed());
        let indexed = Indexed::new(index, rows);
        let mut writer = Committer::new(wrap(file), Arc::clone(&indexed), tell, end);
        let commit = move |group| writer.commit(group);
        let queue = Queue::start("recount-jsonl", commit).map_err(failed)?;
        Ok(Self { indexed, committed, queue })
    }
}

/// Opens a file for the one writer that it may have, and creates it where there is none.
pub(super) fn open_locked(path: &Path) -> Result<Locked, OpenError> {
    let failed = |source| OpenError::Storage { path: path.to_owned(), source };
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create(true).truncate(false).open(path);
    let file = file.map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(Locked(file)),
        Err(TryLockError::WouldBlock) => Err(OpenError::Locked { path: path.to_owned() }),
        Err(TryLockError::Error(source)) => Err(failed(source)),
    }
}

/// Where a file ends, and whether with a newline.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    pub(super) length: u64,
    pub(super) is_ended: bool,
}

fn scan(file: &File) -> Result<(Index<Slot>, End), ReadError> {
    let mut index = Index::new();
    let mut end = End { length: 0, is_ended: true };
    let mut reader = JsonlReader::new(file);
    while let Some(read) = reader.next_in_text() {
        let read = read?;
        let offset = read.offset.unwrap_or(end.length);
        index.push(&read.event.event, Slot { offset, length: read.length });
        let length = offset + read.length as u64 + u64::from(read.is_ended);
        end = End { length, is_ended: read.is_ended };
    }
    index.commit();
    Ok((index, end))
}

impl Shelf for Rows {
    type Slot = Slot;

    fn fetch(&self, entry: Entry<Slot>) -> Result<RecordedEvent, ReadError> {
        let Slot { offset, length } = entry.slot;
        let mut row = vec![0; length];
        let read = read_at(&self.0, &mut row, offset)
            .map_err(|error| ReadError::Storage { source: error.into() })?;
        row.truncate(read);
        let check = || {
            if read < length {
                return Err(Damage::Torn { length: read });
            }
            let recorded = RecordedEvent::read(&row)?;
            if recorded.position != entry.position {
                let (found, expected) = (recorded.position, entry.position);
                return Err(Damage::Position { found, expected });
            }
            let stated = recorded.event.digest();
            if stated != entry.digest {
                return Err(RowError::Digest { stated, computed: entry.digest }.into());
            }
            Ok(recorded)
        };
        check().map_err(|source| {
            let place = place(entry.position, stream_of(&row), Some(offset)).into();
            ReadError::Damaged { place, source }
        })
    }
}

impl EventLog for JsonlLog {
    fn append(&self, batch: EventBatch) -> BoxFuture<'_, Result<Appended, AppendError>> {
        self.queue.submit(batch)
    }

    fn read_stream(
        &self,
        stream: &StreamName,
        from: Option<Revision>,
        direction: Direction,
        limit: usize,
    ) -> EventStream<'_> {
        self.indexed.read_stream(stream, from, direction, limit)
    }

    fn read_all(
        &self,
        from: Option<Position>,
        direction: Direction,
        limit: usize,
    ) -> EventStream<'_> {
        self.indexed.read_all(from, direction, limit)
    }

    fn head(&self) -> BoxFuture<'_, Result<Option<LogHead>, ReadError>> {
        std::future::ready(Ok(self.indexed.head())).boxed()
    }

    fn subscribe(&self, from: Position) -> EventStream<'static> {
        self.indexed.subscribe(from, self.committed.clone())
    }
}
