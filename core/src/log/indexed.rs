//! Reading and following a log through an index.

use std::{
    ops::Range,
    sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use futures_util::{StreamExt, stream};
use tokio::sync::watch;

use super::{
    Direction, EventStream, LogHead, ReadError,
    index::{Entry, Index},
};
use crate::{Position, RecordedEvent, Revision, StreamName};

/// Where a backend keeps its events.
pub(super) trait Shelf: Send + Sync + 'static {
    /// Where one event is.
    type Slot: Clone + Send + Sync;

    /// Takes an event out, and checks that it is the one with that digest.
    fn fetch(&self, entry: Entry<Self::Slot>) -> Result<RecordedEvent, ReadError>;
}

/// An index and the shelf that its slots are on: all that reading needs.
#[derive(Debug)]
pub(super) struct Indexed<S: Shelf> {
    index: RwLock<Index<S::Slot>>,
    shelf: S,
}

impl<S: Shelf> Indexed<S> {
    pub(super) fn new(index: Index<S::Slot>, shelf: S) -> Arc<Self> {
        Arc::new(Self { index: RwLock::new(index), shelf })
    }

    pub(super) fn index(&self) -> RwLockReadGuard<'_, Index<S::Slot>> {
        self.index.read().expect("nothing panics while it holds the index")
    }

    pub(super) fn index_mut(&self) -> RwLockWriteGuard<'_, Index<S::Slot>> {
        self.index.write().expect("nothing panics while it holds the index")
    }

    pub(super) fn head(&self) -> Option<LogHead> {
        self.index().head()
    }

    /// Reads what is there at the time of the call; see [`super::EventLog::read_stream`].
    pub(super) fn read_stream(
        self: &Arc<Self>,
        name: &StreamName,
        from: Option<Revision>,
        direction: Direction,
        limit: usize,
    ) -> EventStream<'static> {
        let length = self.index().committed_of(name);
        let span = span(length, from.map(Revision::get), direction, limit);
        self.events(Some(name.clone()), span, direction)
    }

    /// Reads what is there at the time of the call; see [`super::EventLog::read_all`].
    pub(super) fn read_all(
        self: &Arc<Self>,
        from: Option<Position>,
        direction: Direction,
        limit: usize,
    ) -> EventStream<'static> {
        let length = self.index().committed();
        self.events(None, span(length, from.map(Position::get), direction, limit), direction)
    }

    /// Reads on as `committed` rises, until nobody can raise it; see [`super::EventLog::subscribe`].
    pub(super) fn subscribe(
        self: &Arc<Self>,
        from: Position,
        committed: watch::Receiver<usize>,
    ) -> EventStream<'static> {
        let from = usize::try_from(from.get()).unwrap_or(usize::MAX);
        let start = (Arc::clone(self), committed, from);
        let step = async |(indexed, mut committed, at): (Arc<Self>, watch::Receiver<_>, _)| {
            if committed.wait_for(|committed| *committed > at).await.is_err() {
                return Ok(None);
            }
            let event = indexed.event(None, at)?;
            tokio::task::coop::consume_budget().await;
            Ok(Some((event, (indexed, committed, at + 1))))
        };
        stream::try_unfold(start, step).boxed()
    }

    /// Reads one event at each poll, so that no more than one is held or waited for.
    fn events(
        self: &Arc<Self>,
        stream: Option<StreamName>,
        span: Range<usize>,
        direction: Direction,
    ) -> EventStream<'static> {
        let start = (Arc::clone(self), stream, span);
        let step = move |(indexed, stream, mut span): (
            Arc<Self>,
            Option<StreamName>,
            Range<usize>,
        )| async move {
            let at = match direction {
                Direction::Forward => span.next(),
                Direction::Backward => span.next_back(),
            };
            let Some(at) = at else { return Ok(None) };
            let event = indexed.event(stream.as_ref(), at)?;
            tokio::task::coop::consume_budget().await;
            Ok(Some((event, (indexed, stream, span))))
        };
        stream::try_unfold(start, step).boxed()
    }

    /// The event at a place of a stream, or of the log, that readers see.
    fn event(&self, stream: Option<&StreamName>, at: usize) -> Result<RecordedEvent, ReadError> {
        let entry = self.index().entry(stream, at).clone();
        self.shelf.fetch(entry)
    }
}

/// The places that are read, out of so many.
fn span(length: usize, from: Option<u64>, direction: Direction, limit: usize) -> Range<usize> {
    let from = from.map(|from| usize::try_from(from).unwrap_or(usize::MAX));
    match direction {
        Direction::Forward => {
            let start = from.unwrap_or(0).min(length);
            start..start.saturating_add(limit).min(length)
        }
        Direction::Backward => {
            let end = from.map_or(length, |from| from.saturating_add(1).min(length));
            end.saturating_sub(limit)..end
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_the_part_that_is_there() {
        use Direction::{Backward, Forward};
        for (from, direction, limit, expected) in [
            (None, Forward, 9, 0..5),
            (None, Forward, 0, 0..0),
            (Some(3), Forward, usize::MAX, 3..5),
            (Some(5), Forward, 1, 5..5),
            (Some(u64::MAX), Forward, usize::MAX, 5..5),
            (None, Backward, 2, 3..5),
            (Some(0), Backward, 9, 0..1),
            (Some(3), Backward, 2, 2..4),
            (Some(u64::MAX), Backward, usize::MAX, 0..5),
        ] {
            assert_eq!(span(5, from, direction, limit), expected, "{from:?} {direction:?} {limit}");
        }
    }
}
