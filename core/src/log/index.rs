//! What a log that one process writes knows of its events, and what it does with a batch.
//!
//! Shared by the backends that find their events through memory. An event is first put behind the
//! others, where only the next admission sees it, and shown to readers once it is durable.

use std::collections::HashMap;

use super::{AppendError, Appended, LogHead};
use crate::{Digest, EventBatch, Position, Revision, SealedEvent, StreamHead, StreamName};

/// One event of the index.
#[derive(Clone, Debug)]
pub(super) struct Entry<T> {
    pub(super) position: Position,
    pub(super) digest: Digest,
    pub(super) slot: T,
}

/// The events of a log by position, and by stream and revision.
#[derive(Debug)]
pub(super) struct Index<T> {
    events: Vec<Entry<T>>,
    /// Positions by revision.
    streams: HashMap<StreamName, Vec<usize>>,
    /// How many events readers see.
    committed: usize,
}

/// What becomes of a batch.
#[derive(Debug)]
pub(super) enum Admission {
    /// It is appended.
    New,
    /// It is answered without being appended.
    Known {
        answer: Result<Appended, AppendError>,
        /// How many events must be durable for the answer to hold.
        after: usize,
    },
}

impl<T> Index<T> {
    pub(super) fn new() -> Self {
        Self { events: Vec::new(), streams: HashMap::new(), committed: 0 }
    }

    /// Judges a batch by all events that were put here, durable or not.
    pub(super) fn admit(&self, batch: &EventBatch, max_row_bytes: usize) -> Admission {
        let places = self.streams.get(batch.stream()).map_or(&[][..], Vec::as_slice);
        let wanted = batch.head();
        // Digests are chained: where the last is the same, so are those before it.
        if let Some(last) = place(places, wanted.revision)
            && self.events[last].digest == wanted.digest
        {
            let first = &batch.events()[0];
            let first = place(places, first.revision()).unwrap_or(last);
            let first_position = self.events[first].position;
            let answer = Ok(Appended { head: wanted, first_position });
            return Admission::Known { answer, after: last + 1 };
        }
        let actual = self.stream_head(places);
        if actual != batch.expected() {
            let (stream, expected) = (batch.stream().clone(), batch.expected());
            let answer = Err(AppendError::Conflict { stream, expected, actual });
            let after = places.last().map_or(0, |last| last + 1);
            return Admission::Known { answer, after };
        }
        match self.refusal(batch, max_row_bytes) {
            Some(error) => Admission::Known { answer: Err(error), after: 0 },
            None => Admission::New,
        }
    }

    fn refusal(&self, batch: &EventBatch, max: usize) -> Option<AppendError> {
        for (event, place) in batch.events().iter().zip(self.events.len()..) {
            let Some(position) = Position::new(place as u64) else {
                return Some(AppendError::Full);
            };
            let length = row_length(position, event);
            if length > max {
                let stream = batch.stream().clone();
                let revision = event.revision();
                return Some(AppendError::TooLarge { stream, revision, length, max });
            }
        }
        None
    }

    /// Where the next event will stand.
    pub(super) fn next_position(&self) -> Position {
        self.events.last().map_or(Position::ZERO, |last| last.position.next())
    }

    /// Puts an event behind the others, out of sight of readers.
    pub(super) fn push(&mut self, event: &SealedEvent, slot: T) {
        let entry = Entry { position: self.next_position(), digest: event.digest(), slot };
        self.streams.entry(event.stream().clone()).or_default().push(self.events.len());
        self.events.push(entry);
    }

    /// Shows readers what was put here, and says how many events there are.
    pub(super) fn commit(&mut self) -> usize {
        self.committed = self.events.len();
        self.committed
    }

    /// Forgets what was put here and not shown.
    pub(super) fn roll_back(&mut self) {
        self.events.truncate(self.committed);
        self.streams.retain(|_, places| {
            places.truncate(visible(places, self.committed));
            !places.is_empty()
        });
    }

    /// How many events were put here, durable or not.
    pub(super) fn length(&self) -> usize {
        self.events.len()
    }

    /// How many events readers see.
    pub(super) fn committed(&self) -> usize {
        self.committed
    }

    /// How many events of a stream readers see.
    pub(super) fn committed_of(&self, stream: &StreamName) -> usize {
        self.streams.get(stream).map_or(0, |places| visible(places, self.committed))
    }

    /// The last event that readers see.
    pub(super) fn head(&self) -> Option<LogHead> {
        let last = &self.events[self.committed.checked_sub(1)?];
        Some(LogHead { position: last.position, digest: last.digest })
    }

    /// The event at a place of a stream, or of the log, that is before its end.
    pub(super) fn entry(&self, stream: Option<&StreamName>, at: usize) -> &Entry<T> {
        let place = stream.map_or(at, |stream| self.streams[stream][at]);
        &self.events[place]
    }

    fn stream_head(&self, places: &[usize]) -> Option<StreamHead> {
        let last = *places.last()?;
        let revision = Revision::new(places.len() as u64 - 1)?;
        Some(StreamHead { revision, digest: self.events[last].digest })
    }
}

fn place(places: &[usize], revision: Revision) -> Option<usize> {
    places.get(usize::try_from(revision.get()).ok()?).copied()
}

fn visible(places: &[usize], committed: usize) -> usize {
    places.partition_point(|place| *place < committed)
}

/// How long the row of an event is, without its newline; see [`crate::write_row`].
pub(super) fn row_length(position: Position, event: &SealedEvent) -> usize {
    const AROUND: usize = r#"{"digest":"","event":,"position":}"#.len() + 64;
    let digits = position.get().checked_ilog10().unwrap_or(0) as usize + 1;
    AROUND + event.text().len() + digits
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{log::conformance::batch, write_row};

    #[test]
    fn the_length_of_a_row_is_that_of_what_is_written() {
        let batch = batch("delivery-a", None, &["x"]);
        for position in [0, 9, 10, 99, 100, (1 << 53) - 1] {
            let position = Position::new(position).unwrap();
            let mut row = Vec::new();
            write_row(&mut row, position, &batch.events()[0]);
            assert_eq!(row_length(position, &batch.events()[0]), row.len() - 1);
        }
    }

    #[test]
    fn what_is_rolled_back_was_never_there() {
        let mut index = Index::new();
        let first = batch("delivery-a", None, &["1"]);
        index.push(&first.events()[0], ());
        index.commit();
        let second = batch("delivery-a", Some(first.head()), &["2"]);
        let other = batch("delivery-b", None, &["3"]);
        index.push(&second.events()[0], ());
        index.push(&other.events()[0], ());
        index.roll_back();
        assert_eq!((index.events.len(), index.streams.len()), (1, 1));
        for batch in [&second, &other] {
            let admission = index.admit(batch, usize::MAX);
            assert!(matches!(admission, Admission::New), "{admission:?}");
        }
    }
}
