//! One pass that folds the deliveries of a log, for whoever wants to see it happen.

use std::io;

use recount_core::{
    Digest, DomainEvent, StreamName,
    delivery::{DeliveryEvent, Followed, MessageDeliveryRecord, Outbox},
    log::{Place, RowSource},
};

use crate::{
    ReplayError, Rules, Until,
    examine::{Examined, ExaminedRow, Examiner, Unreadable},
    scan::{Content, scan},
    verify::{Chain, StreamIndex, outbox},
};

/// How a log is walked through.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    pub(crate) jobs: usize,
    /// Whether what cannot be read, or does not fit, is skipped and counted.
    pub(crate) keep_going: bool,
    pub(crate) until: Option<Until>,
    /// The stream whose events are wanted, where it is not all.
    pub(crate) only: Option<StreamName>,
}

/// What was walked through.
#[derive(Debug, Default)]
pub(crate) struct Walked {
    pub(crate) events: u64,
    pub(crate) skipped: u64,
    /// Events that changed nothing.
    pub(crate) ignored: u64,
    /// Whether events were left out that are later than what is wanted.
    pub(crate) is_cut: bool,
    pub(crate) last_position: Option<u64>,
    pub(crate) log_id: Option<Digest>,
    /// Where the streams stand, with the unfinished messages.
    pub(crate) chain: Chain,
}

impl Walked {
    /// The messages that are neither processed nor refused, in the order of their keys.
    pub(crate) fn unfinished(&self) -> Vec<&MessageDeliveryRecord> {
        let outboxes = self.chain.streams().iter().filter_map(|state| state.outbox.as_ref());
        let mut unfinished: Vec<_> = outboxes.flat_map(Outbox::records).collect();
        unfinished.sort_unstable_by(|left, right| left.key.cmp(&right.key));
        unfinished
    }
}

impl Walk {
    /// Walks through a log; each event is shown with what it left, where it changed something, and
    /// finished messages are forgotten behind it.
    pub(crate) fn through(
        &self,
        source: impl RowSource + Send,
        show: impl FnMut(&ExaminedRow, &DeliveryEvent, Option<&Followed<'_>>) -> io::Result<()>,
    ) -> Result<Walked, ReplayError> {
        let examiner = Examiner { only: self.only.as_deref(), ..Examiner::of(Rules::REPLAY) };
        let mut walker = Walker { walk: self, show, walked: Walked::default() };
        let scanned = scan(
            source,
            self.jobs,
            |line| examiner.examine(line),
            |line| {
                walker.walked.chain.next_line();
                match &line.content {
                    Content::Examined(row) => walker.line(row, line.offset),
                    Content::Oversized { length } => {
                        walker.unreadable(&Unreadable::oversized(*length), line.offset)
                    }
                }
            },
        );
        match scanned {
            Ok(()) | Err(End::Reached) => Ok(walker.walked),
            Err(End::Failed(error)) => Err(error),
        }
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

struct Walker<'a, F> {
    walk: &'a Walk,
    show: F,
    walked: Walked,
}

impl<F> Walker<'_, F>
where
    F: FnMut(&ExaminedRow, &DeliveryEvent, Option<&Followed<'_>>) -> io::Result<()>,
{
    fn line(&mut self, examined: &Examined, offset: Option<u64>) -> Result<(), End> {
        let row = match examined {
            Ok(row) => row,
            Err(line) => return self.unreadable(line, offset),
        };
        if self.walk.until.is_some_and(|until| until.is_past(row.position)) {
            self.walked.is_cut = true;
            return Err(End::Reached);
        }
        let (stream, links) = self.walked.chain.check(row);
        if let Some((rule, why)) = links.error() {
            return Ok(self.bad(self.walked.chain.place(row, offset), format!("{rule}: {why}"))?);
        }
        self.walked.log_id.get_or_insert(row.stated);
        let recorded_at = self.walked.chain.stream_mut(stream).recorded_at();
        if self.walk.until.is_some_and(|until| !until.includes(row.position, recorded_at)) {
            self.walked.is_cut = true;
            return Ok(());
        }
        self.walked.events += 1;
        self.walked.last_position = Some(row.position.get());
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
                let why = undecodable.error.to_string();
                return self.bad(self.walked.chain.place(row, offset), why);
            }
            None => return Ok(()),
        };
        let Ok(outbox) = outbox(self.walked.chain.stream_mut(stream), event) else {
            self.walked.ignored += 1;
            return Ok((self.show)(row, event, None)?);
        };
        let Ok(followed) = outbox.follow(event) else {
            self.walked.ignored += 1;
            return Ok((self.show)(row, event, None)?);
        };
        (self.show)(row, event, Some(&followed))?;
        if followed.record.status.is_finished() {
            outbox.forget(event.message_id());
        }
        Ok(())
    }

    fn unreadable(&mut self, line: &Unreadable, offset: Option<u64>) -> Result<(), End> {
        let last = self.walked.last_position;
        if self.walk.until.is_some_and(|until| until.ends_at(last)) {
            self.walked.is_cut = true;
            return Err(End::Reached);
        }
        let place = self.walked.chain.place_of(line, offset);
        Ok(self.bad(place, line.to_string())?)
    }

    fn bad(&mut self, place: Place, why: String) -> Result<(), ReplayError> {
        if !self.walk.keep_going {
            return Err(ReplayError::Bad { place, why });
        }
        self.walked.skipped += 1;
        Ok(())
    }
}
