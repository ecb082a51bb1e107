//! Logs whose disk has no room left, or lets nobody write.

use std::{
    path::Path,
    process::{Command, Output},
};

use futures_util::TryStreamExt as _;
use recount::{
    EventBatch, VerifyOptions,
    log::{
        AppendError, Direction, EventLog,
        sqlite::{SqliteLog, SqliteRows},
    },
    verify,
};

use super::{Sender, child, part, said};

/// A child that is run by a shell, which prepares something first.
fn through_shell(shell: &[&str], prepare: &str, child: &Command) -> Output {
    let mut command = Command::new(shell[0]);
    command.args(&shell[1..]).args(["-c", &format!("{prepare} && exec \"$@\""), "sh"]);
    command.arg(child.get_program()).args(child.get_args());
    command.envs(child.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.output().unwrap()
}

/// What a child said, line by line.
fn lines(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stdout);
    let said: Vec<_> = text.lines().filter_map(said).map(ToOwned::to_owned).collect();
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    said
}

/// Appends until that fails, and returns what was answered and what failed.
async fn fill(log: &SqliteLog) -> (Vec<EventBatch>, EventBatch, AppendError) {
    let mut sender = Sender::new("filler");
    let mut answered = Vec::new();
    loop {
        let batch = sender.next(3);
        match log.append(batch.clone()).await {
            Ok(_) => answered.push(batch),
            Err(error) => return (answered, batch, error),
        }
    }
}

/// Holds a log to what was answered: that, and nothing else, is in it.
async fn assert_holds(log: &SqliteLog, answered: &[EventBatch], what: &str) {
    let events = log.read_all(None, Direction::Forward, usize::MAX);
    let events: Vec<_> = events.try_collect().await.unwrap();
    let expected = answered.iter().flat_map(EventBatch::events);
    assert!(events.iter().map(|it| &it.event).eq(expected), "{what}: {} events", events.len());
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work)
}

/// Whether an answer says how it failed, as the contract names it.
fn kind(error: &AppendError) -> String {
    match error {
        AppendError::Storage { source } => format!("storage: {source}"),
        AppendError::OutcomeUnknown { source, .. } => format!("unknown: {source}"),
        error => panic!("{error:?}"),
    }
}

#[test]
fn a_file_that_may_not_grow_is_told_and_nothing_is_lost() {
    if let Some((_, path)) = part() {
        return block_on(async {
            let log = SqliteLog::open(path).unwrap();
            let (answered, failed, error) = fill(&log).await;
            assert_holds(&log, &answered, "memory and log after the failure").await;
            let again = log.append(failed).await.unwrap_err();
            assert_holds(&log, &answered, "after another failure").await;
            println!("> {}\n> {}\n> {}", answered.len(), kind(&error), kind(&again));
        });
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.db");
    drop(SqliteLog::open(&path).unwrap());
    let test = "processes::room::a_file_that_may_not_grow_is_told_and_nothing_is_lost";
    let child = child(test, "fill", &path);
    let told = lines(&through_shell(&["sh"], "trap '' XFSZ && ulimit -f 2048", &child));
    let [count, first, again] = &told[..] else { panic!("{told:?}") };
    assert!(first.contains("I/O") && again.contains("I/O"), "{told:?}");
    let count: usize = count.parse().unwrap();
    assert!(count > 10, "{count} batches before there is no room");
    block_on(async {
        let log = SqliteLog::open(&path).unwrap();
        let mut sender = Sender::new("filler");
        let answered: Vec<_> = (0..count).map(|_| sender.next(3)).collect();
        for batch in &answered {
            log.append(batch.clone()).await.unwrap();
        }
        assert_holds(&log, &answered, "a repeat of what was answered").await;
        let failed = sender.next(3);
        log.append(failed.clone()).await.unwrap();
        assert_holds(&log, &[answered, vec![failed]].concat(), "with room").await;
    });
    assert_verified(&path);
}

#[test]
fn a_full_disk_is_told_and_the_log_goes_on_when_there_is_room() {
    if let Some((_, path)) = part() {
        let path = Path::new(&path);
        let ballast = path.with_extension("ballast");
        std::fs::write(&ballast, vec![0; 1 << 20]).unwrap();
        return block_on(async {
            let log = SqliteLog::open(path).unwrap();
            let (answered, failed, error) = fill(&log).await;
            assert!(answered.len() > 10, "{}", answered.len());
            assert_holds(&log, &answered, "memory and log on a full disk").await;
            std::fs::remove_file(ballast).unwrap();
            log.append(failed.clone()).await.unwrap();
            let all = [answered, vec![failed]].concat();
            assert_holds(&log, &all, "with room").await;
            drop(log);
            assert_holds(&SqliteLog::open(path).unwrap(), &all, "when opened again").await;
            assert_verified(path);
            println!("> {}", kind(&error));
        });
    }
    let folder = tempfile::tempdir().unwrap();
    let mount = format!("mount -t tmpfs -o size=4m tmpfs '{}'", folder.path().display());
    let shell = ["unshare", "-rm", "sh"];
    let can_mount = Command::new(shell[0]).args(&shell[1..]).args(["-c", &mount]).output();
    if !can_mount.is_ok_and(|output| output.status.success()) {
        eprintln!("no small disk can be mounted here: the file that may not grow stands for it");
        return;
    }
    let test = "processes::room::a_full_disk_is_told_and_the_log_goes_on_when_there_is_room";
    let child = child(test, "fill", &folder.path().join("agent.db"));
    let told = lines(&through_shell(&shell, &mount, &child));
    assert_eq!(told, ["storage: database or disk is full"]);
}

fn assert_verified(path: &Path) {
    let log = SqliteRows::open(path).unwrap();
    let report = verify(log, &VerifyOptions::default(), |finding| panic!("{finding:?}")).unwrap();
    assert!(!report.is_violated() && !report.is_incomplete());
}
