//! Checkpoints in files: read and held against the log, written aside and renamed.

use std::{
    fs::{self, File},
    io::{self, ErrorKind, Write},
    path::{Path, PathBuf},
};

use futures_util::TryStreamExt;
use recount_core::{
    Digest, Position,
    log::{Direction, EventLog, LogHead, ReadError},
};

use super::{SaveError, Unusable, checkpoint, fold::Fold};

/// What became of a checkpoint when a view was opened.
#[derive(Debug)]
pub enum Resumed {
    /// It was used.
    From(LogHead),
    /// There is none.
    Nothing,
    /// It was not used, and is still there.
    Ignored(Unusable),
}

/// A checkpoint that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    /// Where it stands.
    pub head: LogHead,
    /// The digest of the state.
    pub digest: Digest,
    /// Where the file is now that stood there and was no checkpoint of this log.
    pub kept: Option<PathBuf>,
}

/// What a file is to a log.
pub(super) enum Loaded {
    Nothing,
    /// A state of the log's, and where it stands.
    Usable(Box<Fold>, LogHead),
    Unusable(Unusable),
}

/// Reads a checkpoint and holds it against a log.
pub(super) async fn load(log: &dyn EventLog, path: &Path) -> Result<Loaded, ReadError> {
    let read = match fs::read(path) {
        Ok(bytes) => checkpoint::read(&bytes),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Loaded::Nothing),
        Err(source) => Err(Unusable::Unreadable { source }),
    };
    let fold = match read {
        Ok(fold) => fold,
        Err(why) => return Ok(Loaded::Unusable(why)),
    };
    Ok(match check(log, &fold).await? {
        Ok(head) => Loaded::Usable(fold.into(), head),
        Err(why) => Loaded::Unusable(why),
    })
}

/// Where a state stands in a log, or why it is none of its.
async fn check(log: &dyn EventLog, fold: &Fold) -> Result<Result<LogHead, Unusable>, ReadError> {
    let (Some(head), Some(found)) = (fold.head, fold.log_id) else {
        return Ok(Err(Unusable::NotOne));
    };
    let position = head.position;
    Ok(match digest_at(log, Position::ZERO).await? {
        None => Err(Unusable::Ahead { position }),
        Some(log_id) if log_id != found => Err(Unusable::OtherLog { found, log: log_id }),
        Some(_) => match digest_at(log, position).await? {
            None => Err(Unusable::Ahead { position }),
            Some(digest) if digest == head.digest => Ok(head),
            Some(log) => Err(Unusable::Stale { position, found: head.digest, log }),
        },
    })
}

/// The digest of the event at a position, or of the first event of a log whose positions do not
/// begin at 0.
async fn digest_at(log: &dyn EventLog, position: Position) -> Result<Option<Digest>, ReadError> {
    let first = log.read_all(Some(position), Direction::Forward, 1).try_next().await?;
    let first = first.filter(|it| position == Position::ZERO || it.position == position);
    Ok(first.map(|recorded| recorded.event.digest()))
}

/// Writes a checkpoint in the place of an older one.
///
/// It is written aside and renamed, so that a crash leaves the older one, and perhaps a file beside
/// it that nothing reads.
pub(super) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mut aside = tempfile::Builder::new().prefix(".checkpoint-").tempfile_in(folder)?;
    aside.write_all(bytes)?;
    aside.as_file().sync_all()?;
    aside.persist(path).map_err(|error| error.error)?;
    // What is renamed is there after a power cut only once its folder is.
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

/// Gives a file a second name that nothing has, so that the first one may be taken.
fn keep(path: &Path) -> io::Result<PathBuf> {
    for number in 1_u32.. {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".ignored-{number}"));
        let name = PathBuf::from(name);
        match fs::hard_link(path, &name) {
            Ok(()) => return Ok(name),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

/// What became of a file that stands where a checkpoint is to be written.
pub(super) enum Way {
    /// There is none, or an older checkpoint of the log.
    Free,
    /// It has another name now.
    Kept(PathBuf),
    /// It is a newer checkpoint of the log.
    Newer,
}

/// Makes way for a checkpoint at a position.
pub(super) async fn make_way(
    log: &dyn EventLog,
    path: &Path,
    position: Position,
) -> Result<Way, SaveError> {
    match load(log, path).await? {
        Loaded::Usable(_, head) if head.position > position => Ok(Way::Newer),
        Loaded::Usable(..) | Loaded::Nothing => Ok(Way::Free),
        Loaded::Unusable(_) => keep(path)
            .map(Way::Kept)
            .map_err(|source| SaveError::Keep { path: path.to_owned(), source }),
    }
}
