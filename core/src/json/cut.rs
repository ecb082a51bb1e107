//! Reading our own types out of canonical JSON by position.
//!
//! In canonical JSON the keys of a type stand in one order, so that it is read in one pass which
//! also holds the text to its spelling. Whatever is not exactly so is left to the general reader.

use serde::de::DeserializeOwned;

use super::{CanonicalJson, Limits, PersistedJson, Scanner, ShapeError, read};
use crate::{Digest, Instant};

/// A type that can be cut out of canonical JSON.
pub(crate) trait Cut: Sized {
    /// Steps over one value and returns it; `None` where only the general reader can tell.
    fn cut(scan: &mut Scanner<'_>) -> Option<Self>;
}

/// Reads JSON into a type: by position where it is canonical, and generally where it is not.
pub(crate) fn cut_or_read<T: Cut + DeserializeOwned>(json: &str) -> Result<T, ShapeError> {
    let mut scan = Scanner::new(json);
    match T::cut(&mut scan) {
        Some(value) if scan.is_at_end() => Ok(value),
        _ => read(json),
    }
}

/// Implements [`Cut`] for structs: their keys in canonical order, optional ones marked.
macro_rules! cut_struct {
    ($name:ident { $($key:literal $field:ident $($optional:ident)?),* $(,)? }) => {
        impl $crate::json::Cut for $name {
            fn cut(scan: &mut $crate::json::Scanner<'_>) -> Option<Self> {
                let mut before = b'{';
                $(let $field = $crate::json::cut_struct!(@field scan before $key $($optional)?);)*
                // Nothing but optional keys, and none of them there: that is left to others.
                (before == b',').then_some(())?;
                scan.literal(b"}")?;
                Some(Self { $($field),* })
            }
        }
    };
    (@field $scan:ident $before:ident $key:literal) => {{
        $scan.key($before, concat!('"', $key, "\":"))?;
        $before = b',';
        $crate::json::Cut::cut($scan)?
    }};
    (@field $scan:ident $before:ident $key:literal optional) => {
        match $scan.key($before, concat!('"', $key, "\":")) {
            None => None,
            Some(()) => {
                $before = b',';
                Some($crate::json::Cut::cut($scan)?)
            }
        }
    };
}

/// Implements [`Cut`] for types that are small or rare, through the general reader.
macro_rules! cut_generally {
    ($($name:ty),* $(,)?) => {$(
        impl $crate::json::Cut for $name {
            fn cut(scan: &mut $crate::json::Scanner<'_>) -> Option<Self> {
                serde_json::from_str(scan.value($crate::json::Limits::DATA)?).ok()
            }
        }
    )*};
}

pub(crate) use {cut_generally, cut_struct};

impl<T: Cut> Cut for Box<T> {
    fn cut(scan: &mut Scanner<'_>) -> Option<Self> {
        T::cut(scan).map(Box::new)
    }
}

impl Cut for u64 {
    fn cut(scan: &mut Scanner<'_>) -> Option<Self> {
        scan.natural()
    }
}

impl Cut for Instant {
    fn cut(scan: &mut Scanner<'_>) -> Option<Self> {
        Self::from_millis(scan.natural()?).ok()
    }
}

impl Cut for Digest {
    fn cut(scan: &mut Scanner<'_>) -> Option<Self> {
        scan.literal(b"\"")?;
        let digest = Self::from_hex(scan.take(64)?.as_bytes())?;
        scan.literal(b"\"")?;
        Some(digest)
    }
}

impl Cut for String {
    fn cut(scan: &mut Scanner<'_>) -> Option<Self> {
        scan.plain_string().map(str::to_owned)
    }
}

impl Cut for PersistedJson {
    fn cut(scan: &mut Scanner<'_>) -> Option<Self> {
        let text = scan.value(Limits::PERSISTED)?;
        (text.len() <= Limits::PERSISTED.bytes)
            .then(|| Self::from_canonical(CanonicalJson::from_canonical(text)))
    }
}
