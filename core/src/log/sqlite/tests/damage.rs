//! Databases that were changed by hand.

use futures_util::StreamExt;

use super::*;
use crate::{
    StreamName,
    log::{EventReader, EventStream, ReadError},
};

/// Where reading fails and why, behind how many events.
async fn damage(mut events: EventStream<'_>) -> (usize, String, String) {
    let mut count = 0;
    loop {
        match events.next().await.expect("the damage is seen") {
            Ok(_) => count += 1,
            Err(ReadError::Damaged { place, source }) => {
                return (count, place.to_string(), source.to_string());
            }
            Err(error) => panic!("{error:?}"),
        }
    }
}

/// What a pass over the rows says, behind how many events.
fn damage_of_rows(sample: &Sample) -> (usize, String, String) {
    let mut events = EventReader::of(SqliteRows::open(&sample.path).unwrap());
    let count = events.by_ref().take_while(Result::is_ok).count();
    assert!(events.next().is_none(), "an error ends it");
    let mut events = EventReader::of(SqliteRows::open(&sample.path).unwrap());
    match events.nth(count).expect("the damage is seen") {
        Err(ReadError::Damaged { place, source }) => (count, place.to_string(), source.to_string()),
        other => panic!("{other:?}"),
    }
}

fn seen(count: usize, place: &str, why: &str) -> (usize, String, String) {
    (count, place.to_owned(), why.to_owned())
}

fn stream(name: &str) -> StreamName {
    StreamName::parse(name).unwrap()
}

#[tokio::test]
async fn nobody_changes_what_was_appended() {
    let sample = Sample::of_three().await;
    for (sql, why) in [
        ("UPDATE events SET event = '{}' WHERE position = 0", "events are not changed"),
        ("UPDATE events SET position = 9 WHERE position = 2", "events are not changed"),
        ("DELETE FROM events WHERE position = 2", "events are not deleted"),
        ("DELETE FROM events", "events are not deleted"),
        ("UPDATE streams SET name = 'delivery-x'", "streams are not changed"),
        ("DELETE FROM streams", "streams are not deleted"),
        ("INSERT OR REPLACE INTO events VALUES (2, 2, 0, x'', '{}')", "events are only appended"),
        ("INSERT OR REPLACE INTO events VALUES (3, 2, 0, x'', '{}')", "events are only appended"),
        ("INSERT INTO events VALUES (4, 1, 2, x'', '{}')", "events are only appended"),
        ("INSERT INTO events VALUES (3, 1, 3, x'', '{}')", "events are only appended"),
        ("INSERT INTO events VALUES (-1, 3, 0, x'', '{}')", "events are only appended"),
    ] {
        let error = sample.sql(sql).unwrap_err();
        assert_eq!(error.to_string(), why, "{sql}");
    }
    assert_eq!(all(&sample.open()).await.len(), 3);
}

#[tokio::test]
async fn o_24_a_place_that_is_free_below_the_head_is_not_taken() {
    let sample = Sample::new();
    let log = sample.open();
    let before = batch("delivery-a", None, &["0"]);
    let first = next_of(&before);
    let second = next_of(&first);
    let third = next_of(&second);
    for batch in [&before, &first, &second, &third] {
        log.append(batch.clone()).await.unwrap();
    }
    drop(log);
    sample.forge("DELETE FROM events WHERE revision = 2");
    let log = sample.open();
    match log.append(batch("delivery-a", Some(first.head()), &["late"])).await {
        Err(crate::log::AppendError::Conflict { actual, .. }) => {
            assert_eq!(actual, Some(third.head()));
        }
        other => panic!("{other:?}"),
    }
    // Nor is the event that was there put back into its place: the head decides.
    let answer = log.append(second.clone()).await;
    assert!(matches!(answer, Err(crate::log::AppendError::Conflict { .. })), "{answer:?}");
    let read = log.read_stream(before.stream(), None, Direction::Forward, 9);
    let gap = seen(2, "stream delivery-a", "the revision is 3, expected 2");
    assert_eq!(damage(read).await, gap);
    let read = log.read_stream(before.stream(), None, Direction::Backward, 9);
    let gap = seen(1, "stream delivery-a", "the revision is 1, expected 2");
    assert_eq!(damage(read).await, gap);
    let gap = seen(2, "position 2", "the position is 3, expected 2");
    assert_eq!(damage(log.read_all(None, Direction::Forward, 9)).await, gap);
    let gap = seen(1, "position 2", "the position is 1, expected 2");
    assert_eq!(damage(log.read_all(None, Direction::Backward, 9)).await, gap);
    let gap = seen(2, "position 2, stream delivery-a", "the position is 3, expected 2");
    assert_eq!(damage_of_rows(&sample), gap);
}

#[tokio::test]
async fn events_that_were_removed_at_the_beginning_are_missed() {
    let sample = Sample::of_three().await;
    sample.forge("DELETE FROM events WHERE position < 2");
    let log = sample.open();
    let missed = seen(1, "position 1", "there is no event where one should be");
    assert_eq!(damage(log.read_all(None, Direction::Backward, 9)).await, missed);
    let missed = seen(0, "position 0", "the position is 2, expected 0");
    assert_eq!(damage(log.read_all(None, Direction::Forward, 9)).await, missed);
    let missed = seen(0, "position 0, stream delivery-b", "the position is 2, expected 0");
    assert_eq!(damage_of_rows(&sample), missed);
}

#[tokio::test]
async fn a_row_that_was_changed_is_seen_where_it_is_read() {
    const CHANGES: &[(&str, &str)] = &[
        ("event = replace(event, '\"tag\":\"2\"', '\"tag\":\"9\"')", "the event's is"),
        ("digest = x'00'", "not a row"),
        ("digest = zeroblob(32)", "the digest is 0000"),
        ("event = '{}'", "not a row"),
        ("event = replace(event, '{\"data\"', '{ \"data\"')", "the row is not canonical JSON"),
        ("event = event || char(10) || event", "not JSON"),
        ("event = CAST(x'ff' AS TEXT)", "not UTF-8"),
        ("event = ''", "not JSON"),
        (
            "revision = 7",
            "the table lists revision 7 of \"delivery-a\", the event is revision 1 of \"delivery-a\"",
        ),
        (
            "stream = 2",
            "the table lists revision 1 of \"delivery-b\", the event is revision 1 of \"delivery-a\"",
        ),
        ("stream = 99", "the table lists revision 1 of \"\", the event is revision 1 of"),
        (
            "event = printf('%.*c', 17000000, 'x')",
            "a row of 17000000 bytes is longer than 16777216",
        ),
    ];
    for (change, why) in CHANGES {
        let sample = Sample::of_three().await;
        sample.forge(&format!("UPDATE events SET {change} WHERE position = 1"));
        let log = sample.open();
        let (count, place, found) = damage(log.read_all(None, Direction::Forward, 9)).await;
        assert!(found.contains(why), "{change}: {found}");
        assert_eq!((count, &*place), (1, "position 1"), "{change}");
        let (count, place, found) = damage_of_rows(&sample);
        assert!(found.contains(why), "{change}: {found}");
        assert!(count == 1 && place.starts_with("position 1"), "{change}: {place}");
        let rest: Vec<_> =
            log.read_stream(&stream("delivery-b"), None, Direction::Forward, 1).collect().await;
        let is_read = matches!(&rest[..], [Ok(event)] if event.position.get() == 2);
        assert!(is_read || change.contains("stream = 2"), "{change}: {rest:?}");
    }
}

#[tokio::test]
async fn an_event_of_another_chain_is_seen_in_its_stream() {
    let sample = Sample::of_three().await;
    let first = batch("delivery-a", None, &["other"]);
    let other = next_of(&first);
    let event = &other.events()[0];
    sample.forge(&format!(
        "UPDATE events SET event = '{}', digest = x'{}' WHERE position = 1",
        event.text(),
        event.digest()
    ));
    let log = sample.open();
    for direction in [Direction::Forward, Direction::Backward] {
        let (count, place, why) =
            damage(log.read_stream(&stream("delivery-a"), None, direction, 9)).await;
        assert_eq!((count, &*place), (1, "stream delivery-a"));
        assert!(why.starts_with("the event is sealed to revision 0 ("), "{why}");
    }
    assert_eq!(damage_of_rows(&sample).0, 1);
}

#[tokio::test]
async fn bytes_that_are_not_sqlites_are_an_error_and_no_panic() {
    let sample = Sample::of_three().await;
    drop(sample.open());
    let good = std::fs::read(&sample.path).unwrap();
    let mut refused = 0;
    // Every page, its header and a place in its middle.
    for at in (0..good.len()).step_by(512).flat_map(|page| [page, page + 5, page + 300]) {
        let mut bad = good.clone();
        let end = (at + 16).min(bad.len());
        bad[at..end].fill(0xa5);
        let sample = Sample::new();
        std::fs::write(&sample.path, &bad).unwrap();
        let Ok(log) = SqliteLog::open_read_only(&sample.path) else {
            refused += 1;
            continue;
        };
        let read: Vec<_> = log.read_all(None, Direction::Forward, 9).collect().await;
        refused += usize::from(read.iter().any(Result::is_err));
        let read: Vec<_> = read.into_iter().map_while(Result::ok).collect();
        let rows = SqliteRows::open(&sample.path).map(EventReader::of);
        let rows: Vec<_> = rows.into_iter().flatten().map_while(Result::ok).collect();
        assert_eq!(rows, read, "byte {at}");
    }
    assert!(refused > 10, "{refused}");
}
