//! Opening what a log is copied to.

use std::{
    fs::{self, File},
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

use recount_core::log::{
    self,
    jsonl::{JsonlDestination, JsonlWriter, ZstdDestination},
    sqlite::SqliteDestination,
};

use super::{
    error::CliError,
    source::{Head, Kind, Source},
};

/// A destination as it is named on the command line.
#[derive(Clone, Debug)]
pub(super) struct Destination(String);

impl std::str::FromStr for Destination {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(text.to_owned()))
    }
}

/// A destination that is open for writing.
#[derive(Debug)]
pub(super) enum Opened {
    Output(JsonlWriter<io::Stdout>),
    Jsonl(JsonlDestination),
    Zstd(ZstdDestination),
    Sqlite(SqliteDestination),
}

impl Opened {
    pub(super) fn destination(&mut self) -> &mut dyn log::Destination {
        match self {
            Self::Output(it) => it,
            Self::Jsonl(it) => it,
            Self::Zstd(it) => it,
            Self::Sqlite(it) => it,
        }
    }

    /// Whether the bytes are other ones than those of a copy into a new file.
    pub(super) fn is_cut_elsewhere(&self) -> bool {
        matches!(self, Self::Zstd(it) if it.is_cut_elsewhere())
    }
}

impl Destination {
    pub(super) fn is_output(&self) -> bool {
        self.0 == "-"
    }

    /// The name for messages.
    pub(super) fn name(&self) -> String {
        if self.is_output() { "standard output".to_owned() } else { self.0.clone() }
    }

    /// What is there by its first bytes, or what its name says that it is to be.
    ///
    /// Nothing is created, and no file is open any more when this returns.
    pub(super) fn kind(&self) -> Result<Kind, CliError> {
        if self.is_output() {
            return Ok(Kind::Jsonl);
        }
        if self.0.contains("://") {
            return Err(CliError::OtherBackend { name: self.name() });
        }
        let path = Path::new(&self.0);
        let open = || match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => Err(ErrorKind::IsADirectory.into()),
            // Whatever else it is, it has no first bytes of its own.
            Ok(metadata) if !metadata.is_file() => {
                Err(io::Error::new(ErrorKind::InvalidInput, "it is no plain file"))
            }
            Ok(_) => File::open(path).map(Some),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        };
        let file = open().map_err(|source| CliError::OpenTo { path: path.to_owned(), source })?;
        let head = file.map(|file| Head::read(file, &self.0)).transpose()?;
        match head {
            Some(head) if !head.is_empty() => head.kind(),
            _ => kind_of_name(&self.0).ok_or_else(|| CliError::UnknownKind { name: self.name() }),
        }
    }

    /// Refuses what the source is read from.
    pub(super) fn check_is_not(&self, source: &Source) -> Result<(), CliError> {
        let path = (!self.is_output()).then(|| PathBuf::from(&self.0));
        if is_same(source.path(), path.as_deref()) {
            return Err(CliError::SameFile { source_name: source.name(), name: self.name() });
        }
        Ok(())
    }

    /// Opens it for writing; a file is created where there is none.
    pub(super) fn open(&self, kind: Kind) -> Result<Opened, CliError> {
        let path = &self.0;
        let to_jsonl = |source| CliError::JsonlDestination { source };
        Ok(match kind {
            _ if self.is_output() => Opened::Output(JsonlWriter::new(io::stdout())),
            Kind::Jsonl => Opened::Jsonl(JsonlDestination::open(path).map_err(to_jsonl)?),
            Kind::Zstd => Opened::Zstd(ZstdDestination::open(path).map_err(to_jsonl)?),
            Kind::Sqlite => Opened::Sqlite(
                SqliteDestination::open(path).map_err(|source| CliError::Database { source })?,
            ),
        })
    }
}

/// The kind of file that a name is for.
fn kind_of_name(name: &str) -> Option<Kind> {
    let kinds = [
        (".jsonl", Kind::Jsonl),
        (".zst", Kind::Zstd),
        (".db", Kind::Sqlite),
        (".sqlite", Kind::Sqlite),
        (".sqlite3", Kind::Sqlite),
    ];
    kinds.into_iter().find(|(end, _)| name.ends_with(end)).map(|(_, kind)| kind)
}

/// Whether two names are of one file; `None` is standard input or output.
#[cfg(unix)]
fn is_same(source: Option<&Path>, destination: Option<&Path>) -> bool {
    use std::os::{fd::AsFd, unix::fs::MetadataExt};

    let of_stream = |stream: io::Result<std::os::fd::OwnedFd>| File::from(stream?).metadata();
    let source = match source {
        Some(path) => fs::metadata(path),
        None => of_stream(io::stdin().as_fd().try_clone_to_owned()),
    };
    let destination = match destination {
        Some(path) => fs::metadata(path),
        None => of_stream(io::stdout().as_fd().try_clone_to_owned()),
    };
    let file = |metadata: io::Result<fs::Metadata>| {
        let file = metadata.ok().filter(fs::Metadata::is_file);
        file.map(|metadata| (metadata.dev(), metadata.ino()))
    };
    file(source).is_some_and(|source| file(destination) == Some(source))
}

/// Whether two names are of one file, as far as names tell.
#[cfg(not(unix))]
fn is_same(source: Option<&Path>, destination: Option<&Path>) -> bool {
    let file = |path: Option<&Path>| path.and_then(|path| fs::canonicalize(path).ok());
    file(source).is_some_and(|source| file(destination) == Some(source))
}
