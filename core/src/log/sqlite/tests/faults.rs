//! Disks that are full, files that go away.

use futures_util::StreamExt;
use tokio::sync::watch;

use super::{
    file::{Access, Database},
    log::News,
    writer::Writer,
    *,
};
use crate::{
    Position,
    log::{AppendError, ReadError, queue::Queue},
};

/// The queue of a log whose first connection finds the disk full.
fn queue_with_a_full_disk(sample: &Sample) -> Queue {
    let database = Database::open(&sample.path, Access::Write, Durability::Full).unwrap();
    let connection = database.connect(Access::Write).unwrap();
    let pages: i64 = connection.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();
    connection
        .pragma_update_and_check(None, "max_page_count", pages, |row| row.get::<_, i64>(0))
        .unwrap();
    let news = Arc::new(watch::Sender::new(News::default()));
    let mut writer = Writer::new(Arc::new(database), news);
    writer.connection = Some(connection);
    Queue::start("test", move |group| writer.commit(group)).unwrap()
}

#[tokio::test]
async fn a_full_disk_withdraws_the_group_and_the_log_goes_on_when_there_is_room() {
    let sample = Sample::of_three().await;
    let before = all(&sample.open()).await;
    let queue = queue_with_a_full_disk(&sample);
    let [first, other] = three();
    let large = "x".repeat(100_000);
    let next = batch("delivery-a", Some(first.head()), &[&large]);
    let error = queue.submit(next.clone()).await.unwrap_err();
    match &error {
        AppendError::Storage { source } => {
            assert_eq!(source.to_string(), "database or disk is full");
        }
        _ => panic!("{error:?}"),
    }
    assert_eq!(all(&sample.open()).await, before);
    // The next group has a new connection, which finds room; a stream that was made by what was
    // withdrawn is made again.
    let made = batch("delivery-new", None, &["1"]);
    for batch in [next, next_of(&other), made.clone(), next_of(&made)] {
        queue.submit(batch).await.unwrap();
    }
    assert_eq!(all(&sample.open()).await.len(), 7);
}

#[tokio::test]
async fn what_a_failed_group_found_before_it_is_still_answered() {
    let sample = Sample::of_three().await;
    let [first, other] = three();
    let group = [
        first.clone(),
        batch("delivery-a", None, &["late"]),
        batch("delivery-b", Some(other.head()), &[&"x".repeat(100_000)]),
        next_of(&first),
    ];
    let database = Database::open(&sample.path, Access::Write, Durability::Full).unwrap();
    let connection = database.connect(Access::Write).unwrap();
    connection
        .pragma_update_and_check(None, "max_page_count", 1, |row| row.get::<_, i64>(0))
        .unwrap();
    let news = Arc::new(watch::Sender::new(News::default()));
    let mut writer = Writer::new(Arc::new(database), news);
    writer.connection = Some(connection);
    let (let_go, held) = std::sync::mpsc::channel();
    let mut is_first = true;
    let queue = Queue::start("test", move |group| {
        if std::mem::take(&mut is_first) {
            held.recv().unwrap();
        }
        writer.commit(group);
    })
    .unwrap();
    // While the thread waits with the first, the others come together.
    let repeat = queue.submit(first.clone());
    let answers: Vec<_> = group.into_iter().map(|batch| queue.submit(batch)).collect();
    let_go.send(()).unwrap();
    repeat.await.unwrap();
    let answers = futures_util::future::join_all(answers).await;
    let kinds: Vec<_> = answers
        .iter()
        .map(|answer| match answer {
            Ok(appended) => format!("at {}", appended.first_position),
            Err(AppendError::Conflict { .. }) => "conflict".to_owned(),
            Err(AppendError::Storage { .. }) => "storage".to_owned(),
            Err(error) => panic!("{error:?}"),
        })
        .collect();
    assert_eq!(kinds, ["at 0", "conflict", "storage", "storage"]);
    assert_eq!(all(&sample.open()).await.len(), 3);
}

#[cfg(unix)]
#[tokio::test]
async fn a_file_that_was_removed_or_replaced_is_noticed() {
    for end in ["", "-wal"] {
        for is_replaced in [false, true] {
            let sample = Sample::of_three().await;
            let log = sample.open();
            let [first, _] = three();
            log.append(first.clone()).await.unwrap();
            let mut live = log.subscribe(Position::new(3).unwrap());
            let waiting = tokio::spawn(async move { live.next().await });
            tokio::task::yield_now().await;

            let file = format!("{}{end}", sample.path.display());
            let aside = format!("{file}.aside");
            std::fs::rename(&file, &aside).unwrap();
            if is_replaced {
                std::fs::copy(&aside, &file).unwrap();
            }
            let what = format!("{end:?} replaced: {is_replaced}");
            let text = format!(
                "{} was removed or replaced while it was open: open the log again",
                sample.path.display()
            );
            let storage =
                |source: &crate::log::Source| assert_eq!(source.to_string(), text, "{what}");
            match log.append(next_of(&first)).await {
                Err(AppendError::Storage { source }) => storage(&source),
                other => panic!("{what}: {other:?}"),
            }
            match log.head().await {
                Err(ReadError::Storage { source }) => storage(&source),
                other => panic!("{what}: {other:?}"),
            }
            match log.read_all(None, Direction::Forward, 9).next().await {
                Some(Err(ReadError::Storage { source })) => storage(&source),
                other => panic!("{what}: {other:?}"),
            }
            match waiting.await.unwrap() {
                Some(Err(ReadError::Storage { source })) => storage(&source),
                other => panic!("{what}: {other:?}"),
            }
            // Put back, it is the log again, and nothing was lost or added.
            std::fs::rename(&aside, &file).unwrap();
            assert_eq!(all(&log).await.len(), 3, "{what}");
            log.append(next_of(&first)).await.unwrap();
        }
    }
}

#[tokio::test]
async fn what_another_has_locked_is_waited_for() {
    let sample = Sample::of_three().await;
    let log = sample.open();
    let other = Connection::open(&sample.path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let [first, _] = three();
    let mut waiting = log.append(next_of(&first));
    let wait = std::time::Duration::from_millis(200);
    assert!(tokio::time::timeout(wait, &mut waiting).await.is_err());
    assert_eq!(all(&log).await.len(), 3, "reading waits for nobody");
    other.execute_batch("ROLLBACK").unwrap();
    waiting.await.unwrap();
}

#[tokio::test]
async fn a_log_for_reading_sees_what_is_appended_and_takes_nothing() {
    let sample = Sample::of_three().await;
    let reader = SqliteLog::open_read_only(&sample.path).unwrap();
    let mut live = reader.subscribe(Position::new(3).unwrap());
    let [first, _] = three();
    let error = reader.append(next_of(&first)).await.unwrap_err();
    assert!(matches!(error, AppendError::ReadOnly), "{error:?}");
    sample.open().append(next_of(&first)).await.unwrap();
    let next = live.next().await.unwrap().unwrap();
    assert_eq!(next.event, next_of(&first).events()[0]);
    drop(reader);
    assert!(live.next().await.is_none());
}
