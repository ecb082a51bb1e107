//! The view of deliveries: the same from any start, and what it answers.

mod checkpoints;
mod logs;
mod queries;

use std::sync::Arc;

use futures_executor::block_on;
use proptest::{collection::vec, prelude::*, sample::Index};
use recount::{
    DeliveryView, Digest, Resumed,
    delivery::MessageDeliveryRecord,
    log::{
        EventLog, LogHead, MemoryLog,
        jsonl::{JsonlLog, JsonlRows},
        sqlite::SqliteLog,
    },
    replay,
    service::DueIndex,
};

use crate::support::for_all;
use logs::{Fitful, Swapped, World, append};

/// What a view is, to the byte.
fn state(view: &DeliveryView) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    block_on(view.save(&path)).unwrap();
    std::fs::read(&path).unwrap_or_default()
}

fn caught_up(log: &Arc<MemoryLog>) -> DeliveryView {
    let view = DeliveryView::new(log.clone());
    block_on(view.catch_up()).unwrap();
    view
}

#[test]
fn g1_a_view_is_the_same_in_one_pass_in_several_and_from_any_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint");
    let worlds: Vec<_> = (0..4).map(World::with_strangers).collect();
    for_all((any::<Index>(), vec(any::<Index>(), 1..3)), |(world, splits)| {
        let batches = &worlds[world.index(worlds.len())].batches;
        let mut splits: Vec<_> = splits.iter().map(|it| it.index(batches.len() + 1)).collect();
        splits.push(batches.len());
        splits.sort_unstable();

        let log = Arc::new(MemoryLog::new());
        let several = DeliveryView::new(log.clone());
        let mut resumed = DeliveryView::new(log.clone());
        let mut done = 0;
        for split in splits {
            append(&*log, &batches[done..split]);
            done = split;
            block_on(several.catch_up()).unwrap();
            block_on(resumed.catch_up()).unwrap();
            let once = caught_up(&log);
            prop_assert_eq!(several.digest(), once.digest());
            prop_assert_eq!(resumed.digest(), once.digest());
            block_on(resumed.save(&path)).unwrap();
            (resumed, _) = block_on(DeliveryView::resume(log.clone(), &path)).unwrap();
            prop_assert_eq!(resumed.digest(), once.digest());
        }
        prop_assert!(state(&resumed) == state(&caught_up(&log)), "to the byte");
        Ok(())
    });
}

#[test]
fn a_view_follows_any_log_and_resumes_on_it() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::with_strangers(2);
    let expected = state(&caught_up(&world.log()));
    let logs: [Arc<dyn EventLog>; 2] = [
        Arc::new(SqliteLog::open(folder.path().join("log.db")).unwrap()),
        Arc::new(JsonlLog::open(folder.path().join("log.jsonl")).unwrap()),
    ];
    let (first, rest) = world.batches.split_at(world.batches.len() / 2);
    let path = folder.path().join("checkpoint");
    for log in logs {
        append(&*log, first);
        let view = DeliveryView::new(log.clone());
        block_on(view.catch_up()).unwrap();
        block_on(view.save(&path)).unwrap();
        append(&*log, rest);
        block_on(view.catch_up()).unwrap();
        assert!(state(&view) == expected);
        let (resumed, how) = block_on(DeliveryView::resume(log, &path)).unwrap();
        assert!(
            matches!(how, Resumed::From(head) if head.position.get() + 1 == first.len() as u64)
        );
        block_on(resumed.catch_up()).unwrap();
        assert!(state(&resumed) == expected, "a checkpoint is good for whatever keeps the log");
    }
}

#[test]
fn a_view_has_the_unfinished_records_that_replay_has() {
    let world = World::plain(1);
    let log = world.log();
    let view = caught_up(&log);
    let mut replayed = Vec::new();
    replay(JsonlRows::new(&*world.text), &recount::ReplayOptions::default(), |record| {
        replayed.extend((!record.status.is_finished()).then(|| record.clone()));
        Ok(())
    })
    .unwrap();
    assert!(replayed.len() > 50, "{}", replayed.len());
    assert_eq!(unfinished(&view, &world), replayed);
    assert_eq!((view.ignored(), view.set_aside()), (0, Vec::new()));
}

fn unfinished(view: &DeliveryView, world: &World) -> Vec<MessageDeliveryRecord> {
    let of = |owner| block_on(view.read_pending(owner, 4_096)).unwrap();
    world.owners().iter().flat_map(of).collect()
}

#[test]
fn a_catch_up_that_is_dropped_anywhere_is_gone_on_with() {
    let world = World::with_strangers(7);
    let log = world.log();
    let expected = state(&caught_up(&log));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint");
    // From a checkpoint, so that histories are read, too.
    let half = Arc::new(MemoryLog::new());
    append(&*half, &world.batches[..world.batches.len() / 2]);
    block_on(caught_up(&half).save(&path)).unwrap();
    let fitful = Arc::new(Fitful(log));
    let (view, _) = block_on(DeliveryView::resume(fitful, &path)).unwrap();
    let mut drops = 0;
    for patience in (0..).map(|number| number * 7 % 300) {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        let mut future = view.catch_up();
        if (0..patience).any(|_| future.as_mut().poll(&mut context).is_ready()) {
            break;
        }
        drops += 1;
    }
    assert!(drops > 10, "{drops}");
    assert_eq!(state(&view), expected);
}

#[test]
fn a_log_that_was_replaced_by_another_is_folded_anew() {
    let [first, second] = [World::plain(1), World::plain(2)].map(|world| world.log());
    let swapped = Arc::new(Swapped::new(first));
    let view = DeliveryView::new(swapped.clone());
    block_on(view.catch_up()).unwrap();
    swapped.swap(second.clone());
    block_on(view.catch_up()).unwrap();
    assert_eq!(state(&view), state(&caught_up(&second)));
    // A log that lost its end, too.
    let shorter = Arc::new(MemoryLog::new());
    append(&*shorter, &World::plain(2).batches[..10]);
    swapped.swap(shorter.clone());
    block_on(view.catch_up()).unwrap();
    assert_eq!(state(&view), state(&caught_up(&shorter)));
}

#[test]
fn an_empty_log_has_an_empty_view() {
    let log = Arc::new(MemoryLog::new());
    let view = caught_up(&log);
    assert_eq!(block_on(view.next_deadline(None)).unwrap(), None);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint");
    std::fs::write(&path, "something else").unwrap();
    assert_eq!(block_on(view.save(&path)).unwrap(), None, "there is nothing to keep");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "something else");
    let rebuilt = block_on(view.rebuild()).unwrap();
    assert!(rebuilt.is_same() && rebuilt.head.is_none());
}

#[test]
fn many_ask_at_once_while_others_append() {
    let world = World::plain(3);
    let log = Arc::new(MemoryLog::new());
    let view = DeliveryView::new(log.clone());
    std::thread::scope(|scope| {
        scope.spawn(|| append(&*log, &world.batches));
        for _ in 0..3 {
            scope.spawn(|| {
                while block_on(log.head())
                    .unwrap()
                    .is_none_or(|head| head.position.get() + 1 < world.batches.len() as u64)
                {
                    let before = block_on(log.head()).unwrap();
                    block_on(view.next_deadline(None)).unwrap();
                    let place = |head: Option<LogHead>| head.map(|head| head.position);
                    assert!(place(view.head()) >= place(before), "it caught up");
                }
            });
        }
    });
    block_on(view.catch_up()).unwrap();
    assert_eq!(state(&view), state(&caught_up(&log)));
}

#[test]
fn folding_anew_finds_a_state_that_the_log_does_not_fold_to() {
    let world = World::with_strangers(5);
    let log = world.log();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint");
    let view = caught_up(&log);
    let right = view.digest();
    assert!(block_on(view.rebuild()).unwrap().is_same());
    block_on(view.save(&path)).unwrap();
    checkpoints::forge(&path, |text| text.replacen("\"attempts\":1", "\"attempts\":7", 1));
    let (forged, resumed) = block_on(DeliveryView::resume(log.clone(), &path)).unwrap();
    assert!(matches!(resumed, Resumed::From(_)), "its digest is right: {resumed:?}");
    let rebuilt = block_on(forged.rebuild()).unwrap();
    assert!(!rebuilt.is_same());
    assert_eq!((rebuilt.after, forged.digest(), rebuilt.head), (right, right, forged.head()));
    assert_ne!(rebuilt.before, Digest::ZERO);
}
