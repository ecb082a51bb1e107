//! Whether an event could have been decided: the rules of `decide`, asked again.

use super::{
    Conflict, DeliveryError, DeliveryEvent, MessageDeliveryChange as Change,
    MessageDeliveryCommand, MessageDeliveryRecord, OutboxLimits, ParkReason, Parked, ParkedBy,
    Prepared,
};
use crate::{Digest, Illegal, Instant, Invariant, Legal};

impl MessageDeliveryRecord {
    /// Whether `decide` could have answered with this event here, the outbox left aside.
    ///
    /// What the result is as a record is not looked at: [`MessageDeliveryRecord::check`] does.
    pub fn legal(&self, event: &DeliveryEvent) -> Legal {
        let is_prepared = matches!(event, DeliveryEvent::Prepared(_));
        if self.status.is_finished() && !is_prepared {
            let why = format!("{} after {}", event.event_type(), self.status.as_str());
            return Legal::violation(Invariant::D8, why);
        }
        let change = match wish(event) {
            Ok(change) => change,
            Err(illegal) => return Legal::Violation(illegal),
        };
        let now_millis = event.at();
        let command = MessageDeliveryCommand { expected_version: self.version, now_millis, change };
        match self.rules(&command) {
            Ok(expected) if expected == *event => Legal::Ok,
            Ok(expected) => Legal::Violation(difference(&expected, event)),
            Err(error) => Legal::Violation(denied(event, &error)),
        }
    }

    /// The end of a lease that nothing was heard of, which this event shows (D12).
    pub fn lost_attempt(&self, event: &DeliveryEvent) -> Option<Instant> {
        let shows = match event {
            DeliveryEvent::Claimed(_) | DeliveryEvent::Deferred(_) => true,
            DeliveryEvent::Parked(event) => {
                matches!(event.by, ParkedBy::Claim | ParkedBy::Defer | ParkedBy::Park)
            }
            _ => false,
        };
        self.lease_until_millis.filter(|lease| shows && *lease <= event.at())
    }
}

impl Prepared {
    /// Holds both digests (D2) and the envelope's size (D10) against the content.
    ///
    /// This needs no state. `limits` stand in for those that were recorded.
    ///
    /// # Errors
    ///
    /// [`Illegal`] where a digest is not the content's, or the envelope is too large.
    pub fn check_content(&self, limits: Option<&OutboxLimits>) -> Result<(), Illegal> {
        let digest = |name: &str, stated: Digest, computed: Digest| {
            if stated == computed {
                return Ok(());
            }
            let why = format!("{name} is {stated}, the content's is {computed}");
            Err(Illegal { invariant: Invariant::D2, why })
        };
        let envelope = &self.envelope;
        digest("inputDigest", envelope.input_digest, envelope.computed_input_digest())?;
        digest("envelopeDigest", self.envelope_digest, envelope.digest())?;
        limits
            .unwrap_or(&self.limits)
            .check_envelope(envelope)
            .map_err(|error| Illegal { invariant: Invariant::D10, why: error.to_string() })
    }

    /// Whether the message could have been prepared so, the outbox and the digests left aside.
    pub(super) fn check_alone(&self) -> Result<(), Illegal> {
        let illegal = |invariant, why: String| Err(Illegal { invariant, why });
        if self.message_id != self.key.message_id {
            let (id, key) = (&self.message_id, &self.key.message_id);
            return illegal(Invariant::L8, format!("messageId is {id:?}, the key's is {key:?}"));
        }
        if let Err(rule) = MessageDeliveryRecord::of(self).check() {
            return illegal(Invariant::D3, format!("the record is not valid: {rule}"));
        }
        if self.at_millis != self.created_at_millis {
            return illegal(Invariant::D4, "atMillis is not the creation".to_owned());
        }
        if !self.limits.is_valid() {
            return illegal(Invariant::D4, "a limit of the outbox is zero".to_owned());
        }
        Ok(())
    }
}

/// The wish that an event would have granted.
fn wish(event: &DeliveryEvent) -> Result<Change, Illegal> {
    Ok(match event {
        DeliveryEvent::Prepared(_) => {
            let why = "the message was prepared before".to_owned();
            return Err(Illegal { invariant: Invariant::D1, why });
        }
        DeliveryEvent::Claimed(_) => Change::Claim,
        DeliveryEvent::Accepted(event) => Change::Accept { receipt: event.receipt.clone() },
        DeliveryEvent::Processed(event) => Change::Process { settlement: event.settlement.clone() },
        DeliveryEvent::Observed(_) => Change::ObservePending,
        DeliveryEvent::Refused(event) => {
            Change::Refuse { code: event.code.clone(), diagnostic: event.diagnostic.clone() }
        }
        DeliveryEvent::Retried(event) => {
            Change::Retry { reason: event.reason, diagnostic: event.diagnostic.clone() }
        }
        DeliveryEvent::Parked(event) => return parked_wish(event),
        DeliveryEvent::Recovered(event) => {
            Change::Recover { deadline_at_millis: event.deadline_at_millis }
        }
        DeliveryEvent::Deferred(event) => Change::Defer { until_millis: event.until_millis },
    })
}

fn parked_wish(event: &Parked) -> Result<Change, Illegal> {
    let missing = |what| Illegal {
        invariant: Invariant::D4,
        why: format!("parked by a {:?} without its {what}", event.by).to_lowercase(),
    };
    Ok(match event.by {
        ParkedBy::Claim => Change::Claim,
        ParkedBy::Observe => Change::ObservePending,
        ParkedBy::Park => {
            Change::Park { reason: event.reason, diagnostic: event.diagnostic.clone() }
        }
        ParkedBy::Retry => Change::Retry {
            reason: event.retry_reason.ok_or_else(|| missing("reason"))?,
            diagnostic: event.diagnostic.clone(),
        },
        ParkedBy::Defer => {
            Change::Defer { until_millis: event.until_millis.ok_or_else(|| missing("instant"))? }
        }
    })
}

/// Which rule is broken where another event would have been decided.
fn difference(expected: &DeliveryEvent, found: &DeliveryEvent) -> Illegal {
    use DeliveryEvent as E;
    let instant = |name: &str, found: Instant, expected: Instant| {
        format!("{name} is {}, expected {}", found.as_millis(), expected.as_millis())
    };
    let next = |found, expected| instant("nextAttemptAtMillis", found, expected);
    let (invariant, why) = match (expected, found) {
        (E::Claimed(expected), E::Claimed(found)) => {
            let (found, expected) = (found.lease_until_millis, expected.lease_until_millis);
            (Invariant::D5, instant("leaseUntilMillis", found, expected))
        }
        (E::Accepted(expected), E::Accepted(found)) => {
            (Invariant::D5, next(found.next_attempt_at_millis, expected.next_attempt_at_millis))
        }
        (E::Observed(expected), E::Observed(found)) => {
            (Invariant::D5, next(found.next_attempt_at_millis, expected.next_attempt_at_millis))
        }
        (E::Deferred(expected), E::Deferred(found)) => {
            (Invariant::D5, next(found.next_attempt_at_millis, expected.next_attempt_at_millis))
        }
        (E::Retried(expected), E::Retried(found))
            if expected.next_attempt_at_millis != found.next_attempt_at_millis =>
        {
            (Invariant::D5, next(found.next_attempt_at_millis, expected.next_attempt_at_millis))
        }
        (E::Recovered(expected), E::Recovered(found)) => {
            let (found, expected) = (found.generation, expected.generation);
            (Invariant::D6, format!("generation is {found}, expected {expected}"))
        }
        (E::Parked(expected), E::Claimed(_)) => match expected.reason {
            ParkReason::Exhausted => {
                (Invariant::D6, "claimed though its automatic attempts are used up".to_owned())
            }
            _ => (Invariant::D5, "claimed though its deadline has come".to_owned()),
        },
        (E::Parked(expected), E::Retried(_)) if expected.reason == ParkReason::Exhausted => {
            (Invariant::D6, "retried though its automatic attempts are used up".to_owned())
        }
        (expected, found) if expected.event_type() == found.event_type() => {
            (Invariant::D4, "its content is not what would have been decided".to_owned())
        }
        (expected, found) => {
            let (found, expected) = (found.event_type(), expected.event_type());
            (Invariant::D4, format!("{found}, where {expected} would have been decided"))
        }
    };
    Illegal { invariant, why }
}

/// Which rule is broken where nothing would have been decided.
fn denied(event: &DeliveryEvent, error: &DeliveryError) -> Illegal {
    let invariant = match error {
        DeliveryError::ReceiptIdentity { .. } | DeliveryError::SettlementIdentity => Invariant::D7,
        DeliveryError::Conflict { why: Conflict::NotDue { .. }, .. } => Invariant::D5,
        DeliveryError::Conflict { why: Conflict::Status(_), .. }
            if matches!(event, DeliveryEvent::Accepted(_)) =>
        {
            // A second receipt.
            Invariant::D7
        }
        _ => Invariant::D4,
    };
    let why = match error {
        DeliveryError::Conflict { why, .. } => why.to_string(),
        error => error.to_string(),
    };
    Illegal { invariant, why: format!("{}: {why}", event.event_type()) }
}
