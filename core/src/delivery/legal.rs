//! Whether an event could have been decided: the rules of `decide`, asked again.

use super::{
    Conflict, DeliveryEvent, MessageDeliveryRecord, OutboxLimits, ParkReason, ParkedBy, Prepared,
    decide::{Denied, Granted, Wish},
};
use crate::{Diagnostic, Digest, Illegal, Instant, Invariant, Legal};

impl MessageDeliveryRecord {
    /// Whether `decide` could have answered with this event here, the outbox left aside.
    ///
    /// What the result is as a record is not looked at: [`MessageDeliveryRecord::check`] does.
    ///
    /// # Examples
    ///
    /// ```
    /// use recount_core::delivery::{Claimed, MessageDeliveryRecord, OutboxLimits};
    /// use recount_core::{Instant, Invariant, Legal};
    /// # use recount_core::doc::message;
    ///
    /// let prepared = message("m-1").decide(&OutboxLimits::default())?;
    /// let record = MessageDeliveryRecord::of(&prepared);
    /// let early = Claimed {
    ///     at_millis: Instant::from_millis(999)?,
    ///     lease_until_millis: Instant::from_millis(30_999)?,
    ///     message_id: prepared.message_id.clone(),
    /// };
    /// let Legal::Violation(broken) = record.legal(&early.into()) else { unreachable!() };
    /// assert_eq!(broken.invariant, Invariant::D5);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn legal(&self, event: &DeliveryEvent) -> Legal {
        let is_prepared = matches!(event, DeliveryEvent::Prepared(_));
        if self.status.is_finished() && !is_prepared {
            let why = format!("{} after {}", event.event_type(), self.status.as_str());
            return Legal::violation(Invariant::D8, why);
        }
        let wish = match wish(event) {
            Ok(wish) => wish,
            Err(illegal) => return Legal::Violation(illegal),
        };
        let broken = match self.grant(event.at(), wish) {
            Ok(granted) => self.difference(event, granted).or_else(|| stray(event)),
            Err(denied) => Some(refused(event, &denied)),
        };
        broken.map_or(Legal::Ok, Legal::Violation)
    }

    /// Which rule is broken where something else would have been decided.
    fn difference(&self, event: &DeliveryEvent, granted: Granted) -> Option<Illegal> {
        use DeliveryEvent as E;
        let illegal = |invariant, why| Some(Illegal { invariant, why });
        let look = match (granted, event) {
            (Granted::Goes { look }, _) => look,
            (Granted::Parks(reason), E::Parked(parked)) if parked.reason == reason => return None,
            (Granted::Parks(ParkReason::Exhausted), E::Claimed(_) | E::Retried(_)) => {
                let why = format!("{} though its attempts are used up", event.event_type());
                return illegal(Invariant::D6, why);
            }
            (Granted::Parks(_), E::Claimed(_)) => {
                let why = "delivery.claimed though its deadline has come".to_owned();
                return illegal(Invariant::D5, why);
            }
            (Granted::Parks(reason), _) => {
                let (found, reason) = (event.event_type(), reason.as_str());
                let why = format!("{found}, where it would have been parked ({reason})");
                return illegal(Invariant::D4, why);
            }
        };
        let (name, found, expected) = match event {
            E::Claimed(event) => ("leaseUntilMillis", event.lease_until_millis, look),
            E::Accepted(event) => ("nextAttemptAtMillis", event.next_attempt_at_millis, look),
            E::Observed(event) => ("nextAttemptAtMillis", event.next_attempt_at_millis, look),
            E::Retried(event) => ("nextAttemptAtMillis", event.next_attempt_at_millis, look),
            E::Deferred(event) => ("nextAttemptAtMillis", event.next_attempt_at_millis, look),
            E::Notified(event) => ("nextAttemptAtMillis", event.next_attempt_at_millis, look),
            E::Recovered(event) => {
                let (found, expected) = (event.generation, self.retry.generation + 1);
                let why = format!("generation is {found}, expected {expected}");
                return (found != expected).then_some(Illegal { invariant: Invariant::D6, why });
            }
            E::Parked(event) => {
                let by = event.by.as_str();
                let why = format!("parked by a {by} that would have gone its way");
                return illegal(Invariant::D4, why);
            }
            E::Prepared(_) | E::Processed(_) | E::Refused(_) => return None,
        };
        if found == expected {
            return None;
        }
        let (found, expected) = (found.as_millis(), expected.as_millis());
        illegal(Invariant::D5, format!("{name} is {found}, expected {expected}"))
    }

    /// The end of a lease that nothing was heard of, which this event shows (D12).
    pub fn lost_attempt(&self, event: &DeliveryEvent) -> Option<Instant> {
        let shows = match event {
            DeliveryEvent::Claimed(_) | DeliveryEvent::Deferred(_) | DeliveryEvent::Notified(_) => {
                true
            }
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
    /// # Examples
    ///
    /// ```
    /// use recount_core::Digest;
    /// use recount_core::delivery::OutboxLimits;
    /// # use recount_core::doc::message;
    ///
    /// let mut prepared = message("m-1").decide(&OutboxLimits::default())?;
    /// assert_eq!(prepared.check_content(None), Ok(()));
    /// prepared.envelope_digest = Digest::ZERO;
    /// let broken = prepared.check_content(None).unwrap_err();
    /// assert_eq!(broken.invariant.id(), "D2");
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
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
fn wish(event: &DeliveryEvent) -> Result<Wish<'_>, Illegal> {
    Ok(match event {
        DeliveryEvent::Prepared(_) => {
            let why = "the message was prepared before".to_owned();
            return Err(Illegal { invariant: Invariant::D1, why });
        }
        DeliveryEvent::Claimed(_) => Wish::Claim,
        DeliveryEvent::Accepted(event) => Wish::Accept(&event.receipt),
        DeliveryEvent::Processed(event) => Wish::Process(&event.settlement),
        DeliveryEvent::Observed(_) => Wish::ObservePending,
        DeliveryEvent::Refused(_) => Wish::Refuse,
        DeliveryEvent::Retried(_) => Wish::Retry,
        DeliveryEvent::Recovered(event) => Wish::Recover(event.deadline_at_millis),
        DeliveryEvent::Deferred(event) => Wish::Defer(event.until_millis),
        DeliveryEvent::Notified(_) => Wish::Notify,
        DeliveryEvent::Parked(event) => match (event.by, event.until_millis) {
            (ParkedBy::Claim, _) => Wish::Claim,
            (ParkedBy::Observe, _) => Wish::ObservePending,
            (ParkedBy::Park, _) => Wish::Park(event.reason),
            (ParkedBy::Retry, _) => Wish::Retry,
            (ParkedBy::Defer, Some(until)) => Wish::Defer(until),
            (ParkedBy::Defer, None) => {
                let why = "parked by a defer without its instant".to_owned();
                return Err(Illegal { invariant: Invariant::D4, why });
            }
        },
    })
}

/// What an event holds that no change brings, or lacks that one does.
fn stray(event: &DeliveryEvent) -> Option<Illegal> {
    let illegal = |why: String| Some(Illegal { invariant: Invariant::D4, why });
    if let DeliveryEvent::Parked(event) = event {
        let (is_retry, is_defer) = (event.by == ParkedBy::Retry, event.by == ParkedBy::Defer);
        let may_explain = is_retry || event.by == ParkedBy::Park;
        if event.retry_reason.is_some() != is_retry
            || event.until_millis.is_some() != is_defer
            || (event.diagnostic.is_some() && !may_explain)
        {
            let by = event.by.as_str();
            return illegal(format!("parked by a {by}, but not with what a {by} brings"));
        }
    }
    let diagnostic = match event {
        DeliveryEvent::Refused(event) => event.diagnostic.as_deref(),
        DeliveryEvent::Retried(event) => event.diagnostic.as_deref(),
        DeliveryEvent::Parked(event) => event.diagnostic.as_deref(),
        DeliveryEvent::Processed(event) => {
            event.settlement.failure.as_ref().and_then(|failure| failure.diagnostic.as_ref())
        }
        _ => None,
    };
    let is_beyond = |diagnostic: &Diagnostic| diagnostic.clone().bounded() != *diagnostic;
    if diagnostic.is_some_and(is_beyond) {
        return illegal("its diagnostic is past the bounds of one".to_owned());
    }
    None
}

/// Which rule is broken where nothing would have been decided.
fn refused(event: &DeliveryEvent, denied: &Denied) -> Illegal {
    let (invariant, why) = match denied {
        Denied::Corrupt(error) => (Invariant::D7, error.to_string()),
        Denied::Conflict(why @ Conflict::NotDue { .. }) => (Invariant::D5, why.to_string()),
        // A second receipt.
        Denied::Conflict(why @ Conflict::Status(_))
            if matches!(event, DeliveryEvent::Accepted(_)) =>
        {
            (Invariant::D7, why.to_string())
        }
        Denied::Conflict(why) => (Invariant::D4, why.to_string()),
    };
    Illegal { invariant, why: format!("{}: {why}", event.event_type()) }
}
