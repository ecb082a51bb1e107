//! Types and versions of events, in one place.
//!
//! A type's current version is one more than the number of steps registered for it. Each step is
//! pure and lifts data by one version, JSON to JSON.

use serde_json::Value;

use crate::{
    CanonicalJson, EventType,
    delivery::{self, DeliveryEvent},
    json::{Scanner, ShapeError, canonicalize},
};

/// Any event of the domain, typed.
///
/// It is exhaustive on purpose: every fold has to say what it does with a new category.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DomainEvent {
    /// About a message.
    Delivery(DeliveryEvent),
}

impl From<DeliveryEvent> for DomainEvent {
    fn from(event: DeliveryEvent) -> Self {
        Self::Delivery(event)
    }
}

/// Why an event's data could not be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// Nobody here knows the type.
    #[error("unknown event type {event_type:?}: written by a newer program, or not by Recount")]
    UnknownType {
        /// The type as it stands.
        event_type: String,
    },
    /// The type is known, but not in this version.
    #[error("{event_type} has schema version {version}, this program reads 1 to {newest}")]
    UnknownVersion {
        /// The type.
        event_type: &'static str,
        /// The version as it stands.
        version: u32,
        /// The newest version that can be read.
        newest: u32,
    },
    /// The data is not what the type holds.
    #[error("the data of {event_type} does not decode at {path}: {message}")]
    Data {
        /// The type.
        event_type: &'static str,
        /// The JSON path in the data, `$` being the whole.
        path: String,
        /// What is wrong there.
        message: String,
    },
}

impl DecodeError {
    /// Whether the event may be one that a newer program wrote.
    pub const fn is_unknown(&self) -> bool {
        matches!(self, Self::UnknownType { .. } | Self::UnknownVersion { .. })
    }
}

/// Lifts data by one version.
pub(crate) type Upcast = fn(Value) -> Value;

/// How one type of event is read.
pub(crate) struct Schema {
    pub(crate) event_type: &'static str,
    /// The steps from version 1 to the current one.
    pub(crate) upcasts: &'static [Upcast],
    pub(crate) decode: fn(&str) -> Result<DomainEvent, ShapeError>,
    /// Cuts data of the current version out of canonical JSON.
    pub(crate) cut: fn(&mut Scanner<'_>) -> Option<DomainEvent>,
}

impl Schema {
    fn newest(&self) -> u32 {
        u32::try_from(self.upcasts.len()).map_or(u32::MAX, |steps| steps + 1)
    }

    fn decode(&self, version: u32, data: &str) -> Result<DomainEvent, DecodeError> {
        let newest = self.newest();
        let event_type = self.event_type;
        let wrong = |ShapeError { path, message }| DecodeError::Data { event_type, path, message };
        if version == newest {
            return (self.decode)(data).map_err(wrong);
        }
        let steps = version.checked_sub(1).and_then(|from| self.upcasts.get(from as usize..));
        let Some(steps) = steps.filter(|steps| !steps.is_empty()) else {
            return Err(DecodeError::UnknownVersion { event_type, version, newest });
        };
        let unreadable = |message: String| wrong(ShapeError { path: "$".to_owned(), message });
        let old = serde_json::from_str(data).map_err(|error| unreadable(error.to_string()))?;
        let new = steps.iter().fold(old, |data: Value, step| step(data)).to_string();
        let new = canonicalize(&new).map_err(|error| unreadable(error.to_string()))?;
        (self.decode)(&new).map_err(wrong)
    }
}

impl DomainEvent {
    /// Reads the data of a recorded event.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] for an unknown type, an unknown version, or data that is not what the type
    /// holds; it names which.
    ///
    /// # Examples
    ///
    /// ```
    /// use recount_core::DomainEvent;
    ///
    /// let data = r#"{"atMillis":5,"leaseUntilMillis":9,"messageId":"m"}"#;
    /// let DomainEvent::Delivery(event) = DomainEvent::decode("delivery.claimed", 1, data)?;
    /// assert_eq!(event.message_id().as_str(), "m");
    /// assert_eq!(
    ///     DomainEvent::decode("delivery.claimed", 2, data).unwrap_err().to_string(),
    ///     "delivery.claimed has schema version 2, this program reads 1 to 1",
    /// );
    /// # Ok::<_, recount_core::DecodeError>(())
    /// ```
    pub fn decode(event_type: &str, version: u32, data: &str) -> Result<Self, DecodeError> {
        schema(event_type)
            .ok_or_else(|| DecodeError::UnknownType { event_type: event_type.to_owned() })?
            .decode(version, data)
    }

    /// Cuts an event's data out of canonical JSON, in the current version of its type.
    pub(super) fn cut(event_type: &str, scan: &mut Scanner<'_>) -> Option<Self> {
        (schema(event_type)?.cut)(scan)
    }

    /// Every type that is understood, with its newest version: a fold that skips what it does not
    /// understand is another fold where this is other.
    ///
    /// # Examples
    ///
    /// ```
    /// use recount_core::DomainEvent;
    ///
    /// assert!(DomainEvent::schemas().any(|schema| schema == ("delivery.claimed", 1)));
    /// ```
    pub fn schemas() -> impl Iterator<Item = (&'static str, u32)> {
        delivery::SCHEMAS.iter().map(|schema| (schema.event_type, schema.newest()))
    }

    /// The version that a type's events have now; 0 of an unknown type.
    pub(super) fn newest_version(event_type: &str) -> u32 {
        schema(event_type).map_or(0, Schema::newest)
    }

    /// Type, current version and data, as they are stored.
    pub(crate) fn encode(&self) -> (EventType, u32, CanonicalJson) {
        let Self::Delivery(event) = self;
        let name = event.event_type();
        let newest = Self::newest_version(name);
        let event_type = EventType::new(name).expect("our types are names");
        (event_type, newest, event.to_data())
    }
}

fn schema(event_type: &str) -> Option<&'static Schema> {
    delivery::SCHEMAS.iter().find(|schema| schema.event_type == event_type)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::read;

    /// Two steps: `lease` was renamed, then `at` came from seconds.
    const SCHEMA: Schema = Schema {
        event_type: "delivery.claimed",
        upcasts: &[
            |mut data| {
                data["leaseUntilMillis"] = data["lease"].take();
                data.as_object_mut().unwrap().remove("lease");
                data
            },
            |mut data| {
                data["atMillis"] = (data["atSeconds"].as_u64().unwrap() * 1_000).into();
                data.as_object_mut().unwrap().remove("atSeconds");
                data
            },
        ],
        decode: |data| read(data).map(DeliveryEvent::Claimed).map(DomainEvent::Delivery),
        cut: |_| None,
    };

    #[test]
    fn old_versions_are_lifted_one_step_at_a_time() {
        let newest = r#"{"atMillis":5000,"leaseUntilMillis":9,"messageId":"m"}"#;
        let expected = SCHEMA.decode(3, newest).unwrap();
        let second = r#"{"atSeconds":5,"leaseUntilMillis":9,"messageId":"m"}"#;
        assert_eq!(SCHEMA.decode(2, second).unwrap(), expected);
        let first = r#"{"atSeconds":5,"lease":9,"messageId":"m"}"#;
        assert_eq!(SCHEMA.decode(1, first).unwrap(), expected);
        for version in [0, 4] {
            assert_eq!(
                SCHEMA.decode(version, newest).unwrap_err().to_string(),
                format!("delivery.claimed has schema version {version}, this program reads 1 to 3")
            );
        }
    }

    #[test]
    fn what_does_not_decode_is_named_by_path() {
        let error = DomainEvent::decode(
            "delivery.accepted",
            1,
            r#"{"atMillis":1,"messageId":"m","nextAttemptAtMillis":1,"receipt":{"queueSequence":-1,"receiptId":"r","submissionId":"s","threadId":"t"}}"#,
        );
        assert_eq!(
            error.unwrap_err().to_string(),
            "the data of delivery.accepted does not decode at $.receipt.queueSequence: invalid \
             value: integer `-1`, expected u64"
        );
        let error = DomainEvent::decode(
            "delivery.claimed",
            1,
            r#"{"atMillis":1,"leaseUntilMillis":2,"messageId":"m","more":1}"#,
        );
        assert_eq!(
            error.unwrap_err().to_string(),
            "the data of delivery.claimed does not decode at $.more: unknown field `more`, expected \
             one of `atMillis`, `leaseUntilMillis`, `messageId`"
        );
        assert_eq!(
            DomainEvent::decode("job.created", 1, "{}").unwrap_err().to_string(),
            "unknown event type \"job.created\": written by a newer program, or not by Recount"
        );
    }
}
