//! All that happened to one message, and what each event changed.

mod attempt;
mod change;
mod explain;

pub use attempt::{Answer, Attempt, Question};
pub use change::FieldChange;
pub use explain::Explanation;

use memchr::memmem::FinderRev;
use recount_core::{
    DomainEvent, Instant, MessageId, Metadata, Position, Revision, Row, StreamName,
    delivery::{DeliveryEvent, Ignored, MessageDeliveryKey, MessageDeliveryRecord},
    log::{Block, Line, Place, RowSource},
};
use serde_json::Value;

use crate::{
    ReplayError, Rules, Until,
    examine::{ExaminedRow, Examiner, Unreadable},
    verify::{Chain, outbox},
};

/// How the events of a message are read.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct TimelineOptions {
    /// Up to where the log is looked at; to its end where it is `None`.
    pub until: Option<Until>,
    /// Whether what does not fit in the message's outbox is skipped and counted.
    pub keep_going: bool,
    /// Whether it is told what each event changed.
    pub with_changes: bool,
}

/// All that happened to one message.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Timeline {
    /// Which message.
    pub key: MessageDeliveryKey,
    /// Its events, in order; none where it was never prepared.
    pub entries: Vec<TimelineEntry>,
    /// Where it stands after them.
    pub record: Option<MessageDeliveryRecord>,
    /// The message that goes before it, where it has one that was prepared.
    pub predecessor: Option<MessageDeliveryRecord>,
    /// How many events its outbox has.
    pub outbox_events: u64,
    /// Messages of its outbox, the first in the order of their ids.
    pub outbox_messages: Vec<MessageId>,
    /// Rows and events of its outbox that were skipped, and why.
    pub skipped: Vec<(Place, String)>,
    /// As of when it is told: when the log's last event was recorded, or the time that was asked
    /// for; for a position, when the outbox's last event up to there was.
    pub as_of: Option<Instant>,
}

/// An event of a message.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TimelineEntry {
    /// Its place in the log.
    pub position: Position,
    /// Its place in the stream.
    pub revision: Revision,
    /// When it was recorded.
    pub recorded_at: Instant,
    /// What its writer said beside it.
    pub metadata: Metadata,
    /// What happened.
    pub event: DeliveryEvent,
    /// The message's version after it.
    pub version: u64,
    /// What it changed in the record, where that is wanted; nothing for the first, whose record is
    /// all new.
    pub changes: Vec<FieldChange>,
    /// The end of a lease that nothing was heard of, which the event shows.
    pub lost_attempt: Option<Instant>,
    /// Why it changed nothing, where no writer that keeps the rules would have written it.
    pub ignored: Option<Ignored>,
}

impl TimelineEntry {
    /// What the event tells of a failure, in a line.
    pub fn said(&self) -> Option<String> {
        attempt::said(&self.event)
    }
}

/// How many messages are named beside one that is not there.
const NAMED_MESSAGES: usize = 5;

/// Reads all that happened to one message.
///
/// Only the rows of the message's outbox are read, and held to the rules of the log itself: that
/// none is edited, or missing before another of them. Rows that do not tell whose they are, such as
/// a cut one, are among the skipped. Whatever else is in the log is for `verify`.
///
/// # Errors
///
/// [`ReplayError::Bad`] at the first event of the outbox that is damaged or unknown, unless they
/// are skipped; those of the source.
///
/// # Examples
///
/// ```
/// use recount_core::{delivery::MessageDeliveryKey, log::jsonl::JsonlRows};
/// use recount_projections::{TimelineOptions, timeline};
///
/// let key: MessageDeliveryKey =
///     serde_json::from_str(r#"{"messageId":"m-1","ownerThreadId":"sender"}"#)?;
/// let timeline = timeline(JsonlRows::new(&b""[..]), &key, &TimelineOptions::default())?;
/// assert!(timeline.record.is_none() && timeline.entries.is_empty());
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub fn timeline(
    mut source: impl RowSource,
    key: &MessageDeliveryKey,
    options: &TimelineOptions,
) -> Result<Timeline, ReplayError> {
    let stream = StreamName::delivery(&key.owner_thread_id);
    let mut reader = Reader {
        examiner: Examiner { only: Some(&stream), ..Examiner::of(Rules::REPLAY) },
        finder: FinderRev::new(STREAM),
        before: None,
        options,
        chain: Chain::default(),
        timeline: Timeline {
            key: key.clone(),
            entries: Vec::new(),
            record: None,
            predecessor: None,
            outbox_events: 0,
            outbox_messages: Vec::new(),
            skipped: Vec::new(),
            as_of: None,
        },
        last_row: Vec::new(),
        recorded_at: None,
    };
    let mut block = Block::default();
    while source.next(&mut block)? {
        if let Some(line) = block.oversized() {
            reader.chain.next_line();
            reader.unreadable(&Unreadable::oversized(line.length), line.offset);
        }
        let mut last = None;
        for line in block.lines() {
            reader.chain.next_line();
            last = Some(line.bytes);
            // Nearly all rows of a text are of other outboxes, and need not be read to know it.
            if line.listed.is_some() || reader.may_be_ours(line.bytes) {
                reader.line(line)?;
            }
        }
        if let Some(last) = last {
            reader.last_row.clear();
            reader.last_row.extend_from_slice(last);
        }
    }
    reader.finish()
}

struct Reader<'a> {
    examiner: Examiner<'a>,
    finder: FinderRev<'a>,
    /// The record before the next event, where changes are wanted.
    before: Option<Value>,
    options: &'a TimelineOptions,
    chain: Chain,
    timeline: Timeline,
    /// The last row of all, whosever it is.
    last_row: Vec<u8>,
    /// When the outbox's last event was recorded.
    recorded_at: Option<Instant>,
}

/// What stands before the name of a stream in every row; behind the name there is little more.
const STREAM: &[u8] = b",\"stream\":\"";

impl Reader<'_> {
    /// Whether a row is of the outbox, or does not say whose it is.
    fn may_be_ours(&self, row: &[u8]) -> bool {
        let Some(at) = self.finder.rfind(row) else { return true };
        let name = self.examiner.only.unwrap_or_default().as_bytes();
        let rest = row[at + STREAM.len()..].strip_prefix(name);
        rest.is_some_and(|rest| rest.first() == Some(&b'"'))
    }

    /// Counts a row that cannot be read; whose it is, is not known.
    fn unreadable(&mut self, line: &Unreadable, offset: Option<u64>) {
        let place = self.chain.place_of(line, offset);
        self.timeline.skipped.push((place, line.to_string()));
    }

    fn line(&mut self, line: Line<'_>) -> Result<(), ReplayError> {
        let row = match self.examiner.examine(line) {
            Ok(row) => row,
            Err(unreadable) => {
                self.unreadable(&unreadable, line.offset);
                return Ok(());
            }
        };
        let is_past = self.options.until.is_some_and(|until| until.is_past(row.position));
        if Some(&*row.stream) != self.examiner.only || is_past {
            return Ok(());
        }
        let (stream, mut links) = self.chain.check(&row);
        // Rows of other outboxes, which stand between, are not looked at.
        links.broken.retain(|(rule, _)| *rule != recount_core::Invariant::L1);
        if let Some((rule, why)) = links.error() {
            return self.bad(self.chain.place(&row, line.offset), format!("{rule}: {why}"));
        }
        let recorded_at = self.chain.stream_mut(stream).recorded_at();
        if self.options.until.is_some_and(|until| !until.includes(row.position, recorded_at)) {
            return Ok(());
        }
        self.timeline.outbox_events += 1;
        self.recorded_at = Some(recorded_at);
        let event = match &row.event {
            Some(Ok(DomainEvent::Delivery(event))) => event,
            Some(Err(undecodable)) => {
                let why = undecodable.error.to_string();
                return self.bad(self.chain.place(&row, line.offset), why);
            }
            None => return Ok(()),
        };
        let is_ours = *event.message_id() == self.timeline.key.message_id;
        let followed = match outbox(self.chain.stream_mut(stream), event) {
            Ok(outbox) => outbox.follow(event),
            Err(_) => Err(Ignored::Unknown),
        };
        if is_ours {
            let followed = followed.map(|it| (it.record.clone(), it.lost_attempt));
            self.enter(&row, line, event, followed);
        }
        Ok(())
    }

    fn enter(
        &mut self,
        row: &ExaminedRow,
        line: Line<'_>,
        event: &DeliveryEvent,
        followed: Result<(MessageDeliveryRecord, Option<Instant>), Ignored>,
    ) {
        let timeline = &mut self.timeline;
        let (mut changes, mut lost_attempt, mut ignored) = (Vec::new(), None, None);
        match followed {
            Ok((record, lost)) => {
                lost_attempt = lost;
                if self.options.with_changes {
                    let after = json(&record);
                    let before = self.before.replace(after.clone());
                    changes = before.map_or(Vec::new(), |it| FieldChange::between(&it, &after));
                }
                timeline.record = Some(record);
            }
            Err(why) => ignored = Some(why),
        }
        timeline.entries.push(TimelineEntry {
            position: row.position,
            revision: row.revision,
            recorded_at: row.recorded_at,
            metadata: metadata(line),
            event: event.clone(),
            version: timeline.record.as_ref().map_or(0, |record| record.version),
            changes,
            lost_attempt,
            ignored,
        });
    }

    fn bad(&mut self, place: Place, why: String) -> Result<(), ReplayError> {
        if !self.options.keep_going {
            return Err(ReplayError::Bad { place, why });
        }
        self.timeline.skipped.push((place, why));
        Ok(())
    }

    fn finish(mut self) -> Result<Timeline, ReplayError> {
        self.timeline.as_of = self.as_of()?;
        if let Some(outbox) = self.chain.streams().first().and_then(|it| it.outbox.as_ref()) {
            let mut messages: Vec<_> =
                outbox.records().map(|record| record.key.message_id.clone()).collect();
            messages.sort_unstable();
            messages.truncate(NAMED_MESSAGES);
            self.timeline.outbox_messages = messages;
            let predecessor = self.timeline.record.as_ref().and_then(|it| it.predecessor.as_ref());
            let predecessor = predecessor.and_then(|id| outbox.record(id));
            self.timeline.predecessor = predecessor.cloned();
        }
        Ok(self.timeline)
    }

    /// As of when it is told.
    fn as_of(&self) -> Result<Option<Instant>, ReplayError> {
        let mut spare = String::new();
        let last = match Row::read(&self.last_row, &mut spare) {
            Ok(row) => Some(row.recorded_at),
            Err(_) if self.last_row.is_empty() => None,
            // What has nothing of the outbox may be no log at all.
            Err(error) if self.timeline.outbox_events == 0 && !self.options.keep_going => {
                let place = Place { line: Some(self.chain.line()), ..Place::default() };
                return Err(ReplayError::Bad { place, why: error.to_string() });
            }
            Err(_) => self.recorded_at,
        };
        Ok(match self.options.until {
            None => last,
            Some(Until::Instant(until)) => last.map(|last| last.min(until)),
            Some(Until::Position(_)) => self.recorded_at,
        })
    }
}

fn json(record: &MessageDeliveryRecord) -> Value {
    serde_json::to_value(record).expect("a record is JSON")
}

/// What the writer of a row that was examined says beside its event.
fn metadata(line: Line<'_>) -> Metadata {
    let mut spare = String::new();
    let row = Row::read(line.bytes, &mut spare).ok();
    row.and_then(|row| serde_json::from_str(row.metadata).ok()).unwrap_or_default()
}
