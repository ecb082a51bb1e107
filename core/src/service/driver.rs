//! Delivering what is due.

use std::{panic::AssertUnwindSafe, pin::pin, sync::Arc};

use futures_util::{
    FutureExt, StreamExt,
    future::{Either, select},
    stream::FuturesUnordered,
};
use tokio::sync::Semaphore;

use super::{
    Admission, AdmissionError, Clock, DeliveryFailure, DueIndex, OutboxService, Point,
    SubmissionStatus, Wake,
    answer::{Corrupt, NoAnswer, admission, status},
};
use crate::{
    Instant, Receipt, ThreadId,
    delivery::{
        BatchSize, DeliveryError, MessageDeliveryChange as Change, MessageDeliveryCommand,
        MessageDeliveryKey, MessageDeliveryRecord, MessageDeliveryStatus as Status, ParkReason,
    },
};

/// The most that a driver has under way at once: 32 attempts.
pub const MAX_CONCURRENCY: usize = 32;

/// What knows when messages are due.
pub type DueMessages = dyn DueIndex<Key = MessageDeliveryKey, Owner = ThreadId>;

/// Delivers messages: claims what is due, asks its destination, and records the answer.
///
/// Any number of drivers may work on a log, in one process and in several: the version of a message
/// fences each change, and the lease of an attempt keeps others away while it is under way. One that
/// dies anywhere leaves work that another finishes, under the same admission key.
///
/// Nothing is said of inputs, principals or texts anywhere but in events.
///
/// `Recount` of the package `recount` puts one together, with an example of a whole host.
#[derive(Clone)]
pub struct DeliveryDriver {
    outboxes: OutboxService,
    admission: Arc<dyn Admission>,
    due: Arc<DueMessages>,
    batch: BatchSize,
    permits: Arc<Semaphore>,
    concurrency: usize,
    poll_millis: u64,
}

impl DeliveryDriver {
    /// A driver with batches of 100 and four attempts at once, that polls each second.
    pub fn new(
        outboxes: OutboxService,
        admission: Arc<dyn Admission>,
        due: Arc<DueMessages>,
    ) -> Self {
        let (batch, concurrency, poll_millis) = (BatchSize::MAX, 4, 1_000);
        let permits = Arc::new(Semaphore::new(concurrency));
        Self { outboxes, admission, due, batch, permits, concurrency, poll_millis }
    }

    /// Sets how many due messages are taken at once.
    #[must_use]
    pub fn with_batch(self, batch: BatchSize) -> Self {
        Self { batch, ..self }
    }

    /// Sets how many attempts are under way at once, 1 to [`MAX_CONCURRENCY`].
    ///
    /// # Errors
    ///
    /// [`DeliveryError::Limit`] where it is out of range.
    pub fn with_concurrency(self, concurrency: usize) -> Result<Self, DeliveryError> {
        if concurrency == 0 || concurrency > MAX_CONCURRENCY {
            let (query, limit, max) = ("driver-limits", concurrency, MAX_CONCURRENCY);
            return Err(DeliveryError::Limit { query, limit, max });
        }
        let permits = Arc::new(Semaphore::new(concurrency));
        Ok(Self { permits, concurrency, ..self })
    }

    /// Sets after how many milliseconds [`DeliveryDriver::run`] looks at the log at the latest: this is
    /// how late it may learn of what other processes prepared, or that the clock was set.
    #[must_use]
    pub fn with_poll_millis(self, poll_millis: u64) -> Self {
        Self { poll_millis: poll_millis.max(1), ..self }
    }

    /// Makes one attempt at a message, where it is due, and returns how it stands then.
    ///
    /// A conflict is no error: somebody else changed the message, and how it stands is returned.
    /// Where [`OutboxService::settled`] was called meanwhile, the message is due again at once.
    ///
    /// # Errors
    ///
    /// [`DeliveryFailure`]. Where an attempt was begun, its lease ends by itself, and it is made
    /// again.
    #[tracing::instrument(name = "delivery.process", skip_all, fields(%key))]
    pub async fn process(
        &self,
        key: &MessageDeliveryKey,
    ) -> Result<MessageDeliveryRecord, DeliveryFailure> {
        // The semaphore is never closed.
        let _permit = self.permits.acquire().await;
        let under_way = self.outboxes.begin(key);
        let record = match self.attempt(key).await {
            Err(failure) if failure.is_conflict() => self.outboxes.get(key).await?.ok_or(failure),
            result => result,
        }?;
        if under_way.end() { self.outboxes.settled(key).await } else { Ok(record) }
    }

    /// Makes an attempt at each of the first messages that are due, of one owner or of all, and
    /// returns how they stand then, in the order in which they were due.
    ///
    /// After a failure nothing new is begun; what is under way is finished, and the first failure
    /// returned.
    ///
    /// # Errors
    ///
    /// [`DeliveryFailure`], as [`DeliveryDriver::process`].
    #[tracing::instrument(name = "delivery.run_due", skip_all)]
    pub async fn run_due(
        &self,
        owner: Option<&ThreadId>,
    ) -> Result<Vec<MessageDeliveryRecord>, DeliveryFailure> {
        let now = self.outboxes.clock().now();
        let keys = self.due.due(now, self.batch, owner).await?;
        let mut waiting = keys.iter().enumerate();
        let begin = |(index, key)| async move { (index, self.process(key).await) };
        let mut under_way: FuturesUnordered<_> =
            waiting.by_ref().take(self.concurrency).map(begin).collect();
        let mut records: Vec<Option<MessageDeliveryRecord>> = vec![None; keys.len()];
        let mut failed = None;
        while let Some((index, result)) = under_way.next().await {
            match result {
                Ok(record) => records[index] = Some(record),
                Err(failure) => failed = failed.or(Some(failure)),
            }
            if failed.is_none() {
                under_way.extend(waiting.next().map(begin));
            }
        }
        failed.map_or_else(|| Ok(records.into_iter().flatten().collect()), Err)
    }

    /// Has a parked message tried again, until a new deadline.
    ///
    /// # Errors
    ///
    /// As those of [`OutboxService::recover`].
    pub async fn retry(
        &self,
        key: &MessageDeliveryKey,
        expected_version: u64,
        deadline_at_millis: Instant,
    ) -> Result<MessageDeliveryRecord, DeliveryFailure> {
        self.outboxes.recover(key, expected_version, deadline_at_millis).await
    }

    pub(super) fn clock(&self) -> &dyn Clock {
        self.outboxes.clock()
    }

    pub(super) fn wake(&self) -> &dyn Wake {
        self.outboxes.wake()
    }

    pub(super) fn due_index(&self) -> &DueMessages {
        &*self.due
    }

    pub(super) fn concurrency(&self) -> usize {
        self.concurrency
    }

    pub(super) fn poll_millis(&self) -> u64 {
        self.poll_millis
    }

    async fn attempt(
        &self,
        key: &MessageDeliveryKey,
    ) -> Result<MessageDeliveryRecord, DeliveryFailure> {
        let now_millis = self.outboxes.clock().now();
        let is_due = |record: &MessageDeliveryRecord| {
            record.effective_deadline().is_some_and(|due| due <= now_millis)
        };
        let found = self.outboxes.get_with_order(key, is_due).await?;
        let Some((current, may_go)) = found else {
            return Err(DeliveryFailure::NotFound { key: key.clone() });
        };
        if !is_due(&current) {
            return Ok(current);
        }
        let change = if current.status == Status::Pending && !may_go {
            let poll = current.policy.settlement_poll_millis;
            Change::Defer { until_millis: now_millis.saturating_add(poll) }
        } else {
            Change::Claim
        };
        let is_claim = change == Change::Claim;
        let expected_version = current.version;
        let command = MessageDeliveryCommand { expected_version, now_millis, change };
        let claimed = self.outboxes.change_at(&current, command).await?;
        if !is_claim || claimed.status == Status::Parked {
            return Ok(claimed);
        }
        let (stated, computed) = (claimed.envelope_digest, claimed.envelope.digest());
        if computed != stated {
            return Err(DeliveryFailure::EnvelopeDigest { key: key.clone(), stated, computed });
        }
        let Some(timeout) = self.timeout(&claimed) else { return Ok(claimed) };
        let change = self.ask(&claimed, timeout).await?;
        self.outboxes.change_held(&claimed, change).await
    }

    /// How long the host has, so that even that there was no answer can be recorded under the
    /// lease; nothing where that is no time.
    fn timeout(&self, claimed: &MessageDeliveryRecord) -> Option<u64> {
        let lease = claimed.lease_until_millis.unwrap_or(claimed.deadline_at_millis);
        let left = lease.as_millis().saturating_sub(self.outboxes.clock().now().as_millis());
        let time = claimed.policy.attempt_timeout_millis.min(left);
        let margin = (time / 10).min(1_000);
        Some(time - margin).filter(|time| *time > 0)
    }

    /// Asks the destination, and says what is to be recorded of the answer.
    async fn ask(
        &self,
        claimed: &MessageDeliveryRecord,
        timeout: u64,
    ) -> Result<Change, DeliveryFailure> {
        let (operation, answer) = match &claimed.receipt {
            None => {
                let asked = async { self.admission.submit(&claimed.envelope).await };
                ("admission", admission(self.within(timeout, asked).await))
            }
            Some(receipt) => match self.status(receipt, timeout).await {
                None => {
                    let (reason, diagnostic) = (ParkReason::StatusUnavailable, None);
                    ("status", Ok(Change::Park { reason, diagnostic }))
                }
                Some(answer) => ("status", status(answer)),
            },
        };
        self.outboxes.hit(Point::AfterAnswer)?;
        answer.map_err(|Corrupt(diagnostic)| {
            let (key, diagnostic) = (claimed.key.clone(), diagnostic.redacted().bounded().into());
            DeliveryFailure::HostStorage { key, operation, diagnostic }
        })
    }

    async fn status(
        &self,
        receipt: &Receipt,
        timeout: u64,
    ) -> Option<Result<Result<SubmissionStatus, AdmissionError>, NoAnswer>> {
        let begun = || self.admission.submission_status(receipt);
        match std::panic::catch_unwind(AssertUnwindSafe(begun)) {
            Ok(None) => None,
            Ok(Some(asked)) => Some(self.within(timeout, asked).await),
            Err(panic) => Some(Err(NoAnswer::Panic(panic))),
        }
    }

    /// Waits for an answer, so long.
    async fn within<T>(&self, timeout: u64, asked: impl Future<Output = T>) -> Result<T, NoAnswer> {
        let answer = pin!(AssertUnwindSafe(asked).catch_unwind());
        match select(answer, self.outboxes.clock().sleep(timeout)).await {
            Either::Left((Ok(answer), _)) => Ok(answer),
            Either::Left((Err(panic), _)) => Err(NoAnswer::Panic(panic)),
            Either::Right(((), _)) => Err(NoAnswer::Timeout(timeout)),
        }
    }
}

impl std::fmt::Debug for DeliveryDriver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeliveryDriver")
            .field("batch", &self.batch)
            .field("concurrency", &self.concurrency)
            .finish_non_exhaustive()
    }
}
