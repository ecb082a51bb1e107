//! Bounded JSON and its canonical spelling, RFC 8785 (JCS).
//!
//! Two readers stand here. The general one takes any JSON text, refuses what two readers could
//! understand differently, and writes it canonically. The scanner only answers whether a text is
//! canonical already, which is what nearly every byte of a log is; a test holds that they agree.

mod canonical;
mod error;
mod number;
mod persisted;
mod scan;

pub use canonical::canonicalize;
pub use error::{JsonError, JsonErrorKind};
pub use persisted::{CanonicalJson, PersistedJson};
pub(crate) use scan::Scanner;

use canonical::Numbers;
use serde::{Deserialize, Deserializer, Serialize};

/// How much of a JSON text is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Arrays and objects inside one another.
    pub(crate) depth: usize,
    /// Entries of one array or object.
    pub(crate) entries: usize,
    /// Values in all.
    pub(crate) nodes: usize,
    /// Bytes of the canonical spelling.
    pub(crate) bytes: usize,
}

impl Limits {
    /// What `PersistedJson` holds (`spec/common.md`).
    pub(crate) const PERSISTED: Self = Self {
        depth: 64,
        entries: 4_096,
        nodes: 65_536,
        bytes: 1 << 20,
    };
    /// A row of a log: a bounded value some levels down, and a row's own size.
    pub(crate) const ROW: Self = Self {
        depth: 80,
        entries: usize::MAX,
        nodes: usize::MAX,
        bytes: 16 << 20,
    };
}

/// The canonical text of a value of our own types.
///
/// These hold integers, text and JSON that is canonical already, so that nothing can fail.
pub(crate) fn to_canonical<T: Serialize>(value: &T) -> String {
    let text = serde_json::to_string(value).expect("our types serialise to JSON");
    if Scanner::new(&text).is_canonical(Limits::ROW) {
        return text;
    }
    canonical::rewrite(
        &text,
        Limits {
            bytes: usize::MAX,
            depth: 200,
            ..Limits::ROW
        },
        Numbers::Rounded,
    )
    .expect("serde_json writes JSON")
}

/// Reads an optional key that is either absent or has a value: `null` is refused, so that what
/// was read is written again byte for byte.
pub(crate) fn present<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(deserializer).map(Some)
}
