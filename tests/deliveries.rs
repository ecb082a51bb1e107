//! What holds of every history of an outbox.

mod cases;
mod refusals;
mod rules;
mod samples;
mod secrets;
mod undo;

use std::{
    cell::{Cell, RefCell},
    collections::BTreeSet,
};

use proptest::{collection::vec, prelude::*, sample::Index};
use recount_core::{
    DomainEvent, Invariant, Legal,
    delivery::{
        DeliveryEvent as Event, Evolved, MessageDeliveryChange as Change, MessageDeliveryRecord,
        Outbox, OutboxCounts, OutboxLimits,
    },
    doc,
};

use crate::support::{
    edits::{command_of, edits},
    fold, for_all,
    histories::{History, histories, sender, wish},
    stored, verdict, view,
};

#[test]
fn a_history_split_anywhere_and_read_back_folds_to_the_same() {
    for_all((histories(), any::<Index>()), |(history, split)| {
        let (first, rest) = history.events.split_at(split.index(history.events.len() + 1));
        let prefix = fold(sender(), first);
        let before = view(&prefix);
        let live = view(&history.outbox);
        prop_assert_eq!(&view(&fold(prefix.clone(), rest)), &live);
        prop_assert_eq!(view(&prefix), before);
        let stored: Vec<_> = history.events.iter().map(stored).collect();
        prop_assert_eq!(&stored, &history.events);
        prop_assert_eq!(view(&fold(sender(), &stored)), live);
        Ok(())
    });
}

#[test]
fn the_histories_hold_every_event_and_every_way_to_be_parked() {
    let seen = RefCell::new(BTreeSet::new());
    for_all(histories(), |history| {
        for event in &history.events {
            let by = match event {
                Event::Parked(parked) => format!(" by {:?}", parked.by),
                Event::Prepared(prepared) if prepared.envelope.is_worker_update() => {
                    " of an update".to_owned()
                }
                _ => String::new(),
            };
            seen.borrow_mut().insert(format!("{}{by}", event.event_type()));
        }
        Ok(())
    });
    let seen: Vec<_> = seen.into_inner().into_iter().collect();
    insta::assert_snapshot!(seen.join("\n"), @r"
    delivery.accepted
    delivery.claimed
    delivery.deferred
    delivery.notified
    delivery.observed
    delivery.parked by Claim
    delivery.parked by Defer
    delivery.parked by Observe
    delivery.parked by Park
    delivery.parked by Retry
    delivery.prepared
    delivery.prepared of an update
    delivery.processed
    delivery.recovered
    delivery.refused
    delivery.retried
    ");
}

#[test]
fn an_outbox_counts_what_it_holds_and_a_version_its_events() {
    for_all(histories(), |History { events, outbox }| {
        let mut counts = OutboxCounts::default();
        for record in outbox.records() {
            let of_message = |event: &&Event| *event.message_id() == record.key.message_id;
            let had = events.iter().filter(of_message).count();
            prop_assert_eq!(usize::try_from(record.version), Ok(had));
            let is_pending = u64::from(record.uses_capacity());
            if record.envelope.is_worker_update() {
                counts.pending_updates += is_pending;
                counts.retained_updates += 1;
            } else {
                counts.pending += is_pending;
                counts.retained += 1;
            }
        }
        prop_assert_eq!(outbox.counts(), counts);
        Ok(())
    });
}

/// Whether an event keeps all rules: where it stands, in its content, and in what it leaves.
fn is_legal(outbox: &Outbox, event: &Event) -> bool {
    let is_whole = match event {
        Event::Prepared(prepared) => prepared.check_content(None).is_ok(),
        _ => true,
    };
    let after = fold(outbox.clone(), [event]);
    let is_valid = after.record(event.message_id()).is_some_and(|record| record.check().is_ok());
    is_whole && is_valid && outbox.legal(event, None) == Legal::Ok
}

#[test]
fn what_is_legal_is_what_is_decided_and_tampering_is_found() {
    let [made, impossible, found] = [const { Cell::new(0_u32) }; 3];
    let count = |counter: &Cell<u32>| counter.set(counter.get() + 1);
    for_all((histories(), vec(any::<Index>(), 2)), |(history, places)| {
        let mut outbox = sender();
        for event in &history.events {
            prop_assert!(is_legal(&outbox, event), "{:?}", event);
            outbox.evolve(event);
        }
        if history.events.is_empty() {
            return Ok(());
        }
        for place in places.iter().map(|place| place.index(history.events.len())) {
            for edit in edits(&history, place) {
                let mut outbox = history.before(place);
                let mut is_found = false;
                for event in &edit.events[place..] {
                    if !is_found {
                        let decided = command_of(&outbox, event)
                            .and_then(|command| outbox.decide(&command).ok().flatten());
                        is_found = !is_legal(&outbox, event);
                        prop_assert_eq!(decided.as_ref() != Some(event), is_found, "{}", edit.what);
                    }
                    outbox.evolve(event);
                }
                count(&made);
                if edit.is_impossible {
                    count(&impossible);
                    prop_assert!(is_found, "{}", edit.what);
                }
                if is_found {
                    count(&found);
                }
            }
        }
        Ok(())
    });
    let [made, impossible, found] = [made, impossible, found].map(Cell::into_inner);
    assert!(made > 5_000, "{made} edits");
    assert!(impossible * 5 > made * 2, "{impossible} of {made} edits were impossible");
    assert!(found > impossible && found < made, "{found} of {made} edits were found");
}

/// The event with every instant and count as large as it can be.
fn at_the_end(event: &Event) -> Event {
    let mut data = event.to_data().to_value();
    for (key, value) in data.as_object_mut().expect("data is an object") {
        if key.ends_with("Millis") {
            *value = 8_640_000_000_000_000_u64.into();
        } else if key == "generation" {
            *value = ((1_u64 << 53) - 1).into();
        }
    }
    match DomainEvent::decode(event.event_type(), 1, &data.to_string()) {
        Ok(DomainEvent::Delivery(event)) => event,
        other => panic!("{other:?}"),
    }
}

#[test]
fn evolve_survives_any_event_anywhere_and_counts_what_it_applied() {
    let strategy = (histories(), histories(), vec((any::<Index>(), any::<bool>()), 40));
    let applied = Cell::new(0);
    for_all(strategy, |(history, strange, order)| {
        let events = [history.events.as_slice(), &strange.events].concat();
        let mut outbox = history.outbox;
        let prepared = doc::message("m-0").decide(&OutboxLimits::default()).unwrap();
        let mut record = MessageDeliveryRecord::of(&prepared);
        for (place, is_extreme) in order.iter().filter(|_| !events.is_empty()) {
            let event = &events[place.index(events.len())];
            let event = if *is_extreme { at_the_end(event) } else { event.clone() };
            let version = |outbox: &Outbox| {
                outbox.record(event.message_id()).map_or(0, |record| record.version)
            };
            let before = (view(&outbox), version(&outbox));
            match outbox.evolve(&event) {
                Evolved::Applied => prop_assert_eq!(version(&outbox), before.1 + 1),
                Evolved::Ignored(_) => prop_assert_eq!(view(&outbox), before.0),
            }
            let before = record.clone();
            let is_ignored = before.status.is_finished() || matches!(event, Event::Prepared(_));
            if record.evolve(&event) == Evolved::Applied {
                prop_assert!(!is_ignored, "{:?}", event);
                prop_assert_eq!(record.version, before.version + 1);
            } else {
                prop_assert!(is_ignored, "{:?}", event);
                prop_assert_eq!(&record, &before);
            }
            applied.set(applied.get() + u32::from(record.version > before.version));
            // Neither does a wish trip over what such events left.
            for change in [Change::Claim, Change::ObservePending] {
                let command = wish(&outbox, event.message_id(), 8_640_000_000_000_000, change);
                let _ = outbox.decide(&command);
            }
        }
        Ok(())
    });
    assert!(applied.get() > 500, "{} events were applied to the record alone", applied.get());
}

#[test]
fn a_finished_message_that_was_forgotten_is_answered_for_as_before() {
    let verdicts = RefCell::new(BTreeSet::new());
    let seen = Cell::new(0);
    for_all(histories(), |history| {
        let (mut kept, mut forgetful) = (sender(), sender());
        for (index, event) in history.events.iter().enumerate() {
            // What comes next, and what came before once more.
            for probe in history.events.iter().take(index + 1) {
                let expected = verdict(&kept.legal(probe, None));
                prop_assert_eq!(verdict(&forgetful.legal(probe, None)), expected, "{:?}", probe);
                let evolved = forgetful.clone().evolve(probe);
                prop_assert_eq!(evolved, kept.clone().evolve(probe), "{:?}", probe);
                verdicts.borrow_mut().insert(expected);
            }
            prop_assert_eq!(forgetful.evolve(event), kept.evolve(event));
            let record = kept.record(event.message_id()).expect("it had an event");
            let forgotten = forgetful.forget(event.message_id());
            seen.set(seen.get() + u32::from(forgotten.is_some()));
            prop_assert_eq!(forgotten.as_ref(), record.status.is_finished().then_some(record));
            prop_assert_eq!(forgetful.counts(), kept.counts());
        }
        Ok(())
    });
    assert!(seen.get() > 100, "{} messages were forgotten", seen.get());
    for invariant in [Invariant::D1, Invariant::D4, Invariant::D8] {
        assert!(verdicts.borrow().contains(&Err(invariant)), "{invariant}: {verdicts:?}");
    }
}
