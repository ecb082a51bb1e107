//! Rebuilding the records that a log's events fold to.

use std::io;

use recount_core::{
    Digest, MessageId, StreamName, ThreadId,
    delivery::{MessageDeliveryRecord, MessageDeliveryStatus},
    log::{Place, RowSource},
};
use serde::Serialize;

use crate::{Until, walk::Walk};

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
    /// The id of the messages that are wanted, whoever owns them; all where it is `None`.
    pub message: Option<MessageId>,
    /// Where the messages stand that are wanted; anywhere where there is none.
    pub statuses: Vec<MessageDeliveryStatus>,
}

impl Default for ReplayOptions {
    /// One job, all records as they are at the end, and the first bad event ends it.
    fn default() -> Self {
        Self {
            jobs: 1,
            keep_going: false,
            until: None,
            owner: None,
            message: None,
            statuses: Vec::new(),
        }
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
    /// Whether later events were left out, as was asked for.
    pub is_cut: bool,
    /// The last position that was looked at; none of an empty log.
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
    let mut records = Records { options, record, handed_over: 0 };
    let walk = Walk {
        jobs: options.jobs,
        keep_going: options.keep_going,
        until: options.until,
        only: options.owner.as_ref().map(StreamName::delivery),
    };
    let walked = walk.through(source, |_, _, followed| {
        let record = followed.map(|it| it.record).filter(|it| it.status.is_finished());
        record.map_or(Ok(()), |finished| records.hand_over(finished))
    })?;
    walked.unfinished().into_iter().try_for_each(|record| records.hand_over(record))?;
    Ok(ReplaySummary {
        events: walked.events,
        records: records.handed_over,
        skipped: walked.skipped,
        ignored: walked.ignored,
        is_cut: walked.is_cut,
        last_position: walked.last_position,
        log_id: walked.log_id,
    })
}

/// Hands records over that are wanted.
struct Records<'a, F> {
    options: &'a ReplayOptions,
    record: F,
    handed_over: u64,
}

impl<F: FnMut(&MessageDeliveryRecord) -> io::Result<()>> Records<'_, F> {
    fn hand_over(&mut self, record: &MessageDeliveryRecord) -> io::Result<()> {
        let ReplayOptions { statuses, message, .. } = self.options;
        let is_asked_for = message.as_ref().is_none_or(|id| *id == record.key.message_id);
        if is_asked_for && (statuses.is_empty() || statuses.contains(&record.status)) {
            self.handed_over += 1;
            (self.record)(record)?;
        }
        Ok(())
    }
}
