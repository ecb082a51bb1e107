//! The tables, described once, and what makes a file ours.

use rusqlite::{Connection, Result};

/// What the header of our files says whose they are: "RCNT".
pub(super) const APPLICATION_ID: i32 = 0x5243_4e54;

/// The version of the tables, which the header holds, too.
pub(super) const VERSION: i32 = 1;

/// Every object of version 1, by name.
///
/// `event` is the canonical text that the digest is over. `stream` and `revision` are there to
/// find it, and say what it says itself. The triggers abort whatever does not put an event behind
/// the last of its stream and of the log, `INSERT OR REPLACE` included.
const OBJECTS: [Object; 7] = [
    Object {
        name: "streams",
        is_read: true,
        sql: "CREATE TABLE streams (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE
) STRICT",
    },
    Object {
        name: "events",
        is_read: true,
        sql: "CREATE TABLE events (
  position INTEGER PRIMARY KEY,
  stream INTEGER NOT NULL,
  revision INTEGER NOT NULL,
  digest BLOB NOT NULL,
  event TEXT NOT NULL,
  UNIQUE (stream, revision)
) STRICT",
    },
    Object {
        name: "events_are_only_appended",
        is_read: false,
        sql: "CREATE TRIGGER events_are_only_appended BEFORE INSERT ON events
WHEN NEW.position IS NOT (SELECT coalesce(max(position), -1) + 1 FROM events)
  OR NEW.revision IS NOT (SELECT coalesce(max(revision), -1) + 1 FROM events WHERE stream = NEW.stream)
BEGIN SELECT RAISE(ABORT, 'events are only appended'); END",
    },
    Object {
        name: "events_are_not_changed",
        is_read: false,
        sql: "CREATE TRIGGER events_are_not_changed BEFORE UPDATE ON events
BEGIN SELECT RAISE(ABORT, 'events are not changed'); END",
    },
    Object {
        name: "events_are_not_deleted",
        is_read: false,
        sql: "CREATE TRIGGER events_are_not_deleted BEFORE DELETE ON events
BEGIN SELECT RAISE(ABORT, 'events are not deleted'); END",
    },
    Object {
        name: "streams_are_not_changed",
        is_read: false,
        sql: "CREATE TRIGGER streams_are_not_changed BEFORE UPDATE ON streams
BEGIN SELECT RAISE(ABORT, 'streams are not changed'); END",
    },
    Object {
        name: "streams_are_not_deleted",
        is_read: false,
        sql: "CREATE TRIGGER streams_are_not_deleted BEFORE DELETE ON streams
BEGIN SELECT RAISE(ABORT, 'streams are not deleted'); END",
    },
];

/// A table or trigger.
struct Object {
    name: &'static str,
    /// Whether readers need it.
    is_read: bool,
    sql: &'static str,
}

/// Whose a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// Nobody's: there is nothing in it.
    Nobody,
    Recount {
        version: i32,
    },
    Another {
        application_id: i32,
    },
}

/// Whose a database is, by its header and by whether there is anything in it.
pub(super) fn owner(connection: &Connection) -> Result<Owner> {
    let number = |pragma| connection.pragma_query_value(None, pragma, |row| row.get(0));
    let (application_id, version) = (number("application_id")?, number("user_version")?);
    if application_id == APPLICATION_ID {
        return Ok(Owner::Recount { version });
    }
    let objects: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    Ok(if (application_id, version, objects) == (0, 0, 0) {
        Owner::Nobody
    } else {
        Owner::Another { application_id }
    })
}

/// Creates the tables in an empty database; the caller has begun a transaction.
pub(super) fn create(connection: &Connection) -> Result<()> {
    for object in &OBJECTS {
        connection.execute_batch(object.sql)?;
    }
    connection.pragma_update(None, "application_id", APPLICATION_ID)?;
    connection.pragma_update(None, "user_version", VERSION)
}

/// The first object that is missing, not as it was created, or not ours; readers ask for tables
/// only, so that a log whose triggers are gone can still be looked into.
pub(super) fn altered(connection: &Connection, is_reader: bool) -> Result<Option<String>> {
    let mut statement = connection.prepare(
        "SELECT name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name",
    )?;
    let found = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let found = found.collect::<Result<Vec<(String, Option<String>)>>>()?;
    let is_as_created = |object: &&Object| {
        found.iter().any(|(name, sql)| name == object.name && sql.as_deref() == Some(object.sql))
    };
    let mut wanted = OBJECTS.iter().filter(|object| object.is_read || !is_reader);
    if let Some(object) = wanted.find(|object| !is_as_created(object)) {
        return Ok(Some(object.name.to_owned()));
    }
    let is_ours = |name: &str| OBJECTS.iter().any(|object| object.name == name);
    let other = found.into_iter().map(|(name, _)| name).find(|name| !is_ours(name));
    Ok(other.filter(|_| !is_reader))
}
