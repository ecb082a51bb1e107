//! A database file: opening it, and noticing that it is not the one that was opened any more.

#[cfg(all(unix, not(target_os = "linux")))]
use std::os::unix::fs::MetadataExt;
use std::{
    fs,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    sync::Mutex,
    thread,
    time::Duration,
};

use rusqlite::{
    Connection, ErrorCode, OpenFlags, TransactionBehavior, config::DbConfig, limits::Limit,
};

use super::schema::{self, Owner, VERSION};
use crate::log::file::sync_directory_of;

/// Why a file could not be opened as a log. It was not changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// It is no SQLite file.
    #[error("{} is not an SQLite database, or a damaged one", path.display())]
    NoDatabase {
        /// The file.
        path: PathBuf,
    },
    /// It is an SQLite file of another program.
    #[error("{} is an SQLite database, but no log of Recount (application id {application_id})", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What its header says whose it is.
        application_id: i32,
    },
    /// A newer Recount wrote it.
    #[error("{} has version {found} of the tables, this build knows {known}: use a newer Recount", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: i32,
        /// The newest that is known.
        known: i32,
    },
    /// A table or a trigger is not as it was created.
    #[error("{object} of {} is not as Recount creates it: it was changed, removed or added", path.display())]
    Altered {
        /// The file.
        path: PathBuf,
        /// Which table or trigger.
        object: String,
    },
    /// It can only be read.
    #[error("{} can only be read: open it for reading, or let it be written", path.display())]
    ReadOnly {
        /// The file.
        path: PathBuf,
    },
    /// The system or SQLite did not let it be opened.
    #[error("{} could not be opened", path.display())]
    Storage {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        source: crate::log::Source,
    },
}

/// That the file is not the one that was opened.
#[derive(Debug, thiserror::Error)]
#[error("{} was removed or replaced while it was open: open the log again", path.display())]
pub struct Moved {
    /// The file.
    pub path: PathBuf,
}

/// What a commit waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// The disk: what was answered is there after a power cut. SQLite calls it `synchronous=FULL`.
    #[default]
    Full,
    /// The system: a crash of the process loses nothing, a crash of the machine or a power cut may
    /// lose the last commits that were answered, up to the last checkpoint (some 40 MB). The log
    /// stays a log: what is lost is its end. SQLite calls it `synchronous=NORMAL`.
    Normal,
}

/// Whether a file is written or only read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Write,
    Read,
}

/// A database that was found to be a log.
#[derive(Debug)]
pub(super) struct Database {
    /// As it was named.
    name: PathBuf,
    /// From the root on: the host may go to another folder while the log is open.
    path: PathBuf,
    durability: Durability,
    /// Whether the file is read as it is, nobody writing it.
    is_immutable: bool,
    /// The files, and a connection that has them open and so keeps others from removing them.
    opened: Option<Opened>,
}

#[derive(Debug)]
struct Opened {
    #[expect(dead_code, reason = "it is there to be open")]
    anchor: Mutex<Connection>,
    main: Identity,
    wal: Option<Identity>,
}

impl Database {
    /// Opens a log; one that is to be written is created where there is none.
    pub(super) fn open(
        name: &Path,
        access: Access,
        durability: Durability,
    ) -> Result<Self, OpenError> {
        let failed =
            |error: io::Error| OpenError::Storage { path: name.to_owned(), source: error.into() };
        let path = std::path::absolute(name).map_err(failed)?;
        // The file itself is left to SQLite: who opens and closes it beside takes its locks away.
        match fs::metadata(&path) {
            Ok(metadata) if metadata.is_dir() => {
                return Err(failed(ErrorKind::IsADirectory.into()));
            }
            Err(error) if access == Access::Read || error.kind() != ErrorKind::NotFound => {
                return Err(failed(error));
            }
            _ => {}
        }
        let name = name.to_owned();
        let mut database = Self { name, path, durability, is_immutable: false, opened: None };
        let connection = match access {
            Access::Write => database.open_to_write()?,
            Access::Read => database.open_to_read()?,
        };
        let failed = |error: io::Error| database.failed(error.into());
        let main = Identity::of(&database.path).map_err(failed)?;
        let wal = match Identity::of(&beside(&database.path, "-wal")) {
            _ if database.is_immutable => None,
            Ok(wal) => Some(wal),
            // What `VACUUM INTO` made has none until it is opened for writing.
            Err(error) if access == Access::Read && error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(failed(error)),
        };
        database.opened = Some(Opened { anchor: Mutex::new(connection), main, wal });
        Ok(database)
    }

    /// One more connection.
    pub(super) fn connect(&self, access: Access) -> rusqlite::Result<Connection> {
        let mut connection = match access {
            Access::Read if self.is_immutable => {
                let flags = READ | OpenFlags::SQLITE_OPEN_URI;
                Connection::open_with_flags(immutable(&self.path), flags)?
            }
            Access::Read => Connection::open_with_flags(&self.path, READ)?,
            Access::Write => Connection::open_with_flags(&self.path, WRITE)?,
        };
        connection.busy_handler(Some(is_patient))?;
        // A file of strangers is data: it does not run functions, nor change its own schema.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
        // Else a statement is planned again for each value that is bound to it.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)?;
        connection.pragma_update(None, "cell_size_check", true)?;
        connection.pragma_update(None, "mmap_size", 0)?;
        if access == Access::Write {
            connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
            let synchronous = match self.durability {
                Durability::Full => "FULL",
                Durability::Normal => "NORMAL",
            };
            connection.pragma_update(None, "synchronous", synchronous)?;
        }
        Ok(connection)
    }

    /// Finds out that the file, or what was written to it last, is not there any more.
    pub(super) fn check_is_there(&self) -> Result<(), Moved> {
        let is_still = |path: &Path, known| Identity::of(path).ok() == Some(known);
        let is_there = self.opened.as_ref().is_none_or(|opened| {
            is_still(&self.path, opened.main)
                // What is read as if nobody wrote it must not be written.
                && !(self.is_immutable && self.has_wal())
                && opened.wal.is_none_or(|wal| is_still(&beside(&self.path, "-wal"), wal))
        });
        if is_there { Ok(()) } else { Err(Moved { path: self.name.clone() }) }
    }

    fn open_to_write(&self) -> Result<Connection, OpenError> {
        let flags = WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        self.at(Connection::open_with_flags(&self.path, flags))?;
        let mut connection = self.at(self.connect(Access::Write))?;
        if self.at(connection.is_readonly("main"))? {
            return Err(OpenError::ReadOnly { path: self.name.clone() });
        }
        if self.at(schema::owner(&connection))? == Owner::Nobody {
            self.at(create(&mut connection))?;
            sync_directory_of(&self.path).map_err(|error| self.failed(error.into()))?;
        }
        let owner = self.at(schema::owner(&connection))?;
        let connection = self.check(connection, owner, Access::Write)?;
        self.at(use_wal(&connection))?;
        // Only a read opens the write-ahead log.
        self.at(schema::owner(&connection))?;
        Ok(connection)
    }

    fn open_to_read(&mut self) -> Result<Connection, OpenError> {
        let connection = self.at(self.connect(Access::Read))?;
        match schema::owner(&connection) {
            // Where no file can be created beside the log, and there is none, everything is in the
            // log itself.
            Err(error) if is_shut(&error) && !self.has_wal() => {
                self.is_immutable = true;
                let connection = self.at(self.connect(Access::Read))?;
                let owner = self.at(schema::owner(&connection))?;
                self.check(connection, owner, Access::Read)
            }
            owner => {
                let owner = self.at(owner)?;
                self.check(connection, owner, Access::Read)
            }
        }
    }

    fn has_wal(&self) -> bool {
        fs::metadata(beside(&self.path, "-wal")).is_ok_and(|wal| wal.len() > 0)
    }

    fn check(
        &self,
        connection: Connection,
        owner: Owner,
        access: Access,
    ) -> Result<Connection, OpenError> {
        let path = || self.name.clone();
        match owner {
            Owner::Nobody => Err(OpenError::Foreign { path: path(), application_id: 0 }),
            Owner::Another { application_id } => {
                Err(OpenError::Foreign { path: path(), application_id })
            }
            Owner::Recount { version } if version != VERSION => {
                Err(OpenError::Newer { path: path(), found: version, known: VERSION })
            }
            Owner::Recount { .. } => {
                let altered = self.at(schema::altered(&connection, access == Access::Read))?;
                match altered {
                    Some(object) => Err(OpenError::Altered { path: path(), object }),
                    None => Ok(connection),
                }
            }
        }
    }

    fn at<T>(&self, result: rusqlite::Result<T>) -> Result<T, OpenError> {
        result.map_err(|error| match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => OpenError::NoDatabase { path: self.name.clone() },
            Some(ErrorCode::ReadOnly) => OpenError::ReadOnly { path: self.name.clone() },
            Some(ErrorCode::CannotOpen) => {
                self.failed("SQLite cannot open it, or create the files beside it".into())
            }
            _ => self.failed(error.into()),
        })
    }

    fn failed(&self, source: crate::log::Source) -> OpenError {
        OpenError::Storage { path: self.name.clone(), source }
    }
}

const READ: OpenFlags = OpenFlags::SQLITE_OPEN_READ_ONLY.union(OpenFlags::SQLITE_OPEN_NO_MUTEX);
const WRITE: OpenFlags = OpenFlags::SQLITE_OPEN_READ_WRITE.union(OpenFlags::SQLITE_OPEN_NO_MUTEX);

/// After how many pages of 4 KiB what was written goes from the write-ahead log into the main
/// file: rarer than SQLite's own 1 000, since a commit waits for it.
const CHECKPOINT_PAGES: i32 = 10_000;

/// The largest value that SQLite takes or gives: that of [`crate::MAX_ROW_BYTES`] and one more.
/// Larger rows are seen by their length.
pub(super) const MAX_VALUE_BYTES: i32 = (16 << 20) + 1;

/// Waits for another connection that has the file: at first a little, later longer, ten seconds in
/// all. `count` is how often it was asked before.
fn is_patient(count: i32) -> bool {
    let micros = (100 << (count / 10).clamp(0, 6)).min(5_000);
    thread::sleep(Duration::from_micros(micros));
    count < 2_050
}

fn create(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if schema::owner(&transaction)? == Owner::Nobody {
        schema::create(&transaction)?;
    }
    transaction.commit()
}

/// Has what is written go to a file beside the log first.
///
/// That needs the file for itself for a moment, for which SQLite does not always wait when several
/// processes create it at once.
fn use_wal(connection: &Connection) -> rusqlite::Result<()> {
    let mut count = 0;
    loop {
        let mode = connection
            .pragma_update_and_check(None, "journal_mode", "wal", |row| row.get::<_, String>(0));
        match mode {
            Ok(mode) if mode == "wal" => return Ok(()),
            Ok(mode) => {
                let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_ERROR);
                let message = format!("its file system has no write-ahead log ({mode})");
                return Err(rusqlite::Error::SqliteFailure(code, Some(message)));
            }
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => {
                if !is_patient(count) {
                    return Err(error);
                }
                count += 1;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Whether a reader could not create the files beside the log.
fn is_shut(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly))
}

/// The name of a file for SQLite to read as if nobody ever wrote it.
fn immutable(path: &Path) -> PathBuf {
    let mut uri = "file:".to_owned();
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' => uri.push(char::from(*byte)),
            _ => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    (uri + "?immutable=1").into()
}

/// The name of a file that SQLite keeps beside another.
fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

/// Which file it is, whatever its name; where a system does not tell, every file is the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    /// Asks for nothing else: Linux gives a file whose times were asked for new ones at its next
    /// write, which the next sync of the write-ahead log would have to wait for.
    #[cfg(target_os = "linux")]
    fn of(path: &Path) -> io::Result<Self> {
        use rustix::fs::{AtFlags, CWD, StatxFlags, makedev, statx};

        let file = statx(CWD, path, AtFlags::empty(), StatxFlags::INO)?;
        let device = makedev(file.stx_dev_major, file.stx_dev_minor);
        Ok(Self { device, inode: file.stx_ino })
    }

    #[cfg(all(unix, not(target_os = "linux")))]
    fn of(path: &Path) -> io::Result<Self> {
        let file = fs::metadata(path)?;
        Ok(Self { device: file.dev(), inode: file.ino() })
    }

    #[cfg(not(unix))]
    fn of(path: &Path) -> io::Result<Self> {
        fs::metadata(path).map(|_| Self::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_as_if_nobody_wrote_it_is_not_read_on_when_somebody_does() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.db");
        let open = |access| Database::open(&path, access, Durability::Full).unwrap();
        drop(open(Access::Write));
        let mut database = open(Access::Read);
        database.is_immutable = true;
        database.check_is_there().unwrap();
        let writer = open(Access::Write).connect(Access::Write).unwrap();
        writer.execute("INSERT INTO streams (name) VALUES ('delivery-x')", []).unwrap();
        database.check_is_there().unwrap_err();
    }
}
