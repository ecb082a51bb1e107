//! Events as a log holds them: their place, their digest, and what is in them.

mod batch;
mod row;
mod schema;
mod stream;

pub use batch::{EventBatch, EventDraft, SealError, SealedEvent};
pub use row::{MAX_ROW_BYTES, RecordedEvent, Row, RowError, write_row};
pub(crate) use schema::Schema;
pub use schema::{DecodeError, DomainEvent};
pub use stream::{StreamName, StreamNameError};
pub(crate) use stream::{decode_loosely, encode};

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, de};

use crate::{CanonicalJson, Digest, PersistedJson, json::natural, json::present};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub struct $name(#[serde(deserialize_with = "natural")] u64);

        impl $name {
            /// The first.
            pub const ZERO: Self = Self(0);

            /// The last that can be: 2^53 − 1.
            pub const MAX: Self = Self((1 << 53) - 1);

            /// Takes a number that a double holds; `None` past 2^53 − 1.
            pub const fn new(number: u64) -> Option<Self> {
                if number < 1 << 53 { Some(Self(number)) } else { None }
            }

            /// The number.
            pub const fn get(self) -> u64 {
                self.0
            }

            /// The next one; it stays where it is at 2^53 − 1, which no log reaches.
            #[must_use]
            pub const fn next(self) -> Self {
                match Self::new(self.0 + 1) {
                    Some(next) => next,
                    None => self,
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

counters! {
    /// The place of an event in its log, from 0.
    ///
    /// # Examples
    ///
    /// ```
    /// use recount_core::Position;
    ///
    /// assert_eq!(Position::ZERO.next().get(), 1);
    /// assert_eq!(Position::new(1 << 53), None);
    /// ```
    Position;
    /// The place of an event in its stream, from 0.
    Revision;
}

/// The last event of a stream: what an append expects to stand there.
///
/// # Examples
///
/// ```
/// use recount_core::{Digest, Revision, StreamHead};
///
/// let head = StreamHead { revision: Revision::ZERO.next(), digest: Digest::of_bytes(b"event") };
/// assert_eq!(head.revision.get(), 1);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamHead {
    /// Its place in the stream.
    pub revision: Revision,
    /// Its digest, to which the next event is chained.
    pub digest: Digest,
}

/// What the writer of an event says beside it.
///
/// # Examples
///
/// ```
/// use recount_core::{Metadata, PersistedJson};
///
/// let mut metadata = Metadata::of_actor("driver-1");
/// metadata.custom = Some(PersistedJson::parse(r#"{"host": "a"}"#)?);
/// let text = serde_json::to_string(&metadata)?;
/// assert_eq!(text, r#"{"actor":"driver-1","custom":{"host":"a"}}"#);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Metadata {
    /// Who wrote it.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    /// The event or command that led to it.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub causation_id: Option<String>,
    /// What it belongs to.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// The host's own: a JSON object.
    #[serde(default, deserialize_with = "object", skip_serializing_if = "Option::is_none")]
    pub custom: Option<PersistedJson>,
}

impl Metadata {
    /// Metadata that names a writer.
    pub fn of_actor(actor: impl Into<String>) -> Self {
        Self { actor: Some(actor.into()), ..Self::default() }
    }

    /// Whether the host's own is an object, as it must be.
    pub(crate) fn is_valid(&self) -> bool {
        self.custom.as_ref().is_none_or(|custom| custom.as_str().starts_with('{'))
    }

    fn canonical(&self) -> CanonicalJson {
        CanonicalJson::from_canonical(crate::json::to_canonical(self))
    }
}

fn object<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<PersistedJson>, D::Error> {
    let json = PersistedJson::deserialize(deserializer)?;
    if !json.as_str().starts_with('{') {
        return Err(de::Error::custom("expected a JSON object"));
    }
    Ok(Some(json))
}
