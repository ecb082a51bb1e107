//! What becomes of a batch, whatever keeps the log: appended, known already, or refused.

use super::{AppendError, Appended};
use crate::{Digest, EventBatch, Position, Revision, SealedEvent, StreamHead, StreamName};

/// The events of a log, as far as a batch is judged by them.
pub(super) trait Places {
    /// Why they could not be looked up.
    type Error;

    /// The last event of a stream.
    fn last(&self, stream: &StreamName) -> Result<Option<Place>, Self::Error>;

    /// The event at a revision of a stream.
    fn at(&self, stream: &StreamName, revision: Revision) -> Result<Option<Place>, Self::Error>;

    /// How many events there are, which is the next position.
    fn count(&self) -> Result<u64, Self::Error>;
}

/// Where an event is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) position: Position,
    pub(super) revision: Revision,
    pub(super) digest: Digest,
}

/// What becomes of a batch.
#[derive(Debug)]
pub(super) enum Admission {
    /// It is appended, from this position on.
    New(Position),
    /// It is answered without being appended.
    Known {
        answer: Result<Appended, AppendError>,
        /// How many events must be durable for the answer to hold.
        after: u64,
    },
}

/// Judges a batch by all events that are there.
pub(super) fn admit<P: Places>(
    places: &P,
    batch: &EventBatch,
    max_row_bytes: usize,
) -> Result<Admission, P::Error> {
    let stream = batch.stream();
    let wanted = batch.head();
    let last = places.last(stream)?;
    let actual = last.map(|last| StreamHead { revision: last.revision, digest: last.digest });
    if actual != batch.expected() {
        // Digests are chained: where the last is the same, so are those before it.
        let there = match last {
            Some(last) if last.revision >= wanted.revision => places.at(stream, wanted.revision)?,
            _ => None,
        };
        if let Some(there) = there.filter(|there| there.digest == wanted.digest) {
            let first = places.at(stream, batch.events()[0].revision())?.unwrap_or(there);
            let answer = Ok(Appended { head: wanted, first_position: first.position });
            return Ok(Admission::Known { answer, after: there.position.get() + 1 });
        }
        let (stream, expected) = (stream.clone(), batch.expected());
        let answer = Err(AppendError::Conflict { stream, expected, actual });
        let after = last.map_or(0, |last| last.position.get() + 1);
        return Ok(Admission::Known { answer, after });
    }
    let count = places.count()?;
    Ok(match refusal(batch, count, max_row_bytes) {
        Some(error) => Admission::Known { answer: Err(error), after: 0 },
        None => Admission::New(Position::new(count).unwrap_or_default()),
    })
}

/// Why a batch cannot be in any log, or not in this one.
fn refusal(batch: &EventBatch, count: u64, max: usize) -> Option<AppendError> {
    for (event, position) in batch.events().iter().zip(count..) {
        let Some(position) = Position::new(position) else {
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
    fn a_log_that_is_full_takes_nothing_more() {
        struct AlmostFull;
        impl Places for AlmostFull {
            type Error = std::convert::Infallible;
            fn last(&self, _: &StreamName) -> Result<Option<Place>, Self::Error> {
                Ok(None)
            }
            fn at(&self, _: &StreamName, _: Revision) -> Result<Option<Place>, Self::Error> {
                Ok(None)
            }
            fn count(&self) -> Result<u64, Self::Error> {
                Ok((1 << 53) - 1)
            }
        }
        let admitted = |tags| {
            let Ok(admission) = admit(
                &AlmostFull,
                &batch("delivery-a", None, tags),
                super::super::MAX_APPENDED_ROW_BYTES,
            );
            admission
        };
        assert!(matches!(admitted(&["1"]), Admission::New(last) if last.get() == (1 << 53) - 1));
        let full = admitted(&["1", "2"]);
        assert!(
            matches!(full, Admission::Known { answer: Err(AppendError::Full), .. }),
            "{full:?}"
        );
    }
}
