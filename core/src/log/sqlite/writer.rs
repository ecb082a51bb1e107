//! The thread that writes: many batches, one transaction.

use std::{error::Error, sync::Arc};

use rusqlite::{Connection, ErrorCode, OptionalExtension, Row};
use tokio::sync::watch;

use super::{
    file::{Access, Database},
    log::News,
    rows::LAST,
    streams::Streams,
};
use crate::{
    Digest, EventBatch, Position, Revision, StreamName,
    log::{
        AppendError, Appended, MAX_APPENDED_ROW_BYTES, Source,
        admission::{Admission, Place, Places, admit},
        queue::Request,
    },
};

/// Puts an event behind the others.
pub(super) const INSERT: &str = "INSERT INTO events (position, stream, revision, digest, event) \
     VALUES (?1, ?2, ?3, ?4, ?5)";

/// Commits batches and answers them.
#[derive(Debug)]
pub(super) struct Writer {
    database: Arc<Database>,
    /// None at first and after a failure, until the next group.
    pub(super) connection: Option<Connection>,
    streams: Streams,
    news: Arc<watch::Sender<News>>,
}

/// What was judged and waits for the disk.
struct Judged {
    answer: Result<Appended, AppendError>,
    /// How many events must be durable for the answer to hold.
    after: u64,
}

/// One transaction: what it found, and what it would answer.
#[derive(Default)]
struct Group {
    /// How many events there were before it, and are with it.
    before: u64,
    count: u64,
    judged: Vec<Judged>,
}

/// Why a group was not committed, or is not known to be.
enum Failure {
    /// It was not.
    Withdrawn(Shared),
    /// It may be there.
    Unknown(Shared),
}

/// One error for all batches of a group.
type Shared = Arc<dyn Error + Send + Sync>;

impl<E: Into<Source>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Withdrawn(error.into().into())
    }
}

impl Writer {
    pub(super) fn new(database: Arc<Database>, news: Arc<watch::Sender<News>>) -> Self {
        Self { database, connection: None, streams: Streams::default(), news }
    }

    pub(super) fn commit(&mut self, requests: Vec<Request>) {
        let (batches, replies): (Vec<_>, Vec<_>) =
            requests.into_iter().map(Request::into_parts).unzip();
        let mut group = Group::default();
        let failure = self.try_commit(&batches, &mut group).err();
        match failure {
            None => News::tell(&self.news, group.count),
            // What the group found before it still holds; nothing of its own does.
            Some(_) => self.streams.forget(),
        }
        let mut judged = group.judged.into_iter();
        for (batch, reply) in batches.iter().zip(replies) {
            reply.answer(match (judged.next(), &failure) {
                (Some(Judged { answer, .. }), None) => answer,
                (Some(Judged { answer, after }), _) if after <= group.before => answer,
                (_, Some(failure)) => Err(failure.of(batch.stream())),
                (None, None) => Err(AppendError::Closed),
            });
        }
    }

    /// Commits in one transaction what is new; after a failure the connection is given up, which
    /// takes the transaction back.
    fn try_commit(&mut self, batches: &[EventBatch], group: &mut Group) -> Result<(), Failure> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.database.connect(Access::Write)?,
        };
        // A transaction that reads first and then writes would fail at once, whatever it waits
        // for, where another connection wrote in between.
        connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        self.database.check_is_there()?;
        let last: i64 = connection.prepare_cached(LAST)?.query_row([], |row| row.get(0))?;
        group.before = last.wrapping_add(1).cast_unsigned();
        group.count = group.before;
        for batch in batches {
            let judged = self.judge(&connection, batch, group)?;
            group.judged.push(judged);
        }
        if group.count > group.before {
            // A full disk is noticed before the mark of a commit is written.
            let committed = connection.prepare_cached("COMMIT")?.execute([]);
            committed.map_err(|error| match error.sqlite_error_code() {
                Some(ErrorCode::DiskFull | ErrorCode::DatabaseBusy) => error.into(),
                _ => Failure::Unknown(Arc::new(error)),
            })?;
        } else {
            connection.prepare_cached("ROLLBACK")?.execute([])?;
        }
        self.connection = Some(connection);
        Ok(())
    }

    /// Judges a batch by what is there, and writes it where it is new.
    fn judge(
        &mut self,
        connection: &Connection,
        batch: &EventBatch,
        group: &mut Group,
    ) -> rusqlite::Result<Judged> {
        let id = self.streams.id(connection, batch.stream())?;
        let there = InTransaction { connection, id, count: group.count };
        let first_position = match admit(&there, batch, MAX_APPENDED_ROW_BYTES)? {
            Admission::Known { answer, after } => return Ok(Judged { answer, after }),
            Admission::New(first_position) => first_position,
        };
        let id = match id {
            Some(id) => id,
            None => self.streams.create(connection, batch.stream())?,
        };
        let mut insert = connection.prepare_cached(INSERT)?;
        for event in batch.events() {
            let position = group.count.cast_signed();
            let revision = event.revision().get().cast_signed();
            insert.execute((position, id, revision, event.digest().as_bytes(), event.text()))?;
            group.count += 1;
        }
        let answer = Ok(Appended { head: batch.head(), first_position });
        Ok(Judged { answer, after: group.count })
    }
}

impl Failure {
    /// The answer to a batch of a group that failed.
    fn of(&self, stream: &StreamName) -> AppendError {
        match self {
            Self::Withdrawn(error) => AppendError::Storage { source: Box::new(Arc::clone(error)) },
            Self::Unknown(error) => {
                let source = Box::new(Arc::clone(error));
                AppendError::OutcomeUnknown { stream: stream.clone(), source }
            }
        }
    }
}

/// The events of a stream, as they are in a transaction.
struct InTransaction<'a> {
    connection: &'a Connection,
    /// None where the stream does not exist.
    id: Option<i64>,
    count: u64,
}

impl InTransaction<'_> {
    fn find(&self, sql: &str, params: impl rusqlite::Params) -> rusqlite::Result<Option<Place>> {
        self.connection.prepare_cached(sql)?.query_row(params, place).optional()
    }
}

impl Places for InTransaction<'_> {
    type Error = rusqlite::Error;

    fn last(&self, _: &StreamName) -> rusqlite::Result<Option<Place>> {
        const LAST: &str = "SELECT position, revision, digest FROM events \
             WHERE stream = ?1 ORDER BY revision DESC LIMIT 1";
        self.id.map_or(Ok(None), |id| self.find(LAST, [id]))
    }

    fn at(&self, _: &StreamName, revision: Revision) -> rusqlite::Result<Option<Place>> {
        const AT: &str = "SELECT position, revision, digest FROM events \
             WHERE stream = ?1 AND revision = ?2";
        self.id.map_or(Ok(None), |id| self.find(AT, [id, revision.get().cast_signed()]))
    }

    fn count(&self) -> rusqlite::Result<u64> {
        Ok(self.count)
    }
}

fn place(row: &Row<'_>) -> rusqlite::Result<Place> {
    let number = |column| {
        let number: i64 = row.get(column)?;
        let of_range = rusqlite::Error::IntegralValueOutOfRange(column, number);
        u64::try_from(number).map_err(|_| of_range)
    };
    let (position, revision) = (Position::new(number(0)?), Revision::new(number(1)?));
    Ok(Place {
        position: position.unwrap_or_default(),
        revision: revision.unwrap_or_default(),
        digest: Digest::from_bytes(row.get(2)?),
    })
}
