//! Reading a text in large blocks that end at line ends.
//!
//! One line is never held beyond the largest row, however long it is.

use std::io::{self, ErrorKind, Read};

use crate::{
    MAX_ROW_BYTES,
    log::{Block, RowSource},
};

/// How much is read at a time, unless a line is longer: what is made of it stays in a core's cache.
const BLOCK_BYTES: usize = 128 << 10;

/// The lines of a text, in blocks.
///
/// # Examples
///
/// ```
/// use recount_core::log::{Block, RowSource, jsonl::JsonlRows};
///
/// let mut reader = JsonlRows::new(&b"one\ntwo\n"[..]);
/// let mut block = Block::default();
/// assert!(reader.next(&mut block)?);
/// let lines: Vec<_> = block.lines().map(|line| (line.bytes, line.offset, line.is_ended)).collect();
/// assert_eq!(lines, [(&b"one"[..], Some(0), true), (b"two", Some(4), true)]);
/// assert!(!reader.next(&mut block)?);
/// # Ok::<_, std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct JsonlRows<R> {
    source: R,
    /// What was read behind the last line end.
    rest: Vec<u8>,
    offset: u64,
    is_done: bool,
    /// What ended the reading; what was read before is given first.
    failure: Option<io::Error>,
}

impl<R: Read> JsonlRows<R> {
    /// Reads from the beginning of a text.
    pub fn new(source: R) -> Self {
        Self { source, rest: Vec::new(), offset: 0, is_done: false, failure: None }
    }

    /// Reads some more, until a block is full, or the text ends or cannot be read.
    fn fill(&mut self, block: &mut Block) {
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
                Err(error) => {
                    self.is_done = true;
                    self.failure = Some(error);
                    break;
                }
            }
        }
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

impl<R: Read> RowSource for JsonlRows<R> {
    fn next(&mut self, block: &mut Block) -> io::Result<bool> {
        block.begin(Some(self.offset));
        block.room(self.rest.len()).copy_from_slice(&self.rest);
        block.length = self.rest.len();
        self.rest.clear();
        while !self.is_done {
            let before = block.length;
            self.fill(block);
            if let Some(end) = memchr::memrchr(b'\n', &block.bytes()[before..]) {
                let end = before + end + 1;
                self.rest.extend_from_slice(&block.bytes()[end..]);
                block.length = end;
                break;
            }
            if block.length > MAX_ROW_BYTES {
                let (skipped, line_end) = self.skip_line()?;
                let length = block.length as u64 + skipped;
                block.set_oversized(length);
                self.offset += length + line_end;
                return Ok(true);
            }
        }
        // Only what has a line end is a row for certain.
        let has_rows = memchr::memchr(b'\n', block.bytes()).is_some();
        if let Some(error) = self.failure.take_if(|_| !has_rows) {
            return Err(error);
        }
        self.offset += block.length as u64;
        Ok(block.length > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Oversized;

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

    type Owned = (Vec<u8>, Option<u64>, bool);

    fn lines(text: &[u8], step: usize) -> (Vec<Owned>, Vec<Oversized>) {
        let mut reader = JsonlRows::new(Trickle(text, step));
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
        let expected = [
            (&b"one"[..], Some(0), true),
            (b"", Some(4), true),
            (b"three", Some(5), true),
            (b"four", Some(11), false),
        ];
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
            read.iter()
                .enumerate()
                .all(|(n, line)| line.1 == Some(n as u64 * 11) && line.0.len() == 10)
        );
    }

    #[test]
    fn o_25_a_line_of_64_mib_is_reported_and_not_held() {
        let mut text = b"before\n".to_vec();
        text.resize(7 + (64 << 20), b'x');
        text.extend_from_slice(b"\nafter");
        let (lines, oversized) = lines(&text, 1 << 20);
        assert_eq!(oversized, [Oversized { offset: Some(7), length: 64 << 20 }]);
        let after = (64 << 20) + 8;
        assert_eq!(
            lines,
            [(b"before".to_vec(), Some(0), true), (b"after".to_vec(), Some(after), false)]
        );
    }
}
