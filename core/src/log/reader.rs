//! Reading events in the order of the log, and checking each against those before it.

use std::collections::{HashMap, VecDeque};

use super::{Block, Damage, Line, Place, ReadError, RowSource};
use crate::{
    Digest, MAX_ROW_BYTES, Position, RecordedEvent, Row, RowError, SealedEvent, StreamHead,
    StreamName,
};

/// Reads the events of a log in order, and checks that they are one.
///
/// Each event is checked for its spelling, its digest, its position, and that it follows the event
/// before it in its stream. The first error ends it; everything before that was a log. The last
/// line of a text that is complete but has no newline is an event, one that is cut is [`Damage::Torn`].
/// Memory holds one block, and the head of each stream.
///
/// # Examples
///
/// ```
/// use recount_core::log::jsonl::JsonlReader;
///
/// let mut reader = JsonlReader::new(&b"{\"position\":0,\"ty"[..]);
/// let error = reader.next().unwrap().unwrap_err();
/// assert_eq!(error.to_string(), "the log is damaged at position 0, line 1, byte 0");
/// assert!(reader.next().is_none());
/// ```
#[derive(Debug)]
pub struct EventReader<S> {
    source: S,
    block: Block,
    /// What was read and not yet given.
    ready: VecDeque<Result<InText, ReadError>>,
    heads: HashMap<StreamName, StreamHead>,
    next: Position,
    is_done: bool,
}

/// An event and where its row is.
#[derive(Debug)]
pub(super) struct InText {
    pub(super) event: RecordedEvent,
    /// `None` for a row of a table.
    pub(super) offset: Option<u64>,
    pub(super) length: usize,
    /// Whether there is a newline behind the row.
    pub(super) is_ended: bool,
}

impl<S: RowSource> EventReader<S> {
    /// Reads the rows of a source from the first.
    pub fn of(source: S) -> Self {
        Self {
            source,
            block: Block::default(),
            ready: VecDeque::new(),
            heads: HashMap::new(),
            next: Position::ZERO,
            is_done: false,
        }
    }

    /// The next event and where it is.
    pub(super) fn next_in_text(&mut self) -> Option<Result<InText, ReadError>> {
        while self.ready.is_empty() && !self.is_done {
            self.read_block();
        }
        self.ready.pop_front()
    }

    fn read_block(&mut self) {
        let mut block = std::mem::take(&mut self.block);
        match self.source.next(&mut block) {
            Ok(true) => self.check_block(&block),
            Ok(false) => self.is_done = true,
            Err(error) => {
                self.is_done = true;
                self.ready.push_back(Err(ReadError::Storage { source: error.into() }));
            }
        }
        self.block = block;
    }

    fn check_block(&mut self, block: &Block) {
        if let Some(line) = block.oversized() {
            let length = usize::try_from(line.length).unwrap_or(usize::MAX);
            let damage = RowError::TooLong { length, max: MAX_ROW_BYTES }.into();
            self.refuse(None, line.offset, damage);
            return;
        }
        for line in block.lines() {
            match self.check(line) {
                Ok(event) => self.ready.push_back(Ok(InText {
                    event,
                    offset: line.offset,
                    length: line.bytes.len(),
                    is_ended: line.is_ended,
                })),
                Err(damage) => {
                    self.refuse(stream_of(line.bytes), line.offset, damage);
                    return;
                }
            }
        }
    }

    fn check(&mut self, line: Line<'_>) -> Result<RecordedEvent, Damage> {
        let recorded = read_row(line)?;
        if recorded.position != self.next {
            return Err(Damage::Position { found: recorded.position, expected: self.next });
        }
        let event = &recorded.event;
        line.check_listed(event.stream(), event.revision())?;
        if let Some(head) = self.heads.get_mut(event.stream()) {
            check_chain(event, Some(*head))?;
            *head = event.head();
        } else {
            check_chain(event, None)?;
            self.heads.insert(event.stream().clone(), event.head());
        }
        self.next = self.next.next();
        Ok(recorded)
    }

    fn refuse(&mut self, stream: Option<String>, offset: Option<u64>, damage: Damage) {
        let place = place(self.next, stream, offset).into();
        self.is_done = true;
        self.ready.push_back(Err(ReadError::Damaged { place, source: damage }));
    }
}

impl<S: RowSource> Iterator for EventReader<S> {
    type Item = Result<RecordedEvent, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_in_text().map(|read| read.map(|it| it.event))
    }
}

/// The event in a row.
pub(super) fn read_row(line: Line<'_>) -> Result<RecordedEvent, Damage> {
    RecordedEvent::read(line.bytes).map_err(|error| match error {
        RowError::Utf8(_) | RowError::Json(_) | RowError::Shape { .. } if !line.is_ended => {
            Damage::Torn { length: line.bytes.len() }
        }
        error => Damage::Row(error),
    })
}

/// A place of which everything before is a log: in a text, a line for each position.
pub(super) fn place(position: Position, stream: Option<String>, offset: Option<u64>) -> Place {
    let line = offset.map(|_| position.get() + 1);
    Place { position: Some(position), stream, line, offset }
}

/// The stream that a row names, where so much of it can be read.
pub(super) fn stream_of(bytes: &[u8]) -> Option<String> {
    let mut spare = String::new();
    let row = Row::read(bytes, &mut spare).ok()?;
    Some(row.stream.to_owned())
}

/// Holds that an event follows another of its stream.
pub(super) fn check_chain(event: &SealedEvent, expected: Option<StreamHead>) -> Result<(), Damage> {
    let found = event.expected();
    if found != expected {
        return Err(Damage::Chain { found, expected });
    }
    if found.is_none() && event.previous_digest() != Digest::ZERO {
        return Err(Damage::Root { found: event.previous_digest() });
    }
    Ok(())
}
