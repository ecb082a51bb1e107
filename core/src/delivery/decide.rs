//! All rules of one message: no clock, no I/O.
//!
//! The rules look at a [`Wish`] and compute what is [`Granted`]. `decide` makes an event of that,
//! `legal` holds an event that is there already against it.

use super::{
    Accepted, Claimed, Conflict, Deferred, DeliveryError, DeliveryEvent, MessageDeliveryChange,
    MessageDeliveryCommand, MessageDeliveryRecord, MessageDeliveryStatus, Notified, Observed,
    OutboxLimits, ParkReason, Parked, ParkedBy, PrepareMessage, Prepared, Processed, Recovered,
    Refused, Retried, record::settles,
};
use crate::{Diagnostic, Envelope, Instant, MessageId, Receipt, Settlement};

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
        let change = command.change.tag();
        let conflict = |why| DeliveryError::Conflict { change, why };
        if command.expected_version != self.version {
            let (expected, found) = (command.expected_version, self.version);
            return Err(conflict(Conflict::Version { expected, found }));
        }
        if self.status.is_finished() {
            return Err(conflict(Conflict::Finished(self.status)));
        }
        let now = command.now_millis;
        let granted =
            self.grant(now, Wish::of(&command.change)).map_err(|denied| match denied {
                Denied::Conflict(why) => conflict(why),
                Denied::Corrupt(error) => error,
            })?;
        let event = self.event(now, command.change.clone(), granted);
        let mut after = self.clone();
        after.evolve(&event);
        after.check().map_err(|rule| DeliveryError::Encode { change, rule })?;
        Ok(event)
    }

    /// The rules of a message that is not finished.
    ///
    /// "Past the deadline" is `now ≥ deadline`; a lease is live while `now ≤ lease`, but for a
    /// deferral, which may come at `now = lease`. Whether the result is a valid record is for the
    /// caller to see.
    pub(super) fn grant(&self, now: Instant, wish: Wish<'_>) -> Result<Granted, Denied> {
        match wish {
            Wish::Defer(until) => self.defer(now, until),
            Wish::Recover(deadline) => {
                self.needs(Status::Parked)?;
                ahead(deadline, now)?;
                Ok(Granted::Goes { look: now })
            }
            _ if self.status == Status::Parked => Err(Conflict::Status(self.status).into()),
            Wish::Park(reason) => Ok(Granted::Parks(reason)),
            Wish::Notify => {
                self.needs(Status::Accepted)?;
                Ok(Granted::Goes { look: self.next_look(now, 0) })
            }
            Wish::Claim => self.claim(now),
            report => {
                self.live_lease(now)?;
                self.report(now, report)
            }
        }
    }

    fn claim(&self, now: Instant) -> Result<Granted, Denied> {
        match self.effective_deadline() {
            Some(due) if due <= now => {}
            Some(due) => return Err(Conflict::NotDue { due }.into()),
            None => return Err(Conflict::Status(self.status).into()),
        }
        if let Some(reason) = self.no_further_attempt(now) {
            return Ok(Granted::Parks(reason));
        }
        let timeout = now.saturating_add(self.policy.attempt_timeout_millis);
        Ok(Granted::Goes { look: timeout.min(self.deadline_at_millis) })
    }

    fn defer(&self, now: Instant, until: Instant) -> Result<Granted, Denied> {
        self.needs(Status::Pending)?;
        if let Some(lease) = self.lease_until_millis.filter(|lease| *lease > now) {
            return Err(Conflict::LeaseHeld { until: lease }.into());
        }
        if now >= self.deadline_at_millis {
            return Ok(Granted::Parks(ParkReason::Deadline));
        }
        ahead(until, now)?;
        Ok(Granted::Goes { look: until.min(self.deadline_at_millis) })
    }

    /// The wishes that tell what came of an attempt.
    fn report(&self, now: Instant, wish: Wish<'_>) -> Result<Granted, Denied> {
        let poll = self.next_look(now, self.policy.settlement_poll_millis);
        match wish {
            Wish::Accept(receipt) => {
                self.needs(Status::Pending)?;
                if receipt.thread_id != self.envelope.thread_id {
                    return Err(Denied::Corrupt(DeliveryError::ReceiptIdentity {
                        expected: self.envelope.thread_id.clone(),
                        found: receipt.thread_id.clone(),
                    }));
                }
                Ok(Granted::Goes { look: poll })
            }
            Wish::Process(settlement) => {
                self.needs(Status::Accepted)?;
                if !self.receipt.as_ref().is_some_and(|receipt| settles(settlement, receipt)) {
                    return Err(Denied::Corrupt(DeliveryError::SettlementIdentity));
                }
                Ok(Granted::Goes { look: now })
            }
            Wish::Refuse => {
                self.needs(Status::Pending)?;
                Ok(Granted::Goes { look: now })
            }
            Wish::Retry => {
                if let Some(reason) = self.no_further_attempt(now) {
                    return Ok(Granted::Parks(reason));
                }
                let delay = self.policy.retry_delay_millis(self.retry.automatic_attempts);
                let look = match self.status {
                    Status::Accepted => poll,
                    _ => self.next_look(now, delay),
                };
                Ok(Granted::Goes { look })
            }
            // What is left is to note that the destination still works on it: the other wishes
            // need no lease and were decided before.
            _ => {
                self.needs(Status::Accepted)?;
                if now >= self.deadline_at_millis {
                    return Ok(Granted::Parks(ParkReason::Deadline));
                }
                Ok(Granted::Goes { look: poll })
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
}

/// What the rules look at of a change, whether it is wished or was granted long ago.
#[derive(Clone, Copy)]
pub(super) enum Wish<'a> {
    Claim,
    Accept(&'a Receipt),
    Process(&'a Settlement),
    ObservePending,
    Refuse,
    Retry,
    Park(ParkReason),
    Recover(Instant),
    Defer(Instant),
    Notify,
}

impl<'a> Wish<'a> {
    fn of(change: &'a Change) -> Self {
        match change {
            Change::Claim => Self::Claim,
            Change::Accept { receipt } => Self::Accept(receipt),
            Change::Process { settlement } => Self::Process(settlement),
            Change::ObservePending => Self::ObservePending,
            Change::Refuse { .. } => Self::Refuse,
            Change::Retry { .. } => Self::Retry,
            Change::Park { reason, .. } => Self::Park(*reason),
            Change::Recover { deadline_at_millis } => Self::Recover(*deadline_at_millis),
            Change::Defer { until_millis } => Self::Defer(*until_millis),
            Change::Notify => Self::Notify,
        }
    }
}

/// What the rules compute.
#[derive(Clone, Copy)]
pub(super) enum Granted {
    /// What was wished happens. The message is looked at next at this instant, which for a claim is
    /// the end of its lease.
    Goes { look: Instant },
    /// The message is parked.
    Parks(ParkReason),
}

/// Why a wish is denied, before its name is put to it.
pub(super) enum Denied {
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

impl MessageDeliveryRecord {
    /// The event: what the change brings, and what was computed.
    fn event(&self, at_millis: Instant, change: Change, granted: Granted) -> DeliveryEvent {
        let message_id = self.key.message_id.clone();
        let look = match granted {
            Granted::Goes { look } => look,
            Granted::Parks(reason) => {
                return parked(message_id, at_millis, reason, change).into();
            }
        };
        let next_attempt_at_millis = look;
        match change {
            Change::Claim => Claimed { at_millis, lease_until_millis: look, message_id }.into(),
            Change::Accept { receipt } => {
                Accepted { at_millis, message_id, next_attempt_at_millis, receipt }.into()
            }
            Change::Process { mut settlement } => {
                if let Some(failure) = &mut settlement.failure {
                    failure.redact();
                    failure.diagnostic = failure.diagnostic.take().map(recordable);
                }
                Processed { at_millis, message_id, settlement }.into()
            }
            Change::ObservePending => {
                Observed { at_millis, message_id, next_attempt_at_millis }.into()
            }
            Change::Refuse { code, diagnostic } => {
                Refused { at_millis, code, diagnostic: kept(diagnostic), message_id }.into()
            }
            Change::Retry { reason, diagnostic } => {
                let diagnostic = kept(diagnostic);
                Retried { at_millis, diagnostic, message_id, next_attempt_at_millis, reason }.into()
            }
            Change::Park { reason, .. } => parked(message_id, at_millis, reason, change).into(),
            Change::Recover { deadline_at_millis } => {
                let generation = self.retry.generation + 1;
                Recovered { at_millis, deadline_at_millis, generation, message_id }.into()
            }
            Change::Defer { until_millis } => {
                Deferred { at_millis, message_id, next_attempt_at_millis, until_millis }.into()
            }
            Change::Notify => Notified { at_millis, message_id, next_attempt_at_millis }.into(),
        }
    }
}

/// What a change that parks leaves behind: its name, and what it brought.
fn parked(message_id: MessageId, at_millis: Instant, reason: ParkReason, change: Change) -> Parked {
    let (by, retry_reason, until_millis, diagnostic) = match change {
        Change::Retry { reason, diagnostic } => (ParkedBy::Retry, Some(reason), None, diagnostic),
        Change::Park { diagnostic, .. } => (ParkedBy::Park, None, None, diagnostic),
        Change::Defer { until_millis } => (ParkedBy::Defer, None, Some(until_millis), None),
        Change::ObservePending => (ParkedBy::Observe, None, None, None),
        _ => (ParkedBy::Claim, None, None, None),
    };
    let diagnostic = kept(diagnostic);
    Parked { at_millis, by, diagnostic, message_id, reason, retry_reason, until_millis }
}

fn kept(diagnostic: Option<Box<Diagnostic>>) -> Option<Box<Diagnostic>> {
    diagnostic.map(|diagnostic| Box::new(recordable(*diagnostic)))
}

/// What of a failure may be recorded. What is cut first could leave half a credential that nothing
/// recognises any more.
fn recordable(diagnostic: Diagnostic) -> Diagnostic {
    diagnostic.redacted().bounded()
}
