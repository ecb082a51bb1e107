//! Moving a cut last row aside, so that what is before it is a log again.

use std::{
    ffi::OsString,
    fs::{File, OpenOptions, TryLockError},
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use super::JsonlRows;
use crate::{
    MAX_ROW_BYTES, RecordedEvent, RowError,
    log::{Block, RowSource, file::sync_directory_of},
};

/// What a repair found, and did.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Repaired {
    /// The last row is whole and has its line end; nothing was changed.
    Whole,
    /// The last row is whole and has no line end, which the next append gives it; nothing was
    /// changed.
    Unended,
    /// The last row was cut, and was moved.
    Moved {
        /// Where it began.
        offset: u64,
        /// How much of it there was.
        length: u64,
        /// Where its bytes are now.
        to: PathBuf,
    },
}

/// Why a file was not repaired. It was not changed, unless the error says so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RepairError {
    /// A log has it open.
    #[error("{} is locked: another process, or this one, has it open for writing", path.display())]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// It does not begin with a row, or its end is longer than a row can be.
    #[error("{} does not look like a log with a cut last row", path.display())]
    NoLog {
        /// The file.
        path: PathBuf,
    },
    /// It is compressed; only a copy that was interrupted can be finished.
    #[error("{} is compressed: there is no row in it that could be moved", path.display())]
    Compressed {
        /// The file.
        path: PathBuf,
    },
    /// It is an SQLite database.
    #[error("{} is an SQLite database, which has no cut rows", path.display())]
    Database {
        /// The file.
        path: PathBuf,
    },
    /// The last line is all there, and damaged in another way than by a cut.
    #[error("the last row of {} is not cut but wrong, at byte {offset}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where the row begins.
        offset: u64,
        /// What is wrong with it.
        source: RowError,
    },
    /// The system did not do as it was asked.
    #[error("{} could not be {what}", path.display())]
    Storage {
        /// The file.
        path: PathBuf,
        /// What was asked for.
        what: &'static str,
        /// What went wrong.
        source: io::Error,
    },
}

/// Moves the cut last row of a file of JSON Lines to a file beside it.
///
/// The bytes are durable there before they are taken from the log, so that nothing is lost
/// wherever this ends. It is the one thing that changes a log other than by appending; a log that
/// is open for writing is not touched.
///
/// # Errors
///
/// [`RepairError`]; the log was not changed, but where cutting it off or making that durable is
/// what failed.
///
/// # Examples
///
/// ```
/// use recount_core::log::jsonl::{Repaired, repair};
///
/// let directory = tempfile::tempdir()?;
/// let path = directory.path().join("log.jsonl");
/// std::fs::write(&path, "{\"digest\":\"5fec")?;
/// let Repaired::Moved { offset: 0, length: 15, to } = repair(&path)? else { unreachable!() };
/// assert_eq!(std::fs::read(to)?, b"{\"digest\":\"5fec");
/// assert_eq!(repair(&path)?, Repaired::Whole);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub fn repair(path: impl AsRef<Path>) -> Result<Repaired, RepairError> {
    let path = path.as_ref();
    let failed = |what| move |source| RepairError::Storage { path: path.to_owned(), what, source };
    let mut file =
        OpenOptions::new().read(true).write(true).open(path).map_err(failed("opened"))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(RepairError::Locked { path: path.to_owned() }),
        Err(TryLockError::Error(source)) => return Err(failed("locked")(source)),
    }
    refuse_other_kinds(path, &mut file)?;
    let (offset, row) = last_line(&mut file).map_err(failed("read"))?;
    if row.is_empty() {
        return Ok(Repaired::Whole);
    }
    if row.len() > MAX_ROW_BYTES
        || !begins_a_log(&mut file, offset, &row).map_err(failed("read"))?
    {
        return Err(RepairError::NoLog { path: path.to_owned() });
    }
    match RecordedEvent::read(&row) {
        Ok(_) => return Ok(Repaired::Unended),
        Err(RowError::Utf8(_) | RowError::Json(_) | RowError::Shape { .. }) => {}
        Err(source) => {
            return Err(RepairError::Damaged { path: path.to_owned(), offset, source });
        }
    }
    let to = set_aside(path, offset, &row)?;
    file.set_len(offset).and_then(|()| file.sync_all()).map_err(failed("cut"))?;
    Ok(Repaired::Moved { offset, length: row.len() as u64, to })
}

/// Files that are no text may still end like one.
fn refuse_other_kinds(path: &Path, file: &mut File) -> Result<(), RepairError> {
    let failed = |source| RepairError::Storage { path: path.to_owned(), what: "read", source };
    let mut head = Vec::new();
    file.take(16).read_to_end(&mut head).map_err(failed)?;
    if head.starts_with(b"\x28\xb5\x2f\xfd") {
        return Err(RepairError::Compressed { path: path.to_owned() });
    }
    if head.starts_with(b"SQLite format 3\0") {
        return Err(RepairError::Database { path: path.to_owned() });
    }
    Ok(())
}

/// What is behind the last line end, and where it begins; at most one byte more than a row.
fn last_line(file: &mut File) -> io::Result<(u64, Vec<u8>)> {
    let length = file.seek(SeekFrom::End(0))?;
    let start = length.saturating_sub(MAX_ROW_BYTES as u64 + 1);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let end = memchr::memrchr(b'\n', &bytes).map_or(0, |at| at + 1);
    bytes.drain(..end);
    Ok((start + end as u64, bytes))
}

/// Whether the file begins with a row, or with what there is of the first: another file that was
/// named by mistake is left alone.
fn begins_a_log(file: &mut File, offset: u64, last: &[u8]) -> io::Result<bool> {
    const BEGIN: &[u8] = b"{\"digest\":\"";
    if offset == 0 {
        return Ok(last.starts_with(BEGIN) || BEGIN.starts_with(last));
    }
    file.seek(SeekFrom::Start(0))?;
    let mut block = Block::default();
    JsonlRows::new(file).next(&mut block)?;
    Ok(block.lines().next().is_some_and(|first| RecordedEvent::read(first.bytes).is_ok()))
}

/// Writes bytes to a new file beside the log, durably.
fn set_aside(path: &Path, offset: u64, bytes: &[u8]) -> Result<PathBuf, RepairError> {
    let mut name = OsString::from(path);
    name.push(format!(".torn-at-{offset}"));
    let to = PathBuf::from(name);
    let write = || {
        let mut file = OpenOptions::new().write(true).create_new(true).open(&to)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        sync_directory_of(&to)
    };
    match write() {
        Ok(()) => Ok(to),
        Err(source) => Err(RepairError::Storage { path: to, what: "written", source }),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{
        Position,
        log::{
            conformance::batch,
            jsonl::{JsonlLog, JsonlReader},
        },
        write_row,
    };

    fn rows() -> Vec<u8> {
        let mut text = Vec::new();
        for (event, place) in batch("delivery-a", None, &["1", "é"]).events().iter().zip(0..) {
            write_row(&mut text, Position::new(place).unwrap(), event);
        }
        text
    }

    #[test]
    fn o_19_a_cut_row_is_moved_whole_and_the_rest_is_a_log() {
        let rows = rows();
        let last = rows[..rows.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
        for end in last + 1..rows.len() - 1 {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("log.jsonl");
            fs::write(&path, &rows[..end]).unwrap();
            let Repaired::Moved { offset, length, to } = repair(&path).unwrap() else {
                panic!("{end}")
            };
            assert_eq!((offset, length), (last as u64, (end - last) as u64));
            assert_eq!(fs::read(&to).unwrap(), rows[last..end]);
            assert_eq!(fs::read(&path).unwrap(), rows[..last]);
            assert!(JsonlReader::open(&path).unwrap().all(|read| read.is_ok()));
            assert!(JsonlLog::open(&path).is_ok());
        }
    }

    #[test]
    fn what_is_whole_or_wrong_is_left_as_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log.jsonl");
        let rows = rows();
        let edited = String::from_utf8(rows.clone()).unwrap().replace("é", "e");
        let told = |text: &[u8]| {
            fs::write(&path, text).unwrap();
            let told = match repair(&path) {
                Ok(repaired) => format!("{repaired:?}"),
                Err(error) => error.to_string().replace(path.to_str().unwrap(), "log"),
            };
            assert_eq!(fs::read(&path).unwrap(), text);
            assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
            told
        };
        assert_eq!(told(b""), "Whole");
        assert_eq!(told(&rows), "Whole");
        assert_eq!(told(&rows[..rows.len() - 1]), "Unended");
        assert_eq!(
            told(&edited.as_bytes()[..edited.len() - 1]),
            "the last row of log is not cut but wrong, at byte 358"
        );
        let no_log = "log does not look like a log with a cut last row";
        assert_eq!(told(&vec![b'x'; MAX_ROW_BYTES + 1]), no_log);
        assert_eq!(told(b"my notes"), no_log);
        assert_eq!(told(b"my notes\nand more"), no_log);
    }

    #[test]
    fn zeros_that_a_crash_left_behind_are_moved_too() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log.jsonl");
        let rows = rows();
        fs::write(&path, [&rows[..], &[0; 4_096]].concat()).unwrap();
        let repaired = repair(&path).unwrap();
        assert!(matches!(repaired, Repaired::Moved { length: 4_096, .. }), "{repaired:?}");
        assert_eq!(fs::read(&path).unwrap(), rows);
    }

    #[test]
    fn what_cannot_be_repaired_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log.jsonl");
        let told = || repair(&path).unwrap_err().to_string().replace(path.to_str().unwrap(), "log");
        assert_eq!(told(), "log could not be opened");
        let log = JsonlLog::open(&path).unwrap();
        assert_eq!(told(), "log is locked: another process, or this one, has it open for writing");
        drop(log);
        fs::write(&path, "{").unwrap();
        fs::write(directory.path().join("log.jsonl.torn-at-0"), "kept").unwrap();
        assert_eq!(told(), "log.torn-at-0 could not be written");
        assert_eq!(fs::read(&path).unwrap(), b"{", "nothing is cut that is not kept");
    }
}
