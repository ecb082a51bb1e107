//! Opening what is to be read, without ever writing to it.

use std::{
    fs::File,
    io::{self, Cursor, ErrorKind, Read, Write},
    path::{Path, PathBuf},
    thread,
};

use clap::{Args, ValueHint};
use recount_core::{
    StreamName,
    log::{
        RowSource,
        jsonl::{JsonlRows, ZstdReader},
        sqlite::{OpenError, SqliteRows},
    },
};
use recount_projections::{ReplayError, Until};

use super::{
    Format,
    error::CliError,
    output::{HINT, paint},
    progress::{Progress, Unit},
};

/// The arguments of every command that reads a log.
#[derive(Args, Clone, Debug)]
pub(super) struct Reading {
    /// The log: a .jsonl, .jsonl.zst or SQLite file, or - for standard input
    #[arg(value_hint = ValueHint::FilePath)]
    pub(super) source: Source,
    /// Threads that examine rows [default: the machine's cores, 4 at most]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: Option<u16>,
    /// How the result is printed
    #[arg(long, value_enum, default_value_t)]
    pub(super) format: Format,
}

/// The arguments of every command that looks at what a log folds to.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct Looking {
    /// Look at the log as it was: up to a position, or what was recorded by a time
    #[arg(long, value_name = "POSITION|TIME")]
    pub(super) until: Option<Until>,
    /// Skip and count events that cannot be read or do not fit; the exit status is then 2
    #[arg(long)]
    pub(super) keep_going: bool,
}

impl Reading {
    /// Those of a plain command on a file.
    pub(super) fn of(path: &Path) -> Self {
        let source = Source(path.display().to_string());
        Self { source, jobs: None, format: Format::Human }
    }

    /// How many threads examine rows.
    pub(super) fn jobs(&self) -> usize {
        let cores = || thread::available_parallelism().map_or(1, |cores| cores.get().min(4));
        self.jobs.map_or_else(cores, usize::from)
    }
}

impl Looking {
    /// Says so where what was asked for is the whole log.
    pub(super) fn note(
        &self,
        out: &mut impl Write,
        is_cut: bool,
        last: Option<u64>,
    ) -> io::Result<()> {
        match last {
            Some(last) if self.until.is_some() && !is_cut => {
                let note = paint(HINT, "note:");
                writeln!(out, "{note} the log ends at position {last}, which --until is not before")
            }
            _ => Ok(()),
        }
    }
}

/// A source as it is named on the command line.
#[derive(Clone, Debug)]
pub(super) struct Source(String);

impl std::str::FromStr for Source {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(text.to_owned()))
    }
}

impl Source {
    /// The name for messages.
    pub(super) fn name(&self) -> String {
        if self.0 == "-" { "standard input".to_owned() } else { self.0.clone() }
    }

    /// Its path, where it is a file.
    pub(super) fn path(&self) -> Option<&Path> {
        if self.0 == "-" { None } else { Some(Path::new(&self.0)) }
    }

    /// Opens it for reading, and looks whether it can be a log at all.
    pub(super) fn open(&self) -> Result<Opened, CliError> {
        self.open_for(None)
    }

    /// The same for reading one stream: other rows are left out where that is cheap.
    pub(super) fn open_stream(&self, stream: &StreamName) -> Result<Opened, CliError> {
        self.open_for(Some(stream))
    }

    fn open_for(&self, stream: Option<&StreamName>) -> Result<Opened, CliError> {
        if self.0 == "-" {
            return Head::read(io::stdin(), "standard input")?.open(None, None);
        }
        if self.0.contains("://") {
            return Err(CliError::OtherBackend { name: self.name() });
        }
        let path = PathBuf::from(&self.0);
        let open = |path: &PathBuf| {
            let file = File::open(path)?;
            if file.metadata()?.is_dir() { Err(ErrorKind::IsADirectory.into()) } else { Ok(file) }
        };
        match open(&path) {
            Ok(file) => Head::read(file, &self.0)?.open(Some(&path), stream),
            Err(source) => Err(CliError::Open { path, source }),
        }
    }

    /// Puts the source's name to an error of reading it.
    pub(super) fn unreadable(&self, source: io::Error) -> CliError {
        CliError::Read { name: self.name(), source }
    }

    /// Puts the source's name to an error of folding it.
    pub(super) fn cannot_replay(&self, error: ReplayError) -> CliError {
        match error {
            ReplayError::Io(error) => self.unreadable(error),
            source => CliError::Replay { name: self.name(), source },
        }
    }
}

/// A log that is open for reading.
pub(super) struct Opened {
    pub(super) rows: Box<dyn RowSource + Send>,
    pub(super) kind: Kind,
    /// How far the rows are read.
    pub(super) progress: Progress,
}

/// How a log is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Jsonl,
    Zstd,
    Sqlite,
}

impl Kind {
    /// For people.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Jsonl => "JSON Lines",
            Self::Zstd => "JSON Lines in zstd",
            Self::Sqlite => "SQLite",
        }
    }

    /// For machines.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Jsonl => "jsonl",
            Self::Zstd => "zstd",
            Self::Sqlite => "sqlite",
        }
    }
}

/// What the first bytes of other files are.
const OTHER_FILES: &[(&[u8], &str, &str)] = &[
    (b"\x1f\x8b", "compressed (gzip)", "try: gzip -dc FILE | recount verify -"),
    (b"PK\x03\x04", "an archive (zip)", "unpack it and name the .jsonl file in it"),
    (b"\xff\xfe", "text in UTF-16", "a log is UTF-8, as Recount writes it"),
    (b"\xfe\xff", "text in UTF-16", "a log is UTF-8, as Recount writes it"),
];

/// What text that is compressed with zstd begins with, and an SQLite database.
const ZSTD: &[u8] = b"\x28\xb5\x2f\xfd";
const SQLITE: &[u8] = b"SQLite format 3\0";

/// How many of the first bytes are looked at.
const HEAD_BYTES: usize = 512;

/// The first bytes of what may be a log, and the rest of it.
pub(super) struct Head<R> {
    bytes: Vec<u8>,
    rest: R,
    name: String,
}

impl<R: Read + Send + 'static> Head<R> {
    pub(super) fn read(mut source: R, name: &str) -> Result<Self, CliError> {
        let (name, mut bytes) = (name.to_owned(), Vec::with_capacity(HEAD_BYTES));
        match (&mut source).take(HEAD_BYTES as u64).read_to_end(&mut bytes) {
            Ok(_) => Ok(Self { bytes, rest: source, name }),
            Err(source) => Err(CliError::Read { name, source }),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// What it is, by its first bytes.
    pub(super) fn kind(&self) -> Result<Kind, CliError> {
        let head = &self.bytes;
        if head.starts_with(ZSTD) {
            return Ok(Kind::Zstd);
        }
        if head.starts_with(SQLITE) {
            return Ok(Kind::Sqlite);
        }
        let known = OTHER_FILES.iter().find(|(magic, ..)| head.starts_with(magic));
        let (what, hint) = match known {
            Some((_, what, hint)) => (*what, *hint),
            // A compressed file whose writing was interrupted at once.
            None if !head.is_empty() && ZSTD.starts_with(head) => return Ok(Kind::Zstd),
            None if head.contains(&0) => (
                "a binary file",
                "name the file that holds the events: .jsonl, .jsonl.zst or SQLite",
            ),
            None => return Ok(Kind::Jsonl),
        };
        Err(CliError::OtherFile { name: self.name.clone(), what, hint })
    }

    fn open(self, path: Option<&Path>, stream: Option<&StreamName>) -> Result<Opened, CliError> {
        let kind = self.kind()?;
        let Self { bytes, rest, name } = self;
        if let (Kind::Sqlite, Some(path)) = (kind, path) {
            // Whoever closes a file takes the locks away that SQLite has on it.
            drop(rest);
            return open_database(path, stream).map_err(|source| CliError::Database { source });
        }
        let length = path.and_then(|path| path.metadata().ok()).map(|file| file.len());
        let progress = Progress::new(length, Unit::Bytes);
        let text = progress.reader(Cursor::new(bytes).chain(rest));
        let rows: Box<dyn RowSource + Send> = match kind {
            Kind::Jsonl => Box::new(JsonlRows::new(text)),
            Kind::Zstd => match ZstdReader::new(text) {
                Ok(text) => Box::new(JsonlRows::new(text)),
                Err(source) => return Err(CliError::Read { name, source }),
            },
            Kind::Sqlite => {
                let hint = "name the file: part of a database may be in another one beside it";
                return Err(CliError::OtherFile { name, what: "an SQLite database", hint });
            }
        };
        Ok(Opened { rows, kind, progress })
    }
}

fn open_database(path: &Path, stream: Option<&StreamName>) -> Result<Opened, OpenError> {
    let rows = match stream {
        Some(stream) => SqliteRows::open_stream(path, stream),
        None => SqliteRows::open(path),
    }?;
    let last = rows.last_position().map(|last| last.get() + 1);
    let progress = Progress::new(last, Unit::Events);
    let rows = Box::new(progress.rows(rows));
    Ok(Opened { rows, kind: Kind::Sqlite, progress })
}
