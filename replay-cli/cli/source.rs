//! Opening what is to be read, without ever writing to it.

use std::{
    fs::File,
    io::{self, Cursor, ErrorKind, Read},
    path::{Path, PathBuf},
    thread,
};

use clap::Args;
use recount_core::log::{RowSource, jsonl::JsonlRows};

use super::{Format, error::CliError};

/// The arguments of every command that reads a log.
#[derive(Args, Clone, Debug)]
pub(super) struct Reading {
    /// The log: a .jsonl or .jsonl.zst file, or - for standard input
    pub(super) source: Source,
    /// Threads that examine rows [default: the machine's cores, 4 at most]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: Option<u16>,
    /// How the result is printed
    #[arg(long, value_enum, default_value_t)]
    pub(super) format: Format,
    /// Show what was delivered in records, too
    #[arg(long)]
    pub(super) payload: bool,
}

impl Reading {
    /// Those of a plain command on a file.
    pub(super) fn of(path: &Path) -> Self {
        let source = Source(path.display().to_string());
        Self { source, jobs: None, format: Format::Human, payload: false }
    }

    /// How many threads examine rows.
    pub(super) fn jobs(&self) -> usize {
        let cores = || thread::available_parallelism().map_or(1, |cores| cores.get().min(4));
        self.jobs.map_or_else(cores, usize::from)
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

    /// Opens it for reading, and looks whether it can be a log at all.
    pub(super) fn open(&self) -> Result<Box<dyn RowSource + Send>, CliError> {
        let name = self.name();
        if self.0 == "-" {
            return sniff(io::stdin(), &name);
        }
        if self.0.contains("://") {
            return Err(CliError::OtherBackend { name });
        }
        let path = PathBuf::from(&self.0);
        let open = |path: &PathBuf| {
            let file = File::open(path)?;
            if file.metadata()?.is_dir() { Err(ErrorKind::IsADirectory.into()) } else { Ok(file) }
        };
        match open(&path) {
            Ok(file) => sniff(file, &name),
            Err(source) => Err(CliError::Open { path, source }),
        }
    }

    /// Puts the source's name to an error of reading it.
    pub(super) fn unreadable(&self, source: io::Error) -> CliError {
        CliError::Read { name: self.name(), source }
    }
}

/// What the first bytes of other files are.
const OTHER_FILES: &[(&[u8], &str, &str)] = &[
    (b"SQLite format 3\0", "an SQLite database", "export it as JSON Lines and name that file"),
    (b"\x1f\x8b", "compressed (gzip)", "try: gzip -dc FILE | recount verify -"),
    (b"PK\x03\x04", "an archive (zip)", "unpack it and name the .jsonl file in it"),
    (b"\xff\xfe", "text in UTF-16", "a log is UTF-8, as Recount writes it"),
    (b"\xfe\xff", "text in UTF-16", "a log is UTF-8, as Recount writes it"),
];

/// What text that is compressed with zstd begins with.
const ZSTD: &[u8] = b"\x28\xb5\x2f\xfd";

/// How many of the first bytes are looked at.
const HEAD_BYTES: usize = 512;

fn sniff(
    mut source: impl Read + Send + 'static,
    name: &str,
) -> Result<Box<dyn RowSource + Send>, CliError> {
    let mut head = Vec::with_capacity(HEAD_BYTES);
    let read = (&mut source).take(HEAD_BYTES as u64).read_to_end(&mut head);
    read.map_err(|source| CliError::Read { name: name.to_owned(), source })?;
    if head.starts_with(ZSTD) {
        let decoder = zstd::Decoder::new(Cursor::new(head).chain(source));
        let decoder = decoder.map_err(|source| CliError::Read { name: name.to_owned(), source })?;
        return Ok(Box::new(JsonlRows::new(decoder)));
    }
    let known = OTHER_FILES.iter().find(|(magic, ..)| head.starts_with(magic));
    let (what, hint) = match known {
        Some((_, what, hint)) => (*what, *hint),
        None if head.contains(&0) => {
            ("a binary file", "name the .jsonl file that holds the events")
        }
        None => return Ok(Box::new(JsonlRows::new(Cursor::new(head).chain(source)))),
    };
    Err(CliError::OtherFile { name: name.to_owned(), what, hint })
}
