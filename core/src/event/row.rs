//! One row of a log: an event with its position, in one spelling.
//!
//! ```text
//! {"digest":"<64 hex>","event":{"data":{…},"metadata":{…},"previousDigest":"<64 hex>",
//!  "recordedAt":"<RFC 3339>","revision":3,"schemaVersion":1,"stream":"…","type":"…"},"position":41}
//! ```
//! The whole is canonical JSON, so it can be cut by position, and `event` is one slice that the
//! digest is over. A row that cannot be cut so is read generally, to say what is wrong with it.

use std::{borrow::Cow, str::Utf8Error};

use serde::{Deserialize, Deserializer, de};

use super::{
    DomainEvent, Position, Revision, SealedEvent, StreamName, StreamNameError,
    batch::digest_of_event, object,
};
use crate::{
    Digest, EventType, IdError, Instant, JsonError, PersistedJson,
    json::{Limits, Scanner, canonicalize, present, read},
};

/// The largest row that is read: 16 MiB.
pub const MAX_ROW_BYTES: usize = Limits::ROW.bytes;

/// A row, cut into its parts; every part is canonical JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row<'a> {
    /// Whether the row was in its one spelling (L5). Where it was not, the parts are those of the
    /// canonical spelling.
    pub is_canonical: bool,
    /// The digest that the row states.
    pub digest: Digest,
    /// The place in the log.
    pub position: Position,
    /// The slice that the digest is over.
    pub event: &'a str,
    /// The facts.
    pub data: &'a str,
    /// What the writer says beside them.
    pub metadata: &'a str,
    /// The digest of the event before it in the stream.
    pub previous_digest: Digest,
    /// When it was recorded.
    pub recorded_at: Instant,
    /// The place in the stream.
    pub revision: Revision,
    /// The version of the data's shape.
    pub schema_version: u32,
    /// The stream's name as it stands, not yet checked.
    pub stream: &'a str,
    /// The type as it stands, perhaps unknown.
    pub event_type: &'a str,
}

/// An event of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedEvent {
    /// The place in the log.
    pub position: Position,
    /// The event.
    pub event: SealedEvent,
}

/// Why bytes are not a row, or not one that can be an event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RowError {
    /// They are not text.
    #[error("not UTF-8 at byte {} of the row", .0.valid_up_to())]
    Utf8(#[source] Utf8Error),
    /// They are not JSON.
    #[error("not JSON: {0}")]
    Json(#[source] JsonError),
    /// They are JSON of another shape.
    #[error("not a row: {message}")]
    Shape {
        /// What is missing, unknown or of another kind, and where.
        message: String,
    },
    /// There is more than can be read.
    #[error("a row of {length} bytes is longer than {max}")]
    TooLong {
        /// How long it is.
        length: usize,
        /// How long it may be.
        max: usize,
    },
    /// The row is not in its one spelling (L5).
    #[error("the row is not canonical JSON")]
    NotCanonical,
    /// The digest is not that of the event (L4).
    #[error("the digest is {stated}, the event's is {computed}")]
    Digest {
        /// What the row states.
        stated: Digest,
        /// What it should state.
        computed: Digest,
    },
    /// The stream's name is not one (L8).
    #[error(transparent)]
    Stream(#[from] StreamNameError),
    /// The type cannot be one (L6).
    #[error(transparent)]
    EventType(#[from] IdError),
}

impl<'a> Row<'a> {
    /// Reads a row without its newline.
    ///
    /// `spare` takes the canonical spelling of a row that was not in it. Digest, stream and type
    /// are not checked here: [`Row::digest_of_event`] and [`RecordedEvent::read`] do.
    ///
    /// # Errors
    ///
    /// [`RowError`] where the bytes are not a row: not UTF-8, not JSON, or of another shape.
    ///
    /// # Examples
    ///
    /// ```
    /// use recount_core::{Row, RowError};
    ///
    /// let mut spare = String::new();
    /// let error = Row::read(b"{\"digest\":1}", &mut spare).unwrap_err();
    /// assert!(matches!(error, RowError::Shape { .. }));
    /// ```
    pub fn read(bytes: &'a [u8], spare: &'a mut String) -> Result<Self, RowError> {
        let text = text_of(bytes)?;
        match Self::cut(text) {
            Some(row) => Ok(row),
            None => Self::read_generally(text, spare),
        }
    }

    /// The same, with the event where it could be cut out in the same pass.
    ///
    /// Where there is none, [`DomainEvent::decode`] says what the data holds, or why it does not.
    ///
    /// # Errors
    ///
    /// As [`Row::read`].
    pub fn read_with_event(
        bytes: &'a [u8],
        spare: &'a mut String,
    ) -> Result<(Self, Option<DomainEvent>), RowError> {
        let text = text_of(bytes)?;
        let event_type = type_at_the_end(text);
        let cut = Self::cut_with(text, |scan| DomainEvent::cut(event_type?, scan));
        match cut {
            Some((row, event)) => {
                let is_newest = row.schema_version == DomainEvent::newest_version(row.event_type);
                Ok((row, event.filter(|_| is_newest)))
            }
            None => Self::read_generally(text, spare).map(|row| (row, None)),
        }
    }

    fn read_generally(text: &str, spare: &'a mut String) -> Result<Self, RowError> {
        *spare = canonicalize(text).map_err(RowError::Json)?;
        let row = Self::cut(spare).ok_or_else(|| shape_error(spare))?;
        Ok(Self { is_canonical: false, ..row })
    }

    /// Cuts a canonical row by position.
    fn cut(text: &'a str) -> Option<Self> {
        Self::cut_with(text, |_| None::<()>).map(|(row, _)| row)
    }

    /// Cuts a canonical row by position, and its data in the way of the caller's, if that can.
    fn cut_with<T>(
        text: &'a str,
        cut_data: impl FnOnce(&mut Scanner<'a>) -> Option<T>,
    ) -> Option<(Self, Option<T>)> {
        let mut scan = Scanner::new(text);
        scan.literal(b"{\"digest\":\"")?;
        let digest = Digest::from_hex(scan.take(64)?.as_bytes())?;
        scan.literal(b"\",\"event\":")?;
        let event_start = scan.position();
        scan.literal(b"{\"data\":")?;
        let start = scan.position();
        let content = cut_data(&mut scan);
        if content.is_none() {
            scan.go_to(start);
            scan.value(Limits::ROW)?;
        }
        let data = scan.since(start);
        scan.literal(b",\"metadata\":")?;
        let metadata = scan.value(Limits::ROW)?;
        if !is_metadata(metadata) {
            return None;
        }
        scan.literal(b",\"previousDigest\":\"")?;
        let previous_digest = Digest::from_hex(scan.take(64)?.as_bytes())?;
        scan.literal(b"\",\"recordedAt\":\"")?;
        let recorded_at = Instant::from_rfc3339(scan.take(24)?)?;
        scan.literal(b"\",\"revision\":")?;
        let revision = Revision::new(scan.natural()?)?;
        scan.literal(b",\"schemaVersion\":")?;
        let schema_version = u32::try_from(scan.natural()?).ok()?;
        scan.literal(b",\"stream\":")?;
        let stream = scan.plain_string()?;
        scan.literal(b",\"type\":")?;
        let event_type = scan.plain_string()?;
        scan.literal(b"}")?;
        let event = scan.since(event_start);
        scan.literal(b",\"position\":")?;
        let position = Position::new(scan.natural()?)?;
        scan.literal(b"}")?;
        let row = Self {
            is_canonical: true,
            digest,
            position,
            event,
            data,
            metadata,
            previous_digest,
            recorded_at,
            revision,
            schema_version,
            stream,
            event_type,
        };
        scan.is_at_end().then_some((row, content))
    }

    /// The digest that the row should state.
    pub fn digest_of_event(&self) -> Digest {
        digest_of_event(self.event)
    }
}

impl RecordedEvent {
    /// Reads a row and checks all that can be checked of it alone: spelling, digest, the stream's
    /// name.
    ///
    /// # Examples
    ///
    /// ```
    /// use recount_core::{
    ///     DomainEvent, EventBatch, EventDraft, Instant, Metadata, Position, RecordedEvent, RowError,
    ///     StreamName, delivery::OutboxLimits, write_row,
    /// };
    /// # use recount_core::doc::message;
    ///
    /// let prepared = message("m-1").decide(&OutboxLimits::default())?;
    /// let draft = EventDraft::of(&DomainEvent::Delivery(prepared.into()), Metadata::of_actor("host"));
    /// let stream = StreamName::parse("delivery-sender")?;
    /// let batch = EventBatch::seal(stream, None, [draft], Instant::from_millis(1_000)?)?;
    /// let mut row = Vec::new();
    /// write_row(&mut row, Position::ZERO, &batch.events()[0]);
    ///
    /// let row = row.trim_ascii_end();
    /// let recorded = RecordedEvent::read(row)?;
    /// assert_eq!(recorded.event, batch.events()[0]);
    ///
    /// let edited = String::from_utf8(row.to_vec())?.replace("host", "nobody");
    /// let error = RecordedEvent::read(edited.as_bytes()).unwrap_err();
    /// assert!(matches!(error, RowError::Digest { .. }));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`RowError`], by what is wrong first.
    pub fn read(bytes: &[u8]) -> Result<Self, RowError> {
        let mut spare = String::new();
        let row = Row::read(bytes, &mut spare)?;
        if !row.is_canonical {
            return Err(RowError::NotCanonical);
        }
        let computed = row.digest_of_event();
        if computed != row.digest {
            return Err(RowError::Digest { stated: row.digest, computed });
        }
        let stream = StreamName::parse(row.stream)?;
        let event_type = EventType::new(row.event_type)?;
        let event = SealedEvent::from_row(&row, stream, event_type);
        Ok(Self { position: row.position, event })
    }
}

fn text_of(bytes: &[u8]) -> Result<&str, RowError> {
    if bytes.len() > MAX_ROW_BYTES {
        return Err(RowError::TooLong { length: bytes.len(), max: MAX_ROW_BYTES });
    }
    std::str::from_utf8(bytes).map_err(RowError::Utf8)
}

/// The type that a row names at its end, before it is known to be a row.
fn type_at_the_end(row: &str) -> Option<&str> {
    let rest = row.strip_suffix('}')?.trim_end_matches(|char: char| char.is_ascii_digit());
    let rest = rest.strip_suffix("\"},\"position\":")?;
    rest.rfind('"').map(|quote| &rest[quote + 1..])
}

/// Appends the row of an event, with its newline.
pub fn write_row(out: &mut Vec<u8>, position: Position, event: &SealedEvent) {
    out.extend_from_slice(b"{\"digest\":\"");
    out.extend_from_slice(&event.digest().to_hex());
    out.extend_from_slice(b"\",\"event\":");
    out.extend_from_slice(event.text().as_bytes());
    out.extend_from_slice(b",\"position\":");
    out.extend_from_slice(position.to_string().as_bytes());
    out.extend_from_slice(b"}\n");
}

/// The shape of a row, for the general reader.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(dead_code, reason = "only whether it can be read matters")]
struct RowShape<'a> {
    digest: Digest,
    #[serde(borrow)]
    event: EventShape<'a>,
    position: Position,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(dead_code, reason = "only whether it can be read matters")]
struct EventShape<'a> {
    data: de::IgnoredAny,
    #[serde(borrow)]
    metadata: MetadataShape<'a>,
    previous_digest: Digest,
    #[serde(deserialize_with = "recorded_at")]
    recorded_at: Instant,
    revision: Revision,
    schema_version: u32,
    #[serde(deserialize_with = "plain_text")]
    stream: String,
    #[serde(deserialize_with = "plain_text", rename = "type")]
    event_type: String,
}

/// [`Metadata`](super::Metadata) as every row is held to it: nothing is copied.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(dead_code, reason = "only whether it can be read matters")]
struct MetadataShape<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    actor: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "present")]
    causation_id: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "present")]
    correlation_id: Option<Cow<'a, str>>,
    #[serde(default, deserialize_with = "object")]
    custom: Option<PersistedJson>,
}

/// Whether canonical JSON is metadata; nearly all of it is empty, or names an actor.
fn is_metadata(json: &str) -> bool {
    let actor = json.strip_prefix("{\"actor\":\"").and_then(|rest| rest.strip_suffix("\"}"));
    json == "{}"
        || actor.is_some_and(|actor| !actor.contains('"'))
        || serde_json::from_str::<MetadataShape<'_>>(json).is_ok()
}

fn recorded_at<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Instant, D::Error> {
    let text = String::deserialize(deserializer)?;
    Instant::from_rfc3339(&text)
        .ok_or_else(|| de::Error::custom("expected a time such as 2026-11-30T19:32:28.123Z"))
}

fn plain_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    if text.contains(|char: char| char.is_control() || matches!(char, '"' | '\\')) {
        return Err(de::Error::custom("expected text that needs no escapes"));
    }
    Ok(text)
}

/// What is wrong with the shape of canonical JSON that could not be cut.
fn shape_error(canonical: &str) -> RowError {
    let message = match read::<RowShape<'_>>(canonical) {
        Ok(_) => "nested deeper than a row can be".to_owned(),
        Err(error) => format!("{} at {}", error.message, error.path),
    };
    RowError::Shape { message }
}

#[cfg(test)]
mod tests;
