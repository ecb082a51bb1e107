//! Where a message stands, in words.

use recount_core::{
    Instant, ThreadId,
    delivery::{
        DeliveryEvent, MessageDeliveryRecord, MessageDeliveryStatus as Status, ParkReason,
        ParkedBy, RetryReason,
    },
};
use serde::Serialize;

use super::{Answer, Attempt, Timeline, TimelineEntry};

/// Where a message stands, why, what moves it next, and by when.
///
/// The words are for people and may change; the facts are in the record.
///
/// # Examples
///
/// ```
/// use recount_core::{
///     DomainEvent, EventBatch, EventDraft, Metadata, Position, StreamName,
///     delivery::OutboxLimits, log::jsonl::JsonlRows, write_row,
/// };
/// use recount_projections::{Explanation, TimelineOptions, timeline};
/// # use recount_core::doc::message;
///
/// let message = message("m-1");
/// let (key, at) = (message.key.clone(), message.created_at_millis);
/// let prepared = message.decide(&OutboxLimits::default())?;
/// let draft = EventDraft::of(&DomainEvent::Delivery(prepared.into()), Metadata::default());
/// let stream = StreamName::delivery(&key.owner_thread_id);
/// let batch = EventBatch::seal(stream, None, [draft], at)?;
/// let mut text = Vec::new();
/// write_row(&mut text, Position::ZERO, &batch.events()[0]);
///
/// let timeline = timeline(JsonlRows::new(&*text), &key, &TimelineOptions::default())?;
/// let explanation = Explanation::of(&timeline).expect("it was prepared");
/// assert_eq!(explanation.why, "Nobody has tried it yet.");
/// assert_eq!((explanation.by, explanation.as_of), (Some(at), Some(at)));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Explanation {
    /// Where it stands.
    pub standing: String,
    /// Why.
    pub why: String,
    /// What moves it next.
    pub next: String,
    /// When it is looked at next; none where nothing moves it by itself.
    pub by: Option<Instant>,
    /// As of when all of this is told, by the clocks of those who wrote the log.
    pub as_of: Option<Instant>,
    /// For how many milliseconds it has been due then, where it has.
    pub overdue_millis: Option<u64>,
    /// The thread that it is for.
    pub destination: ThreadId,
    /// What was asked of its destination each time, and what came of it.
    pub attempts: Vec<Attempt>,
}

impl Explanation {
    /// Explains a message; `None` where it was never prepared.
    pub fn of(timeline: &Timeline) -> Option<Self> {
        let record = timeline.record.as_ref()?;
        let attempts = Attempt::of(&timeline.entries);
        let about = About { timeline, record, attempts: &attempts };
        let (standing, why, next) = match record.status {
            Status::Pending | Status::Accepted if record.lease_until_millis.is_some() => {
                about.under_way()
            }
            Status::Pending if about.is_held_back() => about.behind(),
            Status::Pending => about.pending(),
            Status::Accepted => about.accepted(),
            Status::Processed => about.processed(),
            Status::Refused => about.refused(),
            Status::Parked => about.parked(),
        };
        let by = record.effective_deadline();
        let overdue_millis = about.overdue_millis(by);
        let (as_of, destination) = (timeline.as_of, record.envelope.thread_id.clone());
        Some(Self { standing, why, next, by, as_of, overdue_millis, destination, attempts })
    }
}

/// What is explained.
struct About<'a> {
    timeline: &'a Timeline,
    record: &'a MessageDeliveryRecord,
    attempts: &'a [Attempt],
}

/// Standing, reason and what comes next.
type Words = (String, String, String);

const NOTHING: &str = "Nothing: it is finished.";

impl About<'_> {
    fn overdue_millis(&self, by: Option<Instant>) -> Option<u64> {
        let over = self.timeline.as_of?.as_millis().checked_sub(by?.as_millis())?;
        (over > 0).then_some(over)
    }

    fn under_way(&self) -> Words {
        let lease = self.record.lease_until_millis.unwrap_or_default();
        let status = self.record.status.as_str();
        let what = match self.record.status {
            Status::Accepted => "asked what became of it",
            _ => "asked to admit it",
        };
        let began = self.attempts.last().map(|it| it.began_at_millis).unwrap_or_default();
        let number = self.record.retry.attempts;
        let after = if lease >= self.record.deadline_at_millis {
            "a driver parks it, since that is its deadline".to_owned()
        } else {
            self.unless_used_up("takes it again")
        };
        if self.overdue_millis(Some(lease)).is_some() {
            return (
                format!("{status}, attempt {number} was lost"),
                format!(
                    "Its destination was {what} at {began}, and nothing is recorded of the answer, \
                     though the lease ended at {lease}."
                ),
                format!("At its next look, {after}."),
            );
        }
        (
            format!("{status}, attempt {number} is under way"),
            format!(
                "Its destination was {what} at {began}, and nothing is recorded of the answer yet."
            ),
            format!("The answer. If none is recorded by {lease}, when the lease ends, {after}."),
        )
    }

    fn is_held_back(&self) -> bool {
        let predecessor = self.timeline.predecessor.as_ref();
        self.record.predecessor.is_some()
            && predecessor.is_none_or(|predecessor| !predecessor.is_admission_known())
    }

    fn behind(&self) -> Words {
        let id = self.record.predecessor.as_ref().map(ToString::to_string).unwrap_or_default();
        let stands = match &self.timeline.predecessor {
            None => "was never prepared".to_owned(),
            Some(it) => format!("is {}: neither admitted nor refused yet", it.status.as_str()),
        };
        (
            format!("pending, behind {id:?}"),
            format!("It goes after {id:?}, which {stands}."),
            self.unless_deadline(&format!("a driver puts it off again while {id:?} is neither")),
        )
    }

    fn pending(&self) -> Words {
        let retry = &self.record.retry;
        let mut why = match self.tried() {
            None => "Nobody has tried it yet.".to_owned(),
            Some(tried) => format!("{tried} {}", self.attempts_used()),
        };
        if retry.generation > 0 && retry.automatic_attempts == 0 {
            let is_recovered =
                |entry: &&TimelineEntry| matches!(entry.event, DeliveryEvent::Recovered(_));
            let recovered = self.applied().find(is_recovered);
            why.push_str(&format!(" It was recovered{}.", by(recovered)));
        }
        let next = self.unless_used_up(&format!("makes attempt {}", retry.attempts + 1));
        ("pending, to be delivered".to_owned(), why, self.unless_deadline(&next))
    }

    fn accepted(&self) -> Words {
        let receipt = self.record.receipt.as_ref();
        let receipt = receipt.map_or_else(String::new, |receipt| {
            format!(", as submission {} with receipt {}", receipt.submission_id, receipt.receipt_id)
        });
        let mut why = format!("Its destination admitted it{receipt}, and is not known to be done.");
        if self.record.retry.last_failure.is_some()
            && let Some(tried) = self.tried()
        {
            why.push_str(&format!(" {tried} {}", self.attempts_used()));
        }
        if let Some(DeliveryEvent::Notified(told)) = self.applied().next().map(|it| &it.event) {
            let at = told.at_millis;
            why.push_str(&format!(" Its host was told at {at} that there is something to see."));
        }
        let next = self.unless_deadline("a driver asks what became of it");
        ("accepted, to be settled".to_owned(), why, next)
    }

    fn processed(&self) -> Words {
        let Some(settlement) = &self.record.settlement else {
            return ("processed".to_owned(), String::new(), NOTHING.to_owned());
        };
        let outcome = settlement.outcome.as_str();
        let failure = settlement.failure.as_ref();
        let failure = failure.map(|it| format!(": {}: {}", it.error_tag, it.message));
        let why = format!(
            "Its destination settled it as {outcome} at {}{}.",
            settlement.settled_at,
            failure.unwrap_or_default()
        );
        (format!("processed ({outcome})"), why, NOTHING.to_owned())
    }

    fn refused(&self) -> Words {
        let code = self.record.refusal.as_ref().map(ToString::to_string).unwrap_or_default();
        let at = self.last_event_at();
        let why =
            format!("Its destination refused it at {at} with the code {code}{}.", self.said());
        (format!("refused ({code})"), why, NOTHING.to_owned())
    }

    fn parked(&self) -> Words {
        let record = self.record;
        let missing = if record.receipt.is_some() { "settled" } else { "admitted" };
        let last = self.applied().next();
        let at = self.last_event_at();
        let reason = record.park_reason.unwrap_or(ParkReason::Exhausted);
        let by_wish = last.is_some_and(|entry| {
            matches!(&entry.event, DeliveryEvent::Parked(parked) if parked.by == ParkedBy::Park)
        });
        let is_unknown = reason == ParkReason::StatusUnavailable && record.receipt.is_some();
        let (standing, mut why) = match reason {
            _ if by_wish && !is_unknown => {
                (format!("parked ({})", reason.as_str()), format!("It was not {missing}."))
            }
            ParkReason::Exhausted => (
                "parked, its automatic attempts are used up".to_owned(),
                format!("It was not {missing}. {}", self.attempts_used()),
            ),
            ParkReason::Deadline => (
                "parked, its deadline came".to_owned(),
                format!("It was not {missing} by its deadline, {}.", record.deadline_at_millis),
            ),
            ParkReason::StatusUnavailable => (
                "parked, its destination cannot tell what became of it".to_owned(),
                "It was admitted, and its destination did not tell what became of it.".to_owned(),
            ),
        };
        if by_wish {
            let reason = reason.as_str();
            let (by, said) = (by(last), self.said());
            why.push_str(&format!(" It was parked at {at}{by} with the reason {reason}{said}."));
        } else {
            if let Some(tried) = self.tried() {
                why.push_str(&format!(" {tried}"));
            }
            why.push_str(&format!(" It was parked at {at}."));
        }
        let again = if record.receipt.is_some() { "asked about" } else { "delivered" };
        let next = format!(
            "A person: nothing moves it by itself. Once its host recovers it with a new deadline it \
             is {again} again at once."
        );
        (standing, why, next)
    }

    /// What a driver does, if it may still try.
    fn unless_used_up(&self, what: &str) -> String {
        let used = self.record.retry.automatic_attempts;
        if used >= self.record.policy.max_automatic_attempts {
            return "a driver parks it, since no automatic attempt is left".to_owned();
        }
        format!("a driver {what}")
    }

    /// What a driver does when it looks next, unless the deadline has come by then.
    fn unless_deadline(&self, what: &str) -> String {
        let (next, deadline) =
            (self.record.retry.next_attempt_at_millis, self.record.deadline_at_millis);
        if next >= deadline {
            return format!("At {deadline}, its deadline, a driver parks it.");
        }
        format!("At {next} {what}. From {deadline} on, its deadline, it is parked instead.")
    }

    /// How the last attempt ended, and where that is not known, the last one of which it is;
    /// nothing where there was none.
    fn tried(&self) -> Option<String> {
        let latest = self.attempts.last()?;
        let failed = self.attempts.iter().rev().find_map(failure);
        let Attempt { number, began_at_millis, lease_until_millis, .. } = latest;
        let lost = format!(
            "Attempt {number}, begun at {began_at_millis}, was lost: its lease ended at \
             {lease_until_millis}, and nothing is recorded of the answer."
        );
        match (&latest.answer, failed) {
            (Answer::Lost, Some(failed)) => Some(format!("{failed} {lost}")),
            (Answer::Lost, None) => Some(lost),
            (_, failed) => failed,
        }
    }

    fn attempts_used(&self) -> String {
        let used = self.record.retry.automatic_attempts;
        let max = self.record.policy.max_automatic_attempts;
        format!("{used} of {max} automatic attempts are used.")
    }

    /// The events that were applied, the last first.
    fn applied(&self) -> impl Iterator<Item = &TimelineEntry> {
        self.timeline.entries.iter().rev().filter(|entry| entry.ignored.is_none())
    }

    /// What the last event tells of a failure, behind a colon.
    fn said(&self) -> String {
        let said = self.applied().next().and_then(TimelineEntry::said);
        said.map(|said| format!(": {said}")).unwrap_or_default()
    }

    fn last_event_at(&self) -> Instant {
        self.applied().next().map(|entry| entry.event.at()).unwrap_or_default()
    }
}

/// Who wrote an event, behind `by`.
fn by(entry: Option<&TimelineEntry>) -> String {
    let actor = entry.and_then(|entry| entry.metadata.actor.as_ref());
    actor.map(|actor| format!(" by {actor}")).unwrap_or_default()
}

/// How an attempt failed, if it did.
fn failure(attempt: &Attempt) -> Option<String> {
    let (Answer::Failed { reason } | Answer::Parked { failure: Some(reason), .. }) =
        &attempt.answer
    else {
        return None;
    };
    let reason = match reason {
        RetryReason::Transport => "its destination was not reached",
        RetryReason::Capacity => "its destination was full",
        RetryReason::Storage => "its destination's storage was away",
        RetryReason::HostClosed => "its destination's host was closing",
        RetryReason::Timeout => "there was no answer in time",
        RetryReason::Ambiguous => "nobody knows what happened",
    };
    let Attempt { number, began_at_millis, said, .. } = attempt;
    let said = said.as_ref().map(|said| format!(" ({said})")).unwrap_or_default();
    Some(format!("Attempt {number}, begun at {began_at_millis}, failed: {reason}{said}."))
}
