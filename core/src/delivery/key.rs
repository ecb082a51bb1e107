//! Which message it is.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{
    IdError, MessageId, ThreadId,
    event::{decode_loosely, encode},
    json::cut_struct,
};

/// Which message of which outbox.
///
/// People write it as streams are named: the owner, `/`, and the message, each percent-encoded.
/// Read is also what stands as it is, but for `/` and `%`.
///
/// # Examples
///
/// ```
/// use recount_core::delivery::MessageDeliveryKey;
///
/// let key: MessageDeliveryKey = "planner/offer 4".parse()?;
/// assert_eq!((key.owner_thread_id.as_str(), key.message_id.as_str()), ("planner", "offer 4"));
/// assert_eq!(key.to_string(), "planner/offer%204");
/// assert_eq!(key.to_string().parse(), Ok(key));
/// # Ok::<_, recount_core::delivery::KeyError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MessageDeliveryKey {
    // In the order that pages have; canonical JSON sorts by name.
    /// The source thread, which owns the outbox.
    pub owner_thread_id: ThreadId,
    /// The message.
    pub message_id: MessageId,
}

/// Why a text is not the key of a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// It has not two parts.
    #[error("expected OWNER/MESSAGE, found {slashes} slashes: one within an id is written %2F")]
    Slashes {
        /// How many slashes there are.
        slashes: usize,
    },
    /// What follows a percent sign is no byte, or the bytes are no text.
    #[error("{part:?} is not percent-encoded: a percent sign itself is written %25")]
    Encoding {
        /// The part.
        part: String,
    },
    /// A part is not an id.
    #[error(transparent)]
    Id(#[from] IdError),
}

impl MessageDeliveryKey {
    /// Reads the first part of a key alone: whose outbox it is.
    ///
    /// # Examples
    ///
    /// ```
    /// use recount_core::delivery::MessageDeliveryKey;
    ///
    /// let owner = MessageDeliveryKey::parse_owner("ops%2Fnight shift")?;
    /// assert_eq!(owner.as_str(), "ops/night shift");
    /// # Ok::<_, recount_core::delivery::KeyError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`KeyError::Encoding`] and [`KeyError::Id`]; a slash may stand as it is here.
    pub fn parse_owner(text: &str) -> Result<ThreadId, KeyError> {
        Ok(ThreadId::new(decode(text)?)?)
    }
}

fn decode(part: &str) -> Result<String, KeyError> {
    decode_loosely(part).ok_or_else(|| KeyError::Encoding { part: part.to_owned() })
}

impl FromStr for MessageDeliveryKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let slashes = text.matches('/').count();
        let parts = text.split_once('/').filter(|_| slashes == 1);
        let (owner, message) = parts.ok_or(KeyError::Slashes { slashes })?;
        let owner_thread_id = Self::parse_owner(owner)?;
        Ok(Self { owner_thread_id, message_id: MessageId::new(decode(message)?)? })
    }
}

impl fmt::Display for MessageDeliveryKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        encode(&self.owner_thread_id, &mut text);
        text.push('/');
        encode(&self.message_id, &mut text);
        f.pad(&text)
    }
}

cut_struct!(MessageDeliveryKey { "messageId" message_id, "ownerThreadId" owner_thread_id });

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_no_key_says_why() {
        for (text, error) in [
            ("planner", "expected OWNER/MESSAGE, found 0 slashes: one within an id is written %2F"),
            ("a/b/c", "expected OWNER/MESSAGE, found 2 slashes: one within an id is written %2F"),
            ("a/b%", "\"b%\" is not percent-encoded: a percent sign itself is written %25"),
            ("a/%+1", "\"%+1\" is not percent-encoded: a percent sign itself is written %25"),
            ("%ff/b", "\"%ff\" is not percent-encoded: a percent sign itself is written %25"),
            ("/b", "thread id is empty"),
            ("a/", "message id is empty"),
        ] {
            let found = text.parse::<MessageDeliveryKey>().unwrap_err();
            assert_eq!(found.to_string(), error, "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_key_is_read_as_it_is_written(owner in "\\PC{1,40}", message in "\\PC{1,40}") {
            let owner_thread_id = ThreadId::new(owner.as_str()).unwrap();
            let key = MessageDeliveryKey {
                owner_thread_id, message_id: MessageId::new(message.as_str()).unwrap(),
            };
            prop_assert_eq!(key.to_string().parse(), Ok(key.clone()));
            let plain = |text: &str| !text.contains(['/', '%']);
            if plain(&owner) && plain(&message) {
                prop_assert_eq!(format!("{owner}/{message}").parse(), Ok(key));
            }
        }
    }
}
