//! Rebuilding the records that a log's events fold to.

use std::io;

use recount_core::{
    Digest, DomainEvent, StreamName, ThreadId,
    delivery::{MessageDeliveryRecord, MessageDeliveryStatus, Outbox},
    log::{Place, RowSource},
};
use serde::Serialize;

use crate::{
    Rules, Until,
    examine::{Examined, ExaminedRow, Examiner, Unreadable},
    scan::{Content, scan},
    verify::{Chain, StreamIndex, outbox},
};

/// How a log is replayed.
///
/// # Examples
///
/// ```
/// use recount_projections::ReplayOptions;
///
/// let mut options = ReplayOptions::default();
/// assert_eq!((options.jobs, options.until), (1, None));
/// options.until = "2026-11-30T19:32:28Z".parse().ok();
/// assert!(options.until.is_some());
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReplayOptions {
    /// Threads that examine rows; the fold has one more where there are several.
    pub jobs: usize,
    /// Whether what cannot be read, or does not fit, is skipped and counted.
    pub keep_going: bool,
    /// Up to where the log is looked at; to its end where it is `None`.
    pub until: Option<Until>,
    /// Whose messages are wanted; everybody's where it is `None`.
    pub owner: Option<ThreadId>,
    /// Where the messages stand that are wanted; anywhere where there is none.
    pub statuses: Vec<MessageDeliveryStatus>,
}

impl Default for ReplayOptions {
    /// One job, all records as they are at the end, and the first bad event ends it.
    fn default() -> Self {
        Self { jobs: 1, keep_going: false, until: None, owner: None, statuses: Vec::new() }
    }
}

impl ReplayOptions {
    fn wants(&self, record: &MessageDeliveryRecord) -> bool {
        self.statuses.is_empty() || self.statuses.contains(&record.status)
    }
}

/// What a replay read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ReplaySummary {
    /// Events that were read.
    pub events: u64,
    /// Records that were rebuilt and wanted.
    pub records: u64,
    /// Lines and events that were skipped.
    pub skipped: u64,
    /// Events that changed nothing, since no writer that keeps the rules writes them.
    pub ignored: u64,
    /// The last position; none of an empty log.
    pub last_position: Option<u64>,
    /// The log's id: the digest of its first event.
    pub log_id: Option<Digest>,
}

/// Why a replay ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// An event cannot be read, or does not fit where it stands.
    #[error("the log cannot be replayed past {place}: {why}")]
    Bad {
        /// Where.
        place: Place,
        /// What is wrong there.
        why: String,
    },
    /// The source cannot be read, or the records cannot be written.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Rebuilds the records of a log.
///
/// A record is handed over when it is finished; those that are not come at the end, in the order
/// of their keys. So memory follows unfinished messages, and the order is that of the log.
///
/// The rules of the log itself are checked, those of the messages are not: `verify` does.
///
/// # Errors
///
/// [`ReplayError::Bad`] at the first event that is damaged or unknown, unless they are skipped;
/// those of the source and of `record`.
///
/// # Examples
///
/// ```
/// use recount_core::log::jsonl::JsonlRows;
/// use recount_projections::{ReplayOptions, replay};
///
/// let error = replay(JsonlRows::new(&b"{}"[..]), &ReplayOptions::default(), |_| Ok(())).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "the log cannot be replayed past position 0, line 1, byte 0: the last row is cut after 2 \
///      bytes; everything before it is usable, and `recount repair` moves it aside",
/// );
/// ```
pub fn replay(
    source: impl RowSource + Send,
    options: &ReplayOptions,
    record: impl FnMut(&MessageDeliveryRecord) -> io::Result<()>,
) -> Result<ReplaySummary, ReplayError> {
    let only = options.owner.as_ref().map(StreamName::delivery);
    let examiner = Examiner { only: only.as_deref(), ..Examiner::of(Rules::REPLAY) };
    let summary = ReplaySummary::default();
    let mut replayer = Replayer { options, record, chain: Chain::default(), summary };
    let scanned = scan(
        source,
        options.jobs,
        |line| examiner.examine(line),
        |line| {
            replayer.chain.next_line();
            match &line.content {
                Content::Examined(row) => replayer.line(row, line.offset),
                Content::Oversized { length } => {
                    Ok(replayer.unreadable(&Unreadable::oversized(*length), line.offset)?)
                }
            }
        },
    );
    match scanned {
        Ok(()) | Err(End::Reached) => replayer.finish(),
        Err(End::Failed(error)) => Err(error),
    }
}

/// Why the rows are not read to their end.
enum End {
    /// What is wanted was read.
    Reached,
    Failed(ReplayError),
}

impl<E: Into<ReplayError>> From<E> for End {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

struct Replayer<'a, F> {
    options: &'a ReplayOptions,
    record: F,
    chain: Chain,
    summary: ReplaySummary,
}

impl<F: FnMut(&MessageDeliveryRecord) -> io::Result<()>> Replayer<'_, F> {
    fn line(&mut self, examined: &Examined, offset: Option<u64>) -> Result<(), End> {
        let row = match examined {
            Ok(row) => row,
            Err(line) => return Ok(self.unreadable(line, offset)?),
        };
        if self.options.until.is_some_and(|until| until.is_past(row.position)) {
            return Err(End::Reached);
        }
        let (stream, links) = self.chain.check(row);
        if let Some((rule, why)) = links.error() {
            return Ok(self.bad(self.chain.place(row, offset), format!("{rule}: {why}"))?);
        }
        self.summary.log_id.get_or_insert(row.stated);
        let recorded_at = self.chain.stream_mut(stream).recorded_at();
        if self.options.until.is_some_and(|until| !until.includes(row.position, recorded_at)) {
            return Ok(());
        }
        self.summary.events += 1;
        self.summary.last_position = Some(row.position.get());
        Ok(self.event(stream, row, offset)?)
    }

    fn event(
        &mut self,
        stream: StreamIndex,
        row: &ExaminedRow,
        offset: Option<u64>,
    ) -> Result<(), ReplayError> {
        let event = match &row.event {
            Some(Ok(DomainEvent::Delivery(event))) => event,
            Some(Err(undecodable)) => {
                return self.bad(self.chain.place(row, offset), undecodable.error.to_string());
            }
            None => return Ok(()),
        };
        let Ok(outbox) = outbox(self.chain.stream_mut(stream), event) else {
            self.summary.ignored += 1;
            return Ok(());
        };
        let Ok(followed) = outbox.follow(event) else {
            self.summary.ignored += 1;
            return Ok(());
        };
        let is_finished = followed.record.status.is_finished();
        if is_finished && let Some(finished) = outbox.forget(event.message_id()) {
            self.hand_over(&finished)?;
        }
        Ok(())
    }

    fn unreadable(&mut self, line: &Unreadable, offset: Option<u64>) -> Result<(), ReplayError> {
        let place = self.chain.place_of(line, offset);
        self.bad(place, line.to_string())
    }

    fn bad(&mut self, place: Place, why: String) -> Result<(), ReplayError> {
        if !self.options.keep_going {
            return Err(ReplayError::Bad { place, why });
        }
        self.summary.skipped += 1;
        Ok(())
    }

    fn hand_over(&mut self, record: &MessageDeliveryRecord) -> io::Result<()> {
        if self.options.wants(record) {
            self.summary.records += 1;
            (self.record)(record)?;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<ReplaySummary, ReplayError> {
        let chain = std::mem::take(&mut self.chain);
        let outboxes = chain.streams().iter().filter_map(|state| state.outbox.as_ref());
        let mut unfinished: Vec<_> = outboxes.flat_map(Outbox::records).collect();
        unfinished.sort_unstable_by(|left, right| left.key.cmp(&right.key));
        for record in unfinished {
            self.hand_over(record)?;
        }
        Ok(self.summary)
    }
}
