//! Callers who go away.

use std::time::Duration;

use futures_util::future::{join_all, join4};
use tokio::{
    task::{JoinHandle, yield_now},
    time::timeout,
};

use super::*;

fn spawn(owners: &Owners<Outbox>, submission: Submission<OutboxCommand>) -> JoinHandle<Answer> {
    let owners = owners.clone();
    tokio::spawn(async move { owners.submit(&sender(), submission).await })
}

/// A group of m-1, m-2 and m-3: the first works for it, and its append is under way.
async fn under_way(
    log: &Scripted,
    owners: &Owners<Outbox>,
    first: Step,
) -> [JoinHandle<Answer>; 3] {
    log.say([Step::Slow(0), first]);
    let zero = spawn(owners, prepare("m-0"));
    let group = ["m-1", "m-2", "m-3"].map(|id| spawn(owners, prepare(id)));
    committed(zero.await.unwrap());
    while log.appended() < 2 {
        yield_now().await;
    }
    group
}

async fn ids(log: &Scripted) -> Vec<String> {
    let (events, _) = folded(&log.inner()).await;
    let id = |it: RecordedEvent| {
        let data: serde_json::Value = serde_json::from_str(it.event.data()).unwrap();
        data["messageId"].as_str().unwrap().to_owned()
    };
    events.into_iter().map(id).collect()
}

#[tokio::test]
async fn another_goes_on_for_one_who_worked_for_all() {
    for first in [Step::Held, Step::HeldReply] {
        let log = Scripted::new([]);
        let owners = owners(&log);
        let [one, two, three] = under_way(&log, &owners, first).await;
        one.abort();
        for (task, position) in [(two, 2), (three, 3)] {
            assert_eq!(committed(task.await.unwrap()).position.get(), position);
        }
        let appends = log.appends.lock().unwrap().clone();
        assert_eq!((appends.len(), &appends[1]), (3, &appends[2]), "the same batch again");
        log.let_go.add_permits(1);
        committed(owners.submit(&sender(), prepare("m-4")).await);
        assert_eq!(ids(&log).await, ["m-0", "m-1", "m-2", "m-3", "m-4"]);
        assert_settled(&owners, &log.inner()).await;
    }
}

/// What was decided once counts, and is decided again with the others.
#[tokio::test]
async fn a_conflict_behind_one_who_went_away_leaves_nobody_out() {
    let log = Scripted::new([]);
    let owners = owners(&log);
    let [one, two, three] = under_way(&log, &owners, Step::Held).await;
    log.say([Step::Beaten("m-2".into())]);
    one.abort();
    assert_eq!(two.await.unwrap().unwrap(), None, "another process has prepared it");
    assert_eq!(committed(three.await.unwrap()).position.get(), 3);
    log.let_go.add_permits(1);
    committed(owners.submit(&sender(), prepare("m-4")).await);
    assert_eq!(ids(&log).await, ["m-0", "m-2", "m-1", "m-3", "m-4"]);
    assert_settled(&owners, &log.inner()).await;
}

/// The second append says that it appended nothing; what the first did nobody heard.
#[tokio::test]
async fn an_error_behind_one_who_went_away_leaves_the_outcome_unknown() {
    for (first, again) in
        [(Step::Held, Step::Storage), (Step::HeldReply, Step::Storage), (Step::Held, Step::Closed)]
    {
        let log = Scripted::new([]);
        let owners = owners(&log);
        let [one, two, three] = under_way(&log, &owners, first).await;
        log.say([again]);
        one.abort();
        for task in [two, three] {
            let error = task.await.unwrap().unwrap_err();
            assert!(error.is_outcome_unknown(), "{error}");
        }
        log.let_go.add_permits(1);
        committed(owners.submit(&sender(), prepare("m-4")).await);
        assert_eq!(ids(&log).await, ["m-0", "m-1", "m-2", "m-3", "m-4"]);
        assert_settled(&owners, &log.inner()).await;
    }
}

#[tokio::test]
async fn what_all_have_left_is_settled_by_the_next() {
    for first in [Step::Held, Step::HeldReply] {
        let log = Scripted::new([]);
        let owners = owners(&log);
        for task in under_way(&log, &owners, first).await {
            task.abort();
            assert!(task.await.unwrap_err().is_cancelled());
        }
        let four = committed(owners.submit(&sender(), prepare("m-4")).await);
        assert_eq!(four.position.get(), 4);
        log.let_go.add_permits(1);
        assert_eq!(ids(&log).await, ["m-0", "m-1", "m-2", "m-3", "m-4"]);
        assert_settled(&owners, &log.inner()).await;
    }
}

#[tokio::test]
async fn a_look_settles_too() {
    let log = Scripted::new([]);
    let owners = owners(&log);
    for task in under_way(&log, &owners, Step::Held).await {
        task.abort();
    }
    let pending = owners.read(&sender(), |outbox| outbox.counts().pending).await;
    assert_eq!(pending.unwrap(), 4);
    assert_settled(&owners, &log.inner()).await;
}

#[tokio::test]
async fn who_goes_before_the_decision_is_forgotten() {
    let log = Scripted::new([]);
    let owners = owners(&log);
    let group = under_way(&log, &owners, Step::Held).await;
    let [four, five] = ["m-4", "m-5"].map(|id| spawn(&owners, prepare(id)));
    yield_now().await;
    four.abort();
    yield_now().await;
    log.let_go.add_permits(1);
    join_all(group).await.into_iter().map(Result::unwrap).map(committed).for_each(drop);
    assert_eq!(committed(five.await.unwrap()).position.get(), 4);
    assert_eq!(ids(&log).await, ["m-0", "m-1", "m-2", "m-3", "m-5"]);
    assert_settled(&owners, &log.inner()).await;
}

/// Many give up while the log does not answer, and none of them is kept.
#[tokio::test]
async fn a_queue_keeps_none_who_went() {
    let log = Scripted::new([]);
    let owners = owners(&log);
    let group = under_way(&log, &owners, Step::Held).await;
    for round in 0..1_000 {
        let id = format!("late-{round}");
        assert!(dropped_after(0, owners.submit(&sender(), prepare(&id))).await.is_none());
    }
    let lease = owners.registry().lease(&sender());
    assert!(lease.owner.queued() < 100, "{} are kept", lease.owner.queued());
    drop((group, lease));
    log.let_go.add_permits(1);
}

/// Wherever the one who works is when it is dropped.
#[tokio::test(start_paused = true)]
async fn work_may_be_dropped_wherever_it_waits() {
    let scripts: [&[Step]; 6] = [
        &[],
        &[Step::Slow(3), Step::Beaten("m-9".into()), Step::Beaten("m-2".into())],
        &[Step::Beaten("m-1".into()), Step::Storage, Step::Slow(1)],
        &[Step::Slow(1), Step::UnknownThere, Step::UnknownNotThere],
        &[Step::UnknownNotThere, Step::Beaten("m-3".into())],
        &[Step::Slow(2), Step::Slow(2), Step::Lie],
    ];
    for (script, polls) in scripts.iter().flat_map(|script| (0..40).map(move |it| (script, it))) {
        let inner = MemoryLog::new();
        let others = Owners::<Outbox>::new(Arc::new(inner.clone()));
        for id in ["before-1", "before-2", "before-3"] {
            committed(others.submit(&sender(), prepare(id)).await);
        }
        let log = Arc::new(Scripted::over(inner, script.iter().cloned()));
        let (owners, sender) = (owners(&log), sender());
        let [first, second, third] = ["m-1", "m-2", "m-3"]
            .map(|id| prepare_at(id, 2_000))
            .map(|it| owners.submit(&sender, it));
        let [fourth, fifth] = ["m-4", "m-5"].map(prepare).map(|it| owners.submit(&sender, it));
        let work = async {
            let (first, second, third, fourth) = join4(
                dropped_after(polls, first),
                dropped_after(polls + 2, second),
                dropped_after(polls / 2, third),
                fourth,
            )
            .await;
            [first, second, third, Some(fourth), Some(fifth.await)]
        };
        let work = timeout(Duration::from_mins(1), work).await;
        let answers = work.unwrap_or_else(|_| panic!("{script:?}, {polls}: it hangs"));
        let (_, outbox) = folded(&log.inner()).await;
        let ids = ids(&log).await;
        for (id, answer) in ["m-1", "m-2", "m-3", "m-4", "m-5"].into_iter().zip(answers) {
            let count = ids.iter().filter(|it| *it == id).count();
            let is_ours = outbox.record(id).is_some_and(|record| {
                record.created_at_millis != millis(1_000) || id == "m-4" || id == "m-5"
            });
            assert!(count <= 1, "{script:?}, {polls}: {ids:?}");
            match answer {
                Some(Ok(Some(_))) => assert!(is_ours, "{script:?}, {polls}: {id} is lost"),
                Some(Err(error)) if !error.is_outcome_unknown() => {
                    assert!(!is_ours, "{script:?}, {polls}: {id} is there in spite of {error}");
                }
                Some(Ok(None)) => panic!("{script:?}, {polls}: nobody else has prepared {id} so"),
                _ => {}
            }
        }
        log.script.lock().unwrap().clear();
        owners.read(&sender, |_| ()).await.unwrap();
        assert_settled(&owners, &log.inner()).await;
    }
}
