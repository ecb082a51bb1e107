//! The rows of a log as they are kept, in blocks that can be worked on side by side.

use std::io;

use super::Damage;
use crate::Revision;

/// Where the rows of a log come from, whatever keeps them.
///
/// Nothing is checked here: a row is bytes, with what is known of their place.
pub trait RowSource {
    /// Fills a block with the next rows, and says whether there were any.
    ///
    /// # Errors
    ///
    /// Those of whatever keeps the rows.
    fn next(&mut self, block: &mut Block) -> io::Result<bool>;
}

impl<S: RowSource + ?Sized> RowSource for Box<S> {
    fn next(&mut self, block: &mut Block) -> io::Result<bool> {
        (**self).next(block)
    }
}

/// Some rows of a log: the lines of a text, or rows of a table.
#[derive(Debug, Default)]
pub struct Block {
    /// As long as it ever was, so that it is not filled with zeros again and again.
    buffer: Vec<u8>,
    pub(super) length: usize,
    /// Where the block begins in the text; nothing for rows of a table.
    offset: Option<u64>,
    oversized: Option<Oversized>,
    /// Where the rows of a table end, and what the table says of them.
    listed: Vec<Seat>,
    /// The stream names that the table has for them, one behind the other.
    names: String,
}

/// What a table says of a row.
#[derive(Debug)]
struct Seat {
    row_end: usize,
    name_end: usize,
    revision: i64,
}

/// One row, without a line end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// Where they begin in the text; `None` for a row of a table.
    pub offset: Option<u64>,
    /// Whether a line end stands behind them; only the last line of a text may have none.
    pub is_ended: bool,
    /// Where a table finds it.
    pub listed: Option<Listed<'a>>,
}

/// Where a table finds a row, which should be what the row itself says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed<'a> {
    /// The stream's name.
    pub stream: &'a str,
    /// The revision.
    pub revision: i64,
}

/// A row that is longer than the largest, and was not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Oversized {
    /// Where it begins in the text; `None` for a row of a table.
    pub offset: Option<u64>,
    /// How long it is.
    pub length: u64,
}

impl Line<'_> {
    /// Holds a row's own place against the one that a table has for it.
    ///
    /// # Errors
    ///
    /// [`Damage::Listed`] where they differ.
    pub fn check_listed(&self, stream: &str, revision: Revision) -> Result<(), Damage> {
        match self.listed {
            Some(listed)
                if listed.stream != stream
                    || u64::try_from(listed.revision) != Ok(revision.get()) =>
            {
                Err(Damage::Listed {
                    stream: listed.stream.to_owned(),
                    revision: listed.revision,
                    event_stream: stream.to_owned(),
                    event_revision: revision,
                })
            }
            _ => Ok(()),
        }
    }
}

impl Block {
    /// Empties it, to be filled with what begins at an offset of a text, or with rows of a table.
    pub(super) fn begin(&mut self, offset: Option<u64>) {
        self.length = 0;
        self.offset = offset;
        self.oversized = None;
        self.listed.clear();
        self.names.clear();
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.buffer[..self.length]
    }

    /// Room for so many more bytes.
    pub(super) fn room(&mut self, length: usize) -> &mut [u8] {
        let end = self.length + length;
        if self.buffer.len() < end {
            self.buffer.resize(end, 0);
        }
        &mut self.buffer[self.length..end]
    }

    /// Puts bytes behind the others.
    #[cfg(feature = "sqlite")]
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.room(bytes.len()).copy_from_slice(bytes);
        self.length += bytes.len();
    }

    /// Ends a row of a table here.
    #[cfg(feature = "sqlite")]
    pub(super) fn end_row(&mut self, listed: Listed<'_>) {
        self.names.push_str(listed.stream);
        let seat =
            Seat { row_end: self.length, name_end: self.names.len(), revision: listed.revision };
        self.listed.push(seat);
    }

    /// Makes it stand for a row that is longer than the largest.
    pub(super) fn set_oversized(&mut self, length: u64) {
        self.oversized = Some(Oversized { offset: self.offset, length });
        self.length = 0;
    }

    /// The rows, in order.
    pub fn lines(&self) -> impl Iterator<Item = Line<'_>> {
        let mut listed = self.listed.iter();
        let (mut start, mut name_start) = (0, 0);
        std::iter::from_fn(move || {
            if self.offset.is_none() {
                let seat = listed.next()?;
                let stream = &self.names[name_start..seat.name_end];
                let bytes = &self.buffer[start..seat.row_end];
                (start, name_start) = (seat.row_end, seat.name_end);
                let listed = Some(Listed { stream, revision: seat.revision });
                return Some(Line { bytes, offset: None, is_ended: true, listed });
            }
            let rest = self.bytes().get(start..).filter(|rest| !rest.is_empty())?;
            let end = memchr::memchr(b'\n', rest);
            let bytes = &rest[..end.unwrap_or(rest.len())];
            let offset = self.offset.map(|offset| offset + start as u64);
            start += bytes.len() + 1;
            Some(Line { bytes, offset, is_ended: end.is_some(), listed: None })
        })
    }

    /// The one row that this block stands for, where it is longer than a row can be.
    pub fn oversized(&self) -> Option<Oversized> {
        self.oversized
    }
}
