//! All rules of one message: no clock, no I/O.

use super::{
    Accepted, Claimed, Conflict, Deferred, DeliveryError, DeliveryEvent, MessageDeliveryChange,
    MessageDeliveryCommand, MessageDeliveryRecord, MessageDeliveryStatus, Observed, OutboxLimits,
    ParkReason, Parked, ParkedBy, PrepareMessage, Prepared, Processed, Recovered, Refused, Retried,
    record::settles,
};
use crate::{Diagnostic, Envelope, Instant};

use MessageDeliveryChange as Change;
use MessageDeliveryStatus as Status;

impl PrepareMessage {
    /// Decides whether the message can be prepared; the outbox decides whether it has a place.
    ///
    /// # Errors
    ///
    /// [`DeliveryError::Prepare`] for values that make no valid record, and
    /// [`DeliveryError::InputDigest`] where the input is not the one that was digested.
    pub fn decide(&self, limits: &OutboxLimits) -> Result<Prepared, DeliveryError> {
        let envelope = Envelope::from(self.envelope.clone());
        let computed = envelope.computed_input_digest();
        let event = Prepared {
            at_millis: self.created_at_millis,
            created_at_millis: self.created_at_millis,
            deadline_at_millis: self.deadline_at_millis,
            envelope_digest: envelope.digest(),
            envelope,
            key: self.key.clone(),
            limits: *limits,
            message_id: self.key.message_id.clone(),
            policy: self.policy,
            predecessor: self.predecessor.clone(),
        };
        MessageDeliveryRecord::of(&event).check().map_err(DeliveryError::Prepare)?;
        let stated = self.envelope.input_digest;
        if stated != computed {
            return Err(DeliveryError::InputDigest { stated, computed });
        }
        Ok(event)
    }
}

impl MessageDeliveryRecord {
    /// Decides what happens when a change is wished; every change that is granted is one event.
    ///
    /// # Errors
    ///
    /// [`DeliveryError`]: a conflict with where the message stands, identities that contradict
    /// one another, or a result that would not be a valid record.
    pub fn decide(&self, command: &MessageDeliveryCommand) -> Result<DeliveryEvent, DeliveryError> {
        let event = self.rules(command)?;
        let mut after = self.clone();
        after.evolve(&event);
        let change = command.change.tag();
        after.check().map_err(|rule| DeliveryError::Encode { change, rule })?;
        Ok(event)
    }

    /// The rules alone; whether the result is a valid record is for the caller to see.
    ///
    /// They are checked in a fixed order: version, finished, then by change. "Past the deadline"
    /// is `now ≥ deadline`; a lease is live while `now ≤ lease`, but for a deferral, which may
    /// come at `now = lease`.
    pub(super) fn rules(
        &self,
        command: &MessageDeliveryCommand,
    ) -> Result<DeliveryEvent, DeliveryError> {
        let change = command.change.tag();
        let conflict = |why| Err(DeliveryError::Conflict { change, why });
        if command.expected_version != self.version {
            let (expected, found) = (command.expected_version, self.version);
            return conflict(Conflict::Version { expected, found });
        }
        if self.status.is_finished() {
            return conflict(Conflict::Finished(self.status));
        }
        match self.grant(command) {
            Ok(event) => Ok(event),
            Err(Denied::Conflict(why)) => conflict(why),
            Err(Denied::Corrupt(error)) => Err(error),
        }
    }

    fn grant(&self, command: &MessageDeliveryCommand) -> Result<DeliveryEvent, Denied> {
        let now = command.now_millis;
        match &command.change {
            Change::Defer { until_millis } => self.defer(now, *until_millis),
            Change::Recover { deadline_at_millis } => self.recover(now, *deadline_at_millis),
            _ if self.status == Status::Parked => Err(Conflict::Status(self.status).into()),
            Change::Park { reason, diagnostic } => {
                Ok(self.parked(now, ParkedBy::Park, *reason, diagnostic.as_deref()).into())
            }
            Change::Claim => self.claim(now),
            change => {
                self.live_lease(now)?;
                self.report(now, change)
            }
        }
    }

    fn claim(&self, now: Instant) -> Result<DeliveryEvent, Denied> {
        match self.effective_deadline() {
            Some(due) if due <= now => {}
            Some(due) => return Err(Conflict::NotDue { due }.into()),
            None => return Err(Conflict::Status(self.status).into()),
        }
        if let Some(reason) = self.no_further_attempt(now) {
            return Ok(self.parked(now, ParkedBy::Claim, reason, None).into());
        }
        let timeout = now.saturating_add(self.policy.attempt_timeout_millis);
        Ok(Claimed {
            at_millis: now,
            lease_until_millis: timeout.min(self.deadline_at_millis),
            message_id: self.key.message_id.clone(),
        }
        .into())
    }

    fn defer(&self, now: Instant, until: Instant) -> Result<DeliveryEvent, Denied> {
        self.needs(Status::Pending)?;
        if let Some(lease) = self.lease_until_millis.filter(|lease| *lease > now) {
            return Err(Conflict::LeaseHeld { until: lease }.into());
        }
        if now >= self.deadline_at_millis {
            let mut parked = self.parked(now, ParkedBy::Defer, ParkReason::Deadline, None);
            parked.until_millis = Some(until);
            return Ok(parked.into());
        }
        ahead(until, now)?;
        Ok(Deferred {
            at_millis: now,
            message_id: self.key.message_id.clone(),
            next_attempt_at_millis: until.min(self.deadline_at_millis),
            until_millis: until,
        }
        .into())
    }

    fn recover(&self, now: Instant, deadline: Instant) -> Result<DeliveryEvent, Denied> {
        self.needs(Status::Parked)?;
        ahead(deadline, now)?;
        Ok(Recovered {
            at_millis: now,
            deadline_at_millis: deadline,
            generation: self.retry.generation + 1,
            message_id: self.key.message_id.clone(),
        }
        .into())
    }

    /// The changes that tell what came of an attempt.
    fn report(&self, now: Instant, change: &Change) -> Result<DeliveryEvent, Denied> {
        let at_millis = now;
        let message_id = self.key.message_id.clone();
        match change {
            Change::Accept { receipt } => {
                self.needs(Status::Pending)?;
                if receipt.thread_id != self.envelope.thread_id {
                    return Err(Denied::Corrupt(DeliveryError::ReceiptIdentity {
                        expected: self.envelope.thread_id.clone(),
                        found: receipt.thread_id.clone(),
                    }));
                }
                let next_attempt_at_millis =
                    self.next_look(now, self.policy.settlement_poll_millis);
                let receipt = receipt.clone();
                Ok(Accepted { at_millis, message_id, next_attempt_at_millis, receipt }.into())
            }
            Change::Process { settlement } => {
                self.needs(Status::Accepted)?;
                if !self.receipt.as_ref().is_some_and(|receipt| settles(settlement, receipt)) {
                    return Err(Denied::Corrupt(DeliveryError::SettlementIdentity));
                }
                let mut settlement = settlement.clone();
                if let Some(failure) = &mut settlement.failure {
                    failure.diagnostic = failure.diagnostic.take().map(Diagnostic::bounded);
                }
                Ok(Processed { at_millis, message_id, settlement }.into())
            }
            Change::Refuse { code, diagnostic } => {
                self.needs(Status::Pending)?;
                let diagnostic = bounded(diagnostic.as_deref());
                Ok(Refused { at_millis, code: code.clone(), diagnostic, message_id }.into())
            }
            Change::Retry { reason, diagnostic } => {
                if let Some(park) = self.no_further_attempt(now) {
                    let mut parked = self.parked(now, ParkedBy::Retry, park, diagnostic.as_deref());
                    parked.retry_reason = Some(*reason);
                    return Ok(parked.into());
                }
                let delay = match self.status {
                    Status::Accepted => self.policy.settlement_poll_millis,
                    _ => self.policy.retry_delay_millis(self.retry.automatic_attempts),
                };
                let next_attempt_at_millis = self.next_look(now, delay);
                let diagnostic = bounded(diagnostic.as_deref());
                let reason = *reason;
                Ok(Retried { at_millis, diagnostic, message_id, next_attempt_at_millis, reason }
                    .into())
            }
            // What is left is to note that the destination still works on it: the other changes
            // need no lease and were decided before.
            _ => {
                self.needs(Status::Accepted)?;
                if now >= self.deadline_at_millis {
                    let parked = self.parked(now, ParkedBy::Observe, ParkReason::Deadline, None);
                    return Ok(parked.into());
                }
                let next_attempt_at_millis =
                    self.next_look(now, self.policy.settlement_poll_millis);
                Ok(Observed { at_millis, message_id, next_attempt_at_millis }.into())
            }
        }
    }

    fn live_lease(&self, now: Instant) -> Result<(), Denied> {
        match self.lease_until_millis {
            None => Err(Conflict::NoLease.into()),
            Some(until) if now > until => Err(Conflict::LeaseEnded { until }.into()),
            Some(_) => Ok(()),
        }
    }

    fn needs(&self, status: Status) -> Result<(), Denied> {
        if self.status == status { Ok(()) } else { Err(Conflict::Status(self.status).into()) }
    }

    /// Why no attempt may follow; the deadline comes before the number of attempts.
    fn no_further_attempt(&self, now: Instant) -> Option<ParkReason> {
        if now >= self.deadline_at_millis {
            Some(ParkReason::Deadline)
        } else if self.retry.automatic_attempts >= self.policy.max_automatic_attempts {
            Some(ParkReason::Exhausted)
        } else {
            None
        }
    }

    fn next_look(&self, now: Instant, delay_millis: u64) -> Instant {
        now.saturating_add(delay_millis).min(self.deadline_at_millis)
    }

    fn parked(
        &self,
        at_millis: Instant,
        by: ParkedBy,
        reason: ParkReason,
        diagnostic: Option<&Diagnostic>,
    ) -> Parked {
        Parked {
            at_millis,
            by,
            diagnostic: bounded(diagnostic),
            message_id: self.key.message_id.clone(),
            reason,
            retry_reason: None,
            until_millis: None,
        }
    }
}

/// Why a change is denied, before its name is put to it.
enum Denied {
    Conflict(Conflict),
    Corrupt(DeliveryError),
}

impl From<Conflict> for Denied {
    fn from(why: Conflict) -> Self {
        Self::Conflict(why)
    }
}

fn ahead(at: Instant, now: Instant) -> Result<(), Denied> {
    if at > now { Ok(()) } else { Err(Conflict::NotAhead { at, now }.into()) }
}

fn bounded(diagnostic: Option<&Diagnostic>) -> Option<Box<Diagnostic>> {
    diagnostic.map(|diagnostic| Box::new(diagnostic.clone().bounded()))
}
