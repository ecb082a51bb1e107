//! Logs whose disk has no room left, or lets nobody write.

#[cfg(unix)]
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::{
    path::Path,
    process::{Command, Output},
};

use futures_util::TryStreamExt as _;
use recount::{
    EventBatch,
    log::{AppendError, Direction, EventLog, sqlite::SqliteLog},
};

use super::{Sender, assert_verified, child, child_of, part, said};

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
    // The write of a commit failed: some of it may be on the disk.
    assert_eq!([&**first, again], ["unknown: disk I/O error"; 2]);
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
    assert_verified(&path, 3 * count as u64 + 3);
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
            let events = all.iter().map(|batch| batch.events().len() as u64).sum();
            assert_verified(path, events);
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

#[cfg(unix)]
#[test]
fn what_may_not_be_written_is_said_and_can_be_read() {
    if let Some((_, path)) = part() {
        let open = SqliteLog::open(&path).map(drop).map_err(|error| error.to_string());
        let read = SqliteLog::open_read_only(&path);
        let read = read.map(|log| block_on(log.head()).unwrap().unwrap().position.get());
        println!("> {}\n> {}", open.unwrap_err().replace(&path, "LOG"), read.unwrap());
        return;
    }
    let allow = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.db");
    let log = SqliteLog::open(&path).unwrap();
    block_on(log.append(Sender::new("writer").next(3))).unwrap();
    let test = "processes::room::what_may_not_be_written_is_said_and_can_be_read";
    // Where nobody may read it, too.
    let binary = folder.path().join("test");
    std::fs::copy(std::env::current_exe().unwrap(), &binary).unwrap();
    allow(&binary, 0o755);
    let child = child_of(&binary, test, "read", &path);
    // Whoever may do all things is made somebody who may not.
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|it| it.uid() == 0);
    let nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "sh"];
    let shell = if is_root { &nobody[..] } else { &["sh"] };
    let told = || lines(&through_shell(shell, "true", &child));
    allow(folder.path(), 0o755);
    for end in ["", "-wal", "-shm"] {
        allow(&path.with_file_name(format!("agent.db{end}")), 0o444);
    }
    let read_only = "LOG can only be read: open it for reading, or let it be written";
    assert_eq!(told(), [read_only, "2"], "while it is written, what is not in it yet included");
    drop(log);
    allow(&path, 0o444);
    allow(folder.path(), 0o555);
    assert_eq!(told(), [read_only, "2"], "nobody writes it, and nothing can be beside it");
    allow(&path, 0o666);
    let [write, read] = &told()[..] else { panic!() };
    assert!(write.starts_with("LOG could not be opened") || write == read_only, "{write}");
    assert_eq!(read, "2");
    allow(folder.path(), 0o755);
}
