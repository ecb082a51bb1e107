//! A log that is kept in one SQLite database.

use std::{
    io,
    path::Path,
    sync::{
        Arc, OnceLock,
        mpsc::{self, RecvTimeoutError},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream};
use rusqlite::Connection;
use tokio::sync::watch;

use super::{
    file::{Access, Database, Durability, OpenError},
    pages::Readers,
    rows::LAST,
    writer::Writer,
};
use crate::{
    EventBatch, Position, Revision, StreamName,
    log::{
        AppendError, Appended, Direction, EventLog, EventStream, LogHead, ReadError, queue::Queue,
    },
};

/// A log in one SQLite database, which several processes may have open.
///
/// One thread writes: it takes what was submitted in the meantime, commits it in one transaction,
/// and answers when that is durable. Which head a stream has is asked inside the transaction, so
/// that it does not matter who else writes. A batch is there in full or not at all, whatever
/// happens.
///
/// A read sees what is there when it is asked for. It reads a page at each poll, on the thread
/// that polls, gives way to other tasks of a tokio runtime from time to time, and needs no runtime.
/// No lock is held between two pages. A subscription is woken by appends of this log at once, and
/// looks for those of others twenty times a second.
///
/// What was written last is in a file beside the log, with `-wal` behind its name, and comes into
/// the log itself from time to time and when the last process closes it. So a copy of the main
/// file alone lacks rows: `recount copy` makes a whole one, and so does SQLite's `VACUUM INTO`.
/// Whether the files are still those that were opened is looked at before each commit and each
/// page: what is appended to a file that was removed would be lost.
///
/// Dropping the log waits until what was submitted is committed; then subscriptions end behind the
/// last event.
///
/// # Examples
///
/// ```
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("agent.db");
/// # runtime.block_on(async {
/// use recount_core::{
///     EventBatch, EventDraft, EventType, Instant, Metadata, StreamName,
///     log::{AppendError, EventLog, sqlite::SqliteLog},
/// };
///
/// let log = SqliteLog::open(&path)?;
/// let draft = EventDraft {
///     event_type: EventType::new("delivery.claimed")?,
///     schema_version: 1,
///     data: serde_json::from_str("{}")?,
///     metadata: Metadata::default(),
/// };
/// let batch = EventBatch::seal(StreamName::parse("delivery-a")?, None, [draft], Instant::ZERO)?;
/// log.append(batch.clone()).await?;
///
/// let reader = SqliteLog::open_read_only(&path)?;
/// assert_eq!(reader.head().await?.unwrap().digest, batch.head().digest);
/// assert!(matches!(reader.append(batch).await, Err(AppendError::ReadOnly)));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SqliteLog {
    /// None where the log is only read.
    queue: Option<Queue>,
    watcher: OnceLock<Result<Watcher, Arc<io::Error>>>,
    news: Arc<watch::Sender<News>>,
    readers: Arc<Readers>,
    database: Arc<Database>,
}

/// What is known of the log without asking it, to wake those who wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct News {
    /// How many events there are at least.
    events: u64,
    /// How often the log could not be looked at: whoever waits is to find out why.
    alarms: u64,
}

/// The thread that looks for what other processes append.
#[derive(Debug)]
struct Watcher {
    /// Dropped to end it.
    end: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// How often other processes' appends are looked for.
const POLL: Duration = Duration::from_millis(50);

impl SqliteLog {
    /// Opens a database, and creates it where there is none.
    ///
    /// This blocks, and waits while another process creates or recovers it.
    ///
    /// # Errors
    ///
    /// [`OpenError`]: the file is not SQLite's, another program's, of a newer Recount, was changed
    /// in its tables or triggers, or cannot be written or opened.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        Self::open_with(path, Durability::Full)
    }

    /// Opens a database as [`SqliteLog::open`] does, and says what a commit waits for.
    ///
    /// # Errors
    ///
    /// Those of [`SqliteLog::open`].
    ///
    /// # Examples
    ///
    /// ```
    /// use recount_core::log::sqlite::{Durability, OpenError, SqliteLog};
    ///
    /// let directory = tempfile::tempdir()?;
    /// let path = directory.path().join("agent.db");
    /// SqliteLog::open_with(&path, Durability::Normal)?;
    ///
    /// std::fs::write(&path, "not a database")?;
    /// let error = SqliteLog::open_with(&path, Durability::Normal).unwrap_err();
    /// assert!(matches!(error, OpenError::NoDatabase { .. }));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn open_with(path: impl AsRef<Path>, durability: Durability) -> Result<Self, OpenError> {
        let path = path.as_ref();
        let mut log = Self::of(Database::open(path, Access::Write, durability)?);
        let mut writer = Writer::new(Arc::clone(&log.database), Arc::clone(&log.news));
        let queue = Queue::start("recount-sqlite", move |group| writer.commit(group));
        log.queue =
            Some(queue.map_err(|error| OpenError::Storage {
                path: path.to_owned(),
                source: error.into(),
            })?);
        Ok(log)
    }

    /// Opens a database for reading only; an append is refused.
    ///
    /// SQLite may create files beside it, with `-wal` and `-shm` behind its name.
    ///
    /// # Errors
    ///
    /// Those of [`SqliteLog::open`]; a log whose triggers were changed can still be read.
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        Ok(Self::of(Database::open(path.as_ref(), Access::Read, Durability::Full)?))
    }

    fn of(database: Database) -> Self {
        let database = Arc::new(database);
        Self {
            queue: None,
            watcher: OnceLock::new(),
            news: Arc::new(watch::Sender::new(News::default())),
            readers: Readers::new(Arc::clone(&database)),
            database,
        }
    }
}

impl News {
    /// Tells that there are so many events; the number never falls.
    pub(super) fn tell(news: &watch::Sender<News>, events: u64) {
        news.send_if_modified(|news| {
            let is_news = news.events < events;
            news.events = news.events.max(events);
            is_news
        });
    }
}

impl Watcher {
    fn start(database: Arc<Database>, news: Arc<watch::Sender<News>>) -> io::Result<Self> {
        let (end, ended) = mpsc::channel();
        let mut watch = Watch { database, connection: None, version: None };
        let work = move || {
            while ended.recv_timeout(POLL) == Err(RecvTimeoutError::Timeout) {
                match watch.look() {
                    Ok(Some(events)) => News::tell(&news, events),
                    Ok(None) => {}
                    Err(_) => {
                        watch.connection = None;
                        news.send_modify(|news| news.alarms += 1);
                    }
                }
            }
        };
        let thread = thread::Builder::new().name("recount-watch".to_owned()).spawn(work)?;
        Ok(Self { end: Some(end), thread: Some(thread) })
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // A panic there was told where it happened.
            let _ = thread.join();
        }
    }
}

/// What the watcher holds.
struct Watch {
    database: Arc<Database>,
    connection: Option<Connection>,
    /// What changes with every commit of another connection.
    version: Option<i64>,
}

impl Watch {
    /// How many events there are, where that may have changed.
    fn look(&mut self) -> Result<Option<u64>, crate::log::Source> {
        self.database.check_is_there()?;
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.database.connect(Access::Read)?,
        };
        let connection = self.connection.insert(connection);
        let version = connection.pragma_query_value(None, "data_version", |row| row.get(0))?;
        if self.version.replace(version) == Some(version) {
            return Ok(None);
        }
        let last: i64 = connection.prepare_cached(LAST)?.query_row([], |row| row.get(0))?;
        Ok(u64::try_from(last + 1).ok())
    }
}

impl EventLog for SqliteLog {
    fn append(&self, batch: EventBatch) -> BoxFuture<'_, Result<Appended, AppendError>> {
        match &self.queue {
            Some(queue) => queue.submit(batch),
            None => std::future::ready(Err(AppendError::ReadOnly)).boxed(),
        }
    }

    fn read_stream(
        &self,
        stream: &StreamName,
        from: Option<Revision>,
        direction: Direction,
        limit: usize,
    ) -> EventStream<'_> {
        self.readers.read(Some(stream.clone()), from.map(Revision::get), direction, limit)
    }

    fn read_all(
        &self,
        from: Option<Position>,
        direction: Direction,
        limit: usize,
    ) -> EventStream<'_> {
        self.readers.read(None, from.map(Position::get), direction, limit)
    }

    fn head(&self) -> BoxFuture<'_, Result<Option<LogHead>, ReadError>> {
        std::future::ready(self.readers.head()).boxed()
    }

    fn subscribe(&self, from: Position) -> EventStream<'static> {
        let start = || Watcher::start(Arc::clone(&self.database), Arc::clone(&self.news));
        match self.watcher.get_or_init(|| start().map_err(Arc::new)) {
            Ok(_) => self.readers.subscribe(from, self.news.subscribe()),
            // Nobody would look for what other processes append.
            Err(error) => {
                let source = Box::new(Arc::clone(error));
                stream::once(std::future::ready(Err(ReadError::Storage { source }))).boxed()
            }
        }
    }
}
