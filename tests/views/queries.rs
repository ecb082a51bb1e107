//! What is asked of outboxes, over the log and over the view.

use std::{collections::BTreeSet, sync::Arc};

use futures_executor::block_on;
use recount::{
    DeliveryView, Instant, MessageId, ThreadId, ViewError,
    delivery::{
        BatchSize, DeliveryError, ListMessages, MessageDeliveryKey, MessageDeliveryRecord,
        MessagePage, Outbox, OutboxCommand, OutboxLimits,
    },
    log::MemoryLog,
    service::{
        DeliveryFailure, DueIndex, OutboxService, OwnerError, Owners, StreamError, Submission,
    },
};

use super::{
    caught_up,
    logs::{World, append},
};
use recount_core::service::doc::StoppedClock;

use crate::support::histories::{id, millis};

fn of(
    owner: &ThreadId,
    limit: usize,
    after: Option<MessageId>,
    pending_only: bool,
) -> ListMessages {
    ListMessages { owner_thread_id: owner.clone(), limit, after, pending_only }
}

fn service(owners: Owners<Outbox>) -> OutboxService {
    OutboxService::new(owners, Arc::new(StoppedClock))
}

/// Pages to the end, through the log and the view, which must agree.
fn pages(
    log: &OutboxService,
    view: &DeliveryView,
    owner: &ThreadId,
    limit: usize,
    pending_only: bool,
) -> Vec<MessagePage> {
    let mut pages: Vec<MessagePage> = Vec::new();
    loop {
        let after = pages.last().and_then(|page| page.next.clone());
        let list = of(owner, limit, after, pending_only);
        let page = block_on(log.list(&list)).unwrap();
        assert_eq!(block_on(view.list(&list)).unwrap(), page);
        let is_last = page.next.is_none();
        pages.push(page);
        if is_last {
            return pages;
        }
    }
}

fn ids(pages: &[MessagePage]) -> Vec<String> {
    let id = |record: &MessageDeliveryRecord| record.key.message_id.to_string();
    let page = |page: &MessagePage| page.items.iter().map(id).collect::<Vec<_>>().concat();
    pages.iter().map(page).collect()
}

#[test]
fn o_22_pages_with_equal_times_hold_each_message_once_and_end() {
    let log = Arc::new(MemoryLog::new());
    let owners = Owners::<Outbox>::new(log.clone());
    let owner = ThreadId::new("sender").unwrap();
    // In an order that is not that of the ids.
    for (name, created) in [("d", 0), ("b", 0), ("f", 1), ("a", 0), ("e", 0), ("c", 0)] {
        let mut message = recount_core::doc::message(name);
        message.created_at_millis = millis(1_700_000_000_000 + created);
        message.deadline_at_millis = millis(1_700_000_100_000);
        let now = message.created_at_millis;
        let limits = OutboxLimits::default();
        let command = OutboxCommand::Prepare { message: message.into(), limits };
        let submission = Submission { command, metadata: recount::Metadata::default(), now };
        block_on(owners.submit(&owner, submission)).unwrap().unwrap();
    }
    let (service, view) = (service(owners), caught_up(&log));
    for pending_only in [false, true] {
        let list = |limit| ids(&pages(&service, &view, &owner, limit, pending_only));
        assert_eq!(list(2), ["ab", "cd", "ef"]);
        assert_eq!(list(1), ["a", "b", "c", "d", "e", "f"]);
        assert_eq!(list(4), ["abcd", "ef"]);
        assert_eq!(list(6), ["abcdef"], "a full page that is the last has nothing behind it");
        assert_eq!(list(4_096), ["abcdef"]);
    }
    // What is due at the same instant comes in the order of ids, whatever is asked for at once.
    let due = |limit, owner| {
        let limit = BatchSize::new(limit).unwrap();
        let keys = block_on(view.due(millis(1_700_000_000_001), limit, owner)).unwrap();
        keys.iter().map(|key| key.message_id.to_string()).collect::<String>()
    };
    for owner in [None, Some(&owner)] {
        assert_eq!(due(100, owner), "abcdef");
        assert_eq!(due(3, owner), "abc");
    }
    // A cursor is an id and nothing else; one that is not there any more is no error.
    assert!(MessageId::new("").is_err() && MessageId::new("x".repeat(257)).is_err());
    let wrong = r#"{"ownerThreadId":"sender","limit":2,"after":""}"#;
    let error = serde_json::from_str::<ListMessages>(wrong).unwrap_err();
    assert!(error.to_string().starts_with("message id is empty"), "{error}");
    let page = block_on(service.list(&of(&owner, 9, Some(id("bb")), false))).unwrap();
    assert_eq!(ids(&[page]), ["cdef"]);
}

#[test]
fn log_and_view_answer_alike() {
    let world = World::plain(6);
    let log = world.log();
    let (service, view) = (service(Owners::new(log.clone())), caught_up(&log));
    let mut all = Vec::new();
    for owner in world.owners() {
        let whole = pages(&service, &view, &owner, 4_096, false).remove(0).items;
        for limit in [1, 3, 50] {
            let paged = pages(&service, &view, &owner, limit, false);
            assert!(paged.iter().flat_map(|page| &page.items).eq(&whole));
        }
        let pending: Vec<_> = whole.iter().filter(|it| !it.status.is_finished()).cloned().collect();
        let paged = pages(&service, &view, &owner, 2, true);
        assert!(paged.iter().flat_map(|page| &page.items).eq(&pending));
        assert_eq!(block_on(service.read_pending(&owner, 4_096)).unwrap(), pending);
        assert_eq!(block_on(view.read_pending(&owner, 4_096)).unwrap(), pending);
        for record in &whole {
            let expected = Some(record.clone());
            assert_eq!(block_on(service.get(&record.key)).unwrap(), expected);
            assert_eq!(block_on(view.get(&record.key)).unwrap(), expected);
        }
        all.extend(whole);
    }
    assert!(all.len() > 150 && all.iter().any(|record| record.status.is_finished()));
    let nobody = MessageDeliveryKey {
        owner_thread_id: all[0].key.owner_thread_id.clone(),
        message_id: id("nobody"),
    };
    assert_eq!(block_on(service.get(&nobody)).unwrap(), None);
    assert_eq!(block_on(view.get(&nobody)).unwrap(), None);
}

#[test]
fn what_is_due_is_what_a_walk_over_all_records_finds() {
    let world = World::plain(8);
    let view = caught_up(&world.log());
    let owners = world.owners();
    let records = super::unfinished(&view, &world);
    let mut naive: Vec<_> = records
        .iter()
        .filter_map(|record| Some((record.effective_deadline()?, record.key.clone())))
        .collect();
    naive.sort();
    assert!(naive.len() > 20, "{}", naive.len());
    let instants: BTreeSet<Instant> = naive.iter().map(|(at, _)| *at).collect();
    for at in instants {
        for now in [at.as_millis() - 1, at.as_millis(), at.as_millis() + 1].map(millis) {
            for limit in [1, 2, 100] {
                let due = |owner: Option<&ThreadId>| {
                    let is_due = |entry: &&(Instant, MessageDeliveryKey)| {
                        entry.0 <= now
                            && owner.is_none_or(|owner| entry.1.owner_thread_id == *owner)
                    };
                    let due = naive.iter().filter(is_due).take(limit);
                    due.map(|(_, key)| key.clone()).collect::<Vec<_>>()
                };
                let limit = BatchSize::new(limit).unwrap();
                assert_eq!(block_on(view.due(now, limit, None)).unwrap(), due(None));
                for owner in &owners {
                    let found = block_on(view.due(now, limit, Some(owner))).unwrap();
                    assert_eq!(found, due(Some(owner)));
                }
            }
        }
    }
    for limit in [1, 2, 7, 100].map(|limit| BatchSize::new(limit).unwrap()) {
        let (mut pages, mut page) = (Vec::new(), block_on(view.upcoming(None, limit)).unwrap());
        while let Some(last) = page.last().cloned() {
            pages.append(&mut page);
            page = block_on(view.upcoming(Some(&last), limit)).unwrap();
            assert!(page.len() <= limit.get());
        }
        assert_eq!(pages, naive, "by {} a page", limit.get());
    }
    let first = naive.first().map(|(at, _)| *at);
    assert_eq!(block_on(view.next_deadline(None)).unwrap(), first);
    for owner in &owners {
        let first = naive.iter().find(|(_, key)| key.owner_thread_id == *owner).map(|it| it.0);
        assert_eq!(block_on(view.next_deadline(Some(owner))).unwrap(), first);
    }
}

#[test]
fn questions_that_are_none_are_refused() {
    let world = World::plain(1);
    let log = world.log();
    let (service, view) = (service(Owners::new(log.clone())), caught_up(&log));
    let owner = world.owners().remove(0);
    for (limit, pending_only) in [(0, false), (0, true), (4_097, false), (4_097, true)] {
        let expected = format!("list: a limit is 1 to 4096, not {limit}");
        let list = of(&owner, limit, None, pending_only);
        let error = block_on(service.list(&list)).unwrap_err();
        let DeliveryFailure::Outbox(OwnerError::Decide(error)) = error else { panic!("{error:?}") };
        assert_eq!((error.reason().as_str(), error.operation()), ("validation", "list"));
        assert_eq!(error.to_string(), expected);
        let error = block_on(view.list(&list)).unwrap_err();
        assert!(matches!(error, ViewError::Query(DeliveryError::Limit { .. })), "{error:?}");
        assert_eq!(error.to_string(), expected);
    }
    let busy = world
        .owners()
        .into_iter()
        .find(|owner| block_on(view.read_pending(owner, 4_096)).unwrap().len() > 1);
    let busy = busy.expect("an outbox with two unfinished messages");
    let error = block_on(view.read_pending(&busy, 1)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the outbox has more than 1 unfinished messages: ask for more, or list them"
    );
    let ViewError::Query(error) = error else { panic!("{error:?}") };
    assert_eq!((error.reason().as_str(), error.operation()), ("capacity", "read-pending"));
    let of_log = block_on(service.read_pending(&busy, 1)).unwrap_err();
    assert!(
        matches!(of_log, DeliveryFailure::Outbox(OwnerError::Decide(of_log)) if of_log == error)
    );
    let stranger = Outbox::new(ThreadId::new("stranger").unwrap());
    let error = stranger.list(&of(&busy, 1, None, false)).unwrap_err();
    assert_eq!(error.reason().as_str(), "validation");
}

#[test]
fn an_outbox_with_an_event_that_is_not_understood_is_set_aside_and_others_go_on() {
    let plain = World::plain(9);
    let log = plain.log();
    let view = caught_up(&log);
    let now = Instant::MAX;
    let due = || block_on(view.due(now, BatchSize::MAX, None)).unwrap();
    let (before, first) = (due(), due()[0].owner_thread_id.clone());
    let others: Vec<_> =
        before.iter().filter(|key| key.owner_thread_id != first).cloned().collect();
    assert!(!others.is_empty() && others.len() < before.len());

    let batch = super::logs::unknown_event_behind(&plain, &first);
    append(&*log, &[batch]);
    assert_eq!(due(), others);
    assert_eq!(block_on(view.next_deadline(Some(&first))).unwrap(), None);
    let [aside] = &view.set_aside()[..] else { panic!("{:?}", view.set_aside()) };
    let expected = format!(
        "delivery-{first} is set aside since position 1500, and 0 later events: delivery.snoozed in \
         version 1, as it is there, is not understood; `recount verify` says why"
    );
    assert_eq!(aside.to_string(), expected);
    let refusals = [
        block_on(view.read_pending(&first, 1)).unwrap_err(),
        block_on(view.list(&of(&first, 1, None, true))).unwrap_err(),
        block_on(view.get(&before[0])).unwrap_err(),
    ];
    for error in refusals {
        assert!(matches!(error, ViewError::SetAside(_)), "{error:?}");
        assert_eq!(error.to_string(), expected);
    }
    let error = block_on(view.list(&of(&first, 1, None, false))).unwrap_err();
    let ViewError::Stream(error) = error else { panic!("{error:?}") };
    assert!(matches!(&*error, StreamError::Decode { .. }), "{error:?}");
}
