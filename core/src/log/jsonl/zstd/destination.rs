//! Copying a log into a compressed file.

use std::{
    io::{self, Read},
    path::Path,
};

use ::zstd::zstd_safe::{self, MAGICNUMBER};

use super::{
    FRAME_BYTES, ZstdReader,
    frames::{Cutter, Frames},
    reader::Step,
};
use crate::{
    MAX_ROW_BYTES, RecordedEvent,
    log::{
        CopyError, Destination, RowSource,
        jsonl::{
            JsonlRows, OpenError,
            commit::{Locked, Storage},
            destination::{Output, failed},
        },
    },
    write_row,
};

/// A file of JSON Lines compressed with zstd that a log is copied to, locked as long as this is
/// there.
///
/// The same events are the same bytes, wherever they come from and however often the copy was
/// interrupted, as long as zstd itself stays the same. Where it was interrupted within a frame,
/// the file ends in a cut one, which copying again writes again.
///
/// Whole frames are never changed. So where the last one is shorter than a frame of a longer log
/// would be, or another program cut them, what is new becomes frames behind them: the text is the
/// same, the bytes are not those of a copy into a new file, and
/// [`ZstdDestination::is_cut_elsewhere`] says so.
///
/// # Examples
///
/// ```
/// use recount_core::log::{copy, jsonl::{JsonlRows, ZstdDestination}};
///
/// let directory = tempfile::tempdir()?;
/// let path = directory.path().join("copy.jsonl.zst");
/// let mut destination = ZstdDestination::open(&path)?;
/// let copied = copy(JsonlRows::new(&b""[..]), &mut destination)?;
/// assert_eq!(copied.events(), 0);
/// assert!(!destination.is_cut_elsewhere());
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ZstdDestination {
    output: Output,
    frames: Frames,
    whole: Whole,
    /// What is behind the whole frames: the beginning of another one.
    cut: Vec<u8>,
    row: Vec<u8>,
    is_cut_elsewhere: bool,
}

/// The whole frames of a file.
#[derive(Clone, Copy, Debug)]
struct Whole {
    /// Where they end.
    length: u64,
    /// Where their text ends.
    text_length: u64,
    /// Whether each is as long as a frame should be that another one follows.
    are_full: bool,
}

/// How much of a cut frame is held: more than a whole one can have.
const MAX_CUT_BYTES: u64 = 2 * (FRAME_BYTES + MAX_ROW_BYTES) as u64;

/// The longest beginning of a frame that has none of its content.
const MAX_HEADER_BYTES: usize = 18;

impl ZstdDestination {
    /// Opens a file, and creates it where there is none; what is there is decoded once, which
    /// blocks.
    ///
    /// # Errors
    ///
    /// [`OpenError::Locked`] while another copy has it open; [`OpenError::Storage`] where it cannot
    /// be opened, is no plain file, or not one of zstd frames.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        Self::open_with(path.as_ref(), FRAME_BYTES, |file| Box::new(file))
    }

    /// Opens a file whose frames and storage a test may choose.
    pub(super) fn open_with(
        path: &Path,
        frame_bytes: usize,
        wrap: impl FnOnce(Locked) -> Box<dyn Storage>,
    ) -> Result<Self, OpenError> {
        let failed = |source| OpenError::Storage { path: path.to_owned(), source };
        let mut output = Output::open(path, wrap)?;
        let whole = scan(&mut output, frame_bytes).map_err(failed)?;
        let mut cut = Vec::new();
        let rest = output.read_from(whole.length).map_err(failed)?;
        rest.take(MAX_CUT_BYTES).read_to_end(&mut cut).map_err(failed)?;
        let frames = Frames::new(frame_bytes).map_err(failed)?;
        Ok(Self { output, frames, whole, cut, row: Vec::new(), is_cut_elsewhere: false })
    }

    /// Whether what was copied stands in other frames than a copy into a new file would have made.
    pub fn is_cut_elsewhere(&self) -> bool {
        self.is_cut_elsewhere
    }

    /// Writes out the frame under way.
    fn end_frame(&mut self) -> Result<(), CopyError> {
        if !self.cut.is_empty() {
            if !self.is_beginning().map_err(failed)? {
                return Err(self.cut_frame());
            }
            // The whole frame comes in its place.
            self.output.truncate(self.whole.length).map_err(failed)?;
            self.cut.clear();
        }
        self.is_cut_elsewhere |= !self.whole.are_full;
        self.frames.end().and_then(|frame| self.output.write(frame)).map_err(failed)
    }

    /// Whether the cut frame is the beginning of one that an earlier copy would have written here:
    /// of a log that had ended meanwhile, it may be a shorter one.
    fn is_beginning(&mut self) -> io::Result<bool> {
        let text = self.frames.text();
        let length = match zstd_safe::get_frame_content_size(&self.cut) {
            Ok(Some(length)) => usize::try_from(length).unwrap_or(usize::MAX),
            Ok(None) => return Ok(false),
            Err(_) => {
                let magic = MAGICNUMBER.to_le_bytes();
                let known = self.cut.len().min(magic.len());
                let is_header = self.cut.len() < MAX_HEADER_BYTES;
                return Ok(is_header && self.cut[..known] == magic[..known]);
            }
        };
        let ends_with_row = text.get(..length).is_some_and(|text| text.ends_with(b"\n"));
        Ok(ends_with_row && self.frames.compress(length)?.starts_with(&self.cut))
    }

    fn cut_frame(&self) -> CopyError {
        CopyError::CutFrame { offset: self.whole.text_length, length: self.cut.len() as u64 }
    }
}

impl Destination for ZstdDestination {
    fn rows(&mut self) -> Result<Box<dyn RowSource + '_>, CopyError> {
        let whole = self.output.read_from(0).map_err(failed)?;
        let text = ZstdReader::new(whole.take(self.whole.length)).map_err(failed)?;
        Ok(Box::new(JsonlRows::new(text)))
    }

    fn write(&mut self, event: RecordedEvent, there: usize) -> Result<(), CopyError> {
        self.row.clear();
        write_row(&mut self.row, event.position, &event.event);
        let (_, is_end) = self.frames.take(&self.row[there..]);
        if is_end { self.end_frame() } else { Ok(()) }
    }

    fn finish(&mut self) -> Result<(), CopyError> {
        if !self.frames.text().is_empty() {
            self.end_frame()?;
        }
        if !self.cut.is_empty() {
            return Err(self.cut_frame());
        }
        self.output.sync().map_err(failed)
    }
}

/// Finds out which frames are whole.
fn scan(output: &mut Output, frame_bytes: usize) -> io::Result<Whole> {
    let mut whole = Whole { length: 0, text_length: 0, are_full: true };
    let mut reader = ZstdReader::new(output.read_from(0)?)?;
    let mut buffer = vec![0; 128 << 10];
    let mut cutter = Cutter::new(frame_bytes);
    let (mut cuts, mut text_length) = (0_u64, 0);
    while let Step::Text { length, is_end } = reader.step(&mut buffer)? {
        let mut text = &buffer[..length];
        while !text.is_empty() {
            let (taken, is_cut) = cutter.take(text);
            cuts += u64::from(is_cut);
            text = &text[taken..];
        }
        text_length += length as u64;
        if is_end {
            let are_full = whole.are_full && cuts == 1 && cutter.is_between();
            whole = Whole { length: reader.decoded(), text_length, are_full };
            (cutter, cuts) = (Cutter::new(frame_bytes), 0);
        }
    }
    Ok(whole)
}
