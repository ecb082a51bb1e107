//! What is recorded of what a destination answered, or did not.

use std::any::Any;

use super::{AdmissionError, SubmissionStatus};
use crate::{
    Diagnostic, ErrorDiagnostic, Receipt,
    delivery::{MessageDeliveryChange as Change, ParkReason, RetryReason},
};

/// Why there is no answer.
pub(super) enum NoAnswer {
    Timeout(u64),
    Panic(Box<dyn Any + Send>),
}

impl NoAnswer {
    fn change(self) -> Change {
        let (reason, tag, message) = match self {
            Self::Timeout(millis) => {
                (RetryReason::Timeout, "TimeoutError", format!("no answer within {millis} ms"))
            }
            Self::Panic(panic) => {
                let said = panic.downcast_ref::<&str>().map(ToString::to_string);
                let said = said.or_else(|| panic.downcast_ref::<String>().cloned());
                let said = said.map(|said| format!(": {said}")).unwrap_or_default();
                (RetryReason::Ambiguous, "Panic", format!("the host panicked{said}"))
            }
        };
        let error = ErrorDiagnostic {
            error_tag: Some(tag.to_owned()),
            message: Some(message),
            ..ErrorDiagnostic::default()
        };
        Change::Retry { reason, diagnostic: Some(Box::new(Diagnostic::Error(Box::new(error)))) }
    }
}

/// That the host's storage is corrupt, of which nothing is recorded.
pub(super) struct Corrupt(pub(super) Diagnostic);

/// What is recorded of an answer to a submission.
pub(super) fn admission(
    answer: Result<Result<Receipt, AdmissionError>, NoAnswer>,
) -> Result<Change, Corrupt> {
    Ok(match answer {
        Ok(Ok(receipt)) => Change::Accept { receipt },
        Ok(Err(AdmissionError::Refused { code, diagnostic })) => {
            let refused = AdmissionError::Refused { code: code.clone(), diagnostic };
            Change::Refuse { code, diagnostic: Some(refused.diagnostic().into()) }
        }
        Ok(Err(error)) => return again(error),
        Err(none) => none.change(),
    })
}

/// What is recorded of an answer to a question.
pub(super) fn status(
    answer: Result<Result<SubmissionStatus, AdmissionError>, NoAnswer>,
) -> Result<Change, Corrupt> {
    Ok(match answer {
        Ok(Ok(SubmissionStatus::Settled(settlement))) => Change::Process { settlement },
        Ok(Ok(SubmissionStatus::Pending)) => Change::ObservePending,
        Ok(Err(refused @ AdmissionError::Refused { .. })) => Change::Park {
            reason: ParkReason::StatusUnavailable,
            diagnostic: Some(refused.diagnostic().into()),
        },
        Ok(Err(error)) => return again(error),
        Err(none) => none.change(),
    })
}

fn again(error: AdmissionError) -> Result<Change, Corrupt> {
    let reason = match &error {
        AdmissionError::Retryable { reason, .. } => *reason,
        AdmissionError::StorageAway { .. } => RetryReason::Storage,
        AdmissionError::Corrupt { .. } | AdmissionError::Refused { .. } => {
            return Err(Corrupt(error.diagnostic()));
        }
    };
    Ok(Change::Retry { reason, diagnostic: Some(error.diagnostic().into()) })
}
