//! What a host brings: time, destinations, and a place to fail on purpose.

use futures_util::future::BoxFuture;

use crate::{
    Diagnostic, Envelope, ErrorDiagnostic, Instant, Receipt, RefusalCode, Settlement,
    delivery::RetryReason,
};

/// The host's clock. It may be set back or forward at any time: every rule holds all the same.
pub trait Clock: Send + Sync {
    /// What it reads.
    fn now(&self) -> Instant;

    /// Waits for so many milliseconds, as far as the host can tell. A wait that was dropped has
    /// no effect.
    fn sleep(&self, millis: u64) -> BoxFuture<'static, ()>;
}

/// The destinations of messages, as the host reaches them.
///
/// A destination admits an input once under an admission key: asked again with the same envelope it
/// answers with the receipt of the first time, whoever asks. That is what makes it safe to ask again
/// after a lost reply.
///
/// # Examples
///
/// ```
/// use std::{collections::HashMap, sync::Mutex};
///
/// use futures_util::{FutureExt, future::BoxFuture};
/// use recount_core::{
///     AdmissionKey, Envelope, Receipt,
///     service::{Admission, AdmissionError},
/// };
///
/// /// Threads of this process, which take an input once under its key.
/// #[derive(Default)]
/// struct Threads(Mutex<HashMap<AdmissionKey, Receipt>>);
///
/// impl Admission for Threads {
///     fn submit<'a>(
///         &'a self,
///         envelope: &'a Envelope,
///     ) -> BoxFuture<'a, Result<Receipt, AdmissionError>> {
///         let mut admitted = self.0.lock().expect("nobody panicked over it");
///         let place = admitted.len();
///         let receipt = admitted.entry(envelope.admission_key.clone()).or_insert_with_key(|key| {
///             serde_json::from_value(serde_json::json!({
///                 "receiptId": key, "submissionId": key, "threadId": envelope.thread_id,
///                 "queueSequence": place,
///             }))
///             .expect("a receipt")
///         });
///         std::future::ready(Ok(receipt.clone())).boxed()
///     }
/// }
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// # let envelope = |key| Envelope::from(recount_core::doc::envelope(key));
/// let threads = Threads::default();
/// let first = threads.submit(&envelope("admit:1")).await?;
/// threads.submit(&envelope("admit:2")).await?;
/// assert_eq!(threads.submit(&envelope("admit:1")).await?, first, "whoever asks again");
/// # Ok::<_, AdmissionError>(())
/// # })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub trait Admission: Send + Sync {
    /// Hands an input over to its destination.
    ///
    /// It is dropped when it takes too long, and may then have been admitted or not; whoever asks
    /// next learns it. One that panics counts as an answer that nobody knows.
    ///
    /// # Errors
    ///
    /// [`AdmissionError`]: that it is refused, may be tried again, or that storage is corrupt.
    fn submit<'a>(
        &'a self,
        envelope: &'a Envelope,
    ) -> BoxFuture<'a, Result<Receipt, AdmissionError>>;

    /// Asks what became of an input that was admitted; `None` where the host cannot ask, and such
    /// messages are left to a person.
    ///
    /// # Errors
    ///
    /// As those of [`Admission::submit`]; a refusal means that the destination cannot tell.
    fn submission_status<'a>(
        &'a self,
        receipt: &'a Receipt,
    ) -> Option<BoxFuture<'a, Result<SubmissionStatus, AdmissionError>>> {
        let _ = receipt;
        None
    }
}

/// What became of an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubmissionStatus {
    /// The destination still works on it.
    Pending,
    /// It is done with it.
    Settled(Box<Settlement>),
}

/// Why a destination did not do what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AdmissionError {
    /// It does not want it, and never will.
    #[error("the destination refused: {code}")]
    Refused {
        /// Why.
        code: RefusalCode,
        /// What is known of it.
        diagnostic: Option<Box<Diagnostic>>,
    },
    /// It may be asked again.
    #[error("the destination did not answer: {}", .reason.as_str())]
    Retryable {
        /// Why.
        reason: RetryReason,
        /// What is known of it.
        diagnostic: Option<Box<Diagnostic>>,
    },
    /// The host's own storage is away; it may be asked again.
    #[error("the host's storage is away")]
    StorageAway {
        /// What is known of it.
        diagnostic: Option<Box<Diagnostic>>,
    },
    /// The host's own storage holds what cannot be: nothing is recorded, and the attempt's lease
    /// ends by itself.
    #[error("the host's storage is corrupt")]
    Corrupt {
        /// What is known of it.
        diagnostic: Option<Box<Diagnostic>>,
    },
}

impl AdmissionError {
    /// What may be recorded of it: its kind, and what the host knows.
    pub(super) fn diagnostic(self) -> Diagnostic {
        let message = Some(self.to_string());
        let (tag, cause) = match self {
            Self::Refused { diagnostic, .. } => ("ScheduledInputRefused", diagnostic),
            Self::Retryable { diagnostic, .. } => ("ScheduledInputRetryable", diagnostic),
            Self::StorageAway { diagnostic } | Self::Corrupt { diagnostic } => {
                ("ScheduleStorageError", diagnostic)
            }
        };
        let error_tag = Some(tag.to_owned());
        let cause = cause.map(|cause| *cause);
        let error = ErrorDiagnostic { cause, error_tag, message, ..ErrorDiagnostic::default() };
        Diagnostic::Error(Box::new(error))
    }
}

/// A place where a test may make a service fail, as a crash would.
///
/// The default does nothing.
pub trait Failpoint: Send + Sync {
    /// Called at each point; an error ends what was being done there and then.
    ///
    /// # Errors
    ///
    /// [`FailpointError`] where it is to fail.
    fn hit(&self, point: Point) -> Result<(), FailpointError> {
        let _ = point;
        Ok(())
    }
}

/// Fails nowhere.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFailpoint;

impl Failpoint for NoFailpoint {}

/// Where a service may fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Point {
    /// Before the event of a change is appended; the change's name.
    BeforeAppend(&'static str),
    /// After it was appended.
    AfterAppend(&'static str),
    /// After a destination answered, and before that is recorded.
    AfterAnswer,
}

/// That a failpoint failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it was made to fail at {point:?}")]
pub struct FailpointError {
    /// Where.
    pub point: Point,
}
