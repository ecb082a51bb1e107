//! Rules of an outbox over its messages.

use recount_core::{
    Invariant, Legal,
    delivery::{
        Conflict, DeliveryError, Evolved, Ignored, MessageDeliveryChange as Change, Outbox,
        OutboxCommand, OutboxCounts, OutboxLimits, PrepareMessage,
    },
    doc,
};

use crate::support::{
    apply,
    histories::{
        behind, grant, id, in_every_state, millis, outbox_with, prepare, sender, wish,
        worker_update,
    },
    verdict, view,
};

#[test]
fn capacity_is_counted_apart_for_worker_updates_and_by_retained_too() {
    let limits = OutboxLimits {
        max_pending_per_owner: 2,
        max_retained_per_owner: 3,
        max_pending_updates_per_owner: 1,
        max_retained_updates_per_owner: 2,
        ..OutboxLimits::default()
    };
    let mut outbox = sender();
    let try_one = |outbox: &mut Outbox, message: PrepareMessage| {
        apply(outbox, &prepare(&message, limits)).map_err(|error| error.to_string())
    };
    let full = |held, limit| {
        format!(
            "the outbox holds {held}, and may hold {limit}: raise the limit, or use another outbox"
        )
    };
    for message in ["m-1", "m-2"] {
        assert!(try_one(&mut outbox, doc::message(message)).is_ok());
    }
    let error = try_one(&mut outbox, doc::message("m-3")).unwrap_err();
    assert_eq!(error, full("2 pending messages", 2));
    assert!(try_one(&mut outbox, worker_update("u-1")).is_ok(), "updates have their own places");
    let error = try_one(&mut outbox, worker_update("u-2")).unwrap_err();
    assert_eq!(error, full("1 pending worker updates", 1));
    for message in ["m-1", "m-2", "u-1"] {
        grant(&mut outbox, message, 1_000, Change::Claim);
        let code = "gone".parse().unwrap();
        grant(&mut outbox, message, 1_000, Change::Refuse { code, diagnostic: None });
    }
    assert!(try_one(&mut outbox, doc::message("m-3")).is_ok());
    let error = try_one(&mut outbox, doc::message("m-4")).unwrap_err();
    assert_eq!(error, full("3 messages", 3));
    assert!(try_one(&mut outbox, worker_update("u-2")).is_ok());
    let error = try_one(&mut outbox, worker_update("u-3")).unwrap_err();
    assert_eq!(error, full("1 pending worker updates", 1));
    let expected =
        OutboxCounts { pending: 1, pending_updates: 1, retained: 3, retained_updates: 2 };
    assert_eq!(outbox.counts(), expected);

    // A log that went past its limits is found out, by those it recorded or by others.
    let one_more = doc::message("m-4").decide(&limits).unwrap().into();
    let verdict_of = |limits| verdict(&outbox.legal(&one_more, limits));
    assert_eq!(verdict_of(None), Err(Invariant::D10));
    assert_eq!(verdict_of(Some(&OutboxLimits::default())), Ok(true));
}

#[test]
fn a_message_is_claimed_only_when_its_predecessor_is_admitted_or_refused() {
    let later = doc::message("m-1");
    for (state, mut outbox) in in_every_state(&later) {
        apply(&mut outbox, &prepare(&behind("m-2", "m-1"), OutboxLimits::default())).unwrap();
        let claim = wish(&outbox, "m-2", 9_000, Change::Claim);
        // The parked one was admitted before it was parked.
        let is_known = !["pending", "leased", "retrying"].contains(&state);
        assert_eq!(outbox.decide(&claim).is_ok(), is_known, "{state}");
        let claimed = outbox.record("m-2").unwrap();
        let OutboxCommand::Change { command, .. } = &claim else { panic!("{claim:?}") };
        let event = claimed.decide(command).expect("the message alone knows nothing of it");
        let expected = if is_known { Ok(true) } else { Err(Invariant::D9) };
        assert_eq!(verdict(&outbox.legal(&event, None)), expected, "{state}");
        // Deferring and parking need nobody's leave.
        let until_millis = millis(9_001);
        grant(&mut outbox.clone(), "m-2", 9_000, Change::Defer { until_millis });
        grant(&mut outbox, "m-2", 3_601_000, Change::Claim);
    }
    let outbox = outbox_with(&[behind("m-2", "missing")]);
    let claim = wish(&outbox, "m-2", 9_000, Change::Claim);
    assert!(outbox.decide(&claim).is_err(), "a predecessor that is not there is not admitted");
}

#[test]
fn a_message_set_aside_is_followed_no_more_and_makes_others_unchecked() {
    let mut outbox = outbox_with(&[doc::message("m-1"), behind("m-2", "m-1")]);
    let claim = grant(&mut outbox.clone(), "m-1", 1_000, Change::Claim);
    outbox.set_aside(&id("m-1"));
    let before = view(&outbox);
    assert_eq!(verdict(&outbox.legal(&claim, None)), Ok(false));
    let ignored = Evolved::Ignored(Ignored::SetAside);
    assert_eq!(outbox.evolve(&claim), ignored);
    assert_eq!(view(&outbox), before);
    // Whether its predecessor was admitted, nobody can say.
    let wish = wish(&outbox, "m-2", 1_000, Change::Claim);
    let OutboxCommand::Change { command, .. } = &wish else { panic!("{wish:?}") };
    let claim = outbox.record("m-2").unwrap().decide(command).unwrap();
    assert_eq!(verdict(&outbox.legal(&claim, None)), Ok(false));
    // Nor how many are pending; but what has a place in any case is legal.
    let limits = OutboxLimits { max_pending_per_owner: 2, ..OutboxLimits::default() };
    let third = doc::message("m-3").decide(&limits).unwrap().into();
    assert_eq!(verdict(&outbox.legal(&third, None)), Ok(false));
    let third = doc::message("m-3").decide(&OutboxLimits::default()).unwrap().into();
    assert_eq!(verdict(&outbox.legal(&third, None)), Ok(true));
}

#[test]
fn the_admission_of_a_forgotten_predecessor_stays_known() {
    let mut outbox = outbox_with(&[doc::message("m-1"), behind("m-2", "m-1")]);
    grant(&mut outbox, "m-1", 1_000, Change::Claim);
    let claim = wish(&outbox, "m-2", 1_000, Change::Claim);
    let why = Conflict::Predecessor { predecessor: id("m-1") };
    assert_eq!(outbox.decide(&claim), Err(DeliveryError::Conflict { change: "Claim", why }));
    let code = "gone".parse().unwrap();
    grant(&mut outbox, "m-1", 1_000, Change::Refuse { code, diagnostic: None });
    let event = outbox.decide(&claim).unwrap().unwrap();
    assert!(outbox.forget("m-1").is_some());
    assert_eq!(outbox.decide(&claim).unwrap().as_ref(), Some(&event));
    assert_eq!(outbox.legal(&event, None), Legal::Ok);
}
