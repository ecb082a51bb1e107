//! Copies into a database that others have open.

use futures_util::{FutureExt, TryStreamExt};

use super::*;
use crate::{
    EventBatch, Position, RecordedEvent,
    log::{Block, CopyError, Destination, Direction, EventReader, RowSource, conformance, copy},
};

fn recorded(batches: &[EventBatch]) -> Vec<RecordedEvent> {
    let events = batches.iter().flat_map(EventBatch::events).cloned().zip(0..);
    let recorded = |(event, position)| {
        let position = Position::new(position).unwrap();
        RecordedEvent { position, event }
    };
    events.map(recorded).collect()
}

fn batches() -> [EventBatch; 2] {
    let first = conformance::batch("delivery-a", None, &["1", "2"]);
    let second = conformance::batch("delivery-a", Some(first.head()), &["3"]);
    [first, second]
}

fn other() -> EventBatch {
    conformance::batch("delivery-other", None, &["other"])
}

fn events_of(sample: &Sample) -> Vec<RecordedEvent> {
    EventReader::of(SqliteRows::open(&sample.path).unwrap()).collect::<Result<_, _>>().unwrap()
}

/// A database with two batches in it.
async fn source() -> Sample {
    let sample = Sample::new();
    let log = sample.open();
    for batch in batches() {
        log.append(batch).await.unwrap();
    }
    sample
}

#[tokio::test]
async fn a_copied_database_is_a_log_that_goes_on() {
    let (from, to) = (source().await, Sample::new());
    for transaction_bytes in [1, 1 << 20] {
        let rows = SqliteRows::open(&from.path).unwrap();
        let destination = SqliteDestination::open_with(&to.path, transaction_bytes);
        let copied = copy(rows, &mut destination.unwrap()).unwrap();
        assert_eq!(copied.events(), 3);
    }
    let log = to.open();
    let [first, second] = batches();
    assert_eq!(log.append(first).await.unwrap().first_position.get(), 0, "a repeat is known");
    let next = conformance::batch("delivery-a", Some(second.head()), &["4"]);
    assert_eq!(log.append(next).await.unwrap().first_position.get(), 3);
    let other = conformance::batch("delivery-b", None, &["5"]);
    assert_eq!(log.append(other).await.unwrap().first_position.get(), 4);
    assert_eq!(&events_of(&to)[..3], recorded(&batches()));
}

#[tokio::test]
async fn a_log_that_is_open_sees_what_is_copied_to_it() {
    let (from, to) = (source().await, Sample::new());
    let log = to.open();
    let rows = SqliteRows::open(&from.path).unwrap();
    copy(rows, &mut SqliteDestination::open(&to.path).unwrap()).unwrap();
    let read = log.read_all(None, Direction::Forward, 9).try_collect::<Vec<_>>();
    assert_eq!(read.now_or_never().unwrap().unwrap(), recorded(&batches()));
}

/// A copy by SQLite itself, which is not in the mode that a log is in.
async fn vacuumed() -> Sample {
    let (from, to) = (source().await, Sample::new());
    let connection = rusqlite::Connection::open(&from.path).unwrap();
    connection.execute("VACUUM INTO ?1", [to.path.to_str().unwrap()]).unwrap();
    to
}

#[tokio::test]
async fn what_vacuum_into_made_is_read_and_not_changed_unless_there_is_something_new() {
    let sample = vacuumed().await;
    let before = std::fs::read(&sample.path).unwrap();
    assert_eq!(events_of(&sample), recorded(&batches()));
    for [first, second] in [batches(), [batches()[0].clone(), other()]] {
        let source = Sample::new();
        let log = source.open();
        for batch in [first, second] {
            log.append(batch).await.unwrap();
        }
        let rows = SqliteRows::open(&source.path).unwrap();
        let copied = copy(rows, &mut SqliteDestination::open(&sample.path).unwrap());
        assert!(matches!(copied, Ok(_) | Err(CopyError::Differs { .. })), "{copied:?}");
        assert_eq!(std::fs::read(&sample.path).unwrap(), before);
    }
    let log = SqliteLog::open_read_only(&sample.path).unwrap();
    let read = log.read_all(None, Direction::Forward, 9).try_collect::<Vec<_>>().await;
    assert_eq!(read.unwrap(), recorded(&batches()));
    drop(log);

    let source = source().await;
    source.open().append(other()).await.unwrap();
    let rows = SqliteRows::open(&source.path).unwrap();
    let copied = copy(rows, &mut SqliteDestination::open(&sample.path).unwrap()).unwrap();
    assert_eq!((copied.before, copied.copied), (3, 1));
    assert_eq!(events_of(&sample), events_of(&source));
}

#[tokio::test]
async fn a_database_that_would_not_be_written_is_told_when_it_is_to_be() {
    let to = vacuumed().await;
    let connection = rusqlite::Connection::open(&to.path).unwrap();
    connection.execute_batch("DROP TRIGGER events_are_not_changed").unwrap();
    drop(connection);
    let before = std::fs::read(&to.path).unwrap();
    let from = source().await;
    let into = || SqliteDestination::open(&to.path).unwrap();
    copy(SqliteRows::open(&from.path).unwrap(), &mut into()).unwrap();
    from.open().append(other()).await.unwrap();
    let error = copy(SqliteRows::open(&from.path).unwrap(), &mut into()).unwrap_err();
    let CopyError::Storage { source } = error else { panic!("{error:?}") };
    let altered = source.downcast::<OpenError>();
    assert!(matches!(altered.as_deref(), Ok(OpenError::Altered { .. })), "{altered:?}");
    assert_eq!(std::fs::read(&to.path).unwrap(), before);
}

/// Appends to the destination while its copy reads the source.
struct Meddler<'a> {
    rows: SqliteRows,
    log: &'a SqliteLog,
    is_first: bool,
}

impl RowSource for Meddler<'_> {
    fn next(&mut self, block: &mut Block) -> std::io::Result<bool> {
        if std::mem::take(&mut self.is_first) {
            let append = self.log.append(other());
            tokio::task::block_in_place(|| {
                tokio::runtime::Handle::current().block_on(append).unwrap();
            });
        }
        self.rows.next(block)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_logs_are_not_mixed_when_both_are_written_at_once() {
    let (from, to) = (source().await, Sample::new());
    let log = to.open();
    let rows = SqliteRows::open(&from.path).unwrap();
    let source = Meddler { rows, log: &log, is_first: true };
    let error = copy(source, &mut SqliteDestination::open(&to.path).unwrap()).unwrap_err();
    assert!(matches!(error, CopyError::Interfered { expected: 0, found: 1 }), "{error:?}");
    assert_eq!(events_of(&to), recorded(&[other()]));
}

#[tokio::test]
async fn a_second_copy_at_the_same_time_is_refused_or_right() {
    let to = Sample::new();
    let mut one = SqliteDestination::open_with(&to.path, 1).unwrap();
    let mut two = SqliteDestination::open_with(&to.path, 1).unwrap();
    let events = recorded(&batches());
    one.write(events[0].clone(), 0).unwrap();
    let error = two.write(events[0].clone(), 0).unwrap_err();
    assert!(matches!(error, CopyError::Interfered { expected: 0, found: 1 }), "{error:?}");
    for event in &events[1..] {
        one.write(event.clone(), 0).unwrap();
    }
    one.finish().unwrap();
    assert_eq!(events_of(&to), events);
}

#[cfg(unix)]
#[test]
fn a_database_that_was_removed_meanwhile_is_told() {
    let to = Sample::new();
    let mut destination = SqliteDestination::open_with(&to.path, 1).unwrap();
    std::fs::remove_file(&to.path).unwrap();
    let error = destination.write(recorded(&batches())[0].clone(), 0).unwrap_err();
    let CopyError::Storage { source } = error else { panic!("{error:?}") };
    assert!(source.is::<Moved>(), "{source:?}");
}
