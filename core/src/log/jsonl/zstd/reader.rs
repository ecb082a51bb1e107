//! Reading frames, and knowing where each ends.

use std::{
    fmt,
    io::{self, ErrorKind, Read},
};

use ::zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

/// Reads the text out of zstd frames that follow one another, whoever wrote them.
///
/// # Examples
///
/// ```
/// use std::io::{Read, Write};
/// use recount_core::log::jsonl::{ZstdReader, ZstdWriter};
///
/// let mut writer = ZstdWriter::new(Vec::new())?;
/// writer.write_all(b"one\ntwo\n")?;
/// let frames = writer.finish()?;
///
/// let mut text = String::new();
/// ZstdReader::new(&frames[..])?.read_to_string(&mut text)?;
/// assert_eq!(text, "one\ntwo\n");
///
/// let error = ZstdReader::new(&frames[..9])?.read_to_string(&mut text).unwrap_err();
/// assert_eq!(error.to_string(), "incomplete frame");
/// # Ok::<_, std::io::Error>(())
/// ```
pub struct ZstdReader<R> {
    source: R,
    decoder: Decoder<'static>,
    input: Vec<u8>,
    /// What of the input was not decoded yet.
    start: usize,
    end: usize,
    /// How many bytes were decoded in all.
    decoded: u64,
    is_between: bool,
    /// Whether there may be more text without more input.
    has_more: bool,
}

/// How far a reader came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// So much text, behind which its frame may end.
    Text { length: usize, is_end: bool },
    /// The source ended behind a frame.
    End,
    /// The source ended within a frame.
    Cut,
}

/// How much is read at a time.
const INPUT_BYTES: usize = 128 << 10;

impl<R: Read> ZstdReader<R> {
    /// Reads from the beginning of a frame; `source` needs no buffer.
    ///
    /// # Errors
    ///
    /// Where zstd cannot be set up.
    pub fn new(source: R) -> io::Result<Self> {
        Ok(Self {
            source,
            decoder: Decoder::new()?,
            input: vec![0; INPUT_BYTES],
            start: 0,
            end: 0,
            decoded: 0,
            is_between: true,
            has_more: false,
        })
    }

    /// How many bytes were decoded in all: behind a frame's end, where it ends.
    pub(super) fn decoded(&self) -> u64 {
        self.decoded
    }

    /// Reads some text of one frame into a buffer, which has room.
    pub(super) fn step(&mut self, into: &mut [u8]) -> io::Result<Step> {
        if self.start == self.end && !self.has_more && !self.fill()? {
            return Ok(if self.is_between { Step::End } else { Step::Cut });
        }
        if self.is_between {
            self.decoder.reinit()?;
            self.is_between = false;
        }
        let mut input = InBuffer::around(&self.input[self.start..self.end]);
        let mut output = OutBuffer::around(into);
        let hint = self.decoder.run(&mut input, &mut output)?;
        let (taken, length) = (input.pos(), output.pos());
        self.start += taken;
        self.decoded += taken as u64;
        self.is_between = hint == 0;
        self.has_more = hint != 0 && length == into.len();
        Ok(Step::Text { length, is_end: self.is_between })
    }

    fn fill(&mut self) -> io::Result<bool> {
        loop {
            match self.source.read(&mut self.input) {
                Ok(read) => {
                    (self.start, self.end) = (0, read);
                    return Ok(read > 0);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl<R: Read> Read for ZstdReader<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while !into.is_empty() {
            match self.step(into)? {
                Step::Text { length: 0, .. } => {}
                Step::Text { length, .. } => return Ok(length),
                Step::End => break,
                Step::Cut => {
                    return Err(io::Error::new(ErrorKind::UnexpectedEof, "incomplete frame"));
                }
            }
        }
        Ok(0)
    }
}

impl<R: fmt::Debug> fmt::Debug for ZstdReader<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZstdReader")
            .field("source", &self.source)
            .field("decoded", &self.decoded)
            .finish_non_exhaustive()
    }
}
