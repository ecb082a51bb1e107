//! What a process knows of a stream.

use std::sync::Arc;

use futures_util::TryStreamExt;

use super::{StreamAggregate, StreamError};
use crate::{
    Digest, DomainEvent, Instant, RecordedEvent, Revision, StreamHead, StreamName,
    log::{Direction, EventLog, EventStream},
};

/// A stream's events, folded up to a head.
pub(super) struct Known<A> {
    pub(super) aggregate: A,
    pub(super) head: Option<StreamHead>,
    /// When the last event was recorded, and never before that of an earlier one.
    pub(super) recorded_at: Instant,
    /// Whether the log must be read before anything is decided on this.
    pub(super) is_behind: bool,
}

impl<A: StreamAggregate> Known<A> {
    /// Nothing is known yet.
    pub(super) fn nothing(key: &A::Key) -> Self {
        Self { aggregate: A::empty(key), head: None, recorded_at: Instant::ZERO, is_behind: true }
    }

    /// Folds what the log has behind the known head.
    ///
    /// Where the head is not in the log, as after a backup was put in its place, everything is
    /// folded anew. Dropped half-way, or after an error, what was folded is known and the rest is
    /// still behind.
    pub(super) async fn catch_up(
        &mut self,
        key: &A::Key,
        log: &dyn EventLog,
        stream: &StreamName,
    ) -> Result<(), Arc<StreamError>> {
        self.is_behind = true;
        let failed = |source| Arc::new(StreamError::Read { stream: stream.clone(), source });
        let mut events = self.read(log, stream);
        if self.head.is_some() {
            let known = events.try_next().await.map_err(failed)?;
            if known.map(|recorded| recorded.event.head()) != self.head {
                *self = Self::nothing(key);
                events = self.read(log, stream);
            }
        }
        while let Some(recorded) = events.try_next().await.map_err(failed)? {
            self.fold(&recorded)?;
        }
        self.is_behind = false;
        Ok(())
    }

    /// The stream from the known head on, itself included.
    fn read<'a>(&self, log: &'a dyn EventLog, stream: &StreamName) -> EventStream<'a> {
        let from = self.head.map(|head| head.revision);
        log.read_stream(stream, from, Direction::Forward, usize::MAX)
    }

    fn fold(&mut self, recorded: &RecordedEvent) -> Result<(), Arc<StreamError>> {
        let RecordedEvent { position, event } = recorded;
        let (stream, position, revision) = (event.stream(), *position, event.revision());
        let (found, expected) = (event.previous_digest(), self.head);
        let next = expected
            .map_or((Revision::ZERO, Digest::ZERO), |head| (head.revision.next(), head.digest));
        if (revision, found) != next {
            let stream = stream.clone();
            return Err(StreamError::Chain { stream, revision, position, found, expected }.into());
        }
        let (event_type, version) = (event.event_type(), event.schema_version());
        let decoded = DomainEvent::decode(event_type, version, event.data()).map_err(|source| {
            StreamError::Decode { stream: stream.clone(), revision, position, source }
        })?;
        let own = A::own(decoded).ok_or_else(|| StreamError::Foreign {
            stream: stream.clone(),
            revision,
            position,
            event_type: event_type.clone(),
        })?;
        self.aggregate.evolve(&own);
        self.head = Some(event.head());
        self.recorded_at = self.recorded_at.max(event.recorded_at());
        Ok(())
    }
}
