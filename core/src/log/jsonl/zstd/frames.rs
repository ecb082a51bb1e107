//! Cutting a text into frames, and compressing them.

use std::{fmt, io};

use ::zstd::{bulk::Compressor, zstd_safe::CParameter};

use super::LEVEL;

/// Where the frames of a text end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cutter {
    frame_bytes: usize,
    /// How much text the frame under way has.
    length: usize,
}

impl Cutter {
    pub(super) fn new(frame_bytes: usize) -> Self {
        Self { frame_bytes, length: 0 }
    }

    /// How much of a text that follows belongs to the frame under way, and whether that ends there.
    pub(super) fn take(&mut self, text: &[u8]) -> (usize, bool) {
        let short = self.frame_bytes.saturating_sub(self.length + 1).min(text.len());
        if let Some(end) = memchr::memchr(b'\n', &text[short..]) {
            self.length = 0;
            return (short + end + 1, true);
        }
        self.length += text.len();
        (text.len(), false)
    }

    /// Whether there is no frame under way.
    pub(super) fn is_between(&self) -> bool {
        self.length == 0
    }
}

/// Gathers text and makes frames of it.
pub(super) struct Frames {
    cutter: Cutter,
    text: Vec<u8>,
    frame: Vec<u8>,
    compressor: Compressor<'static>,
}

impl Frames {
    pub(super) fn new(frame_bytes: usize) -> io::Result<Self> {
        let mut compressor = Compressor::new(LEVEL)?;
        compressor.set_parameter(CParameter::ContentSizeFlag(true))?;
        compressor.set_parameter(CParameter::ChecksumFlag(true))?;
        let cutter = Cutter::new(frame_bytes);
        Ok(Self { cutter, text: Vec::new(), frame: Vec::new(), compressor })
    }

    /// Takes so much of a text as belongs to the frame under way, and says how much, and whether
    /// the frame is to be ended.
    pub(super) fn take(&mut self, text: &[u8]) -> (usize, bool) {
        let (taken, is_end) = self.cutter.take(text);
        self.text.extend_from_slice(&text[..taken]);
        (taken, is_end)
    }

    /// The text of the frame under way.
    pub(super) fn text(&self) -> &[u8] {
        &self.text
    }

    /// The frame that the first bytes of the text would be.
    pub(super) fn compress(&mut self, length: usize) -> io::Result<&[u8]> {
        let text = &self.text[..length];
        self.frame.clear();
        self.frame.reserve(::zstd::zstd_safe::compress_bound(length));
        self.compressor.compress_to_buffer(text, &mut self.frame)?;
        Ok(&self.frame)
    }

    /// Ends the frame under way, which has some text.
    pub(super) fn end(&mut self) -> io::Result<&[u8]> {
        self.compress(self.text.len())?;
        self.text.clear();
        self.cutter.length = 0;
        Ok(&self.frame)
    }
}

impl fmt::Debug for Frames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frames").field("cutter", &self.cutter).finish_non_exhaustive()
    }
}
