//! What a log that one process writes knows of its events.
//!
//! Shared by the backends that find their events through memory. An event is first put behind the
//! others, where only the next admission sees it, and shown to readers once it is durable.

use std::{collections::HashMap, convert::Infallible};

use super::{
    LogHead,
    admission::{self, Admission, Place, Places},
};
use crate::{Digest, EventBatch, Position, Revision, SealedEvent, StreamName};

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

impl<T> Index<T> {
    pub(super) fn new() -> Self {
        Self { events: Vec::new(), streams: HashMap::new(), committed: 0 }
    }

    /// Judges a batch by all events that were put here, durable or not.
    pub(super) fn admit(&self, batch: &EventBatch, max_row_bytes: usize) -> Admission {
        let Ok(admission) = admission::admit(self, batch, max_row_bytes);
        admission
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

    fn place(&self, revision: usize, at: usize) -> Option<Place> {
        let Entry { position, digest, .. } = self.events[at];
        Some(Place { position, revision: Revision::new(revision as u64)?, digest })
    }
}

impl<T> Places for Index<T> {
    type Error = Infallible;

    fn last(&self, stream: &StreamName) -> Result<Option<Place>, Infallible> {
        let last =
            self.streams.get(stream).and_then(|places| Some((places.len() - 1, *places.last()?)));
        Ok(last.and_then(|(revision, at)| self.place(revision, at)))
    }

    fn at(&self, stream: &StreamName, revision: Revision) -> Result<Option<Place>, Infallible> {
        let place = self.streams.get(stream).and_then(|places| {
            let revision = usize::try_from(revision.get()).ok()?;
            self.place(revision, *places.get(revision)?)
        });
        Ok(place)
    }

    fn count(&self) -> Result<u64, Infallible> {
        Ok(self.events.len() as u64)
    }
}

fn visible(places: &[usize], committed: usize) -> usize {
    places.partition_point(|place| *place < committed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::conformance::batch;

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
            assert!(matches!(admission, Admission::New(_)), "{admission:?}");
        }
    }
}
