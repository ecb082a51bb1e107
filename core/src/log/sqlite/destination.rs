//! Copying a log into a database, in large transactions.

use std::{
    fs,
    path::{Path, PathBuf},
};

use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::{
    file::{Access, Database, Durability, OpenError},
    rows::{LAST, SqliteRows},
    streams::Streams,
    writer::INSERT,
};
use crate::{
    RecordedEvent,
    log::{CopyError, Destination, RowSource, Source},
};

/// A database that a log is copied to; other processes may have it open.
///
/// Events are committed some 4 MiB at a time. Each transaction begins with a look at the last
/// position: where it is not that of the event copied last, somebody else has appended, and the
/// copy ends without a mix of both. Where a copy is interrupted, the database has the first events
/// of the log, and copying again goes on behind them.
///
/// # Examples
///
/// ```
/// use recount_core::log::{copy, jsonl::JsonlRows, sqlite::{SqliteDestination, SqliteRows}};
///
/// let directory = tempfile::tempdir()?;
/// let path = directory.path().join("copy.db");
/// copy(JsonlRows::new(&b""[..]), &mut SqliteDestination::open(&path)?)?;
/// let copied = copy(SqliteRows::open(&path)?, &mut SqliteDestination::open(&path)?)?;
/// assert_eq!(copied.events(), 0);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SqliteDestination {
    path: PathBuf,
    /// None until there is something to write.
    connection: Option<Connection>,
    database: Database,
    access: Access,
    streams: Streams,
    /// What comes into the next transaction, so that none waits for the source.
    held: Vec<RecordedEvent>,
    held_bytes: usize,
    transaction_bytes: usize,
}

/// How much text a transaction has, unless an event is longer.
const TRANSACTION_BYTES: usize = 4 << 20;

impl SqliteDestination {
    /// Opens a database, and creates it where there is none.
    ///
    /// One with something in it is opened for writing only when there is something to write, since
    /// that alone may change its header; where it can only be read, that is told then.
    ///
    /// # Errors
    ///
    /// Those of [`SqliteLog::open`](super::SqliteLog::open).
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        Self::open_with(path.as_ref(), TRANSACTION_BYTES)
    }

    /// Opens a database whose transactions a test may choose.
    pub(super) fn open_with(path: &Path, transaction_bytes: usize) -> Result<Self, OpenError> {
        // The host may go to another folder before there is something to write.
        let path = std::path::absolute(path)
            .map_err(|error| OpenError::Storage { path: path.to_owned(), source: error.into() })?;
        let open = |access| Ok((Database::open(&path, access, Durability::Full)?, access));
        let is_new = fs::metadata(&path).map_or(true, |metadata| metadata.len() == 0);
        let opened = if is_new { open(Access::Write) } else { open(Access::Read) };
        // Only who may write can take back what a crash left half done.
        let (database, access) = opened.or_else(|_: OpenError| open(Access::Write))?;
        Ok(Self {
            path,
            connection: None,
            database,
            access,
            streams: Streams::default(),
            held: Vec::new(),
            held_bytes: 0,
            transaction_bytes,
        })
    }

    fn connect(&mut self) -> Result<Connection, CopyError> {
        // Where it is gone, another one would be created.
        self.database.check_is_there().map_err(failed)?;
        if self.access == Access::Read {
            let database = Database::open(&self.path, Access::Write, Durability::Full);
            let database = database.map_err(failed)?;
            self.database.check_is_there().map_err(failed)?;
            (self.database, self.access) = (database, Access::Write);
        }
        self.database.connect(Access::Write).map_err(failed)
    }

    fn commit(&mut self) -> Result<(), CopyError> {
        let Some(first) = self.held.first() else { return Ok(()) };
        let expected = first.position.get();
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.connect()?,
        };
        let connection = self.connection.insert(connection);
        let behavior = TransactionBehavior::Immediate;
        let transaction = connection.transaction_with_behavior(behavior).map_err(failed)?;
        self.database.check_is_there().map_err(failed)?;
        let last: i64 = transaction.query_row(LAST, [], |row| row.get(0)).map_err(failed)?;
        let found = last.wrapping_add(1).cast_unsigned();
        if found != expected {
            return Err(CopyError::Interfered { expected, found });
        }
        let inserted = insert(&transaction, &mut self.streams, &self.held);
        if let Err(error) = inserted.and_then(|()| transaction.commit()) {
            self.streams.forget();
            return Err(failed(error));
        }
        // What was committed to files that were removed meanwhile is lost.
        self.database.check_is_there().map_err(failed)?;
        self.held.clear();
        self.held_bytes = 0;
        Ok(())
    }
}

fn insert(
    transaction: &Transaction<'_>,
    streams: &mut Streams,
    events: &[RecordedEvent],
) -> rusqlite::Result<()> {
    let mut insert = transaction.prepare_cached(INSERT)?;
    for RecordedEvent { position, event } in events {
        let id = match streams.id(transaction, event.stream())? {
            Some(id) => id,
            None => streams.create(transaction, event.stream())?,
        };
        let position = position.get().cast_signed();
        let revision = event.revision().get().cast_signed();
        insert.execute((position, id, revision, event.digest().as_bytes(), event.text()))?;
    }
    Ok(())
}

impl Destination for SqliteDestination {
    fn rows(&mut self) -> Result<Box<dyn RowSource + '_>, CopyError> {
        Ok(Box::new(SqliteRows::of(&self.database).map_err(failed)?))
    }

    fn write(&mut self, event: RecordedEvent, _: usize) -> Result<(), CopyError> {
        self.held_bytes += event.event.text().len();
        self.held.push(event);
        if self.held_bytes < self.transaction_bytes { Ok(()) } else { self.commit() }
    }

    fn finish(&mut self) -> Result<(), CopyError> {
        self.commit()
    }
}

fn failed(error: impl Into<Source>) -> CopyError {
    CopyError::Storage { source: error.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_copied_is_durable() {
        let folder = tempfile::tempdir().unwrap();
        let mut destination = SqliteDestination::open(folder.path().join("copy.db")).unwrap();
        let connection = destination.connect().unwrap();
        let synchronous: i64 =
            connection.pragma_query_value(None, "synchronous", |row| row.get(0)).unwrap();
        assert_eq!(synchronous, 2, "SQLite calls it FULL");
    }
}
