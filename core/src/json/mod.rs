//! Bounded JSON and its canonical spelling, RFC 8785 (JCS).
//!
//! Two readers stand here. The general one takes any JSON text, refuses what two readers could
//! understand differently, and writes it canonically. The scanner only answers whether a text is
//! canonical already, which is what nearly every byte of a log is, and cuts our own types out of it
//! by position; tests hold that they agree.

mod canonical;
mod cut;
mod error;
mod number;
mod persisted;
mod scan;

pub use canonical::canonicalize;
pub(crate) use cut::{Cut, cut_generally, cut_or_read, cut_struct};
pub use error::{JsonError, JsonErrorKind};
pub use persisted::{CanonicalJson, PersistedJson};
pub(crate) use scan::Scanner;

use canonical::Numbers;
use std::{collections::BTreeMap, fmt, marker::PhantomData};

use serde::{Deserialize, Deserializer, Serialize, de};

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
    pub(crate) const PERSISTED: Self =
        Self { depth: 64, entries: 4_096, nodes: 65_536, bytes: 1 << 20 };
    /// The data of an event, some levels inside a row.
    pub(crate) const DATA: Self = Self { depth: 76, ..Self::ROW };
    /// A row of a log: a bounded value some levels down, and a row's own size.
    pub(crate) const ROW: Self =
        Self { depth: 80, entries: usize::MAX, nodes: usize::MAX, bytes: 16 << 20 };
}

/// The canonical text of a value of our own types.
///
/// These hold integers, text and JSON that is canonical already, so that nothing can fail.
pub(crate) fn to_canonical<T: Serialize>(value: &T) -> String {
    let text = serde_json::to_string(value).expect("our types serialise to JSON");
    if is_canonical(&text) {
        return text;
    }
    canonicalize(&text).expect("serde_json writes JSON")
}

/// Whether a text of our own types is in its canonical spelling.
pub(crate) fn is_canonical(text: &str) -> bool {
    Scanner::is_canonical(text, Limits::ROW)
}

/// Why JSON does not have the shape of a type.
#[derive(Debug)]
pub(crate) struct ShapeError {
    /// The JSON path, `$` being the whole.
    pub(crate) path: String,
    pub(crate) message: String,
}

/// Reads JSON into a type.
pub(crate) fn read<'a, T: Deserialize<'a>>(json: &'a str) -> Result<T, ShapeError> {
    serde_json::from_str(json).map_err(|error| {
        // Once more and slowly, for the path.
        let mut reader = serde_json::Deserializer::from_str(json);
        let (path, error) = match serde_path_to_error::deserialize::<_, T>(&mut reader) {
            Ok(_) => (String::new(), error),
            Err(error) => (error.path().to_string(), error.into_inner()),
        };
        let path = match path.as_str() {
            "" | "." => "$".to_owned(),
            path => format!("$.{path}"),
        };
        // The column is one of a part of the row, which helps nobody.
        let message = error.to_string();
        ShapeError {
            path,
            message: message.split(" at line ").next().unwrap_or_default().to_owned(),
        }
    })
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

/// The largest count, position or revision: canonical JSON's numbers are doubles.
pub(crate) const MAX_NATURAL: u64 = (1 << 53) - 1;

/// Reads a natural number that canonical JSON can hold.
pub(crate) fn natural<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let number = u64::deserialize(deserializer)?;
    if number > MAX_NATURAL {
        return Err(de::Error::custom(format!("{number} is past 2^53 - 1")));
    }
    Ok(number)
}

/// Reads an object into a map, and refuses a repeated key.
pub(crate) fn unique_keys<'de, D, T>(deserializer: D) -> Result<BTreeMap<String, T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct Visitor<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> de::Visitor<'de> for Visitor<T> {
        type Value = BTreeMap<String, T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: de::MapAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
            let mut map = BTreeMap::new();
            while let Some((key, value)) = access.next_entry::<String, T>()? {
                if map.contains_key(&key) {
                    return Err(de::Error::custom(JsonErrorKind::DuplicateKey { key }));
                }
                map.insert(key, value);
            }
            Ok(map)
        }
    }

    deserializer.deserialize_map(Visitor(PhantomData))
}

/// The same for an optional key that has a value where it is present.
pub(crate) fn some_unique_keys<'de, D, T>(
    deserializer: D,
) -> Result<Option<BTreeMap<String, T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    unique_keys(deserializer).map(Some)
}
