//! The numbers that the tables have for streams.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension};

use crate::StreamName;

/// How many are remembered.
const KNOWN_STREAMS: usize = 100_000;

/// Ids of streams; an id never changes, unless the transaction that gave it comes to nothing.
#[derive(Debug, Default)]
pub(super) struct Streams(HashMap<StreamName, i64>);

impl Streams {
    /// The id of a stream, as it is in the transaction; `None` where there is none yet.
    pub(super) fn id(
        &mut self,
        connection: &Connection,
        stream: &StreamName,
    ) -> rusqlite::Result<Option<i64>> {
        if let Some(id) = self.0.get(stream) {
            return Ok(Some(*id));
        }
        let mut select = connection.prepare_cached("SELECT id FROM streams WHERE name = ?1")?;
        let id = select.query_row([stream.as_str()], |row| row.get(0)).optional()?;
        if let Some(id) = id {
            self.remember(stream, id);
        }
        Ok(id)
    }

    /// Gives an id to a stream that has none.
    pub(super) fn create(
        &mut self,
        connection: &Connection,
        stream: &StreamName,
    ) -> rusqlite::Result<i64> {
        let mut insert = connection.prepare_cached("INSERT INTO streams (name) VALUES (?1)")?;
        let id = insert.insert([stream.as_str()])?;
        self.remember(stream, id);
        Ok(id)
    }

    /// Forgets all, after a transaction that came to nothing.
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }

    fn remember(&mut self, stream: &StreamName, id: i64) {
        if self.0.len() >= KNOWN_STREAMS {
            self.0.clear();
        }
        self.0.insert(stream.clone(), id);
    }
}
