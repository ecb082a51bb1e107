//! Ids, keys and names: non-empty text with a bound.
//!
//! They are kept exactly as given, never trimmed or folded, and order by Unicode scalar value.

use std::{borrow::Borrow, fmt, ops::Deref, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::json::{Cut, Scanner};

/// Why a text is not an id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdError {
    /// There is nothing in it.
    #[error("{kind} is empty")]
    Empty {
        /// What the text was to be, such as `message id`.
        kind: &'static str,
    },
    /// It is longer than its kind allows.
    #[error("{kind} is {length} {unit} long, more than {max}")]
    TooLong {
        /// What the text was to be, such as `message id`.
        kind: &'static str,
        /// How long it is.
        length: usize,
        /// How long it may be.
        max: usize,
        /// What is counted.
        unit: &'static str,
    },
}

#[derive(Clone, Copy)]
enum Bound {
    Utf16(usize),
    Bytes(usize),
}

fn check(kind: &'static str, bound: Bound, text: &str) -> Result<(), IdError> {
    if text.is_empty() {
        return Err(IdError::Empty { kind });
    }
    let (length, max, unit) = match bound {
        // A text has at least as many bytes as UTF-16 code units: most need no counting.
        Bound::Utf16(max) if text.len() <= max => return Ok(()),
        Bound::Utf16(max) => (text.encode_utf16().count(), max, "UTF-16 code units"),
        Bound::Bytes(max) => (text.len(), max, "bytes"),
    };
    if length > max {
        return Err(IdError::TooLong { kind, length, max, unit });
    }
    Ok(())
}

macro_rules! text_ids {
    ($($(#[$doc:meta])* $name:ident, $kind:literal, $bound:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Box<str>);

        impl $name {
            /// Takes a text as it stands.
            ///
            /// # Errors
            ///
            /// [`IdError`] where it is empty or longer than its kind allows.
            pub fn new(text: impl Into<Box<str>>) -> Result<Self, IdError> {
                let text = text.into();
                check($kind, $bound, &text)?;
                Ok(Self(text))
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl Deref for $name {
            type Target = str;

            fn deref(&self) -> &str {
                &self.0
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                Self::new(text)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl Cut for $name {
            fn cut(scan: &mut Scanner<'_>) -> Option<Self> {
                Self::new(scan.plain_string()?).ok()
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_str(TextVisitor($kind, |text| Self::new(text)))
            }
        }
    )*};
}

struct TextVisitor<T>(&'static str, fn(&str) -> Result<T, IdError>);

impl<T> de::Visitor<'_> for TextVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        self.1(text).map_err(E::custom)
    }
}

text_ids! {
    /// A thread of an agent, the source or destination of messages: 1 to 1 024 bytes.
    ///
    /// # Examples
    ///
    /// ```
    /// use recount_core::ThreadId;
    ///
    /// assert_eq!(ThreadId::new("ops/7")?.as_str(), "ops/7");
    /// assert_eq!(ThreadId::new("").unwrap_err().to_string(), "thread id is empty");
    /// # Ok::<_, recount_core::IdError>(())
    /// ```
    ThreadId, "thread id", Bound::Bytes(1_024);
    /// An agent: 1 to 1 024 bytes.
    AgentId, "agent id", Bound::Bytes(1_024);
    /// What a destination calls its receipt: 1 to 1 024 bytes.
    ReceiptId, "receipt id", Bound::Bytes(1_024);
    /// What a destination calls an admitted input: 1 to 1 024 bytes.
    SubmissionId, "submission id", Bound::Bytes(1_024);
    /// What a destination calls the end of a submission: 1 to 1 024 bytes.
    SettlementId, "settlement id", Bound::Bytes(1_024);
    /// A message of an outbox: 1 to 256 UTF-16 code units.
    MessageId, "message id", Bound::Utf16(256);
    /// Under which a destination admits an input once: 1 to 256 UTF-16 code units.
    AdmissionKey, "admission key", Bound::Utf16(256);
    /// Inputs that a destination admits together: 1 to 256 UTF-16 code units.
    AdmissionGroup, "admission group", Bound::Utf16(256);
    /// On whose behalf an input is submitted: 1 to 256 UTF-16 code units.
    Principal, "principal", Bound::Utf16(256);
    /// Why a destination refused a message: 1 to 256 UTF-16 code units.
    RefusalCode, "refusal code", Bound::Utf16(256);
    /// A policy or decision of a host's authorizer: 1 to 128 UTF-16 code units.
    Name, "name", Bound::Utf16(128);
    /// One part of an admission fence: 1 to 256 UTF-16 code units.
    FenceText, "fence text", Bound::Utf16(256);
    /// The type of a recorded event, `<category>.<pastTense>`: 1 to 128 bytes.
    EventType, "event type", Bound::Bytes(128);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_count_what_they_name() {
        assert!(MessageId::new("\u{1F680}".repeat(128)).is_ok());
        let error = MessageId::new("\u{1F680}".repeat(129)).unwrap_err();
        assert_eq!(error.to_string(), "message id is 258 UTF-16 code units long, more than 256");
        let error = ThreadId::new("\u{e9}".repeat(513)).unwrap_err();
        assert_eq!(error.to_string(), "thread id is 1026 bytes long, more than 1024");
    }

    #[test]
    fn o_15_empty_is_refused_and_blank_kept_exactly() {
        assert_eq!(MessageId::new(" ").unwrap().as_str(), " ");
        for error in [
            MessageId::new("").unwrap_err(),
            AdmissionKey::new("").unwrap_err(),
            ThreadId::new("").unwrap_err(),
            EventType::new("").unwrap_err(),
        ] {
            assert!(error.to_string().ends_with("is empty"), "{error}");
        }
        let error = serde_json::from_str::<MessageId>("\"\"").unwrap_err();
        assert_eq!(error.to_string(), "message id is empty at line 1 column 2");
    }
}
