//! One append after the other.

use futures_util::StreamExt;

use super::{all, append, assert_unchanged, batch, head, head_of, within};
use crate::{
    Digest, EventBatch, Position, Revision, StreamHead,
    log::{AppendError, Appended, EventLog},
    write_row,
};

pub(super) async fn places_are_counted_without_gaps(log: &dyn EventLog) {
    assert_eq!(head(log).await, None, "an empty log has no head");
    let mut heads = [None; 3];
    let mut events = Vec::new();
    for round in 0..9 {
        let of = round % 3;
        let tags = ["x", "y", "z"];
        let batch = batch(&format!("delivery-{of}"), heads[of], &tags[..=round / 3]);
        let expected = Appended {
            head: batch.head(),
            first_position: Position::new(events.len() as u64).expect("there are few"),
        };
        assert_eq!(append(log, &batch).await, expected, "where a batch was appended");
        heads[of] = Some(batch.head());
        events.extend_from_slice(batch.events());
        let all = all(log).await;
        let found: Vec<_> = all.iter().map(|it| it.event.clone()).collect();
        assert_eq!(found, events, "the log must hold what was appended, in order");
        assert_eq!(head(log).await, all.last().map(head_of), "the head is the last event");
    }
}

async fn assert_conflict(
    log: &dyn EventLog,
    batch: EventBatch,
    actual: Option<StreamHead>,
    why: &str,
) {
    let before = all(log).await;
    let (stream, expected) = (batch.stream().clone(), batch.expected());
    match log.append(batch).await {
        Err(AppendError::Conflict { stream: told, expected: asked, actual: found }) => {
            assert_eq!(
                (told, asked, found),
                (stream, expected, actual),
                "{why}: stream, expected and actual head of the conflict"
            );
        }
        other => panic!("{why} must be a conflict, not {other:?}"),
    }
    assert_unchanged(log, &before, why).await;
}

/// O-24: the head decides, not whether a place is free.
pub(super) async fn a_batch_for_another_head_is_a_conflict(log: &dyn EventLog) {
    let first = batch("delivery-a", None, &["1", "2"]);
    append(log, &first).await;
    let actual = Some(first.head());
    let StreamHead { revision, digest } = first.head();
    let early = first.events()[0].head();
    let later = StreamHead { revision: revision.next(), digest };
    let forged = StreamHead { revision, digest: Digest::of_bytes(b"another") };
    for (stream, expected, actual, why) in [
        ("delivery-a", None, actual, "a batch for no stream where there is one"),
        ("delivery-a", Some(early), actual, "a batch for an earlier head"),
        ("delivery-a", Some(later), actual, "a batch for a later revision, leaving a gap"),
        ("delivery-a", Some(forged), actual, "a batch for the right revision, another digest"),
        ("delivery-b", Some(first.head()), None, "a batch for a head of a stream that is not"),
    ] {
        assert_conflict(log, batch(stream, expected, &["3"]), actual, why).await;
    }
    append(log, &batch("delivery-a", actual, &["3"])).await;
}

pub(super) async fn a_repeat_is_answered_as_the_first_time(log: &dyn EventLog) {
    let first = batch("delivery-a", None, &["1", "2"]);
    let second = batch("delivery-a", Some(first.head()), &["3"]);
    let other = batch("delivery-b", None, &["1", "2"]);
    let mut answers = Vec::new();
    for batch in [&first, &other, &second] {
        answers.push((batch, append(log, batch).await));
        let before = all(log).await;
        for (batch, answer) in &answers {
            match log.append((*batch).clone()).await {
                Ok(again) => assert_eq!(again, *answer, "a repeat is answered as the first time"),
                Err(error) => panic!("a repeat must be recognised, not refused: {error:?}"),
            }
        }
        assert_unchanged(log, &before, "a repeat").await;
    }
}

pub(super) async fn a_partial_overlap_is_a_conflict(log: &dyn EventLog) {
    append(log, &batch("delivery-b", None, &["0"])).await;
    let first = batch("delivery-a", None, &["1"]);
    append(log, &first).await;
    let second = batch("delivery-a", Some(first.head()), &["2"]);
    append(log, &second).await;
    let actual = Some(second.head());
    for (expected, tags, why) in [
        (None, &["1", "2", "3"][..], "a batch of which the first two are there"),
        (Some(first.head()), &["2", "3"], "a batch of which the first is there"),
        (None, &["1", "other"], "a batch that parts from what is there"),
        (Some(first.head()), &["other"], "a batch at the place of another event"),
    ] {
        assert_conflict(log, batch("delivery-a", expected, tags), actual, why).await;
    }
}

pub(super) async fn a_row_that_is_too_large_is_refused_with_its_batch(log: &dyn EventLog) {
    let of_length = |length: usize| batch("delivery-a", None, &[&"x".repeat(length)]);
    let row_length = |batch: &EventBatch, position| {
        let mut row = Vec::new();
        write_row(&mut row, position, &batch.events()[0]);
        row.len() - 1
    };
    let largest = of_length(8 << 20);
    let max = match log.append(largest.clone()).await {
        Err(AppendError::TooLarge { length, max, revision, .. }) => {
            let expected = row_length(&largest, Position::ZERO);
            assert_eq!(length, expected, "the length of the row that is too large");
            assert_eq!(revision, Revision::ZERO, "the revision of the row that is too large");
            max
        }
        other => panic!("a row of 8 MiB must be too large, not {other:?}"),
    };
    assert_unchanged(log, &[], "a row that is too large").await;

    let around = row_length(&of_length(0), Position::ZERO);
    let longer = "x".repeat(max - around + 1);
    let refused = log.append(batch("delivery-b", None, &["small", &longer])).await;
    let revision = match refused {
        Err(AppendError::TooLarge { revision, .. }) => revision,
        other => panic!("a row one byte too long must be too large, not {other:?}"),
    };
    assert_eq!(revision.get(), 1, "the revision of the row that is too large");
    assert_unchanged(log, &[], "a batch with one row that is too large").await;
    append(log, &of_length(max - around)).await;
}

pub(super) async fn a_dropped_append_is_not_withdrawn(log: &dyn EventLog) {
    let batch = batch("delivery-a", None, &["1", "2"]);
    drop(log.append(batch.clone()));
    let mut events = log.subscribe(Position::ZERO);
    for event in batch.events() {
        let next = within("an event whose append was dropped", events.next()).await;
        let found = next.expect("the log is there").expect("the event is readable");
        assert_eq!(&found.event, event, "the event whose append was dropped");
    }
    let again = append(log, &batch).await;
    assert_eq!(again.first_position, Position::ZERO, "the answer that was not waited for");
}
