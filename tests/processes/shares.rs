//! Processes that append to the same streams and to their own.

use std::{collections::HashSet, path::Path, sync::Arc};

use futures_util::{StreamExt as _, TryStreamExt as _, future::try_join_all};
use recount::{
    DomainEvent, MessageId, Metadata, Position, RecordedEvent, ThreadId,
    delivery::{DeliveryEvent, Outbox},
    log::{Direction, EventLog, sqlite::SqliteLog},
    service::{Owners, Submission},
};
use recount_core::Digest;

use super::{assert_verified, child, millis, part, prepare, said};

const TEST: &str = "processes::shares::four_processes_lose_and_skip_nothing";
const PROCESSES: u64 = 4;
const TASKS: u64 = 10;
const EACH: u64 = 250;
const EVENTS: u64 = PROCESSES * TASKS * EACH;

#[test]
fn four_processes_lose_and_skip_nothing() {
    if let Some((process, path)) = part() {
        return append_and_follow(&process, path.as_ref());
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.db");
    let processes: Vec<_> =
        (0..PROCESSES).map(|it| child(TEST, &it.to_string(), &path).spawn().unwrap()).collect();
    let mut followed = HashSet::new();
    for process in processes {
        let output = process.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text}\n{errors}");
        followed.extend(text.lines().filter_map(said).map(ToOwned::to_owned));
    }
    let events = runtime().block_on(async {
        let log = SqliteLog::open(&path).unwrap();
        let events = log.read_all(None, Direction::Forward, usize::MAX);
        events.try_collect::<Vec<_>>().await.unwrap()
    });
    assert_eq!(events.len() as u64, EVENTS);
    assert_eq!(followed, HashSet::from([digest_of(&events)]), "all followers saw the same log");
    let ids: HashSet<_> = events.iter().map(message_id).collect();
    assert_eq!(ids.len() as u64, EVENTS, "every command has its event");
    let shared: Vec<_> =
        events.iter().filter(|it| it.event.stream().contains("shared")).map(process_of).collect();
    assert_eq!(shared.len() as u64, EVENTS / 2);
    let turns = shared.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert!(turns > 50, "nobody was in anybody's way: {turns}");
    assert_verified(&path, EVENTS);
}

/// Half of the tasks submit to streams that all processes share, the others to their process's own;
/// meanwhile everything is followed.
fn append_and_follow(process: &str, path: &Path) {
    runtime().block_on(async {
        let log: Arc<dyn EventLog> = Arc::new(SqliteLog::open(path).unwrap());
        let mut live = log.subscribe(Position::ZERO);
        let follower = tokio::spawn(async move {
            let mut events = Vec::new();
            while (events.len() as u64) < EVENTS {
                let event = live.next().await.unwrap().unwrap();
                assert_eq!(event.position.get(), events.len() as u64, "skipped or repeated");
                events.push(event);
            }
            digest_of(&events)
        });
        let owners = Owners::<Outbox>::new(Arc::clone(&log));
        let tasks = (0..TASKS).map(|task| {
            let owner = match task % 2 {
                0 => format!("shared-{}", task % 4),
                _ => format!("own-{process}-{}", task % 3),
            };
            let (owners, prefix) = (owners.clone(), format!("{process}-{task}"));
            tokio::spawn(submit_all(owners, ThreadId::new(owner).unwrap(), prefix))
        });
        try_join_all(tasks).await.unwrap();
        println!("> {}", follower.await.unwrap());
    });
}

/// Submits one command after the other.
async fn submit_all(owners: Owners<Outbox>, owner: ThreadId, prefix: String) {
    for number in 0..EACH {
        let id = MessageId::new(format!("{prefix}-{number}")).unwrap();
        let submission = Submission {
            command: prepare(&owner, &id),
            metadata: Metadata::of_actor("test"),
            now: millis(2_000 + number),
        };
        let committed = owners.submit(&owner, submission).await.unwrap().unwrap();
        let DeliveryEvent::Prepared(prepared) = committed.event else { panic!("{committed:?}") };
        assert_eq!(prepared.message_id, id, "an answer belongs to its command");
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap()
}

/// One digest over all digests in their order.
fn digest_of(events: &[RecordedEvent]) -> String {
    let digests: Vec<_> = events.iter().map(|it| *it.event.digest().as_bytes()).collect();
    Digest::of_bytes(digests.as_flattened()).to_string()
}

fn message_id(recorded: &RecordedEvent) -> MessageId {
    let event = &recorded.event;
    let event = DomainEvent::decode(event.event_type(), event.schema_version(), event.data());
    let DomainEvent::Delivery(event) = event.unwrap();
    event.message_id().clone()
}

fn process_of(recorded: &RecordedEvent) -> String {
    message_id(recorded).split_once('-').unwrap().0.to_owned()
}
