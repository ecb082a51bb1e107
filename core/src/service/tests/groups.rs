//! Many commands of one stream.

use std::collections::BTreeSet;

use futures_util::future::join_all;

use super::*;

/// How the owners of a process share a stream: all begin at once.
async fn submit_all(
    owners: &Owners<Outbox>,
    submissions: impl IntoIterator<Item = Submission<OutboxCommand>>,
) -> Vec<Answer> {
    let sender = sender();
    join_all(submissions.into_iter().map(|it| owners.submit(&sender, it))).await
}

#[tokio::test]
async fn many_tasks_share_a_commit_and_keep_their_order() {
    let log = Scripted::new([]);
    let owners = owners(&log);
    let tasks = (0..600).map(|task| {
        let owners = owners.clone();
        tokio::spawn(async move { owners.submit(&sender(), prepare(&format!("m-{task}"))).await })
    });
    let tasks: Vec<_> = tasks.collect();
    let (events, _) = {
        for (index, task) in tasks.into_iter().enumerate() {
            let committed = committed(task.await.unwrap());
            assert_eq!(committed.position.get(), index as u64);
            assert_eq!(committed.head.revision.get(), index as u64);
            assert_eq!(committed.event.message_id().as_str(), format!("m-{index}"));
        }
        folded(&log.inner()).await
    };
    assert_eq!(events.len(), 600);
    assert_eq!(log.sizes(), [1, 256, 256, 87]);
    assert_settled(&owners, &log.inner()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn tasks_of_many_threads_share_commits() {
    let log = Scripted::new([]);
    let owners = owners(&log);
    let tasks = (0..50).map(|task| {
        let owners = owners.clone();
        tokio::spawn(async move {
            for round in 0..40 {
                let id = format!("m-{task}-{round}");
                let committed = committed(owners.submit(&sender(), prepare(&id)).await);
                assert_eq!(committed.event.message_id().as_str(), id);
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    let (events, outbox) = folded(&log.inner()).await;
    assert_eq!((events.len(), outbox.counts().pending), (2_000, 2_000));
    assert!(log.appended() < 500, "{} appends", log.appended());
    assert_settled(&owners, &log.inner()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_processes_lose_no_update_and_each_command_keeps_its_now() {
    let log = Scripted::new([]);
    let processes = [owners(&log), owners(&log)];
    let tasks = (0..40_u64).map(|task| {
        let owners = processes[usize::from(task % 2 == 0)].clone();
        tokio::spawn(async move {
            for round in 0..15 {
                let now = 1_000 + task * 100 + round;
                let id = format!("m-{now}");
                committed(owners.submit(&sender(), prepare_at(&id, now)).await);
                let claimed = committed(owners.submit(&sender(), claim(&id, now + 7)).await);
                assert_eq!(claimed.event.at(), millis(now + 7));
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    let (events, outbox) = folded(&log.inner()).await;
    assert_eq!(events.len(), 2 * 40 * 15);
    assert!(log.conflicts.load(Ordering::SeqCst) > 0, "the processes must meet");
    for record in outbox.records() {
        let now: u64 = record.key.message_id[2..].parse().unwrap();
        assert_eq!(record.created_at_millis, millis(now));
        assert_eq!(record.retry.last_attempt_at_millis, Some(millis(now + 7)));
    }
    for owners in &processes {
        assert_eq!(owners.read(&sender(), Clone::clone).await.unwrap(), outbox);
        assert_settled(owners, &log.inner()).await;
    }
}

#[tokio::test]
async fn a_conflict_has_the_group_decided_again_over_what_is_there() {
    let log =
        Scripted::new([Step::Slow(0), Step::Beaten("m-2".into()), Step::Beaten("m-9".into())]);
    let owners = owners(&log);
    let nows = [1_000, 5_000, 6_000, 7_000];
    let ids = ["m-0", "m-1", "m-2", "m-3"];
    // The other process prepares m-2 at 1 000; here it is prepared at 6 000.
    let answers =
        submit_all(&owners, ids.into_iter().zip(nows).map(|(id, now)| prepare_at(id, now))).await;
    let [zero, one, two, three]: [Answer; 4] = answers.try_into().unwrap();
    assert_eq!(committed(zero).position.get(), 0);
    let (one, three) = (committed(one), committed(three));
    assert_eq!((one.event.at(), one.position.get()), (millis(5_000), 3));
    assert_eq!((three.event.at(), three.position.get()), (millis(7_000), 4));
    assert!(refusal(two).starts_with("message \"m-2\" exists with other content"));
    assert_eq!(log.sizes(), [1, 3, 2, 2]);
    assert_settled(&owners, &log.inner()).await;
}

#[tokio::test]
async fn what_depends_on_an_event_is_told_with_it() {
    for fails in [false, true] {
        let log = Scripted::new([Step::Slow(0)]);
        if fails {
            log.say([Step::Storage]);
        }
        let owners = owners(&log);
        let group = ["m-0", "m-1", "m-1"].map(prepare).into_iter();
        let group = group.chain([prepare_at("m-1", 2_000), claim("m-2", 2_000)]);
        let answers = submit_all(&owners, group).await;
        let told: Vec<_> = answers
            .into_iter()
            .map(|answer| match answer {
                Ok(Some(committed)) => format!("revision {}", committed.head.revision),
                Ok(None) => "nothing".to_owned(),
                Err(error) => error.to_string(),
            })
            .collect();
        if fails {
            let failed = "the log could not be written, nothing was appended";
            assert_eq!(told, ["revision 0", failed, failed, failed, failed]);
        } else {
            let other = "message \"m-1\" exists with other content: a repeat must carry the same \
                         envelope, predecessor, policy, creation and deadline";
            let none = "there is no message \"m-2\" in this outbox";
            assert_eq!(told, ["revision 0", "revision 1", "nothing", other, none]);
        }
        assert_settled(&owners, &log.inner()).await;
    }
}

/// Nothing is appended for them, so that nothing else would tell.
#[tokio::test]
async fn a_refusal_and_a_repeat_are_true_of_the_log() {
    let log = Scripted::new([]);
    let (here, there) = (owners(&log), owners(&log));
    committed(here.submit(&sender(), prepare("m-0")).await);
    assert_eq!(refusal(here.submit(&sender(), claim("m-1", 1_000)).await), NOT_THERE);

    committed(there.submit(&sender(), prepare("m-1")).await);
    let claimed = committed(here.submit(&sender(), claim("m-1", 1_000)).await);
    assert_eq!(claimed.head.revision.get(), 2);
    assert_eq!(here.submit(&sender(), prepare("m-1")).await.unwrap(), None);
    let reads = log.reads();
    let claims = [0, 1].map(|_| claim("m-2", 1_000));
    for answer in submit_all(&here, claims).await {
        assert_eq!(refusal(answer), NOT_THERE.replace("m-1", "m-2"));
    }
    assert_eq!(log.reads() - reads, 2, "a read a group");
}

const NOT_THERE: &str = "there is no message \"m-1\" in this outbox";

#[tokio::test]
async fn when_it_was_recorded_never_falls() {
    let log = Scripted::new([]);
    let owners = owners(&log);
    let nows = [5_000, 3_000, 9_000, 4_000];
    submit_all(&owners, nows.map(|now| prepare_at(&format!("m-{now}"), now))).await;
    submit_all(&owners, [prepare_at("m-8000", 8_000)]).await;
    // Neither here, where it is read from the log.
    let again = super::owners(&log);
    submit_all(&again, [prepare_at("m-1000", 1_000)]).await;
    let (events, _) = folded(&log.inner()).await;
    let recorded: Vec<_> = events.iter().map(|it| it.event.recorded_at().as_millis()).collect();
    assert_eq!(recorded, [5_000, 9_000, 9_000, 9_000, 9_000, 9_000]);
    assert_eq!(log.sizes(), [1, 3, 1, 1]);
}

#[tokio::test]
async fn a_batch_has_some_bytes_and_no_more() {
    let log = Scripted::new([]);
    let owners = owners(&log);
    let large = (0..8).map(|id| prepare_large(&format!("m-{id}"), 300_000));
    let answers = submit_all(&owners, large).await;
    let places: BTreeSet<_> = answers.into_iter().map(|it| committed(it).position).collect();
    assert_eq!(places.len(), 8);
    assert_eq!(log.sizes(), [1, 3, 3, 1]);
    // One that is larger than a batch goes alone.
    let group = [prepare("a"), prepare("b"), prepare_large("c", (1 << 20) - 10_000), prepare("d")];
    let answers = submit_all(&owners, group).await;
    assert_eq!(answers.into_iter().map(committed).count(), 4);
    assert_settled(&owners, &log.inner()).await;
}

#[tokio::test]
async fn what_cannot_be_sealed_leaves_the_others_alone() {
    let log = Scripted::new([]);
    let owners = owners(&log);
    let mut group = ["m-0", "m-1", "m-2", "m-3", "m-4"].map(prepare);
    group[1].metadata.custom = Some(PersistedJson::parse("[]").unwrap());
    group[3].now = Instant::MAX;
    let [zero, one, two, three, four]: [Answer; 5] =
        submit_all(&owners, group).await.try_into().unwrap();
    for (answer, position) in [(zero, 0), (two, 1), (four, 2)] {
        assert_eq!(committed(answer).position.get(), position);
    }
    assert_eq!(refusal(one), "the metadata's custom value is not a JSON object");
    let past = "recordedAt 8640000000000000 ms is past the year 9999: the host's clock is wrong";
    assert_eq!(refusal(three), past);
    assert_settled(&owners, &log.inner()).await;
}
