//! Rows out of the tables, as the text of the log has them.

use std::{
    collections::{HashMap, hash_map::Entry},
    io,
    path::Path,
};

use rusqlite::{Connection, OptionalExtension, Params, Result, types::ValueRef};

use super::file::{Access, Database, Durability, OpenError};
use crate::{
    Digest, Position, StreamName,
    log::{Block, Listed, RowSource},
};

/// How much is read at a time, unless a row is longer.
pub(super) const BLOCK_BYTES: usize = 128 << 10;

/// What every query selects; an event that is too long comes as its length.
macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT position, revision, digest, \
             iif(octet_length(event) <= 16777216, event, octet_length(event)), stream \
             FROM events ",
            $rest
        )
    };
}
pub(super) use select;

/// The rows of a database, in the order of their positions.
///
/// It is opened for reading only. What is there when it is opened is read, whoever appends
/// meanwhile; no lock is held between two blocks.
///
/// # Examples
///
/// ```
/// use recount_core::log::{EventReader, sqlite::{SqliteLog, SqliteRows}};
///
/// let directory = tempfile::tempdir()?;
/// let path = directory.path().join("log.db");
/// SqliteLog::open(&path)?;
/// let mut events = EventReader::of(SqliteRows::open(&path)?);
/// assert!(events.next().is_none());
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SqliteRows {
    reader: Reader,
    /// The stream whose rows are read, by its id; all rows where it is `None`, or once it was read.
    stream: Option<i64>,
    /// The first position that is not read yet, or revision where one stream is read.
    next: i64,
    /// The last position that is read.
    last: i64,
}

impl SqliteRows {
    /// Opens a database for reading.
    ///
    /// # Errors
    ///
    /// [`OpenError`] where it is no log, or cannot be read.
    pub fn open(path: impl AsRef<Path>) -> std::result::Result<Self, OpenError> {
        let path = path.as_ref();
        let database = Database::open(path, Access::Read, Durability::Full)?;
        Self::of(&database)
            .map_err(|error| OpenError::Storage { path: path.to_owned(), source: error.into() })
    }

    /// Opens a database for reading one stream, in the order of its revisions; behind it comes the
    /// log's last row, whosever it is, which tells how far the log goes.
    ///
    /// # Examples
    ///
    /// ```
    /// use recount_core::{StreamName, log::{Block, RowSource, sqlite::{SqliteLog, SqliteRows}}};
    ///
    /// let directory = tempfile::tempdir()?;
    /// let path = directory.path().join("log.db");
    /// SqliteLog::open(&path)?;
    /// let mut rows = SqliteRows::open_stream(&path, &StreamName::parse("delivery-a")?)?;
    /// assert!(!rows.next(&mut Block::default())?, "there is no such stream");
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`SqliteRows::open`].
    pub fn open_stream(
        path: impl AsRef<Path>,
        stream: &StreamName,
    ) -> std::result::Result<Self, OpenError> {
        const ID: &str = "SELECT id FROM streams WHERE name = ?1";
        let mut rows = Self::open(&path)?;
        let id = rows.reader.connection.query_row(ID, [stream.as_str()], |row| row.get(0));
        let id = id.optional().map_err(|error| OpenError::Storage {
            path: path.as_ref().to_owned(),
            source: error.into(),
        })?;
        // No stream has the id -1.
        rows.stream = Some(id.unwrap_or(-1));
        Ok(rows)
    }

    /// The position of the last row of the log when it was opened; `None` of an empty log.
    pub fn last_position(&self) -> Option<Position> {
        u64::try_from(self.last).ok().and_then(Position::new)
    }

    /// The rows that are in an open database now.
    pub(super) fn of(database: &Database) -> Result<Self> {
        let reader = Reader::new(database.connect(Access::Read)?);
        let last = reader.connection.query_row(LAST, [], |row| row.get(0))?;
        Ok(Self { reader, stream: None, next: i64::MIN, last })
    }

    /// Fills a block, and moves on to what comes behind it.
    fn read(&mut self, block: &mut Block) -> Result<bool> {
        const ROWS: &str = select!("WHERE position BETWEEN ?1 AND ?2 ORDER BY position");
        const OF_STREAM: &str =
            select!("WHERE stream = ?3 AND revision >= ?1 AND position <= ?2 ORDER BY revision");
        const END: &str = select!("WHERE position = ?1 AND stream <> ?2");
        const REVISION: &str = "SELECT revision FROM events WHERE position = ?1";
        let last = match self.stream {
            None => self.reader.read(ROWS, [self.next, self.last], block)?,
            Some(stream) => self.reader.read(OF_STREAM, [self.next, self.last, stream], block)?,
        };
        let Some(position) = last else {
            self.next = i64::MAX;
            let Some(stream) = self.stream.take() else { return Ok(false) };
            return Ok(self.reader.read(END, [self.last, stream], block)?.is_some());
        };
        let last = if self.stream.is_some() {
            let connection = &self.reader.connection;
            connection.prepare_cached(REVISION)?.query_row([position], |row| row.get(0))?
        } else {
            position
        };
        self.next = last.saturating_add(1);
        Ok(true)
    }
}

impl RowSource for SqliteRows {
    fn next(&mut self, block: &mut Block) -> io::Result<bool> {
        if self.next == i64::MAX || (self.stream.is_none() && self.next > self.last) {
            return Ok(false);
        }
        self.read(block).map_err(io::Error::other)
    }
}

/// The last position, and one before the first where there is none.
pub(super) const LAST: &str = "SELECT coalesce(max(position), -1) FROM events";

/// How many streams' names are remembered.
const KNOWN_STREAMS: usize = 100_000;

/// A connection that reads rows.
#[derive(Debug)]
pub(super) struct Reader {
    pub(super) connection: Connection,
    /// Names of streams by their ids, of which neither ever changes.
    names: HashMap<i64, Box<str>>,
}

impl Reader {
    pub(super) fn new(connection: Connection) -> Self {
        Self { connection, names: HashMap::new() }
    }

    /// Fills a block with what a query of [`select`] gives, and returns the last row's position.
    ///
    /// Where something is wrong behind some rows, they are what is given: the next block begins
    /// there.
    pub(super) fn read(
        &mut self,
        sql: &str,
        params: impl Params,
        block: &mut Block,
    ) -> Result<Option<i64>> {
        block.begin(None);
        let Self { connection, names } = self;
        let mut statement = connection.prepare_cached(sql)?;
        let mut rows = statement.query(params)?;
        let mut last = None;
        while block.length < BLOCK_BYTES {
            let row = match rows.next() {
                Ok(Some(row)) => row,
                Ok(None) => break,
                Err(_) if last.is_some() => break,
                Err(error) => return Err(error),
            };
            let position = row.get(0)?;
            if let ValueRef::Integer(length) = row.get_ref(3)? {
                // It has a block for itself, the next one where there are rows before it.
                if last.is_none() {
                    block.set_oversized(u64::try_from(length).unwrap_or_default());
                    last = Some(position);
                }
                break;
            }
            let stream = name(names, connection, row.get(4).unwrap_or(-1))?;
            // No event has the revision -1.
            let listed = Listed { stream, revision: row.get(1).unwrap_or(-1) };
            push(bytes(row.get_ref(2)?), bytes(row.get_ref(3)?), position, block);
            block.end_row(listed);
            last = Some(position);
        }
        Ok(last)
    }
}

/// The name of a stream; empty, which none is, where the tables have none.
fn name<'a>(
    names: &'a mut HashMap<i64, Box<str>>,
    connection: &Connection,
    id: i64,
) -> Result<&'a str> {
    if names.len() >= KNOWN_STREAMS {
        names.clear();
    }
    Ok(match names.entry(id) {
        Entry::Occupied(name) => name.into_mut(),
        Entry::Vacant(place) => {
            let mut select = connection.prepare_cached("SELECT name FROM streams WHERE id = ?1")?;
            let name: Option<Box<str>> = select.query_row([id], |row| row.get(0)).optional()?;
            place.insert(name.unwrap_or_default())
        }
    })
}

/// Puts a row behind the others, spelt as in a text.
fn push(digest: &[u8], event: &[u8], position: i64, block: &mut Block) {
    block.push(b"{\"digest\":\"");
    if let Ok(digest) = <[u8; 32]>::try_from(digest) {
        block.push(&Digest::from_bytes(digest).to_hex());
    }
    block.push(b"\",\"event\":");
    block.push(event);
    block.push(b",\"position\":");
    block.push(position.to_string().as_bytes());
    block.push(b"}");
}

/// What stands in a column, whatever kind it is of; what is not bytes makes no row.
fn bytes(value: ValueRef<'_>) -> &[u8] {
    match value {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes,
        _ => b"",
    }
}
