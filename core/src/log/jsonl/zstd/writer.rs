//! Writing frames into a pipe or memory.

use std::io::{self, Write};

use super::{FRAME_BYTES, frames::Frames};

/// Compresses lines into zstd frames, which are the same however the text comes in parts.
///
/// A frame has at least 1 MiB of text and ends with a line. Flushing does not end one;
/// [`ZstdWriter::finish`] does.
///
/// # Examples
///
/// ```
/// use recount_core::log::jsonl::{JsonlReader, JsonlWriter, ZstdReader, ZstdWriter};
///
/// let rows = JsonlWriter::new(ZstdWriter::new(Vec::new())?);
/// let frames = rows.finish()?.finish()?;
/// assert!(JsonlReader::new(ZstdReader::new(&frames[..])?).next().is_none());
/// # Ok::<_, std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct ZstdWriter<W> {
    out: W,
    frames: Frames,
}

impl<W: Write> ZstdWriter<W> {
    /// Writes frames into an output.
    ///
    /// # Errors
    ///
    /// Where zstd cannot be set up.
    pub fn new(out: W) -> io::Result<Self> {
        Ok(Self { out, frames: Frames::new(FRAME_BYTES)? })
    }

    /// Ends the last frame, and gives the output back.
    ///
    /// # Errors
    ///
    /// Those of the output.
    pub fn finish(mut self) -> io::Result<W> {
        if !self.frames.text().is_empty() {
            self.out.write_all(self.frames.end()?)?;
        }
        self.out.flush()?;
        Ok(self.out)
    }
}

impl<W: Write> Write for ZstdWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (taken, is_end) = self.frames.take(bytes);
        if is_end {
            self.out.write_all(self.frames.end()?)?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
