//! Numbers about a log: what happened how often, and how long it took.

mod spread;

pub use spread::Spread;

use std::collections::BTreeMap;

use hashbrown::HashMap;
use recount_core::{
    Instant,
    delivery::{DeliveryEvent, Followed, MessageDeliveryKey, MessageDeliveryRecord, ParkedBy},
    log::RowSource,
};
use serde::Serialize;

use self::spread::Numbers;
use crate::{ReplayError, Until, examine::ExaminedRow, walk::Walk};

/// What is counted.
///
/// # Examples
///
/// ```
/// use recount_projections::StatsOptions;
///
/// let options = StatsOptions::default();
/// assert_eq!((options.jobs, options.top, options.until), (1, 10, None));
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct StatsOptions {
    /// Threads that examine rows; the fold has one more where there are several.
    pub jobs: usize,
    /// Whether what cannot be read, or does not fit, is skipped and counted.
    pub keep_going: bool,
    /// Up to where the log is looked at; to its end where it is `None`.
    pub until: Option<Until>,
    /// How many of the streams and refusal codes that come up most are named.
    pub top: usize,
}

impl Default for StatsOptions {
    /// One job, all of the log, ten names, and the first bad event ends it.
    fn default() -> Self {
        Self { jobs: 1, keep_going: false, until: None, top: 10 }
    }
}

/// Numbers about a log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Stats {
    /// Events that were read.
    pub events: u64,
    /// Streams that have any.
    pub streams: u64,
    /// Messages that were prepared.
    pub messages: u64,
    /// Lines and events that were skipped.
    pub skipped: u64,
    /// Events that changed nothing, since no writer that keeps the rules writes them.
    pub ignored: u64,
    /// Whether later events were left out, as was asked for.
    pub is_cut: bool,
    /// The last position that was looked at; none of an empty log.
    pub last_position: Option<u64>,
    /// When the first event was recorded, by the writers' clocks.
    pub first_recorded_at_millis: Option<Instant>,
    /// When the last one was.
    pub last_recorded_at_millis: Option<Instant>,
    /// How many events there are of each type.
    pub events_by_type: BTreeMap<&'static str, u64>,
    /// How many were recorded on each day, in UTC.
    pub events_by_day: BTreeMap<String, u64>,
    /// The streams with the most events, and how many.
    pub busiest_streams: Vec<Named>,
    /// How many messages stand where.
    pub messages_by_status: BTreeMap<&'static str, u64>,
    /// How many of them are parked, by why.
    pub parked_by_reason: BTreeMap<&'static str, u64>,
    /// What went wrong last with those that are parked; not those that never failed.
    pub parked_by_failure: BTreeMap<&'static str, u64>,
    /// The destinations that most parked messages are for, and how many.
    pub parked_by_destination: Vec<Named>,
    /// How many unfinished messages were due before the last event was recorded.
    pub overdue: u64,
    /// How often a message was parked, by why.
    pub parks_by_reason: BTreeMap<&'static str, u64>,
    /// The codes that most messages were refused with, and how many.
    pub refusals: Vec<Named>,
    /// How often a person recovered a message.
    pub recoveries: u64,
    /// How often a message was put off behind its predecessor.
    pub deferrals: u64,
    /// How often a host was told that there is something to see.
    pub notifications: u64,
    /// Attempts in all.
    pub attempts: u64,
    /// What came of them: `admitted`, `stillPending`, `settled`, `refused`, `parked` by whoever made
    /// it, `failed.` with a reason, `overtaken` where its host was told something meanwhile, `lost`
    /// where the lease ended and nothing is recorded, and `underWay` at the end of the log.
    pub answers: BTreeMap<String, u64>,
    /// How many attempts a message has had.
    pub attempts_per_message: Spread,
    /// From preparation to admission, in milliseconds.
    pub prepared_to_accepted: Spread,
    /// From admission to settlement, in milliseconds.
    pub accepted_to_processed: Spread,
    /// From preparation to settlement, in milliseconds.
    pub prepared_to_processed: Spread,
    /// Spans that are in none of these, since the later instant is before the earlier one.
    pub clock_went_back: u64,
}

/// A name and how often it came up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Named {
    /// The name.
    pub name: String,
    /// How often.
    pub count: u64,
}

/// Counts what is in a log, in one pass.
///
/// Memory follows unfinished messages, streams, and refusal codes that differ.
///
/// # Errors
///
/// [`ReplayError::Bad`] at the first event that is damaged or unknown, unless they are skipped;
/// those of the source.
///
/// # Examples
///
/// ```
/// use recount_core::log::jsonl::JsonlRows;
/// use recount_projections::{StatsOptions, stats};
///
/// let stats = stats(JsonlRows::new(&b""[..]), &StatsOptions::default())?;
/// assert_eq!((stats.events, stats.attempts_per_message.count), (0, 0));
/// # Ok::<_, recount_projections::ReplayError>(())
/// ```
pub fn stats(source: impl RowSource + Send, options: &StatsOptions) -> Result<Stats, ReplayError> {
    let walk = Walk {
        jobs: options.jobs,
        keep_going: options.keep_going,
        until: options.until,
        only: None,
    };
    let mut counter = Counter::default();
    let walked = walk.through(source, |row, event, followed| {
        counter.event(row, event, followed);
        Ok(())
    })?;
    for record in walked.unfinished() {
        counter.leave(record);
    }
    Ok(Stats {
        events: walked.events,
        streams: counter.events_by_stream.len() as u64,
        skipped: walked.skipped,
        ignored: walked.ignored,
        events_by_day: counter
            .events_by_day
            .into_iter()
            .map(|(day, count)| (date(day), count))
            .collect(),
        busiest_streams: most(counter.events_by_stream, options.top),
        refusals: most(counter.refusals, options.top),
        parked_by_destination: most(counter.parked_by_destination, options.top),
        is_cut: walked.is_cut,
        last_position: walked.last_position,
        attempts_per_message: counter.attempts_per_message.spread(),
        prepared_to_accepted: counter.prepared_to_accepted.spread(),
        accepted_to_processed: counter.accepted_to_processed.spread(),
        prepared_to_processed: counter.prepared_to_processed.spread(),
        ..counter.stats
    })
}

const MILLIS_PER_DAY: u64 = 86_400_000;

/// What is counted while the log is walked through.
#[derive(Default)]
struct Counter {
    stats: Stats,
    events_by_stream: HashMap<String, u64>,
    refusals: HashMap<String, u64>,
    parked_by_destination: HashMap<String, u64>,
    /// By the number of the day since the epoch.
    events_by_day: BTreeMap<u64, u64>,
    /// When unfinished messages were admitted.
    accepted: HashMap<MessageDeliveryKey, Instant>,
    attempts_per_message: Numbers,
    prepared_to_accepted: Numbers,
    accepted_to_processed: Numbers,
    prepared_to_processed: Numbers,
}

impl Counter {
    fn event(&mut self, row: &ExaminedRow, event: &DeliveryEvent, followed: Option<&Followed<'_>>) {
        let Stats { first_recorded_at_millis, last_recorded_at_millis, .. } = &mut self.stats;
        first_recorded_at_millis.get_or_insert(row.recorded_at);
        *last_recorded_at_millis = Some(row.recorded_at);
        *self.stats.events_by_type.entry(event.event_type()).or_default() += 1;
        *self.events_by_stream.entry_ref(&*row.stream).or_default() += 1;
        let day = row.recorded_at.as_millis() / MILLIS_PER_DAY;
        *self.events_by_day.entry(day).or_default() += 1;
        if let Some(followed) = followed {
            self.change(event, followed);
        }
    }

    fn change(&mut self, event: &DeliveryEvent, followed: &Followed<'_>) {
        let record = followed.record;
        if followed.lost_attempt.is_some() {
            self.answer("lost");
        }
        match event {
            DeliveryEvent::Prepared(_) => self.stats.messages += 1,
            DeliveryEvent::Claimed(_) => self.stats.attempts += 1,
            DeliveryEvent::Accepted(event) => {
                self.answer("admitted");
                self.accepted.insert(record.key.clone(), event.at_millis);
                let went_back = &mut self.stats.clock_went_back;
                let span = (record.created_at_millis, event.at_millis);
                self.prepared_to_accepted.add_span(span, went_back);
            }
            DeliveryEvent::Observed(_) => self.answer("stillPending"),
            DeliveryEvent::Processed(event) => {
                self.answer("settled");
                let (end, went_back) = (event.at_millis, &mut self.stats.clock_went_back);
                let whole = (record.created_at_millis, end);
                self.prepared_to_processed.add_span(whole, went_back);
                if let Some(accepted) = self.accepted.remove(&record.key) {
                    self.accepted_to_processed.add_span((accepted, end), went_back);
                }
                self.leave(record);
            }
            DeliveryEvent::Refused(event) => {
                self.answer("refused");
                *self.refusals.entry_ref(&*event.code).or_default() += 1;
                self.accepted.remove(&record.key);
                self.leave(record);
            }
            DeliveryEvent::Retried(event) => {
                self.answer(&format!("failed.{}", event.reason.as_str()));
            }
            DeliveryEvent::Parked(event) => {
                *self.stats.parks_by_reason.entry(event.reason.as_str()).or_default() += 1;
                match event.retry_reason {
                    Some(reason) => self.answer(&format!("failed.{}", reason.as_str())),
                    None if event.by == ParkedBy::Observe => self.answer("stillPending"),
                    None if followed.was_leased && followed.lost_attempt.is_none() => {
                        self.answer("parked");
                    }
                    // A claim that parks is no attempt, and neither is a deferral.
                    None => {}
                }
            }
            DeliveryEvent::Recovered(_) => self.stats.recoveries += 1,
            DeliveryEvent::Deferred(_) => self.stats.deferrals += 1,
            DeliveryEvent::Notified(_) => {
                self.stats.notifications += 1;
                if followed.was_leased && followed.lost_attempt.is_none() {
                    self.answer("overtaken");
                }
            }
        }
    }

    fn answer(&mut self, what: &str) {
        *self.stats.answers.entry(what.to_owned()).or_default() += 1;
    }

    /// Counts where a message stands that nothing more is heard of.
    fn leave(&mut self, record: &MessageDeliveryRecord) {
        self.attempts_per_message.add(record.retry.attempts);
        *self.stats.messages_by_status.entry(record.status.as_str()).or_default() += 1;
        if let Some(reason) = record.park_reason {
            *self.stats.parked_by_reason.entry(reason.as_str()).or_default() += 1;
            if let Some(failure) = record.retry.last_failure {
                *self.stats.parked_by_failure.entry(failure.as_str()).or_default() += 1;
            }
            let destination = &*record.envelope.thread_id;
            *self.parked_by_destination.entry_ref(destination).or_default() += 1;
        }
        let (due, end) = (record.effective_deadline(), self.stats.last_recorded_at_millis);
        self.stats.overdue += u64::from(due.is_some() && due < end);
        if record.lease_until_millis.is_some() {
            self.answer("underWay");
        }
    }
}

/// A day since the epoch as a date.
fn date(day: u64) -> String {
    let midnight = Instant::from_millis(day * MILLIS_PER_DAY).unwrap_or(Instant::MAX).to_string();
    midnight.split('T').next().unwrap_or_default().to_owned()
}

/// The names that come up most; equally many in the order of their names.
fn most(counts: HashMap<String, u64>, top: usize) -> Vec<Named> {
    let mut counts: Vec<_> =
        counts.into_iter().map(|(name, count)| Named { name, count }).collect();
    counts.sort_unstable_by(|left, right| {
        right.count.cmp(&left.count).then_with(|| left.name.cmp(&right.name))
    });
    counts.truncate(top);
    counts
}

#[cfg(test)]
mod tests {
    use recount_core::{
        delivery::{Accepted, Outbox, OutboxLimits, Processed, Refused},
        doc::message,
    };
    use serde_json::{from_value, json};

    use super::*;

    #[test]
    fn nothing_is_kept_of_messages_that_are_finished() {
        let mut counter = Counter::default();
        let mut outbox = Outbox::new("sender".parse().unwrap());
        let mut change = |event: DeliveryEvent| {
            counter.change(&event, &outbox.follow(&event).unwrap());
            counter.accepted.len()
        };
        for (id, kept) in [("processed", 1), ("refused", 2)] {
            change(message(id).decide(&OutboxLimits::default()).unwrap().into());
            let receipt = json!({
                "queueSequence": 1, "receiptId": "r", "submissionId": "s", "threadId": "receiver",
            });
            let accepted: Accepted = from_value(json!({
                "atMillis": 1_010, "messageId": id, "nextAttemptAtMillis": 1_060, "receipt": receipt,
            }))
            .unwrap();
            assert_eq!(change(accepted.into()), kept);
        }
        let processed: Processed = from_value(json!({
            "atMillis": 1_070,
            "messageId": "processed",
            "settlement": {
                "submissionId": "s", "settlementId": "t", "receiptId": "r",
                "outcome": "completed", "settledAt": "1970-01-01T00:00:01.070Z",
            },
        }))
        .unwrap();
        assert_eq!(change(processed.into()), 1);
        // No writer that keeps the rules refuses what it admitted; a stranger's log may say so.
        let refused: Refused =
            from_value(json!({"atMillis": 1_080, "code": "unwanted", "messageId": "refused"}))
                .unwrap();
        assert_eq!(change(refused.into()), 0);
        assert_eq!(counter.prepared_to_accepted.spread().count, 2);
        assert_eq!(counter.accepted_to_processed.spread().max, 60);
    }
}
