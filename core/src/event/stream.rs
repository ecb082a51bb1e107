//! Names of streams: readable, and reversible.

use std::{borrow::Borrow, fmt, ops::Deref, sync::Arc};

use serde::{Serialize, Serializer};

use crate::{Digest, ThreadId};

/// The longest name; the key of a longer one is given by its digest.
const MAX_BYTES: usize = 1_024;

/// The name of a stream: a category, `-`, and the parts of a key joined by `/`.
///
/// Every byte of a part but `A–Z a–z 0–9 . _ ~ -` is percent-encoded in upper-case hex. Where that
/// would be longer than 1 024 bytes, the SHA-256 of the encoded key stands in its place, and the
/// key itself is in the data of the stream's first event (`spec/log.md`).
///
/// # Examples
///
/// ```
/// use recount_core::{StreamName, ThreadId};
///
/// let stream = StreamName::delivery(&ThreadId::new("ägent/ops 7")?);
/// assert_eq!(stream.as_str(), "delivery-%C3%A4gent%2Fops%207");
/// assert_eq!(StreamName::parse(stream.as_str()), Ok(stream));
/// # Ok::<_, recount_core::IdError>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamName(Arc<str>);

/// Why a text is not the name of a stream.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StreamNameError {
    /// There is no category of lower-case letters with `-` behind it.
    #[error("a stream name begins with a category in lower-case letters and `-`")]
    Category,
    /// A part of the key is empty.
    #[error("a part of the stream's key is empty")]
    EmptyPart,
    /// The key is not spelt as it would be written.
    #[error("the stream's key is not percent-encoded as it would be written, at byte {at}")]
    Encoding {
        /// The byte offset in the name.
        at: usize,
    },
    /// The name is too long.
    #[error("a stream name of {length} bytes is longer than {MAX_BYTES}")]
    TooLong {
        /// How long it is.
        length: usize,
    },
}

impl StreamName {
    /// The stream of a source thread's outbox.
    pub fn delivery(owner: &ThreadId) -> Self {
        Self::of_key("delivery", &[owner])
    }

    fn of_key(category: &str, parts: &[&str]) -> Self {
        let mut name = format!("{category}-");
        for (index, part) in parts.iter().enumerate() {
            if index > 0 {
                name.push('/');
            }
            encode(part, &mut name);
        }
        if name.len() > MAX_BYTES {
            let digest = Digest::of_bytes(&name.as_bytes()[category.len() + 1..]);
            name = format!("{category}-{digest}");
        }
        Self(name.into())
    }

    /// Reads a name, and checks that it is spelt as it would be written.
    ///
    /// # Errors
    ///
    /// [`StreamNameError`] for anything that this library would not have written.
    pub fn parse(text: &str) -> Result<Self, StreamNameError> {
        if text.len() > MAX_BYTES {
            return Err(StreamNameError::TooLong { length: text.len() });
        }
        let (category, key) = text.split_once('-').ok_or(StreamNameError::Category)?;
        if category.is_empty() || !category.bytes().all(|byte| byte.is_ascii_lowercase()) {
            return Err(StreamNameError::Category);
        }
        let mut at = category.len() + 1;
        for part in key.split('/') {
            if part.is_empty() {
                return Err(StreamNameError::EmptyPart);
            }
            decode(part).map_err(|offset| StreamNameError::Encoding { at: at + offset })?;
            at += part.len() + 1;
        }
        Ok(Self(text.into()))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What stands before the first `-`.
    pub fn category(&self) -> &str {
        self.0.split_once('-').map_or("", |(category, _)| category)
    }
}

const fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'~' | b'-')
}

fn upper_hex(nibble: u8) -> char {
    char::from(b"0123456789ABCDEF"[usize::from(nibble)])
}

/// Writes one part of a key.
pub(crate) fn encode(part: &str, name: &mut String) {
    for byte in part.bytes() {
        if is_plain(byte) {
            name.push(char::from(byte));
        } else {
            name.push('%');
            name.extend([byte >> 4, byte & 15].map(upper_hex));
        }
    }
}

/// The text of one part as a person writes it: what should be encoded may also stand as it is.
pub(crate) fn decode_loosely(part: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(if byte == b'%' {
            let mut digit = || char::from(rest.next()?).to_digit(16);
            let byte = digit()? << 4 | digit()?;
            u8::try_from(byte).ok()?
        } else {
            byte
        });
    }
    String::from_utf8(bytes).ok()
}

/// The text of one part, or the offset of what would not have been written so.
fn decode(part: &str) -> Result<String, usize> {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.bytes().enumerate();
    while let Some((at, byte)) = rest.next() {
        if byte != b'%' {
            if !is_plain(byte) {
                return Err(at);
            }
            bytes.push(byte);
            continue;
        }
        let mut digit = || {
            let (_, digit) = rest.next()?;
            let value = char::from(digit).to_digit(16)?;
            (!digit.is_ascii_lowercase()).then_some(u8::try_from(value).ok()?)
        };
        let decoded = digit().zip(digit()).map(|(high, low)| high << 4 | low);
        bytes.push(decoded.filter(|byte| !is_plain(*byte)).ok_or(at)?);
    }
    String::from_utf8(bytes).map_err(|_| 0)
}

impl Deref for StreamName {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for StreamName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for StreamName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for StreamName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl Serialize for StreamName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_that_would_not_be_written_are_refused() {
        for (name, error) in [
            ("delivery", "a stream name begins with a category in lower-case letters and `-`"),
            ("-a", "a stream name begins with a category in lower-case letters and `-`"),
            ("Delivery-a", "a stream name begins with a category in lower-case letters and `-`"),
            ("delivery-", "a part of the stream's key is empty"),
            ("schedule-a//b", "a part of the stream's key is empty"),
            (
                "delivery-a b",
                "the stream's key is not percent-encoded as it would be written, at byte 10",
            ),
            (
                "delivery-%2f",
                "the stream's key is not percent-encoded as it would be written, at byte 9",
            ),
            (
                "delivery-a%41",
                "the stream's key is not percent-encoded as it would be written, at byte 10",
            ),
            (
                "delivery-%F",
                "the stream's key is not percent-encoded as it would be written, at byte 9",
            ),
            (
                "schedule-a/%FF",
                "the stream's key is not percent-encoded as it would be written, at byte 11",
            ),
        ] {
            assert_eq!(StreamName::parse(name).unwrap_err().to_string(), error, "{name}");
        }
        let long = StreamName::parse(&format!("delivery-{}", "a".repeat(1_016)));
        assert_eq!(
            long.unwrap_err().to_string(),
            "a stream name of 1025 bytes is longer than 1024"
        );
    }

    proptest! {
        #[test]
        fn every_thread_has_one_readable_name(owner in "\\PC{1,80}|\\x00{1,40}") {
            let name = StreamName::delivery(&ThreadId::new(owner.as_str()).unwrap());
            prop_assert_eq!(StreamName::parse(&name), Ok(name.clone()));
            prop_assert_eq!(name.category(), "delivery");
            let key = &name["delivery-".len()..];
            if name.len() < 1_000 {
                prop_assert_eq!(decode(key), Ok(owner));
            }
        }
    }

    #[test]
    fn a_long_key_is_given_by_its_digest() {
        let owner = ThreadId::new("/".repeat(1_000)).unwrap();
        let name = StreamName::delivery(&owner);
        let digest = Digest::of_bytes("%2F".repeat(1_000).as_bytes());
        assert_eq!(name.as_str(), format!("delivery-{digest}"));
        assert_eq!(StreamName::parse(&name), Ok(name));
    }
}
