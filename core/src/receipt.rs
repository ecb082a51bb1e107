//! What a destination answers: that it admitted an input, and how that ended.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    Diagnostic, PersistedJson, ReceiptId, SettlementId, SubmissionId, ThreadId,
    diagnostic::redact,
    instant::is_rfc3339,
    json::{cut_generally, cut_struct, natural, present, some_unique_keys},
};

/// A destination's answer that it admitted an input.
///
/// # Examples
///
/// ```
/// use recount_core::Receipt;
///
/// let text = r#"{"queueSequence":7,"receiptId":"r","submissionId":"s","threadId":"t"}"#;
/// let receipt: Receipt = serde_json::from_str(text)?;
/// assert_eq!(receipt.queue_sequence, 7);
/// # Ok::<_, serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Receipt {
    /// The place in the destination's queue.
    #[serde(deserialize_with = "natural")]
    pub queue_sequence: u64,
    /// The receipt's own id.
    pub receipt_id: ReceiptId,
    /// What was admitted.
    pub submission_id: SubmissionId,
    /// The destination.
    pub thread_id: ThreadId,
}

/// How a submission ended.
///
/// # Examples
///
/// ```
/// use recount_core::{Outcome, Settlement, SettlementError};
///
/// let mut settlement: Settlement = serde_json::from_str(
///     r#"{"outcome":"completed","receiptId":"r","settledAt":"2026-11-30T09:00:00Z",
///         "settlementId":"t","submissionId":"s"}"#,
/// )?;
/// assert_eq!(settlement.check(), Ok(()));
/// settlement.outcome = Outcome::Failed;
/// assert_eq!(settlement.check(), Err(SettlementError::Failure));
/// # Ok::<_, serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, try_from = "SettlementFields")]
pub struct Settlement {
    /// What failed; present exactly when `outcome` is `failed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// How it ended.
    pub outcome: Outcome,
    /// The receipt it settles.
    pub receipt_id: ReceiptId,
    /// What became of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_disposition: Option<PersistedJson>,
    /// When, in RFC 3339, as the destination wrote it.
    pub settled_at: String,
    /// The settlement's own id.
    pub settlement_id: SettlementId,
    /// The submission it settles.
    pub submission_id: SubmissionId,
    /// What it used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage_summary: Option<PersistedJson>,
}

/// How a submission ended, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the words say it")]
pub enum Outcome {
    Completed,
    Failed,
    Aborted,
}

impl Outcome {
    /// The word that JSON has for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Aborted => "aborted",
        }
    }
}

/// Why a submission failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Failure {
    /// Ids to look up elsewhere.
    #[serde(
        default,
        deserialize_with = "some_unique_keys",
        skip_serializing_if = "Option::is_none"
    )]
    pub context: Option<BTreeMap<String, String>>,
    /// What is known of it, for operators.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub diagnostic: Option<Diagnostic>,
    /// The error's kind.
    pub error_tag: String,
    /// A safe summary.
    pub message: String,
}

impl Failure {
    /// Takes the credentials out of its texts but those of the diagnostic.
    pub(crate) fn redact(&mut self) {
        redact::text(&mut self.message);
        if let Some(context) = &mut self.context {
            redact::context(context);
        }
    }
}

/// A settlement before its fields are held against one another.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SettlementFields {
    #[serde(default, deserialize_with = "present")]
    failure: Option<Failure>,
    outcome: Outcome,
    receipt_id: ReceiptId,
    #[serde(default, deserialize_with = "present")]
    run_disposition: Option<PersistedJson>,
    settled_at: String,
    settlement_id: SettlementId,
    submission_id: SubmissionId,
    #[serde(default, deserialize_with = "present")]
    usage_summary: Option<PersistedJson>,
}

/// Why fields do not make a settlement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettlementError {
    /// A failure without the outcome `failed`, or the other way round.
    #[error("a settlement has a failure exactly when its outcome is `failed`")]
    Failure,
    /// `settledAt` is not a time.
    #[error("settledAt is not a time in RFC 3339")]
    SettledAt,
}

impl Settlement {
    /// Holds the fields against one another.
    ///
    /// # Errors
    ///
    /// [`SettlementError`] where they contradict.
    pub fn check(&self) -> Result<(), SettlementError> {
        if (self.outcome == Outcome::Failed) != self.failure.is_some() {
            return Err(SettlementError::Failure);
        }
        if !is_rfc3339(&self.settled_at) {
            return Err(SettlementError::SettledAt);
        }
        Ok(())
    }
}

impl TryFrom<SettlementFields> for Settlement {
    type Error = SettlementError;

    fn try_from(fields: SettlementFields) -> Result<Self, SettlementError> {
        let settlement = Self {
            failure: fields.failure,
            outcome: fields.outcome,
            receipt_id: fields.receipt_id,
            run_disposition: fields.run_disposition,
            settled_at: fields.settled_at,
            settlement_id: fields.settlement_id,
            submission_id: fields.submission_id,
            usage_summary: fields.usage_summary,
        };
        settlement.check()?;
        Ok(settlement)
    }
}

cut_struct!(Receipt {
    "queueSequence" queue_sequence,
    "receiptId" receipt_id,
    "submissionId" submission_id,
    "threadId" thread_id,
});
cut_generally!(Settlement);

#[cfg(test)]
mod tests {
    use super::*;

    fn settlement(change: &str) -> Result<Settlement, String> {
        let mut value = serde_json::json!({
            "outcome": "completed", "receiptId": "r", "submissionId": "s", "settlementId": "t",
            "settledAt": "2026-01-01T00:00:00+02:00",
        });
        let change: serde_json::Map<_, _> = serde_json::from_str(change).unwrap();
        value.as_object_mut().unwrap().extend(change);
        serde_json::from_value(value).map_err(|error| error.to_string())
    }

    #[test]
    fn a_settlement_is_held_against_itself() {
        assert!(settlement("{}").is_ok());
        let message = "a settlement has a failure exactly when its outcome is `failed`";
        assert_eq!(settlement(r#"{"outcome":"failed"}"#).unwrap_err(), message);
        let failure = r#"{"failure":{"errorTag":"E","message":"m"}}"#;
        assert_eq!(settlement(failure).unwrap_err(), message);
        assert_eq!(
            settlement(r#"{"settledAt":"yesterday"}"#).unwrap_err(),
            "settledAt is not a time in RFC 3339"
        );
    }

    #[test]
    fn o_21_a_queue_sequence_is_an_integer_in_range() {
        let receipt = |sequence: &str| {
            let text = format!(
                r#"{{"queueSequence":{sequence},"receiptId":"r","submissionId":"s","threadId":"t"}}"#
            );
            serde_json::from_str::<Receipt>(&text).map(|receipt| receipt.queue_sequence)
        };
        assert_eq!(receipt("9007199254740991").unwrap(), 9_007_199_254_740_991);
        for sequence in
            ["9007199254740992", "18446744073709551616", "1e400", "-0", "1.0", "1e2", "01"]
        {
            assert!(receipt(sequence).is_err(), "{sequence}");
        }
    }
}
