//! The rules of deliveries, decided again for each event.

use std::io;

use recount_core::{
    DomainEvent, Illegal, Instant, Invariant, Legal, MessageId, StreamName, Unchecked,
    delivery::{DeliveryEvent, Followed, MessageDeliveryRecord, Outbox},
};

use super::{Finding, StreamIndex, StreamState, Verifier, finding, illegal};
use crate::examine::ExaminedRow;

pub(super) fn message_id(event: &DomainEvent) -> &MessageId {
    let DomainEvent::Delivery(event) = event;
    event.message_id()
}

impl<F: FnMut(Finding) -> io::Result<()>> Verifier<'_, F> {
    /// A row that the chain holds.
    pub(super) fn event(
        &mut self,
        stream: StreamIndex,
        row: &ExaminedRow,
        offset: Option<u64>,
    ) -> io::Result<()> {
        let undecodable = match &row.event {
            None => return Ok(()),
            Some(Ok(DomainEvent::Delivery(event))) => {
                return self.delivery(stream, row, event, offset);
            }
            Some(Err(undecodable)) => undecodable,
        };
        let is_skipped = self.options.skip_unknown && undecodable.error.is_unknown();
        if is_skipped || !self.options.rules.holds(Invariant::L6) {
            // What it did to its message is not known, so nothing can be said of that any more.
            if let Some(id) = &undecodable.message_id {
                self.set_aside(stream, id);
            }
            if is_skipped {
                self.coverage.unknown_skipped += 1;
            } else {
                *self.coverage.ignored.entry("it was not understood").or_default() += 1;
            }
            return Ok(());
        }
        let place = self.chain.place(row, offset);
        let finding = finding(place, (Invariant::L6, undecodable.error.to_string()));
        self.broken_row(stream, row, finding, false)
    }

    fn delivery(
        &mut self,
        stream: StreamIndex,
        row: &ExaminedRow,
        event: &DeliveryEvent,
        offset: Option<u64>,
    ) -> io::Result<()> {
        let rules = self.options.rules;
        let state = self.chain.stream_mut(stream);
        if !state.aside.is_empty() && state.aside.contains(event.message_id()) {
            self.coverage.events_set_aside += 1;
            return Ok(());
        }
        let outbox = match outbox(state, event) {
            Ok(outbox) => outbox,
            Err(broken) if rules.holds(broken.invariant) => {
                return self.illegal(stream, row, event, offset, broken);
            }
            Err(_) => {
                *self.coverage.ignored.entry("there is no outbox that it is of").or_default() += 1;
                return Ok(());
            }
        };
        let legal = match (outbox.legal(event, self.options.limits.as_ref()), &row.content) {
            (Legal::Ok, Some(broken)) => Legal::Violation((**broken).clone()),
            (legal, _) => legal,
        };
        match legal {
            Legal::Violation(broken) if rules.holds(broken.invariant) => {
                return self.illegal(stream, row, event, offset, broken);
            }
            Legal::Unchecked(Unchecked::SetAside) => {
                self.coverage.events_set_aside += 1;
                return Ok(());
            }
            Legal::Unchecked(why) => {
                *self.coverage.unchecked.entry(why.as_str()).or_default() += 1;
            }
            Legal::Ok | Legal::Violation(_) => {}
        }
        let Followed { record, lost_attempt, .. } = match outbox.follow(event) {
            Ok(followed) => followed,
            Err(why) => {
                *self.coverage.ignored.entry(why.as_str()).or_default() += 1;
                return Ok(());
            }
        };
        self.coverage.messages += u64::from(matches!(event, DeliveryEvent::Prepared(_)));
        let invalid = record.check().err();
        if record.status.is_finished() {
            outbox.forget(event.message_id());
        }
        if let Some(rule) = invalid.filter(|_| rules.holds(Invariant::D3)) {
            let why = format!("the event leaves a record that breaks a rule: {rule}");
            let mut finding = finding(self.chain.place(row, offset), (Invariant::D3, why));
            finding.message_id = Some(event.message_id().to_string());
            finding.after = self.set_aside(stream, event.message_id());
            return self.found(finding);
        }
        self.warn(row, event.message_id(), offset, lost_attempt)
    }

    /// Reports an event that could not have been decided, and sets its message aside.
    fn illegal(
        &mut self,
        stream: StreamIndex,
        row: &ExaminedRow,
        event: &DeliveryEvent,
        offset: Option<u64>,
        broken: Illegal,
    ) -> io::Result<()> {
        let id = event.message_id();
        let mut finding = illegal(self.chain.place(row, offset), broken);
        finding.message_id = Some(id.to_string());
        finding.before = self.set_aside(stream, id);
        finding.after = after(finding.before.as_deref(), event);
        self.found(finding)
    }

    fn warn(
        &mut self,
        row: &ExaminedRow,
        id: &MessageId,
        offset: Option<u64>,
        lost: Option<Instant>,
    ) -> io::Result<()> {
        if lost.is_none() && row.admission.is_none() {
            return Ok(());
        }
        let mut warnings = Vec::new();
        if let Some(lease) = lost {
            let why = format!("the lease until {lease} ended without an outcome");
            warnings.push((Invariant::D12, why));
        }
        if let Some(admission) = &row.admission {
            let first = self.admissions.insert(admission.key, admission.content);
            if first.is_some_and(|first| first != admission.content) {
                let why = "another message of other content has its thread and admission key";
                warnings.push((Invariant::D11, why.to_owned()));
            }
        }
        for warning in warnings {
            if self.options.rules.holds(warning.0) {
                let mut finding = finding(self.chain.place(row, offset), warning);
                finding.message_id = Some(id.to_string());
                self.found(finding)?;
            }
        }
        Ok(())
    }

    /// Stops following a message, and returns what it was.
    pub(super) fn set_aside(
        &mut self,
        stream: StreamIndex,
        id: &str,
    ) -> Option<Box<MessageDeliveryRecord>> {
        let StreamState { outbox, aside, .. } = self.chain.stream_mut(stream);
        let id = MessageId::new(id).ok()?;
        let Some(outbox) = outbox else {
            self.coverage.messages_set_aside += u64::from(aside.insert(id));
            return None;
        };
        let record = outbox.record(&id).cloned().map(Box::new);
        self.coverage.messages_set_aside += u64::from(!outbox.is_set_aside(&id));
        outbox.set_aside(&id);
        record
    }
}

/// The outbox of a stream; the first `prepared` tells its owner.
pub(crate) fn outbox<'a>(
    state: &'a mut StreamState,
    event: &DeliveryEvent,
) -> Result<&'a mut Outbox, Illegal> {
    let broken = |invariant, why: String| Err(Illegal { invariant, why });
    let StreamState { outbox, name, aside, .. } = state;
    if let Some(outbox) = outbox {
        return Ok(outbox);
    }
    let DeliveryEvent::Prepared(prepared) = event else {
        let why = format!("{} of a message that was never prepared", event.event_type());
        return broken(Invariant::D1, why);
    };
    let owner = &prepared.key.owner_thread_id;
    let expected = StreamName::delivery(owner);
    if name.as_ref() != Ok(&expected) {
        return broken(Invariant::L8, format!("the key's owner has the stream {expected}"));
    }
    let outbox = outbox.insert(Outbox::new(owner.clone()));
    for id in aside.drain() {
        outbox.set_aside(&id);
    }
    Ok(outbox)
}

/// The record as the event would leave it.
fn after(
    before: Option<&MessageDeliveryRecord>,
    event: &DeliveryEvent,
) -> Option<Box<MessageDeliveryRecord>> {
    let mut record = match (before, event) {
        (Some(record), _) => record.clone(),
        (None, DeliveryEvent::Prepared(prepared)) => {
            return Some(Box::new(MessageDeliveryRecord::of(prepared)));
        }
        (None, _) => return None,
    };
    record.evolve(event);
    Some(Box::new(record))
}
