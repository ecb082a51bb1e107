//! SHA-256 digests, as 64 lower-case hex digits in JSON.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::{Digest as _, Sha256};

/// A SHA-256 digest.
///
/// Its text and JSON form is 64 lower-case hex digits (`spec/common.md`).
///
/// # Examples
///
/// ```
/// use recount_core::Digest;
///
/// let digest = Digest::of_bytes(b"0");
/// let text = "5feceb66ffc86f38d952786c6d696c79c2dbc239dd4e91b46729d73a27fb57e9";
/// assert_eq!(digest.to_string(), text);
/// assert_eq!(text.parse(), Ok(digest));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

/// A text that is not 64 lower-case hex digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a digest is 64 lower-case hex digits")]
pub struct DigestError;

impl Digest {
    /// 64 zeros: what stands before the first event of a stream.
    pub const ZERO: Self = Self([0; 32]);

    /// The digest of some bytes.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The digest of several pieces, as if they stood in one.
    ///
    /// # Examples
    ///
    /// ```
    /// use recount_core::Digest;
    ///
    /// assert_eq!(Digest::of_parts(&[b"ab", b"c"]), Digest::of_bytes(b"abc"));
    /// ```
    pub fn of_parts(parts: &[&[u8]]) -> Self {
        let mut hasher = Sha256::new();
        for part in parts {
            hasher.update(part);
        }
        Self(hasher.finalize().into())
    }

    /// The digest whose raw bytes these are.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The 32 raw bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Reads 64 lower-case hex digits; `None` for anything else.
    pub(crate) fn from_hex(hex: &[u8]) -> Option<Self> {
        let hex: &[u8; 64] = hex.try_into().ok()?;
        let mut bytes = [0; 32];
        let mut wrong = 0;
        for (byte, pair) in bytes.iter_mut().zip(hex.chunks_exact(2)) {
            let (high, low) = (NIBBLES[usize::from(pair[0])], NIBBLES[usize::from(pair[1])]);
            // One branch for all digits: which of them is wrong does not matter.
            wrong |= high | low;
            *byte = high << 4 | low & 15;
        }
        (wrong < 16).then_some(Self(bytes))
    }

    /// The 64 hex digits.
    pub(crate) fn to_hex(self) -> [u8; 64] {
        let mut hex = [0; 64];
        for (pair, byte) in hex.chunks_exact_mut(2).zip(self.0) {
            pair[0] = b"0123456789abcdef"[usize::from(byte >> 4)];
            pair[1] = b"0123456789abcdef"[usize::from(byte & 15)];
        }
        hex
    }
}

/// The value of each digit; 16 for what is none.
const NIBBLES: [u8; 256] = {
    let mut values = [16; 256];
    let mut value = 0;
    while value < 16 {
        values[b"0123456789abcdef"[value as usize] as usize] = value;
        value += 1;
    }
    values
};

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(std::str::from_utf8(&self.to_hex()).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        Self::from_hex(text.as_bytes()).ok_or(DigestError)
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Digest;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("64 lower-case hex digits")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Digest, E> {
                text.parse().map_err(|_| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_str(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upper_case_short_and_other_text_is_refused() {
        let hex = "5feceb66ffc86f38d952786c6d696c79c2dbc239dd4e91b46729d73a27fb57e9";
        for text in [&hex.to_uppercase(), &hex[1..], &format!("{hex}0"), ""] {
            assert_eq!(text.parse::<Digest>(), Err(DigestError), "{text}");
        }
        assert_eq!(DigestError.to_string(), "a digest is 64 lower-case hex digits");
        let error = serde_json::from_str::<Digest>("\"5F\"").unwrap_err();
        assert_eq!(
            error.to_string(),
            "invalid value: string \"5F\", expected 64 lower-case hex digits at line 1 column 4"
        );
    }
}
