//! Random commands of several tasks over logs with random faults.

use std::time::Duration;

use futures_util::future::join_all;
use proptest::{collection::vec, prelude::*, sample::select};
use tokio::{runtime, time::timeout};

use super::*;
use crate::delivery::{MessageDeliveryChange as Change, ParkReason, RetryReason};

/// What one task does next.
#[derive(Clone, Debug)]
struct Act {
    message: usize,
    kind: usize,
    /// After how many polls its caller goes away.
    patience: usize,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let patience = prop_oneof![4 => Just(1_000), 1 => 0..30_usize];
    let act = (0..4_usize, 0..12_usize, patience).prop_map(|(message, kind, patience)| Act {
        message,
        kind,
        patience,
    });
    vec(act, 1..12)
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let beaten: Vec<_> = (0..4).map(|id| Step::Beaten(format!("m-{id}"))).collect();
    let step = prop_oneof![
        4 => (0..6_usize).prop_map(Step::Slow),
        1 => select(beaten),
        1 => (0..1_000).prop_map(|id| Step::Beaten(format!("other-{id}"))),
        1 => Just(Step::Storage),
        1 => Just(Step::UnknownThere),
        1 => Just(Step::UnknownNotThere),
        1 => Just(Step::HeldReply),
    ];
    vec(step, 0..60)
}

/// A command that goes with where the message is thought to stand, and a name of its own.
async fn submission_of(
    owners: &Owners<Outbox>,
    act: &Act,
    name: &str,
    now: u64,
) -> Submission<OutboxCommand> {
    let id = format!("m-{}", act.message);
    let version = owners.read(&sender(), |outbox| outbox.record(&id).map(|it| it.version)).await;
    let version = version.ok().flatten().unwrap_or(1);
    let diagnostic = None;
    let mut submission = match act.kind {
        0..3 => prepare(&id),
        3 => prepare_at(&id, 2_000),
        4..7 => change(&id, version, now, Change::Claim),
        7 => change(&id, version, now, Change::Retry { reason: RetryReason::Timeout, diagnostic }),
        8 => {
            let until_millis = millis(now + 5);
            change(&id, version, now, Change::Defer { until_millis })
        }
        9 => {
            let reason = ParkReason::StatusUnavailable;
            change(&id, version, now, Change::Park { reason, diagnostic })
        }
        10 => {
            let deadline_at_millis = millis(now + 10_000);
            change(&id, version, now, Change::Recover { deadline_at_millis })
        }
        _ => {
            let code = "gone".parse().unwrap();
            change(&id, version, now, Change::Refuse { code, diagnostic })
        }
    };
    submission.metadata = Metadata::of_actor(name);
    submission
}

type Told = (String, Option<Answer>);

/// One task's commands, one after the other; `None` where it went away.
async fn play(owners: Owners<Outbox>, task: usize, acts: Vec<Act>) -> Vec<Told> {
    let mut told = Vec::new();
    for (round, act) in acts.iter().enumerate() {
        let name = format!("{task}:{round}");
        let now = 1_000 + (round * 700 + task * 300) as u64;
        let submission = submission_of(&owners, act, &name, now).await;
        let answer = dropped_after(act.patience, owners.submit(&sender(), submission)).await;
        told.push((name, answer));
    }
    told
}

async fn check(tasks: Vec<Vec<Act>>, script: Vec<Step>) -> Result<(), TestCaseError> {
    let log = Scripted::new(script);
    let processes = [owners(&log), owners(&log).with_max_idle(0)];
    // Replies that are held are let go by and by.
    let let_go = Arc::clone(&log.let_go);
    let ticks = tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_millis(1)).await;
            let_go.add_permits(1);
        }
    });
    let tasks = tasks.into_iter().enumerate().map(|(task, acts)| {
        tokio::spawn(play(processes[usize::from(task == 0)].clone(), task, acts))
    });
    let told = timeout(Duration::from_mins(10), join_all(tasks)).await;
    let told = told.map_err(|_| TestCaseError::fail("it hangs"))?;
    log.script.lock().unwrap().clear();
    // What nobody waits for any more is settled by the next.
    for owners in &processes {
        owners.submit(&sender(), prepare("last")).await.unwrap();
    }
    processes[0].read(&sender(), |_| ()).await.unwrap();
    ticks.abort();
    assert_settled(&processes[0], &log.inner()).await;

    let (events, _) = folded(&log.inner()).await;
    let recorded: Vec<_> = events.iter().map(|it| it.event.recorded_at()).collect();
    prop_assert!(recorded.is_sorted(), "{recorded:?}");
    for (name, answer) in told.into_iter().flat_map(Result::unwrap) {
        let metadata = format!("{{\"actor\":\"{name}\"}}");
        let found: Vec<_> = events.iter().filter(|it| it.event.metadata() == metadata).collect();
        match answer {
            Some(Ok(Some(Committed { event, position, head }))) => {
                prop_assert_eq!(found.len(), 1, "{}", name);
                prop_assert_eq!((position, head), (found[0].position, found[0].event.head()));
                let data = event.to_data();
                prop_assert_eq!(data.as_str(), found[0].event.data());
            }
            Some(Err(error)) if !error.is_outcome_unknown() => {
                prop_assert_eq!(found.len(), 0, "{} in spite of {}", name, error);
                prop_assert!(!matches!(error, OwnerError::GivenUp), "{name}");
            }
            Some(Ok(None)) => prop_assert_eq!(found.len(), 0, "{}", name),
            Some(Err(_)) | None => prop_assert!(found.len() <= 1, "{name} is there twice"),
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    #[test]
    fn answers_are_what_the_log_has(tasks in vec(acts(), 1..7), script in steps()) {
        let mut runtime = runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build().unwrap();
        runtime.block_on(check(tasks, script))?;
    }
}
