//! Logs that do not do what is wished, and what becomes of memory then.

use std::error::Error;

use futures_util::future::join_all;

use super::*;
use crate::{CanonicalJson, EventDraft, EventType, StreamHead};

async fn submit_all<const N: usize>(
    owners: &Owners<Outbox>,
    submissions: [Submission<OutboxCommand>; N],
) -> [Answer; N] {
    let sender = sender();
    let answers = join_all(submissions.map(|it| owners.submit(&sender, it))).await;
    answers.try_into().unwrap()
}

#[tokio::test]
async fn what_was_not_appended_is_taken_back_and_told_to_all() {
    for (step, message) in [
        (Step::Storage, "the log could not be written, nothing was appended"),
        (Step::Closed, "the log is closed after a failed write: open it again"),
    ] {
        let log = Scripted::new([Step::Slow(0), step]);
        let owners = owners(&log);
        let [zero, one, claimed] =
            submit_all(&owners, [prepare("m-0"), prepare("m-1"), claim("m-0", 1_000)]).await;
        committed(zero);
        assert_eq!([refusal(one), refusal(claimed)], [message, message]);
        assert_settled(&owners, &log.inner()).await;
        assert_eq!(folded(&log.inner()).await.0.len(), 1);
        let [one, claimed] = submit_all(&owners, [prepare("m-1"), claim("m-0", 1_000)]).await;
        assert_eq!([one, claimed].map(|it| committed(it).position.get()), [1, 2]);
        assert_settled(&owners, &log.inner()).await;
    }
}

#[tokio::test]
async fn an_unknown_outcome_is_told_to_all_and_settled_before_the_next_group() {
    for step in [Step::UnknownThere, Step::UnknownNotThere] {
        let log = Scripted::new([Step::Slow(0), step]);
        let owners = owners(&log);
        let [zero, one, two] = submit_all(&owners, ["m-0", "m-1", "m-2"].map(prepare)).await;
        committed(zero);
        for answer in [one, two] {
            let error = answer.unwrap_err();
            assert!(error.is_outcome_unknown(), "{error}");
        }
        let [one, three] = submit_all(&owners, [prepare("m-1"), prepare("m-3")]).await;
        assert_eq!(one.unwrap(), None, "it was appended after all");
        assert_eq!(committed(three).position.get(), 3);
        assert_eq!(log.sizes(), [1, 2, 2, 1]);
        let appends = log.appends.lock().unwrap().clone();
        assert_eq!(appends[1], appends[2], "the same batch settles it");
        assert_settled(&owners, &log.inner()).await;
    }
}

#[tokio::test]
async fn an_outcome_that_stays_unknown_has_nothing_decided() {
    let log = Scripted::new([Step::UnknownNotThere, Step::UnknownNotThere, Step::Closed]);
    let owners = owners(&log);
    let [zero, one, two] = submit_all(&owners, ["m-0", "m-1", "m-2"].map(prepare)).await;
    assert!(zero.unwrap_err().is_outcome_unknown());
    for answer in [one, two] {
        let error = answer.unwrap_err();
        assert!(!error.is_outcome_unknown());
        let message = "an earlier append to the stream is not settled, nothing was decided: submit \
                       again";
        assert_eq!(error.to_string(), message);
        assert!(error.source().unwrap().to_string().starts_with("it is not known whether"));
    }
    let error = owners.read(&sender(), Outbox::counts).await.unwrap_err();
    assert!(matches!(error, OwnerError::Unsettled(_)), "{error:?}");
    assert_eq!(log.appended(), 3);
    assert_eq!(owners.read(&sender(), |outbox| outbox.counts().pending).await.unwrap(), 1);
    assert_settled(&owners, &log.inner()).await;
}

/// The batch never landed, and another process was there first.
#[tokio::test]
async fn an_unknown_outcome_may_end_in_a_conflict() {
    let log = Scripted::new([Step::UnknownNotThere, Step::Beaten("m-9".into())]);
    let owners = owners(&log);
    let [zero] = submit_all(&owners, [prepare("m-0")]).await;
    assert!(zero.unwrap_err().is_outcome_unknown());
    let [one] = submit_all(&owners, [prepare("m-1")]).await;
    assert_eq!(committed(one).position.get(), 1);
    let (_, outbox) = folded(&log.inner()).await;
    assert!(outbox.record("m-0").is_none() && outbox.record("m-9").is_some());
    assert_settled(&owners, &log.inner()).await;
}

#[tokio::test]
async fn only_what_is_too_large_suffers_for_it() {
    for at in 0..5 {
        let mut scripted = Scripted::over(MemoryLog::new(), []);
        scripted.max_text = 10_000;
        let log = Arc::new(scripted);
        let owners = owners(&log);
        let mut group = ["m-0", "m-1", "m-2", "m-3", "m-4"].map(prepare).to_vec();
        let id = format!("m-{at}");
        group[at] = prepare_large(&id, 20_000);
        // One that needs what is too large, one that needs what is not, and a repeat of that.
        group.push(claim(&id, 1_000));
        group.push(claim(&format!("m-{}", (at + 1) % 5), 1_000));
        group.push(prepare(&format!("m-{}", (at + 1) % 5)));
        let group: [_; 8] = group.try_into().unwrap();
        let answers = submit_all(&owners, group).await;
        for (index, answer) in answers.into_iter().enumerate() {
            match index {
                _ if index == at => {
                    let error = answer.unwrap_err();
                    let OwnerError::Append(error) = error else { panic!("{error}") };
                    assert!(matches!(*error, AppendError::TooLarge { max: 10_000, .. }), "{error}");
                }
                5 => assert_eq!(
                    refusal(answer),
                    format!("there is no message {id:?} in this outbox")
                ),
                7 => assert_eq!(answer.unwrap(), None),
                _ => drop(committed(answer)),
            }
        }
        assert!(log.appended() <= 5, "{:?}", log.sizes());
        assert_settled(&owners, &log.inner()).await;
    }
}

#[tokio::test]
async fn a_stream_that_cannot_be_read_is_not_decided_on() {
    let log = Scripted::new([]);
    let owners = owners(&log);
    log.fails_reads.store(true, Ordering::SeqCst);
    for answer in submit_all(&owners, ["m-0", "m-1"].map(prepare)).await {
        let error = answer.unwrap_err();
        assert_eq!(error.to_string(), "stream delivery-sender could not be read");
        assert_eq!(error.source().unwrap().to_string(), "the log could not be read");
    }
    owners.read(&sender(), |_| ()).await.unwrap_err();
    assert_eq!(log.appended(), 0);
    log.fails_reads.store(false, Ordering::SeqCst);
    drop(submit_all(&owners, ["m-0", "m-1"].map(prepare)).await.map(committed));
    assert_settled(&owners, &log.inner()).await;

    // Nor where it cannot be read after a conflict.
    log.say([Step::Beaten("m-2".into())]);
    log.fails_reads.store(true, Ordering::SeqCst);
    let [three] = submit_all(&owners, [prepare("m-3")]).await;
    assert_eq!(refusal(three), "stream delivery-sender could not be read");
    log.fails_reads.store(false, Ordering::SeqCst);
    let [four] = submit_all(&owners, [prepare("m-4")]).await;
    assert_eq!(committed(four).position.get(), 3);
    assert_settled(&owners, &log.inner()).await;
}

async fn append(log: &MemoryLog, head: StreamHead, event_type: &str, version: u32, data: &str) {
    let draft = EventDraft {
        event_type: EventType::new(event_type).unwrap(),
        schema_version: version,
        data: serde_json::from_str::<CanonicalJson>(data).unwrap(),
        metadata: Metadata::default(),
    };
    let stream = StreamName::delivery(&sender());
    let batch = EventBatch::seal(stream, Some(head), [draft], Instant::ZERO).unwrap();
    log.append(batch).await.unwrap();
}

#[tokio::test]
async fn an_event_that_is_not_understood_is_named_and_nothing_is_decided() {
    for (event_type, version, data, why) in [
        (
            "delivery.vanished",
            1,
            "{}",
            "unknown event type \"delivery.vanished\": written by a newer program, or not by Recount",
        ),
        (
            "delivery.claimed",
            2,
            "{}",
            "delivery.claimed has schema version 2, this program reads 1 to 1",
        ),
        (
            "delivery.claimed",
            1,
            r#"{"atMillis":1,"leaseUntilMillis":"x","messageId":"m"}"#,
            "the data of delivery.claimed does not decode at $.leaseUntilMillis: invalid type: \
             string \"x\", expected u64",
        ),
    ] {
        let log = Scripted::new([]);
        let inner = log.inner();
        let (before, cold) = (owners(&log), owners(&log));
        let head = committed(before.submit(&sender(), prepare("m-0")).await).head;
        append(&inner, head, event_type, version, data).await;
        for owners in [&before, &cold] {
            let answers = submit_all(owners, [prepare("m-1"), prepare("m-0")]).await;
            for answer in answers {
                let error = answer.unwrap_err();
                let place = "revision 1 of delivery-sender, at position 1, is not understood";
                assert_eq!(error.to_string(), place);
                assert_eq!(error.source().unwrap().to_string(), why);
            }
            let error = owners.read(&sender(), |_| ()).await.unwrap_err();
            assert!(matches!(error, OwnerError::Stream(_)), "{error:?}");
        }
        let events = inner.read_all(None, Direction::Forward, 9);
        assert_eq!(events.try_collect::<Vec<_>>().await.unwrap().len(), 2);
    }
}

#[tokio::test]
async fn events_that_do_not_follow_one_another_are_not_decided_on() {
    for (hides, message) in [
        (0, "revision 1 of delivery-sender, at position 1, is chained to"),
        (1, "revision 2 of delivery-sender, at position 2, is chained to"),
    ] {
        let inner = MemoryLog::new();
        let others = Owners::<Outbox>::new(Arc::new(inner.clone()));
        drop(submit_all(&others, ["m-0", "m-1", "m-2"].map(prepare)).await.map(committed));
        let mut scripted = Scripted::over(inner, []);
        scripted.hides = Some(hides);
        let log = Arc::new(scripted);
        let [answer] = submit_all(&owners(&log), [prepare("m-3")]).await;
        let error = refusal(answer);
        assert!(error.starts_with(message), "{error}");
        assert_eq!(log.appended(), 0);
    }
}

/// It is told, and not asked for ever.
#[tokio::test]
async fn a_conflict_with_nothing_is_an_error() {
    let log = Scripted::new([Step::Slow(0), Step::Lie]);
    let owners = owners(&log);
    let [zero, one, two] = submit_all(&owners, ["m-0", "m-1", "m-2"].map(prepare)).await;
    committed(zero);
    for answer in [one, two] {
        let error = answer.unwrap_err();
        let OwnerError::Append(error) = error else { panic!("{error}") };
        assert!(matches!(*error, AppendError::Conflict { .. }), "{error}");
    }
    // Where the log could not be read then, it is not held against those who come later.
    log.say([Step::Lie]);
    log.fails_reads.store(true, Ordering::SeqCst);
    let [three] = submit_all(&owners, [prepare("m-3")]).await;
    assert_eq!(refusal(three), "stream delivery-sender could not be read");
    log.fails_reads.store(false, Ordering::SeqCst);
    let [three] = submit_all(&owners, [prepare("m-3")]).await;
    assert_eq!(committed(three).position.get(), 1);
    assert_settled(&owners, &log.inner()).await;
}

#[tokio::test]
async fn a_log_that_was_replaced_is_read_anew() {
    for others in [&["m-8"][..], &["m-8", "m-9", "m-10", "m-11"]] {
        let log = Scripted::new([]);
        let owners = owners(&log);
        drop(submit_all(&owners, ["m-0", "m-1"].map(prepare)).await.map(committed));
        let backup = MemoryLog::new();
        let writer = Owners::<Outbox>::new(Arc::new(backup.clone()));
        for id in others {
            committed(writer.submit(&sender(), prepare(id)).await);
        }
        log.put(backup);
        let [zero, eight] = submit_all(&owners, [prepare("m-0"), claim("m-8", 1_000)]).await;
        assert_eq!(committed(zero).position.get(), others.len() as u64);
        committed(eight);
        assert_settled(&owners, &log.inner()).await;
    }
}
