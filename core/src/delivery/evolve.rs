//! Folding: applies facts and computes nothing.

use std::sync::Arc;

use super::{
    Deferred, DeliveryEvent, MessageDeliveryRecord, MessageDeliveryStatus as Status, Notified,
    Parked, Prepared, Retry,
};
use crate::{Diagnostic, Instant, SchemaV1};

/// What an event did to what it was folded into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evolved {
    /// It was applied.
    Applied,
    /// It changed nothing, which only a log of strangers holds.
    Ignored(Ignored),
}

/// Why an event changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ignored {
    /// The message was never prepared.
    Unknown,
    /// The message was prepared before.
    Repeated,
    /// The message is processed or refused.
    Finished,
    /// The message broke a rule before and is not followed any more.
    SetAside,
}

impl Ignored {
    /// The reason in words.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "the message was never prepared",
            Self::Repeated => "the message was prepared before",
            Self::Finished => "the message is processed or refused",
            Self::SetAside => "the message broke a rule before",
        }
    }
}

impl MessageDeliveryRecord {
    /// The record of a message that was just prepared.
    pub fn of(prepared: &Prepared) -> Self {
        Self {
            schema_version: SchemaV1,
            key: prepared.key.clone(),
            envelope: Arc::new(prepared.envelope.clone()),
            envelope_digest: prepared.envelope_digest,
            predecessor: prepared.predecessor.clone(),
            created_at_millis: prepared.created_at_millis,
            initial_deadline_at_millis: prepared.deadline_at_millis,
            deadline_at_millis: prepared.deadline_at_millis,
            policy: prepared.policy,
            version: 1,
            status: Status::Pending,
            receipt: None,
            settlement: None,
            refusal: None,
            park_reason: None,
            lease_until_millis: None,
            retry: Retry {
                attempts: 0,
                generation: 0,
                automatic_attempts: 0,
                parked: false,
                next_attempt_at_millis: prepared.created_at_millis,
                last_attempt_at_millis: None,
                last_failure: None,
            },
            last_failure_diagnostic: None,
        }
    }

    /// Applies an event of this message.
    ///
    /// It never fails: what `decide` would not have allowed still changes what it says it
    /// changes, and an event after the end changes nothing.
    pub fn evolve(&mut self, event: &DeliveryEvent) -> Evolved {
        let is_prepared = matches!(event, DeliveryEvent::Prepared(_));
        if self.status.is_finished() && !is_prepared {
            return Evolved::Ignored(Ignored::Finished);
        }
        let retry = &mut self.retry;
        match event {
            DeliveryEvent::Prepared(_) => return Evolved::Ignored(Ignored::Repeated),
            DeliveryEvent::Claimed(event) => {
                self.lease_until_millis = Some(event.lease_until_millis);
                retry.attempts += 1;
                retry.automatic_attempts += 1;
                retry.last_attempt_at_millis = Some(event.at_millis);
            }
            DeliveryEvent::Accepted(event) => {
                self.status = Status::Accepted;
                self.receipt = Some(event.receipt.clone());
                self.admitted(event.next_attempt_at_millis);
            }
            DeliveryEvent::Observed(event) => self.admitted(event.next_attempt_at_millis),
            DeliveryEvent::Processed(event) => {
                self.status = Status::Processed;
                self.settlement = Some(event.settlement.clone());
                self.lease_until_millis = None;
            }
            DeliveryEvent::Refused(event) => {
                self.status = Status::Refused;
                self.refusal = Some(event.code.clone());
                self.lease_until_millis = None;
                self.failed(event.diagnostic.as_deref());
            }
            DeliveryEvent::Retried(event) => {
                self.lease_until_millis = None;
                retry.next_attempt_at_millis = event.next_attempt_at_millis;
                retry.last_failure = Some(event.reason);
                self.failed(event.diagnostic.as_deref());
            }
            DeliveryEvent::Parked(event) => self.park(event),
            DeliveryEvent::Recovered(event) => {
                self.deadline_at_millis = event.deadline_at_millis;
                self.status =
                    if self.receipt.is_some() { Status::Accepted } else { Status::Pending };
                self.park_reason = None;
                retry.generation = event.generation;
                retry.automatic_attempts = 0;
                retry.parked = false;
                retry.next_attempt_at_millis = event.at_millis;
            }
            DeliveryEvent::Deferred(Deferred { next_attempt_at_millis, .. })
            | DeliveryEvent::Notified(Notified { next_attempt_at_millis, .. }) => {
                self.lease_until_millis = None;
                retry.next_attempt_at_millis = *next_attempt_at_millis;
            }
        }
        self.version += 1;
        Evolved::Applied
    }

    fn admitted(&mut self, next_look: Instant) {
        self.lease_until_millis = None;
        self.retry.automatic_attempts = 0;
        self.retry.last_failure = None;
        self.retry.next_attempt_at_millis = next_look;
    }

    fn park(&mut self, event: &Parked) {
        self.status = Status::Parked;
        self.park_reason = Some(event.reason);
        self.lease_until_millis = None;
        self.retry.parked = true;
        self.failed(event.diagnostic.as_deref());
    }

    fn failed(&mut self, diagnostic: Option<&Diagnostic>) {
        if let Some(diagnostic) = diagnostic {
            self.last_failure_diagnostic = Some(Box::new(diagnostic.clone()));
        }
    }
}
