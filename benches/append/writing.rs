//! Durable appends: one task, and many that share commits.

use std::{path::Path, sync::Arc};

use futures_util::future::try_join_all;
use recount_core::{
    EventBatch, EventDraft, EventType, Metadata, Position, StreamHead, StreamName, ThreadId,
    delivery::{Outbox, OutboxCommand, OutboxLimits},
    doc,
    log::{
        EventLog,
        jsonl::JsonlLog,
        sqlite::{Durability, SqliteLog},
    },
    service::{Owners, Submission},
    write_row,
};
use tokio::runtime::Runtime;

use crate::{
    bare::BareFile,
    measure::{Job, compare, count, timed},
};

const TASKS: usize = 64;

pub(crate) fn measure(dir: &Path, runs: usize, single: usize, shared: usize) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let work = Work { runtime, single: lives(1, single), many: lives(TASKS, shared / TASKS) };
    let length = work.single[0][0].events()[0].text().len();
    println!("one event of {length} bytes an append\n");

    let sqlite = |path: &Path| log(SqliteLog::open(path.join("log.db")));
    let relaxed = |path: &Path| log(SqliteLog::open_with(path.join("log.db"), Durability::Normal));
    let jsonl = |path: &Path| log(JsonlLog::open(path.join("log.jsonl")));
    println!("one task");
    let jobs = [
        Job::new("bare file", None, |path| work.bare(path, &work.single)),
        Job::new("SQLite", Some(0), |path| work.append(&sqlite(path)?, &work.single)),
        Job::new("JSON Lines", Some(0), |path| work.append(&jsonl(path)?, &work.single)),
        Job::new("SQLite, one stream, owned", Some(0), |path| work.own(sqlite(path)?, 1, single)),
    ];
    compare(dir, runs, (count(single), "appends"), &jobs)?;

    println!("{TASKS} tasks");
    let jobs = [
        Job::new("bare file", None, |path| work.bare(path, &work.many)),
        Job::new("SQLite, many streams", Some(0), |path| work.append(&sqlite(path)?, &work.many)),
        Job::new("the same, NORMAL", Some(0), |path| work.append(&relaxed(path)?, &work.many)),
        Job::new("JSON Lines, many streams", Some(0), |path| {
            work.append(&jsonl(path)?, &work.many)
        }),
        Job::new("SQLite, one stream, owned", Some(0), |path| {
            work.own(sqlite(path)?, TASKS, shared / TASKS)
        }),
    ];
    compare(dir, runs, (count(shared / TASKS * TASKS), "appends"), &jobs)
}

fn log<L: EventLog + 'static, E: std::fmt::Debug>(
    opened: Result<L, E>,
) -> Result<Arc<dyn EventLog>, String> {
    Ok(Arc::new(opened.map_err(|error| format!("{error:?}"))?))
}

struct Work {
    runtime: Runtime,
    single: Vec<Vec<EventBatch>>,
    many: Vec<Vec<EventBatch>>,
}

impl Work {
    /// A task for each list, which appends one batch after the other.
    fn append(&self, log: &Arc<dyn EventLog>, lists: &[Vec<EventBatch>]) -> Result<f64, String> {
        self.run(lists.iter().cloned().map(|list| {
            let log = Arc::clone(log);
            async move {
                for batch in list {
                    log.append(batch).await.expect("the log takes it");
                }
            }
        }))
    }

    /// The same bytes into the yardstick.
    fn bare(&self, path: &Path, lists: &[Vec<EventBatch>]) -> Result<f64, String> {
        let file = BareFile::create(&path.join("bare")).map_err(|error| error.to_string())?;
        let file = Arc::new(file);
        self.run(lists.iter().cloned().map(|list| {
            let file = Arc::clone(&file);
            async move {
                for batch in list {
                    let mut row = Vec::new();
                    write_row(&mut row, Position::ZERO, &batch.events()[0]);
                    file.append(row).await;
                }
            }
        }))
    }

    /// Tasks that submit commands to one stream, which are decided and sealed, too.
    fn own(&self, log: Arc<dyn EventLog>, tasks: usize, each: usize) -> Result<f64, String> {
        let owners = Owners::<Outbox>::new(log);
        let owner = ThreadId::new("sender").expect("an id");
        self.run((0..tasks).map(|task| {
            let (owners, owner) = (owners.clone(), owner.clone());
            let submission = |number| Submission {
                command: prepare(&format!("{task}-{number}")),
                metadata: Metadata::of_actor("bench"),
                now: doc::message("m").created_at_millis,
            };
            let submissions: Vec<_> = (0..each).map(submission).collect();
            async move {
                for submission in submissions {
                    owners.submit(&owner, submission).await.expect("the log takes it");
                }
            }
        }))
    }

    /// Runs tasks side by side, and returns how many seconds it took, the log's end included.
    fn run<T>(&self, tasks: impl Iterator<Item = T>) -> Result<f64, String>
    where
        T: Future<Output = ()> + Send + 'static,
    {
        let (result, time) = timed(|| {
            self.runtime.block_on(async { try_join_all(tasks.into_iter().map(tokio::spawn)).await })
        });
        result.map_err(|error| error.to_string())?;
        Ok(time.as_secs_f64())
    }
}

fn prepare(id: &str) -> OutboxCommand {
    let limits = OutboxLimits {
        max_pending_per_owner: 1 << 40,
        max_retained_per_owner: 1 << 40,
        ..OutboxLimits::default()
    };
    OutboxCommand::Prepare { message: Box::new(doc::message(id)), limits }
}

/// Batches of one event each for so many tasks; each goes from one stream of 20 events to the next.
fn lives(tasks: usize, each: usize) -> Vec<Vec<EventBatch>> {
    let at = doc::message("m").created_at_millis;
    let life = |task: usize| {
        let mut head: Option<StreamHead> = None;
        let mut seal = |number: usize| {
            let name = format!("delivery-bench-{task}-{}", number / 20);
            let stream = StreamName::parse(&name).expect("a name");
            head = head.filter(|_| !number.is_multiple_of(20));
            let batch = EventBatch::seal(stream, head, [draft()], at).expect("a batch");
            head = Some(batch.head());
            batch
        };
        (0..each).map(&mut seal).collect()
    };
    (0..tasks).map(life).collect()
}

/// What is appended, over and over: as long as most events are.
pub(crate) fn draft() -> EventDraft {
    let data = format!("{{\"text\":\"{}\"}}", "x".repeat(280));
    EventDraft {
        event_type: EventType::new("delivery.claimed").expect("a type"),
        schema_version: 1,
        data: serde_json::from_str(&data).expect("canonical"),
        metadata: Metadata::of_actor("bench"),
    }
}
