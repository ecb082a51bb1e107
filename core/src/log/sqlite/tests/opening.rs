//! What is no log is not opened, and not changed.

use super::*;

/// What opening for writing and for reading say.
fn refused(sample: &Sample) -> [String; 2] {
    let before = std::fs::read(&sample.path).ok();
    let errors = [
        SqliteLog::open(&sample.path).unwrap_err(),
        SqliteLog::open_read_only(&sample.path).unwrap_err(),
    ];
    assert_eq!(std::fs::read(&sample.path).ok(), before, "it was changed");
    errors.map(|error| {
        let mut text = error.to_string().replace(&sample.path.display().to_string(), "LOG");
        if let OpenError::Storage { source, .. } = &error {
            text.push_str(&format!(": {source}"));
        }
        text.replace(&sample.path.display().to_string(), "LOG")
    })
}

#[tokio::test]
async fn files_that_are_no_logs_are_named_and_left_alone() {
    let no_log =
        |id| format!("LOG is an SQLite database, but no log of Recount (application id {id})");
    let sample = Sample::new();
    std::fs::write(&sample.path, "not a database, and longer than a hundred bytes ".repeat(9))
        .unwrap();
    assert_eq!(refused(&sample), ["LOG is not an SQLite database, or a damaged one"; 2]);
    std::fs::write(&sample.path, "short").unwrap();
    assert_eq!(refused(&sample), ["LOG is not an SQLite database, or a damaged one"; 2]);

    let sample = Sample::new();
    sample.sql("CREATE TABLE events (id INTEGER)").unwrap();
    assert_eq!(refused(&sample), [no_log(0), no_log(0)]);
    sample.sql("PRAGMA application_id = 7").unwrap();
    assert_eq!(refused(&sample), [no_log(7), no_log(7)]);
    let sample = Sample::new();
    sample.sql("PRAGMA user_version = 3").unwrap();
    assert_eq!(refused(&sample), [no_log(0), no_log(0)], "an empty database of somebody else");

    let sample = Sample::new();
    std::fs::create_dir(&sample.path).unwrap();
    assert_eq!(refused(&sample), ["LOG could not be opened: is a directory"; 2]);
}

#[tokio::test]
async fn a_log_that_is_not_there_is_created_for_writing_only() {
    let sample = Sample::new();
    let error = SqliteLog::open_read_only(&sample.path).unwrap_err();
    assert!(matches!(error, OpenError::Storage { .. }), "{error:?}");
    assert!(!sample.path.exists());
    let error = SqliteLog::open(sample.folder.path().join("none/agent.db")).unwrap_err();
    assert!(matches!(error, OpenError::Storage { .. }), "{error:?}");
    std::fs::write(&sample.path, "").unwrap();
    let error = SqliteLog::open_read_only(&sample.path).unwrap_err();
    let text = format!(
        "{} is an SQLite database, but no log of Recount (application id 0)",
        sample.path.display()
    );
    assert_eq!(error.to_string(), text);
    assert_eq!(sample.open().head().await.unwrap(), None, "an empty file becomes a log");
}

#[tokio::test]
async fn a_log_of_a_newer_version_is_refused() {
    let sample = Sample::of_three().await;
    sample.sql("PRAGMA user_version = 2").unwrap();
    let text = "LOG has version 2 of the tables, this build knows 1: use a newer Recount";
    assert_eq!(refused(&sample), [text; 2]);
}

#[tokio::test]
async fn a_log_whose_triggers_were_changed_is_read_and_not_written() {
    for (sql, object) in [
        ("DROP TRIGGER events_are_not_changed", "events_are_not_changed"),
        ("CREATE TRIGGER more AFTER INSERT ON events BEGIN SELECT 1; END", "more"),
        ("CREATE INDEX more ON events (digest)", "more"),
    ] {
        let sample = Sample::of_three().await;
        sample.sql(sql).unwrap();
        let error = SqliteLog::open(&sample.path).unwrap_err();
        let path = sample.path.display();
        let text = format!(
            "{object} of {path} is not as Recount creates it: it was changed, removed or added"
        );
        assert_eq!(error.to_string(), text);
        let log = SqliteLog::open_read_only(&sample.path).unwrap();
        assert_eq!(all(&log).await.len(), 3);
    }
}

#[tokio::test]
async fn what_looks_like_a_log_and_has_no_table_of_events_is_not_read() {
    let sample = Sample::of_three().await;
    sample
        .sql(
            "ALTER TABLE events RENAME TO other; \
             CREATE VIEW events AS SELECT * FROM other",
        )
        .unwrap();
    let text = "events of LOG is not as Recount creates it: it was changed, removed or added";
    assert_eq!(refused(&sample), [text; 2]);
}

#[tokio::test]
async fn what_sqlite_adds_by_itself_does_no_harm() {
    let sample = Sample::of_three().await;
    sample.sql("ANALYZE; VACUUM").unwrap();
    assert_eq!(all(&sample.open()).await.len(), 3);
    let path = sample.folder.path().join("copy.db");
    sample.sql(&format!("VACUUM INTO '{}'", path.display())).unwrap();
    assert_eq!(all(&SqliteLog::open(path).unwrap()).await, all(&sample.open()).await);
}

#[tokio::test]
async fn many_may_create_a_log_at_once() {
    let sample = Sample::new();
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let path = sample.path.clone();
            std::thread::spawn(move || SqliteLog::open(path))
        })
        .collect();
    for thread in threads {
        assert_eq!(thread.join().unwrap().unwrap().head().await.unwrap(), None);
    }
}

#[tokio::test]
async fn durability_is_what_was_asked_for() {
    for (durability, expected) in [(Durability::Full, 2), (Durability::Normal, 1)] {
        let sample = Sample::new();
        let database = file::Database::open(&sample.path, file::Access::Write, durability).unwrap();
        let connection = database.connect(file::Access::Write).unwrap();
        let pragma =
            |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).unwrap();
        assert_eq!(pragma("synchronous"), expected);
        assert_eq!(pragma("wal_autocheckpoint"), 10_000);
    }
}

#[test]
fn the_largest_value_is_that_of_a_row() {
    assert_eq!(usize::try_from(file::MAX_VALUE_BYTES), Ok(crate::MAX_ROW_BYTES + 1));
}

#[test]
fn o_23_a_head_is_read_behind_the_lock_and_not_before_it() {
    // What the rule avoids: a transaction that reads and then writes fails at once, whatever it
    // would wait, where another connection wrote in between.
    let sample = Sample::new();
    drop(sample.open());
    let [stale, mut other] = [(); 2].map(|()| {
        let connection = Connection::open(&sample.path).unwrap();
        connection.busy_timeout(std::time::Duration::from_secs(5)).unwrap();
        connection
    });
    stale.execute_batch("BEGIN; SELECT count(*) FROM streams").unwrap();
    other.execute_batch("INSERT INTO streams (name) VALUES ('delivery-x')").unwrap();
    let error = stale.execute_batch("INSERT INTO streams (name) VALUES ('delivery-y')");
    let code = error.unwrap_err().sqlite_error().unwrap().extended_code;
    assert_eq!(code, rusqlite::ffi::SQLITE_BUSY_SNAPSHOT);
    drop(stale);

    // A log's append waits for the lock, and then sees what was written while it waited.
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let log = sample.open();
    let [first, _] = three();
    let transaction = other.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate);
    let transaction = transaction.unwrap();
    let waiting = log.append(batch("delivery-a", None, &["late"]));
    for (position, event) in (0_i64..).zip(first.events()) {
        transaction
            .execute("INSERT OR IGNORE INTO streams (name) VALUES ('delivery-a')", [])
            .unwrap();
        let digest = event.digest();
        let values = (position, position, digest.as_bytes(), event.text());
        let insert = "INSERT INTO events (position, stream, revision, digest, event) VALUES \
             (?1, (SELECT id FROM streams WHERE name = 'delivery-a'), ?2, ?3, ?4)";
        transaction.execute(insert, values).unwrap();
    }
    std::thread::sleep(std::time::Duration::from_millis(50));
    transaction.commit().unwrap();
    let error = runtime.block_on(waiting).unwrap_err();
    let is_told = matches!(
        &error,
        crate::log::AppendError::Conflict { actual, .. } if *actual == Some(first.head())
    );
    assert!(is_told, "{error:?}");
    assert_eq!(runtime.block_on(all(&log)).len(), 2);
    runtime.block_on(log.append(next_of(&first))).unwrap();
}
