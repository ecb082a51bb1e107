//! Several streams.

use futures_util::FutureExt;

use super::*;

fn thread(name: &str) -> ThreadId {
    name.parse().unwrap()
}

fn of(owner: &str, message_id: &str) -> Submission<OutboxCommand> {
    let mut prepare = prepare(message_id);
    if let OutboxCommand::Prepare { message, .. } = &mut prepare.command {
        message.key.owner_thread_id = thread(owner);
    }
    prepare
}

async fn touch(owners: &Owners<Outbox>, stream: &str, message_id: &str) -> u64 {
    committed(owners.submit(&thread(stream), of(stream, message_id)).await).head.revision.get()
}

#[tokio::test]
async fn a_stream_does_not_wait_for_another() {
    let log = Scripted::new([Step::Held]);
    let owners = owners(&log);
    let held = owners.clone();
    let held = tokio::spawn(async move { held.submit(&thread("a"), of("a", "m-1")).await });
    while log.appended() == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(touch(&owners, "b", "m-1").await, 0);
    assert!(!held.is_finished());
    log.let_go.add_permits(1);
    assert_eq!(committed(held.await.unwrap()).position.get(), 1);
}

#[tokio::test]
async fn idle_streams_are_dropped_the_least_recently_used_first() {
    let log = Scripted::new([]);
    let owners = owners(&log).with_max_idle(2);
    for (stream, message_id, reads, kept) in [
        ("a", "m-1", 1, 1),
        ("b", "m-1", 1, 2),
        ("a", "m-2", 0, 2),
        ("c", "m-1", 1, 2),
        ("a", "m-3", 0, 2),
        // It was used before all others, and is read again.
        ("b", "m-2", 1, 2),
        ("a", "m-4", 0, 2),
        ("c", "m-2", 1, 2),
        ("b", "m-3", 1, 2),
    ] {
        let before = log.reads();
        let revision = touch(&owners, stream, message_id).await;
        assert_eq!(format!("m-{}", revision + 1), message_id, "{stream}");
        assert_eq!(log.reads() - before, reads, "{stream}, {message_id}");
        assert_eq!(owners.registry().count(), kept, "{stream}, {message_id}");
    }
    let owners = owners.with_max_idle(0);
    assert_eq!(owners.registry().count(), 0);
    assert_eq!(touch(&owners, "a", "m-5").await, 4);
    assert_eq!(owners.registry().count(), 0);
}

#[tokio::test]
async fn a_stream_in_use_is_kept() {
    let log = Scripted::new([Step::Slow(0), Step::Held]);
    let owners = owners(&log).with_max_idle(1);
    touch(&owners, "a", "m-1").await;
    let (a, submission) = (thread("a"), of("a", "m-2"));
    let mut waiting = Box::pin(owners.submit(&a, submission));
    assert!((&mut waiting).now_or_never().is_none());
    for stream in ["b", "c", "d"] {
        touch(&owners, stream, "m-1").await;
    }
    assert_eq!(owners.registry().count(), 2);
    log.let_go.add_permits(1);
    assert_eq!(committed(waiting.await).head.revision.get(), 1);
    assert_eq!(owners.registry().count(), 1);
}

#[tokio::test]
async fn looking_at_a_stream_reads_what_is_new() {
    let log = Scripted::new([]);
    let (here, there) = (owners(&log), owners(&log));
    let pending = |outbox: &Outbox| outbox.counts().pending;
    assert_eq!(here.read(&sender(), pending).await.unwrap(), 0);
    committed(there.submit(&sender(), prepare("m-1")).await);
    assert_eq!(here.read(&sender(), pending).await.unwrap(), 1);
    committed(here.submit(&sender(), prepare("m-2")).await);
    assert_eq!(log.conflicts.load(Ordering::SeqCst), 0, "it was known what is there");
    assert_eq!(there.read(&sender(), pending).await.unwrap(), 2);
    for owners in [&here, &there] {
        assert_settled(owners, &log.inner()).await;
    }
}

/// What was left in flight is dropped with an idle stream, and the log tells what became of it.
#[tokio::test]
async fn an_idle_stream_may_be_dropped_with_what_is_in_flight() {
    let log = Scripted::new([Step::Held, Step::UnknownThere]);
    let owners = owners(&log).with_max_idle(0);
    let first = owners.clone();
    let first = tokio::spawn(async move { first.submit(&sender(), prepare("m-1")).await });
    while log.appended() == 0 {
        tokio::task::yield_now().await;
    }
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    let error = owners.submit(&sender(), prepare("m-2")).await.unwrap_err();
    assert!(error.is_outcome_unknown());
    log.let_go.add_permits(1);
    assert_eq!(committed(owners.submit(&sender(), prepare("m-1")).await).position.get(), 1);
    assert_eq!(owners.submit(&sender(), prepare("m-2")).await.unwrap(), None);
    assert_eq!(folded(&log.inner()).await.0.len(), 2);
}

#[test]
fn owners_and_their_futures_go_to_any_thread() {
    fn is_shared<T: Send + Sync + Clone + 'static>(_: &T) {}
    fn is_sent<T: Send>(_: T) {}
    let log = Scripted::new([]);
    let owners = owners(&log);
    is_shared(&owners);
    is_sent(owners.submit(&sender(), prepare("m-1")));
    is_sent(owners.read(&sender(), Clone::clone));
}
