//! Reading a text in large blocks that end at line ends.
//!
//! Blocks can be worked on side by side. One line is never held beyond the largest row, however
//! long it is.

use std::io::{self, ErrorKind, Read};

use crate::MAX_ROW_BYTES;

/// How much is read at a time, unless a line is longer: what is made of it stays in a core's cache.
const BLOCK_BYTES: usize = 128 << 10;

/// Reads blocks of whole lines.
///
/// # Examples
///
/// ```
/// use recount_core::log::jsonl::{Block, BlockReader};
///
/// let mut reader = BlockReader::new(&b"one\ntwo\n"[..]);
/// let mut block = Block::default();
/// assert!(reader.next(&mut block)?);
/// let lines: Vec<_> = block.lines().map(|line| (line.bytes, line.offset, line.is_ended)).collect();
/// assert_eq!(lines, [(&b"one"[..], 0, true), (b"two", 4, true)]);
/// assert!(!reader.next(&mut block)?);
/// # Ok::<_, std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct BlockReader<R> {
    source: R,
    /// What was read behind the last line end.
    rest: Vec<u8>,
    offset: u64,
    is_done: bool,
}

/// Some lines of a text.
#[derive(Debug, Default)]
pub struct Block {
    /// As long as it ever was, so that it is not filled with zeros again and again.
    buffer: Vec<u8>,
    length: usize,
    offset: u64,
    oversized: Option<Oversized>,
}

/// One line of a text, without its line end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// Where they begin in the text.
    pub offset: u64,
    /// Whether a line end stands behind them; only the last line may have none.
    pub is_ended: bool,
}

/// A line that is longer than the largest row, and was not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Oversized {
    /// Where it begins in the text.
    pub offset: u64,
    /// How long it is.
    pub length: u64,
}

impl<R: Read> BlockReader<R> {
    /// Reads from the beginning of a text.
    pub fn new(source: R) -> Self {
        Self { source, rest: Vec::new(), offset: 0, is_done: false }
    }

    /// Fills a block with the next lines, and says whether there were any.
    ///
    /// # Errors
    ///
    /// Those of the source.
    pub fn next(&mut self, block: &mut Block) -> io::Result<bool> {
        block.length = 0;
        block.oversized = None;
        block.offset = self.offset;
        block.room(self.rest.len()).copy_from_slice(&self.rest);
        block.length = self.rest.len();
        self.rest.clear();
        while !self.is_done {
            let before = block.length;
            self.fill(block)?;
            if let Some(end) = memchr::memrchr(b'\n', &block.bytes()[before..]) {
                let end = before + end + 1;
                self.rest.extend_from_slice(&block.bytes()[end..]);
                block.length = end;
                break;
            }
            if block.length > MAX_ROW_BYTES {
                let (skipped, line_end) = self.skip_line()?;
                let length = block.length as u64 + skipped;
                block.oversized = Some(Oversized { offset: self.offset, length });
                block.length = 0;
                self.offset += length + line_end;
                return Ok(true);
            }
        }
        self.offset += block.length as u64;
        Ok(block.length > 0)
    }

    /// Reads some more, until a block is full or the text ends.
    fn fill(&mut self, block: &mut Block) -> io::Result<()> {
        let wanted = BLOCK_BYTES.saturating_sub(block.length).max(BLOCK_BYTES / 2);
        let end = block.length + wanted;
        while block.length < end {
            let room = block.room(end - block.length);
            match self.source.read(room) {
                Ok(0) => {
                    self.is_done = true;
                    break;
                }
                Ok(read) => block.length += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads up to the next line end, keeps what is behind it, and returns how long the line went
    /// on, and how long its end is.
    fn skip_line(&mut self) -> io::Result<(u64, u64)> {
        let mut skipped = 0;
        let mut bytes = vec![0; BLOCK_BYTES];
        loop {
            let read = match self.source.read(&mut bytes) {
                Ok(0) => {
                    self.is_done = true;
                    return Ok((skipped, 0));
                }
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if let Some(end) = memchr::memchr(b'\n', &bytes[..read]) {
                self.rest.extend_from_slice(&bytes[end + 1..read]);
                return Ok((skipped + end as u64, 1));
            }
            skipped += read as u64;
        }
    }
}

impl Block {
    fn bytes(&self) -> &[u8] {
        &self.buffer[..self.length]
    }

    /// Room for so many more bytes.
    fn room(&mut self, length: usize) -> &mut [u8] {
        let end = self.length + length;
        if self.buffer.len() < end {
            self.buffer.resize(end, 0);
        }
        &mut self.buffer[self.length..end]
    }

    /// The lines, in order.
    pub fn lines(&self) -> impl Iterator<Item = Line<'_>> {
        let mut start = 0;
        std::iter::from_fn(move || {
            let rest = self.bytes().get(start..).filter(|rest| !rest.is_empty())?;
            let end = memchr::memchr(b'\n', rest);
            let bytes = &rest[..end.unwrap_or(rest.len())];
            let offset = self.offset + start as u64;
            start += bytes.len() + 1;
            Some(Line { bytes, offset, is_ended: end.is_some() })
        })
    }

    /// The one line that this block stands for, where it is longer than a row can be.
    pub fn oversized(&self) -> Option<Oversized> {
        self.oversized
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A source that gives a few bytes at a time.
    struct Trickle<'a>(&'a [u8], usize);

    impl Read for Trickle<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let length = self.1.min(into.len()).min(self.0.len());
            into[..length].copy_from_slice(&self.0[..length]);
            self.0 = &self.0[length..];
            Ok(length)
        }
    }

    type Owned = (Vec<u8>, u64, bool);

    fn lines(text: &[u8], step: usize) -> (Vec<Owned>, Vec<Oversized>) {
        let mut reader = BlockReader::new(Trickle(text, step));
        let mut block = Block::default();
        let (mut lines, mut oversized) = (Vec::new(), Vec::new());
        while reader.next(&mut block).unwrap() {
            oversized.extend(block.oversized());
            lines.extend(block.lines().map(|it| (it.bytes.to_vec(), it.offset, it.is_ended)));
        }
        (lines, oversized)
    }

    #[test]
    fn lines_come_whole_and_in_order_however_they_are_read() {
        let text = b"one\n\nthree\nfour";
        let expected =
            [(&b"one"[..], 0, true), (b"", 4, true), (b"three", 5, true), (b"four", 11, false)];
        for step in 1..20 {
            let (lines, oversized) = lines(text, step);
            assert_eq!(oversized, []);
            let lines: Vec<_> =
                lines.iter().map(|(bytes, at, end)| (&bytes[..], *at, *end)).collect();
            assert_eq!(lines, expected);
        }
        assert_eq!(lines(b"", 1).0, []);
        let many = b"0123456789\n".repeat(400_000);
        let (read, _) = lines(&many, 70_000);
        assert_eq!(read.len(), 400_000);
        assert!(
            read.iter().enumerate().all(|(n, line)| line.1 == n as u64 * 11 && line.0.len() == 10)
        );
    }

    #[test]
    fn o_25_a_line_of_64_mib_is_reported_and_not_held() {
        let mut text = b"before\n".to_vec();
        text.resize(7 + (64 << 20), b'x');
        text.extend_from_slice(b"\nafter");
        let (lines, oversized) = lines(&text, 1 << 20);
        assert_eq!(oversized, [Oversized { offset: 7, length: 64 << 20 }]);
        let after = (64 << 20) + 8;
        assert_eq!(lines, [(b"before".to_vec(), 0, true), (b"after".to_vec(), after, false)]);
    }
}
