//! What a log must keep, as a suite that any backend's tests can run.
//!
//! A case that fails panics with what is wrong. The cases need a tokio runtime with its timer, and
//! hold most where it has several threads.

mod append;
mod concurrent;
mod read;
#[cfg(all(test, feature = "memory"))]
mod tests;

use std::{collections::HashMap, fmt::Debug, sync::Arc, time::Duration};

use futures_util::TryStreamExt;

use super::{Appended, Direction, EventLog, EventStream, LogHead};
use crate::{
    Digest, EventBatch, EventDraft, EventType, Instant, Metadata, Position, RecordedEvent,
    StreamHead, StreamName,
};

/// How long is waited for what must come.
const PATIENCE: Duration = Duration::from_mins(1);

/// Runs every case but [`reopens`] and [`shares`], each on a log of its own.
///
/// `fresh` opens a log that is empty.
///
/// # Panics
///
/// Where the log does not keep something; the message says what.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
///
/// use recount_core::log::{EventLog, MemoryLog, conformance};
///
/// # let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build()?;
/// # runtime.block_on(async {
/// conformance::run_all(async || Arc::new(MemoryLog::new()) as Arc<dyn EventLog>).await;
/// # });
/// # Ok::<_, std::io::Error>(())
/// ```
pub async fn run_all(fresh: impl AsyncFn() -> Arc<dyn EventLog>) {
    append::places_are_counted_without_gaps(&*fresh().await).await;
    append::a_batch_for_another_head_is_a_conflict(&*fresh().await).await;
    append::a_repeat_is_answered_as_the_first_time(&*fresh().await).await;
    append::a_partial_overlap_is_a_conflict(&*fresh().await).await;
    append::a_row_that_is_too_large_is_refused_with_its_batch(&*fresh().await).await;
    append::a_dropped_append_is_not_withdrawn(&*fresh().await).await;
    read::reads_go_both_ways_from_anywhere(&*fresh().await).await;
    read::nothing_is_read_where_nothing_is(&*fresh().await).await;
    concurrent::no_update_of_one_stream_is_lost(fresh().await).await;
    concurrent::subscriptions_miss_nothing_beside_many_writers(fresh().await).await;
    concurrent::a_subscription_ends_with_its_log(fresh().await).await;
}

/// Holds that a log is the same after it was closed and opened again.
///
/// `open` opens the same log each time, empty at first, and never while it is open already.
///
/// # Panics
///
/// Where it is not; the message says what.
pub async fn reopens(open: impl AsyncFn() -> Arc<dyn EventLog>) {
    let first = batch("delivery-a", None, &["1", "2"]);
    let other = batch("delivery-b", None, &["3"]);
    let log = open().await;
    let appended = append(&*log, &first).await;
    append(&*log, &other).await;
    let before = all(&*log).await;
    drop(log);

    let log = open().await;
    assert_eq!(all(&*log).await, before, "the events changed by reopening the log");
    assert_eq!(head(&*log).await, Some(head_of(&before[2])), "the log's head after reopening");
    let again = append(&*log, &first).await;
    assert_eq!(again, appended, "a batch from before reopening must be recognised");
    let next = append(&*log, &batch("delivery-a", Some(first.head()), &["4"])).await;
    let expected = Position::new(3);
    assert_eq!(Some(next.first_position), expected, "the log must go on where it was");
    let before = all(&*log).await;
    drop(log);
    assert_eq!(all(&*open().await).await, before, "the events changed by reopening the log again");
}

/// Holds that several may have a log open at once, where a backend claims that.
///
/// `open` opens the same log each time, as another process would, empty at first.
///
/// # Panics
///
/// Where an update is lost or a subscription misses something; the message says what.
pub async fn shares(open: impl AsyncFn() -> Arc<dyn EventLog>) {
    let logs = [open().await, open().await, open().await, open().await];
    concurrent::several_that_share_a_log_lose_nothing(logs).await;
}

/// Events whose data is a tag each, sealed behind a head.
pub(crate) fn batch(stream: &str, expected: Option<StreamHead>, tags: &[&str]) -> EventBatch {
    let drafts = tags.iter().map(|tag| EventDraft {
        event_type: EventType::new("delivery.claimed").expect("this is a type"),
        schema_version: 1,
        data: serde_json::from_value(serde_json::json!({ "tag": tag })).expect("this is JSON"),
        metadata: Metadata::of_actor("conformance"),
    });
    let stream = StreamName::parse(stream).expect("the suite's stream names are such");
    EventBatch::seal(stream, expected, drafts, Instant::ZERO).expect("the suite has its batches")
}

fn name(stream: &str) -> StreamName {
    StreamName::parse(stream).expect("the suite's stream names are such")
}

async fn append(log: &dyn EventLog, batch: &EventBatch) -> Appended {
    let appended = log.append(batch.clone()).await;
    appended.unwrap_or_else(|error| {
        panic!("a batch for {} behind its head was refused: {error:?}", batch.stream())
    })
}

async fn head(log: &dyn EventLog) -> Option<LogHead> {
    log.head().await.expect("the head must be readable")
}

fn head_of(event: &RecordedEvent) -> LogHead {
    LogHead { position: event.position, digest: event.event.digest() }
}

async fn collect(events: EventStream<'_>) -> Vec<RecordedEvent> {
    events.try_collect().await.expect("what was appended must be readable")
}

/// All events, checked to be a log.
async fn all(log: &dyn EventLog) -> Vec<RecordedEvent> {
    let events = collect(log.read_all(None, Direction::Forward, usize::MAX)).await;
    let mut heads: HashMap<&StreamName, StreamHead> = HashMap::new();
    for (place, recorded) in events.iter().enumerate() {
        let event = &recorded.event;
        assert_eq!(recorded.position.get(), place as u64, "positions must count up from 0");
        let before = heads.insert(event.stream(), event.head());
        assert_eq!(event.expected(), before, "revisions and digests of a stream must be a chain");
        let parts = [b"recount.event.v1\0", event.text().as_bytes()];
        assert_eq!(event.digest(), Digest::of_parts(&parts), "a digest must be of its event");
    }
    events
}

/// Holds that an append was refused, and that the log is as it was.
async fn assert_unchanged(log: &dyn EventLog, before: &[RecordedEvent], why: &str) {
    assert_eq!(all(log).await, before, "{why}: nothing may be appended");
}

async fn within<T>(what: &str, work: impl Future<Output = T>) -> T {
    let Ok(done) = tokio::time::timeout(PATIENCE, work).await else {
        panic!("{what} did not come within {PATIENCE:?}")
    };
    done
}

/// What a task answers; its panic goes on here.
async fn joined<T: Debug>(task: tokio::task::JoinHandle<T>) -> T {
    match task.await {
        Ok(answer) => answer,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
