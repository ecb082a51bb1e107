//! Writing events as a text.

use std::io::{self, BufWriter, Write};

use super::JsonlRows;
use crate::{
    MAX_ROW_BYTES, Position, RecordedEvent, SealedEvent,
    log::{CopyError, Destination, RowSource},
    write_row,
};

/// Writes events as rows into a file, a pipe or memory, with positions from 0.
///
/// An event keeps its bytes and its digest; its position is that of its row here, whatever it was
/// elsewhere. Rows are gathered into larger writes. After an error the last row may be cut.
///
/// # Examples
///
/// ```
/// use recount_core::{
///     EventBatch, EventDraft, EventType, Instant, Metadata, StreamName,
///     log::jsonl::{JsonlReader, JsonlWriter},
/// };
///
/// let draft = EventDraft {
///     event_type: EventType::new("delivery.claimed")?,
///     schema_version: 1,
///     data: serde_json::from_str("{}")?,
///     metadata: Metadata::default(),
/// };
/// let batch = EventBatch::seal(StreamName::parse("delivery-a")?, None, [draft], Instant::ZERO)?;
///
/// let mut writer = JsonlWriter::new(Vec::new());
/// let position = writer.write(&batch.events()[0])?;
/// let text = writer.finish()?;
///
/// let read = JsonlReader::new(&text[..]).next().unwrap()?;
/// assert_eq!((read.position, &read.event), (position, &batch.events()[0]));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct JsonlWriter<W: Write> {
    out: BufWriter<W>,
    row: Vec<u8>,
    next: Position,
}

impl<W: Write> JsonlWriter<W> {
    /// Writes from position 0.
    pub fn new(out: W) -> Self {
        let out = BufWriter::with_capacity(1 << 16, out);
        Self { out, row: Vec::new(), next: Position::ZERO }
    }

    /// Writes an event behind the others, and says where.
    ///
    /// # Errors
    ///
    /// Those of the output; [`io::ErrorKind::InvalidInput`] for a row that would be too long to
    /// read, which is not written.
    pub fn write(&mut self, event: &SealedEvent) -> io::Result<Position> {
        let position = self.next;
        self.row.clear();
        write_row(&mut self.row, position, event);
        let length = self.row.len() - 1;
        if length > MAX_ROW_BYTES {
            let message = format!("a row of {length} bytes is longer than {MAX_ROW_BYTES}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        self.out.write_all(&self.row)?;
        self.next = position.next();
        Ok(position)
    }

    /// Writes out what was gathered, and gives the output back.
    ///
    /// # Errors
    ///
    /// Those of the output.
    pub fn finish(self) -> io::Result<W> {
        let mut out = self.out.into_inner().map_err(io::IntoInnerError::into_error)?;
        out.flush()?;
        Ok(out)
    }
}

/// What is written has nothing before it: to copy into a pipe, say.
impl<W: Write> Destination for JsonlWriter<W> {
    fn rows(&mut self) -> Result<Box<dyn RowSource + '_>, CopyError> {
        Ok(Box::new(JsonlRows::new(io::empty())))
    }

    fn write(&mut self, event: RecordedEvent, _: usize) -> Result<(), CopyError> {
        Self::write(self, &event.event)
            .map(|_| ())
            .map_err(|error| CopyError::Storage { source: error.into() })
    }

    fn finish(&mut self) -> Result<(), CopyError> {
        self.out.flush().map_err(|error| CopyError::Storage { source: error.into() })
    }
}
