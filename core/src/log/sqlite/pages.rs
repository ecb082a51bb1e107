//! Reading events a page at a time, over connections that are kept for the next page.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use futures_util::{StreamExt, stream};
use rusqlite::OptionalExtension;
use tokio::sync::watch;

use super::{
    file::{Access, Database},
    log::News,
    rows::{LAST, Reader, select},
};
use crate::{
    Digest, MAX_ROW_BYTES, Position, RecordedEvent, Revision, RowError, StreamName,
    log::{
        Block, Damage, Direction, EventStream, Line, LogHead, Place, ReadError, Source,
        reader::check_chain,
    },
};

/// Connections for reading.
#[derive(Debug)]
pub(super) struct Readers {
    /// As many as were ever in use at once; closed before the database, which closes the files.
    idle: Mutex<Vec<Reader>>,
    database: Arc<Database>,
}

/// Which events are read, and how far that is.
#[derive(Debug)]
struct Cursor {
    stream: Option<StreamName>,
    direction: Direction,
    /// The revision in the stream, or the position in the log, that comes next; `None` once there
    /// is none.
    next: Option<i64>,
    /// The last position that was there when the reading began.
    last_position: i64,
    /// How many events may still come.
    limit: usize,
    /// The event that came last, where it is followed by its stream.
    before: Option<RecordedEvent>,
}

impl Readers {
    pub(super) fn new(database: Arc<Database>) -> Arc<Self> {
        Arc::new(Self { database, idle: Mutex::default() })
    }

    /// Asks over a connection that nobody else uses; after an error it is not used again.
    fn ask<T>(&self, ask: impl FnOnce(&mut Reader) -> rusqlite::Result<T>) -> Result<T, ReadError> {
        let failed = |source: Source| ReadError::Storage { source };
        self.database.check_is_there().map_err(|error| failed(error.into()))?;
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = idle().pop();
        let mut reader = if let Some(reader) = kept {
            reader
        } else {
            let connection = self.database.connect(Access::Read);
            Reader::new(connection.map_err(|error| failed(error.into()))?)
        };
        let answer = ask(&mut reader).map_err(|error| failed(error.into()))?;
        idle().push(reader);
        Ok(answer)
    }

    pub(super) fn head(&self) -> Result<Option<LogHead>, ReadError> {
        const HEAD: &str = "SELECT position, digest FROM events ORDER BY position DESC LIMIT 1";
        let head = self.ask(|reader| {
            let mut statement = reader.connection.prepare_cached(HEAD)?;
            let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
            statement.query_row([], row).optional()
        })?;
        let Some((position, digest)): Option<(i64, _)> = head else { return Ok(None) };
        let position = u64::try_from(position).ok().and_then(Position::new);
        let position = position.ok_or_else(|| ReadError::Storage {
            source: "the last position is not one: `recount verify` says more".into(),
        })?;
        Ok(Some(LogHead { position, digest: Digest::from_bytes(digest) }))
    }

    fn last_position(&self) -> Result<i64, ReadError> {
        self.ask(|reader| reader.connection.prepare_cached(LAST)?.query_row([], |row| row.get(0)))
    }

    /// Reads what is there at the time of the call; see [`crate::log::EventLog::read_stream`].
    pub(super) fn read(
        self: &Arc<Self>,
        stream: Option<StreamName>,
        from: Option<u64>,
        direction: Direction,
        limit: usize,
    ) -> EventStream<'static> {
        let cursor = self.last_position().map(|last_position| {
            let from = from.map(|from| i64::try_from(from).unwrap_or(i64::MAX));
            let next = match direction {
                Direction::Forward => from.unwrap_or(0),
                Direction::Backward if stream.is_none() => {
                    from.unwrap_or(i64::MAX).min(last_position)
                }
                Direction::Backward => from.unwrap_or(i64::MAX),
            };
            let next = Some(next);
            Cursor { stream, direction, next, last_position, limit, before: None }
        });
        let cursor = match cursor {
            Ok(cursor) => cursor,
            Err(error) => return stream::once(std::future::ready(Err(error))).boxed(),
        };
        let start = (Arc::clone(self), cursor, Page::new());
        let step = async |(readers, mut cursor, mut page): (Arc<Self>, Cursor, Page)| {
            if page.is_empty() {
                page = readers.page(&mut cursor)?;
            }
            tokio::task::coop::consume_budget().await;
            Ok(page.pop_front().transpose()?.map(|event| (event, (readers, cursor, page))))
        };
        stream::try_unfold(start, step).boxed()
    }

    /// Reads on as others append, until the log is dropped; see
    /// [`crate::log::EventLog::subscribe`].
    pub(super) fn subscribe(
        self: &Arc<Self>,
        from: Position,
        news: watch::Receiver<News>,
    ) -> EventStream<'static> {
        let next = i64::try_from(from.get()).ok();
        let (direction, limit) = (Direction::Forward, usize::MAX);
        let cursor =
            Cursor { stream: None, direction, next, last_position: -1, limit, before: None };
        let start = (Arc::clone(self), cursor, Page::new(), news);
        let step = async |(readers, mut cursor, mut page, mut news): (
            Arc<Self>,
            Cursor,
            Page,
            watch::Receiver<News>,
        )| {
            while page.is_empty() {
                let is_new = news.has_changed();
                news.mark_unchanged();
                cursor.last_position = readers.last_position()?;
                page = readers.page(&mut cursor)?;
                if page.is_empty() && (is_new.is_err() || news.changed().await.is_err()) {
                    return Ok(None);
                }
            }
            tokio::task::coop::consume_budget().await;
            Ok(page.pop_front().transpose()?.map(|event| (event, (readers, cursor, page, news))))
        };
        stream::try_unfold(start, step).boxed()
    }

    /// The next events of a cursor, a block of them at most, and what is wrong behind them; none at
    /// its end.
    fn page(&self, cursor: &mut Cursor) -> Result<Page, ReadError> {
        let is_behind = |next| cursor.stream.is_none() && next > cursor.last_position;
        let Some(next) = cursor.next.filter(|next| cursor.limit > 0 && !is_behind(*next)) else {
            return Ok(Page::new());
        };
        let mut block = Block::default();
        self.ask(|reader| cursor.read(reader, next, &mut block))?;
        if let Some(row) = block.oversized() {
            let length = usize::try_from(row.length).unwrap_or(usize::MAX);
            return Err(cursor.damaged(RowError::TooLong { length, max: MAX_ROW_BYTES }.into()));
        }
        let mut page = Page::new();
        for line in block.lines() {
            match cursor.take(line) {
                Ok(event) => page.push_back(Ok(event)),
                Err(damage) => {
                    page.push_back(Err(cursor.damaged(damage)));
                    return Ok(page);
                }
            }
        }
        if page.is_empty() && !cursor.may_end() {
            return Err(cursor.damaged(Damage::Missing));
        }
        Ok(page)
    }
}

/// Events that were read at once; behind an error there is nothing.
type Page = VecDeque<Result<RecordedEvent, ReadError>>;

impl Cursor {
    fn read(&self, reader: &mut Reader, next: i64, block: &mut Block) -> rusqlite::Result<()> {
        let limit = i64::try_from(self.limit).unwrap_or(i64::MAX);
        let last = self.last_position;
        let Some(stream) = &self.stream else {
            let sql = match self.direction {
                Direction::Forward => {
                    select!("WHERE position BETWEEN ?1 AND ?2 ORDER BY position LIMIT ?3")
                }
                Direction::Backward => {
                    select!("WHERE position <= min(?1, ?2) ORDER BY position DESC LIMIT ?3")
                }
            };
            return reader.read(sql, (next, last, limit), block).map(drop);
        };
        let sql = match self.direction {
            Direction::Forward => select!(
                "WHERE stream = (SELECT id FROM streams WHERE name = ?4) AND revision >= ?1 \
                 AND position <= ?2 ORDER BY revision LIMIT ?3"
            ),
            Direction::Backward => select!(
                "WHERE stream = (SELECT id FROM streams WHERE name = ?4) AND revision <= ?1 \
                 AND position <= ?2 ORDER BY revision DESC LIMIT ?3"
            ),
        };
        reader.read(sql, (next, last, limit, stream.as_str()), block).map(drop)
    }

    /// Checks that a row is the next event, and goes on to the one behind it.
    fn take(&mut self, line: Line<'_>) -> Result<RecordedEvent, Damage> {
        let recorded = RecordedEvent::read(line.bytes)?;
        let event = &recorded.event;
        line.check_listed(event.stream(), event.revision())?;
        let (found, expected) = (self.place_of(&recorded), self.expected());
        if let Some(expected) = expected.filter(|expected| *expected != found) {
            return Err(match self.stream {
                None => Damage::Position {
                    found: recorded.position,
                    expected: Position::new(expected).unwrap_or_default(),
                },
                Some(_) => Damage::Revision {
                    found: event.revision(),
                    expected: Revision::new(expected).unwrap_or_default(),
                },
            });
        }
        if let (Some(_), Some(before)) = (&self.stream, &self.before) {
            let (first, second) = match self.direction {
                Direction::Forward => (&before.event, event),
                Direction::Backward => (event, &before.event),
            };
            check_chain(second, Some(first.head()))?;
        }
        let step = match self.direction {
            Direction::Forward => found.checked_add(1),
            Direction::Backward => found.checked_sub(1),
        };
        self.next = step.and_then(|next| i64::try_from(next).ok());
        self.limit -= 1;
        self.before = self.stream.is_some().then(|| recorded.clone());
        Ok(recorded)
    }

    fn place_of(&self, recorded: &RecordedEvent) -> u64 {
        match self.stream {
            None => recorded.position.get(),
            Some(_) => recorded.event.revision().get(),
        }
    }

    /// The place that the next event must have, where that is known: a stream that is read
    /// backwards begins wherever it ends.
    fn expected(&self) -> Option<u64> {
        let is_known =
            self.stream.is_none() || self.direction == Direction::Forward || self.before.is_some();
        self.next.filter(|_| is_known).and_then(|next| u64::try_from(next).ok())
    }

    /// Whether it may be that there is nothing more.
    fn may_end(&self) -> bool {
        self.stream.is_some() && (self.direction == Direction::Forward || self.before.is_none())
    }

    fn damaged(&self, source: Damage) -> ReadError {
        let expected = self.expected();
        let position = expected.filter(|_| self.stream.is_none()).and_then(Position::new);
        let stream = self.stream.as_ref().map(ToString::to_string);
        ReadError::Damaged { place: Place { position, stream, ..Place::default() }.into(), source }
    }
}
