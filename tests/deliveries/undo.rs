//! Events that are taken back.

use proptest::{collection::vec, prelude::*, sample::Index};

use crate::support::{
    for_all,
    histories::{histories, sender},
};

/// Events in any order, so that many change nothing or what `decide` never would have; now and
/// then their message is forgotten or set aside before.
#[test]
fn what_is_taken_back_never_was() {
    let picks = vec((any::<Index>(), 0..12_u8), 0..60);
    for_all((histories(), picks), |(history, picks)| {
        let mut outbox = sender();
        let in_order = history.events.iter().map(|event| (event, 9));
        let at_random = picks.iter().filter(|_| !history.events.is_empty());
        let at_random = at_random.map(|(pick, kind)| (pick.get(&history.events), *kind));
        for (event, kind) in in_order.chain(at_random) {
            match kind {
                0 => drop(outbox.forget(event.message_id())),
                1 => outbox.set_aside(event.message_id()),
                _ => {}
            }
            let before = outbox.clone();
            let saved = outbox.saved(event.message_id());
            outbox.evolve(event);
            let after = outbox.clone();
            outbox.put_back(saved);
            prop_assert_eq!(&outbox, &before);
            outbox.evolve(event);
            prop_assert_eq!(&outbox, &after);
        }

        // Several, the last first.
        let (mut outbox, mut saved) = (sender(), Vec::new());
        for event in &history.events {
            saved.push((outbox.saved(event.message_id()), outbox.clone()));
            outbox.evolve(event);
        }
        prop_assert_eq!(&outbox, &history.outbox);
        for (saved, before) in saved.into_iter().rev() {
            outbox.put_back(saved);
            prop_assert_eq!(&outbox, &before);
        }
        Ok(())
    });
}
