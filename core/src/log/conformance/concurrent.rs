//! Many at once.

use std::{collections::HashSet, sync::Arc};

use futures_util::{FutureExt, StreamExt, future::join_all};

use super::{all, append, batch, collect, joined, name, within};
use crate::{
    Position, RecordedEvent, StreamHead,
    log::{AppendError, Direction, EventLog},
};

/// Appends behind whatever head there is, and decides again on each conflict.
async fn append_behind(log: &dyn EventLog, stream: &str, mut head: Option<StreamHead>, tag: &str) {
    loop {
        match log.append(batch(stream, head, &[tag])).await {
            Ok(_) => return,
            Err(AppendError::Conflict { actual, .. }) => {
                assert_ne!(actual, head, "a conflict must name another head than the expected");
                head = actual;
            }
            Err(error) => panic!("an append beside others was refused: {error:?}"),
        }
    }
}

pub(super) async fn no_update_of_one_stream_is_lost(log: Arc<dyn EventLog>) {
    const EACH: usize = 50;
    let writers = (0..8).map(|writer| {
        let log = Arc::clone(&log);
        tokio::spawn(async move {
            for round in 0..EACH {
                append_behind(&*log, "delivery-a", None, &format!("{writer}:{round}")).await;
            }
        })
    });
    within("the writers of one stream", join_all(writers.map(joined))).await;
    let events = all(&*log).await;
    let tags: HashSet<_> = events.iter().map(|it| it.event.data()).collect();
    let counts = (events.len(), tags.len());
    assert_eq!(counts, (8 * EACH, 8 * EACH), "every update of one stream is there once");
    let stream = collect(log.read_stream(&name("delivery-a"), None, Direction::Forward, 9999));
    assert_eq!(stream.await, events, "the log has one stream only");
}

/// Reads a subscription up to an event, and checks that each is the next.
async fn follow(log: Arc<dyn EventLog>, from: u64, end: u64) -> Vec<RecordedEvent> {
    let mut events = log.subscribe(Position::new(from).expect("the suite has few events"));
    let mut found = Vec::new();
    for position in from..end {
        let what = format!("event {position} of a subscription from {from}");
        let next = within(&what, events.next()).await;
        let next = next.unwrap_or_else(|| panic!("a subscription ended before {what}"));
        let event = next.unwrap_or_else(|error| panic!("{what} could not be read: {error:?}"));
        assert_eq!(event.position.get(), position, "{what} is another: skipped or repeated");
        found.push(event);
    }
    let more = events.next().now_or_never();
    assert!(more.is_none(), "a subscription from {from} gives {more:?} behind the last event");
    found
}

pub(super) async fn subscriptions_miss_nothing_beside_many_writers(log: Arc<dyn EventLog>) {
    const WRITERS: u64 = 16;
    const ROUNDS: u64 = 100;
    let before = batch("delivery-before", None, &["x"; 10]);
    append(&*log, &before).await;
    let end = 10 + WRITERS * ROUNDS * 2;
    let follower = |from| (from, tokio::spawn(follow(Arc::clone(&log), from, end)));
    let mut followers: Vec<_> = [0, 5, 10, 500].map(follower).into();
    let writers = (0..WRITERS).map(|writer| {
        let log = Arc::clone(&log);
        tokio::spawn(async move {
            let mut head = None;
            for _ in 0..ROUNDS {
                let next = batch(&format!("delivery-{writer}"), head, &["x", "y"]);
                assert_eq!(append(&*log, &next).await.head, next.head(), "the head of a stream");
                head = Some(next.head());
            }
        })
    });
    let writers: Vec<_> = writers.collect();
    // Some begin in the middle of it.
    for from in [0, 1_000] {
        within("the writers' progress", log.subscribe(middle(from + 100)).next()).await;
        followers.push(follower(from));
    }
    within("the writers of many streams", join_all(writers.into_iter().map(joined))).await;
    let all = all(&*log).await;
    assert_eq!(all.len() as u64, end, "every event of many streams is there once");
    for (from, task) in followers {
        let found = joined(task).await;
        let expected = all.iter().filter(|it| it.position.get() >= from);
        let is_same = found.iter().eq(expected);
        assert!(is_same, "a subscription from {from} gave other events than the log has");
    }
}

pub(super) async fn several_that_share_a_log_lose_nothing(logs: [Arc<dyn EventLog>; 4]) {
    const ROUNDS: usize = 25;
    const TASKS: usize = 4;
    let end = logs.len() * TASKS * ROUNDS * 2;
    let followers: Vec<_> =
        logs.iter().map(|log| tokio::spawn(follow(Arc::clone(log), 0, end as u64))).collect();
    let writer = |(of, log): (usize, Arc<dyn EventLog>)| {
        tokio::spawn(async move {
            let mut head = None;
            for round in 0..ROUNDS {
                append_behind(&*log, "delivery-shared", None, &format!("{of}:{round}")).await;
                let own = batch(&format!("delivery-{of}"), head, &["x"]);
                append(&*log, &own).await;
                head = Some(own.head());
            }
        })
    };
    let tasks = logs.iter().flat_map(|log| (0..TASKS).map(|_| Arc::clone(log)));
    let writers: Vec<_> = tasks.enumerate().map(writer).collect();
    within("the writers of a shared log", join_all(writers.into_iter().map(joined))).await;
    let events = all(&*logs[0]).await;
    let shared =
        collect(logs[1].read_stream(&name("delivery-shared"), None, Direction::Forward, end));
    let shared = shared.await;
    let tags: HashSet<_> = shared.iter().map(|it| it.event.data()).collect();
    let counts = (events.len(), shared.len(), tags.len());
    assert_eq!(counts, (end, end / 2, end / 2), "every update of a shared log is there once");
    for task in followers {
        let is_same = joined(task).await == events;
        assert!(is_same, "a subscription to a shared log gave other events than the log has");
    }
}

fn middle(position: u64) -> Position {
    Position::new(position).expect("the suite has few events")
}

pub(super) async fn a_subscription_ends_with_its_log(log: Arc<dyn EventLog>) {
    append(&*log, &batch("delivery-a", None, &["1", "2"])).await;
    let mut waiting = log.subscribe(Position::ZERO);
    let mut future = log.subscribe(middle(1_000));
    within("the first event", waiting.next()).await;
    drop(log);
    let rest = within("the end of a dropped log's subscription", waiting.collect::<Vec<_>>()).await;
    let places: Vec<_> = rest.iter().flatten().map(|it| it.position.get()).collect();
    assert!(places.is_empty() || places == [1], "a dropped log's subscription gave {places:?}");
    let ended = within("the end of a dropped log's subscription", future.next()).await;
    assert!(ended.is_none(), "a dropped log's subscription gave {ended:?}");
}
