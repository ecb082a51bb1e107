//! The library as a host embeds it.

mod clock;

pub use clock::SystemClock;

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use futures_util::{
    FutureExt,
    future::{Either, join, select},
};
use recount_core::{
    Metadata, Position,
    delivery::{DeliveryError, Outbox, OutboxLimits},
    log::{EventLog, ReadError},
    service::{
        Admission, Clock, DeliveryDriver, Failpoint, LocalWake, NoFailpoint, OutboxService, Owners,
        Wake,
    },
};
use recount_projections::{DeliveryView, Resumed};

/// How often the view is kept while a host runs, at most: each minute.
const KEEP_MILLIS: u64 = 60_000;
/// How many events must have been folded since, for it to be worth it.
const KEEP_EVENTS: u64 = 1_000;

/// Recount in a host: outboxes to put messages into, and a loop that delivers them.
///
/// Any number of hosts may run on one log, in one process and in several. One that is killed at any
/// time leaves work that the next one finishes.
///
/// # Examples
///
/// ```
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
/// # runtime.block_on(async {
/// use std::sync::Arc;
///
/// use futures_util::future::BoxFuture;
/// use recount::{
///     Envelope, Receipt, Recount,
///     delivery::{MessageDeliveryPolicy, MessageDeliveryStatus},
///     log::MemoryLog,
///     service::{Admission, AdmissionError, NewMessage},
/// };
/// # use recount_core::doc::{envelope, message};
///
/// /// Destinations that want nothing.
/// struct Closed;
///
/// impl Admission for Closed {
///     fn submit<'a>(
///         &'a self,
///         _: &'a Envelope,
///     ) -> BoxFuture<'a, Result<Receipt, AdmissionError>> {
///         let code = "closed".parse().expect("a code");
///         Box::pin(async { Err(AdmissionError::Refused { code, diagnostic: None }) })
///     }
/// }
///
/// let recount = Recount::builder(Arc::new(MemoryLog::new()), Arc::new(Closed)).build().await?;
/// # let key = message("m-1").key;
/// let message = NewMessage {
///     key: key.clone(),
///     envelope: envelope("sender:m-1"),
///     lifetime_millis: 60_000,
///     policy: MessageDeliveryPolicy::default(),
///     predecessor: None,
/// };
/// recount.outboxes().send(message).await?;
///
/// // A host runs until it is to stop.
/// recount.run(tokio::time::sleep(std::time::Duration::from_millis(200))).await;
/// let record = recount.outboxes().get(&key).await?.expect("it was sent");
/// assert_eq!(record.status, MessageDeliveryStatus::Refused);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Recount {
    outboxes: OutboxService,
    driver: DeliveryDriver,
    deliveries: Arc<DeliveryView>,
    clock: Arc<dyn Clock>,
    checkpoint: Option<Arc<Checkpoint>>,
}

/// Where the view is kept, and up to which event it was.
struct Checkpoint {
    path: PathBuf,
    kept: Mutex<Option<Position>>,
}

/// How a host is put together.
///
/// # Examples
///
/// ```
/// # futures_executor::block_on(async {
/// # use futures_util::future::BoxFuture;
/// # use recount::{Envelope, Receipt, service::{Admission, AdmissionError}};
/// # struct Closed;
/// # impl Admission for Closed {
/// #     fn submit<'a>(
/// #         &'a self,
/// #         _: &'a Envelope,
/// #     ) -> BoxFuture<'a, Result<Receipt, AdmissionError>> {
/// #         Box::pin(std::future::pending())
/// #     }
/// # }
/// use std::sync::Arc;
///
/// use recount::{BuildError, Metadata, Recount, log::MemoryLog};
///
/// let builder = || Recount::builder(Arc::new(MemoryLog::new()), Arc::new(Closed));
/// let host = builder().metadata(Metadata::of_actor("host-1")).concurrency(32).build().await?;
/// assert_eq!(host.deliveries().head(), None, "nothing happened yet");
///
/// let error = builder().concurrency(0).build().await.unwrap_err();
/// assert!(matches!(error, BuildError::Limit(_)));
/// assert_eq!(error.to_string(), "driver-limits: a limit is 1 to 32, not 0");
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub struct RecountBuilder {
    log: Arc<dyn EventLog>,
    admission: Arc<dyn Admission>,
    clock: Arc<dyn Clock>,
    wake: Arc<dyn Wake>,
    failpoint: Arc<dyn Failpoint>,
    limits: OutboxLimits,
    metadata: Metadata,
    concurrency: usize,
    poll_millis: u64,
    checkpoint: Option<PathBuf>,
}

/// Why a host was not put together; [`RecountBuilder`] has an example.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The log could not be read.
    #[error(transparent)]
    Log(#[from] ReadError),
    /// A limit is out of range.
    #[error(transparent)]
    Limit(#[from] DeliveryError),
}

impl Recount {
    /// Begins to put a host together: over a log, with what reaches its destinations.
    pub fn builder(log: Arc<dyn EventLog>, admission: Arc<dyn Admission>) -> RecountBuilder {
        RecountBuilder {
            log,
            admission,
            clock: Arc::new(SystemClock),
            wake: Arc::<LocalWake>::default(),
            failpoint: Arc::new(NoFailpoint),
            limits: OutboxLimits::default(),
            metadata: Metadata::default(),
            concurrency: 4,
            poll_millis: 1_000,
            checkpoint: None,
        }
    }

    /// The outboxes of the log, as the log has them.
    pub fn outboxes(&self) -> &OutboxService {
        &self.outboxes
    }

    /// What is unfinished and when it is due, as a view that follows the log.
    pub fn deliveries(&self) -> &Arc<DeliveryView> {
        &self.deliveries
    }

    /// The driver, for a host that has a loop of its own.
    pub fn driver(&self) -> &DeliveryDriver {
        &self.driver
    }

    /// Delivers what is due, until it is told to stop; [`DeliveryDriver::run`] has the details.
    ///
    /// Where there is a checkpoint, it is kept anew from time to time and when this ends; what goes
    /// wrong with that is reported as an event of `tracing`.
    pub async fn run(&self, stop: impl Future<Output = ()> + Send) {
        let stop = stop.shared();
        join(self.driver.run(stop.clone()), self.keep_until(stop)).await;
        self.keep(1).await;
    }

    async fn keep_until(&self, mut stop: impl Future<Output = ()> + Unpin) {
        loop {
            match select(stop, self.clock.sleep(KEEP_MILLIS)).await {
                Either::Left(_) => return,
                Either::Right(((), rest)) => stop = rest,
            }
            self.keep(KEEP_EVENTS).await;
        }
    }

    /// Keeps the view, where so many events were folded since it was kept last.
    async fn keep(&self, events: u64) {
        let Some(checkpoint) = &self.checkpoint else { return };
        let Some(head) = self.deliveries.head() else { return };
        let kept = *checkpoint.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let new = kept
            .map_or(head.position.get() + 1, |kept| head.position.get().saturating_sub(kept.get()));
        if new < events {
            return;
        }
        let path = checkpoint.path.display();
        match self.deliveries.save(&checkpoint.path).await {
            Ok(saved) => {
                if let Some(aside) = saved.and_then(|saved| saved.kept) {
                    let aside = aside.display();
                    tracing::warn!(%path, %aside, "what stood there was kept under another name");
                }
                *checkpoint.kept.lock().unwrap_or_else(PoisonError::into_inner) =
                    Some(head.position);
            }
            Err(error) => tracing::warn!(%path, %error, "the checkpoint was not written"),
        }
    }
}

impl RecountBuilder {
    /// Sets the clock; the machine's unless set.
    pub fn clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock, ..self }
    }

    /// Sets what wakes the loop; a [`LocalWake`] unless set.
    pub fn wake(self, wake: Arc<dyn Wake>) -> Self {
        Self { wake, ..self }
    }

    /// Sets where a test makes it fail.
    pub fn failpoint(self, failpoint: Arc<dyn Failpoint>) -> Self {
        Self { failpoint, ..self }
    }

    /// Sets how much an outbox may hold.
    pub fn limits(self, limits: OutboxLimits) -> Self {
        Self { limits, ..self }
    }

    /// Sets what is recorded beside each event, such as which host wrote it.
    pub fn metadata(self, metadata: Metadata) -> Self {
        Self { metadata, ..self }
    }

    /// Sets how many attempts are under way at once, 1 to 32; 4 unless set.
    pub fn concurrency(self, concurrency: usize) -> Self {
        Self { concurrency, ..self }
    }

    /// Sets after how many milliseconds the log is looked at at the latest; 1 000 unless set.
    pub fn poll_millis(self, poll_millis: u64) -> Self {
        Self { poll_millis, ..self }
    }

    /// Sets a file to keep the view in, so that the next start takes time that follows what is
    /// unfinished, and not how long the log is. Each host has one of its own.
    pub fn checkpoint(self, path: impl Into<PathBuf>) -> Self {
        Self { checkpoint: Some(path.into()), ..self }
    }

    /// Puts the host together. A checkpoint that does not fit is left alone, which is reported as an
    /// event of `tracing`.
    ///
    /// # Errors
    ///
    /// [`BuildError::Limit`] where the concurrency is out of range, [`BuildError::Log`] where the
    /// log cannot be read.
    pub async fn build(self) -> Result<Recount, BuildError> {
        let Self { log, admission, clock, .. } = self;
        let (deliveries, kept) = match &self.checkpoint {
            None => (DeliveryView::new(log.clone()), None),
            Some(path) => match DeliveryView::resume(log.clone(), path).await? {
                (view, Resumed::From(head)) => (view, Some(head.position)),
                (view, Resumed::Nothing) => (view, None),
                (view, Resumed::Ignored(why)) => {
                    tracing::warn!(path = %path.display(), %why, "the checkpoint is not used");
                    (view, None)
                }
            },
        };
        let deliveries = Arc::new(deliveries);
        let outboxes = OutboxService::new(Owners::<Outbox>::new(log), clock.clone())
            .with_limits(self.limits)
            .with_metadata(self.metadata)
            .with_wake(self.wake)
            .with_failpoint(self.failpoint);
        let driver = DeliveryDriver::new(outboxes.clone(), admission, deliveries.clone())
            .with_concurrency(self.concurrency)?
            .with_poll_millis(self.poll_millis);
        let checkpoint = |path| Arc::new(Checkpoint { path, kept: Mutex::new(kept) });
        let checkpoint = self.checkpoint.map(checkpoint);
        Ok(Recount { outboxes, driver, deliveries, clock, checkpoint })
    }
}

impl std::fmt::Debug for Recount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recount").field("driver", &self.driver).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for RecountBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecountBuilder").finish_non_exhaustive()
    }
}
