//! What was asked of a message's destination each time, and what it answered.

use recount_core::{
    CauseReason, Diagnostic, Instant, Outcome, Position, Receipt, RefusalCode, Scalar,
    delivery::{DeliveryEvent, ParkReason, RetryReason},
};
use serde::Serialize;

use super::TimelineEntry;

/// One attempt, from its claim to what is recorded of its end.
///
/// [`Attempt::of`] finds them in a [`super::Timeline`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Attempt {
    /// Which one it is, from 1.
    pub number: u64,
    /// The claim's place in the log.
    pub position: Position,
    /// Who claimed it.
    pub actor: Option<String>,
    /// What was asked.
    pub question: Question,
    /// When it began.
    pub began_at_millis: Instant,
    /// Until when it could be under way.
    pub lease_until_millis: Instant,
    /// When it ended, as far as it is recorded.
    pub ended_at_millis: Option<Instant>,
    /// What came of it.
    pub answer: Answer,
    /// What is known of a failure, in a line.
    pub said: Option<String>,
}

/// What a destination is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Question {
    /// To admit the message.
    Admission,
    /// What became of it.
    Settlement,
}

/// What came of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Answer {
    /// The destination admitted it.
    Admitted {
        /// Its receipt.
        receipt: Receipt,
    },
    /// The destination still works on it.
    StillPending,
    /// The destination is done with it.
    Settled {
        /// How it ended there.
        outcome: Outcome,
    },
    /// The destination does not want it.
    Refused {
        /// Why.
        code: RefusalCode,
    },
    /// There was none, and it is tried again.
    Failed {
        /// Why.
        reason: RetryReason,
    },
    /// It was left to a person.
    Parked {
        /// Why.
        reason: ParkReason,
        /// Why there was no answer, where that led to it.
        failure: Option<RetryReason>,
    },
    /// Its host was told meanwhile that there is something to see, and it is asked again: whatever
    /// this one learned counts no more.
    Overtaken,
    /// Nothing is recorded, and the lease is over: nobody knows what happened.
    Lost,
    /// Another attempt follows, and no end of this one was read: an event is missing between them.
    Unread,
    /// Nothing is recorded yet.
    UnderWay,
}

impl Attempt {
    /// The attempts in a message's events.
    pub fn of(entries: &[TimelineEntry]) -> Vec<Self> {
        let mut attempts: Vec<Self> = Vec::new();
        let (mut is_open, mut is_admitted) = (false, false);
        for entry in entries.iter().filter(|entry| entry.ignored.is_none()) {
            if is_open && let Some(last) = attempts.last_mut() {
                is_open = !last.end(entry);
            }
            match &entry.event {
                DeliveryEvent::Claimed(claimed) => {
                    if is_open && let Some(last) = attempts.last_mut() {
                        last.answer = Answer::Unread;
                    }
                    is_open = true;
                    attempts.push(Self {
                        number: attempts.len() as u64 + 1,
                        position: entry.position,
                        actor: entry.metadata.actor.clone(),
                        question: if is_admitted {
                            Question::Settlement
                        } else {
                            Question::Admission
                        },
                        began_at_millis: claimed.at_millis,
                        lease_until_millis: claimed.lease_until_millis,
                        ended_at_millis: None,
                        answer: Answer::UnderWay,
                        said: None,
                    });
                }
                DeliveryEvent::Accepted(_) => is_admitted = true,
                _ => {}
            }
        }
        attempts
    }

    /// Takes what an event tells of the end, and says whether it is one.
    fn end(&mut self, entry: &TimelineEntry) -> bool {
        if entry.lost_attempt.is_some() {
            self.answer = Answer::Lost;
            return true;
        }
        self.answer = match &entry.event {
            DeliveryEvent::Accepted(event) => Answer::Admitted { receipt: event.receipt.clone() },
            DeliveryEvent::Observed(_) => Answer::StillPending,
            DeliveryEvent::Processed(event) => {
                Answer::Settled { outcome: event.settlement.outcome }
            }
            DeliveryEvent::Refused(event) => Answer::Refused { code: event.code.clone() },
            DeliveryEvent::Retried(event) => Answer::Failed { reason: event.reason },
            DeliveryEvent::Parked(event) => {
                Answer::Parked { reason: event.reason, failure: event.retry_reason }
            }
            DeliveryEvent::Notified(_) => Answer::Overtaken,
            DeliveryEvent::Prepared(_)
            | DeliveryEvent::Claimed(_)
            | DeliveryEvent::Recovered(_)
            | DeliveryEvent::Deferred(_) => return false,
        };
        self.said = entry.said();
        self.ended_at_millis = Some(entry.event.at());
        true
    }
}

/// What an event tells of a failure, in a line.
pub(super) fn said(event: &DeliveryEvent) -> Option<String> {
    match event {
        DeliveryEvent::Processed(event) => {
            let failure = event.settlement.failure.as_ref();
            failure.map(|it| format!("{}: {}", it.error_tag, it.message))
        }
        DeliveryEvent::Refused(event) => summary(event.diagnostic.as_deref()),
        DeliveryEvent::Retried(event) => summary(event.diagnostic.as_deref()),
        DeliveryEvent::Parked(event) => summary(event.diagnostic.as_deref()),
        _ => None,
    }
}

/// What is known of a failure, in a line: each message with its causes behind it.
fn summary(diagnostic: Option<&Diagnostic>) -> Option<String> {
    let mut parts = Vec::new();
    let mut next = diagnostic;
    while let Some(diagnostic) = next.take() {
        match diagnostic {
            Diagnostic::Error(error) => {
                let name = error.error_tag.as_ref().or(error.name.as_ref());
                let message = error.message.as_ref().filter(|message| !message.is_empty());
                parts.extend(match (name, message) {
                    (Some(name), Some(message)) => Some(format!("{name}: {message}")),
                    (name, message) => message.or(name).cloned(),
                });
                next = error.cause.as_ref().or(error.reason.as_ref());
            }
            Diagnostic::Cause { reasons, .. } => {
                next = reasons.iter().find_map(|reason| match reason {
                    CauseReason::Fail { error } => Some(error),
                    CauseReason::Die { defect } => Some(defect),
                    CauseReason::Interrupt { .. } => None,
                });
            }
            Diagnostic::Value { value } => parts.extend(match value {
                Scalar::Text(text) => Some(text.clone()),
                Scalar::Number(number) => Some(number.to_string()),
                Scalar::Bool(_) | Scalar::Null => None,
            }),
            Diagnostic::Omitted { .. } => {}
        }
    }
    // A message often says what its cause says.
    parts.dedup_by(|later, earlier| earlier.contains(&**later));
    (!parts.is_empty()).then(|| parts.join(": "))
}
