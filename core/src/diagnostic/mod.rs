//! What an operator may know of a failure: structured, without credentials, and bounded before it
//! is stored.

mod bound;
mod capture;
pub(crate) mod redact;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Number;

use crate::json::{present, some_unique_keys};

/// What is known of a failure, for operators only.
///
/// It is stored without credentials ([`Diagnostic::redacted`]) and bounded
/// ([`Diagnostic::bounded`]): text of at most 16 Ki UTF-16 code units, names of 1 024,
/// 1 024 nodes, 56 levels, 128 Ki code units in all (`spec/common.md`).
///
/// # Examples
///
/// ```
/// use recount_core::Diagnostic;
///
/// let diagnostic: Diagnostic = serde_json::from_str(r#"{"_tag":"Value","value":"E7"}"#)?;
/// assert_eq!(diagnostic, Diagnostic::text("E7"));
/// # Ok::<_, serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "_tag", deny_unknown_fields)]
pub enum Diagnostic {
    /// An error with what led to it.
    Error(Box<ErrorDiagnostic>),
    /// Several reasons at once.
    #[serde(rename_all = "camelCase")]
    Cause {
        /// The reasons, in order; at most 128.
        reasons: Vec<CauseReason>,
        /// Set where reasons were left out.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        truncated: Option<bool>,
    },
    /// A plain value.
    Value {
        /// The value.
        value: Scalar,
    },
    /// Something that was left out.
    Omitted {
        /// Why it was.
        reason: OmittedReason,
    },
}

/// An error as it was seen: only fields that are known to carry no payload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(missing_docs, reason = "the fields are those of an error in any language")]
pub struct ErrorDiagnostic {
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub cause: Option<Diagnostic>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub code: Option<Scalar>,
    /// Ids to look up elsewhere; never inputs.
    #[serde(
        default,
        deserialize_with = "some_unique_keys",
        skip_serializing_if = "Option::is_none"
    )]
    pub context: Option<BTreeMap<String, String>>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub error_tag: Option<String>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub errors: Option<Vec<Diagnostic>>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Names of fields that could not be read.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub omitted_fields: Option<Vec<String>>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub reason: Option<Diagnostic>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub stack: Option<String>,
    /// Set where something was left out.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub truncated: Option<bool>,
}

/// One reason of a [`Diagnostic::Cause`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "_tag", deny_unknown_fields)]
pub enum CauseReason {
    /// A failure that the program expects.
    Fail {
        /// What it was.
        error: Diagnostic,
    },
    /// A defect.
    Die {
        /// What it was.
        defect: Diagnostic,
    },
    /// An interruption.
    #[serde(rename_all = "camelCase")]
    Interrupt {
        /// Which fibre was interrupted.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        fiber_id: Option<Scalar>,
    },
}

/// Text, a number, a truth value or null.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
#[expect(missing_docs, reason = "the variants are those of JSON")]
pub enum Scalar {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
}

/// Why something was left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OmittedReason {
    /// It is secret.
    Redacted,
    /// It contains itself.
    Cycle,
    /// A bound was reached.
    Limit,
    /// Its kind cannot be shown.
    Unsupported,
}

impl Diagnostic {
    /// A diagnostic that is just some text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Value { value: Scalar::Text(text.into()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_fields_and_nulls_are_refused() {
        for text in [
            r#"{"_tag":"Error","payload":1}"#,
            r#"{"_tag":"Error","message":null}"#,
            r#"{"_tag":"Other"}"#,
            r#"{"_tag":"Value","value":{}}"#,
        ] {
            assert!(serde_json::from_str::<Diagnostic>(text).is_err(), "{text}");
        }
    }
}
