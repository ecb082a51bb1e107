//! Events before they are in a log: drafted, then sealed into their stream's chain.

use std::{fmt::Write as _, ops::Range, sync::Arc};

use uuid::Uuid;

use super::{DomainEvent, Metadata, Revision, StreamHead, StreamName};
use crate::{CanonicalJson, Digest, EventType, Instant};

/// What every digest of an event begins with: a name and one zero byte.
const DIGEST_DOMAIN: &[u8] = b"recount.event.v1\0";

/// An event that has no place yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventDraft {
    /// What happened, `<category>.<pastTense>`.
    pub event_type: EventType,
    /// The version of the data's shape, from 1.
    pub schema_version: u32,
    /// The facts.
    pub data: CanonicalJson,
    /// What the writer says beside them.
    pub metadata: Metadata,
}

impl EventDraft {
    /// The draft of a domain event, in the current version of its type.
    pub fn of(event: &DomainEvent, metadata: Metadata) -> Self {
        let (event_type, schema_version, data) = event.encode();
        Self { event_type, schema_version, data, metadata }
    }
}

/// An event with its place in its stream and its digest; its log gives it a position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedEvent {
    text: Arc<str>,
    data: Range<usize>,
    metadata: Range<usize>,
    digest: Digest,
    stream: StreamName,
    revision: Revision,
    previous_digest: Digest,
    recorded_at: Instant,
    event_type: EventType,
    schema_version: u32,
}

/// Events for one stream, sealed to the head that their writer decided on.
///
/// Appending the same batch twice is recognised, so that a lost reply can be asked for again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventBatch {
    stream: StreamName,
    expected: Option<StreamHead>,
    events: Vec<SealedEvent>,
}

/// Why drafts cannot be sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SealError {
    /// There is nothing to append.
    #[error("a batch holds at least one event")]
    Empty,
    /// The metadata's `custom` is not an object.
    #[error("the metadata's custom value is not a JSON object")]
    Custom,
    /// The clock is past what `recordedAt` can spell.
    #[error("recordedAt {at} is past the year 9999: the host's clock is wrong")]
    RecordedAt {
        /// What the clock read.
        at: Instant,
    },
    /// The stream has as many events as can be counted.
    #[error("the stream is full: a revision is at most 2^53 - 1")]
    StreamFull,
}

impl EventBatch {
    /// Seals drafts behind the head that they were decided on, `None` being a stream that does
    /// not exist.
    ///
    /// `recorded_at` is fixed here, so that a repeated append has the same bytes; it should not be
    /// before the stream's last (L7).
    ///
    /// # Errors
    ///
    /// [`SealError`] where there are no drafts, custom metadata is no object, the clock is past the
    /// year 9999, or the stream is full.
    ///
    /// # Examples
    ///
    /// ```
    /// use recount_core::{
    ///     CanonicalJson, Digest, EventBatch, EventDraft, EventType, Instant, Metadata, StreamName,
    /// };
    ///
    /// let draft = EventDraft {
    ///     event_type: EventType::new("delivery.claimed")?,
    ///     schema_version: 1,
    ///     data: serde_json::from_str("{}")?,
    ///     metadata: Metadata::default(),
    /// };
    /// let stream = StreamName::parse("delivery-a")?;
    /// let batch = EventBatch::seal(stream, None, [draft], Instant::ZERO)?;
    /// let event = &batch.events()[0];
    /// assert_eq!(event.previous_digest(), Digest::ZERO);
    /// assert_eq!(
    ///     event.digest(),
    ///     Digest::of_parts(&[b"recount.event.v1\0", event.text().as_bytes()]),
    /// );
    /// assert_eq!(batch.head().digest, event.digest());
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn seal(
        stream: StreamName,
        expected: Option<StreamHead>,
        drafts: impl IntoIterator<Item = EventDraft>,
        recorded_at: Instant,
    ) -> Result<Self, SealError> {
        let recorded_text =
            recorded_at.to_rfc3339().ok_or(SealError::RecordedAt { at: recorded_at })?;
        let mut head = expected;
        let mut events = Vec::new();
        for draft in drafts {
            if !draft.metadata.is_valid() {
                return Err(SealError::Custom);
            }
            let revision = match head {
                None => Revision::ZERO,
                Some(StreamHead { revision, .. }) => {
                    Revision::new(revision.get() + 1).ok_or(SealError::StreamFull)?
                }
            };
            let previous = head.map_or(Digest::ZERO, |head| head.digest);
            let event =
                SealedEvent::new(&stream, revision, previous, (recorded_at, &recorded_text), draft);
            head = Some(event.head());
            events.push(event);
        }
        if events.is_empty() {
            return Err(SealError::Empty);
        }
        Ok(Self { stream, expected, events })
    }

    /// The stream.
    pub fn stream(&self) -> &StreamName {
        &self.stream
    }

    /// The head that the stream must have.
    pub fn expected(&self) -> Option<StreamHead> {
        self.expected
    }

    /// The events, at least one.
    pub fn events(&self) -> &[SealedEvent] {
        &self.events
    }

    /// The head that the stream will have.
    ///
    /// # Panics
    ///
    /// Never: a batch holds at least one event.
    pub fn head(&self) -> StreamHead {
        self.events.last().expect("a batch holds at least one event").head()
    }
}

impl SealedEvent {
    fn new(
        stream: &StreamName,
        revision: Revision,
        previous_digest: Digest,
        (recorded_at, recorded_text): (Instant, &str),
        draft: EventDraft,
    ) -> Self {
        let EventDraft { event_type, schema_version, data, metadata } = draft;
        let metadata = metadata.canonical();
        let mut text = String::with_capacity(data.as_str().len() + 320);
        text.push_str("{\"data\":");
        let data = push(&mut text, data.as_str());
        text.push_str(",\"metadata\":");
        let metadata = push(&mut text, metadata.as_str());
        write!(
            text,
            ",\"previousDigest\":\"{previous_digest}\",\"recordedAt\":\"{recorded_text}\",\
             \"revision\":{revision},\"schemaVersion\":{schema_version},\"stream\":\"{stream}\",\
             \"type\":\"{event_type}\"}}"
        )
        .expect("a String takes all");
        Self {
            digest: digest_of_event(&text),
            text: text.into(),
            data,
            metadata,
            stream: stream.clone(),
            revision,
            previous_digest,
            recorded_at,
            event_type,
            schema_version,
        }
    }

    /// Takes the parts that a row was cut into.
    pub(super) fn from_row(
        row: &super::Row<'_>,
        stream: StreamName,
        event_type: EventType,
    ) -> Self {
        let range = |part: &str| {
            let start = part.as_ptr() as usize - row.event.as_ptr() as usize;
            start..start + part.len()
        };
        Self {
            text: row.event.into(),
            data: range(row.data),
            metadata: range(row.metadata),
            digest: row.digest,
            stream,
            revision: row.revision,
            previous_digest: row.previous_digest,
            recorded_at: row.recorded_at,
            event_type,
            schema_version: row.schema_version,
        }
    }

    /// The canonical JSON that the digest is over.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The digest of the event.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// The event id: the first 16 bytes of the digest as a UUID of version 8.
    ///
    /// # Panics
    ///
    /// Never: a digest has 32 bytes.
    pub fn id(&self) -> Uuid {
        let (first, _) = self.digest.as_bytes().split_first_chunk().expect("a digest has 32 bytes");
        uuid::Builder::from_custom_bytes(*first).into_uuid()
    }

    /// The stream.
    pub fn stream(&self) -> &StreamName {
        &self.stream
    }

    /// The place in the stream.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The digest of the event before it in the stream, and zeros for the first.
    pub fn previous_digest(&self) -> Digest {
        self.previous_digest
    }

    /// When its writer recorded it.
    pub fn recorded_at(&self) -> Instant {
        self.recorded_at
    }

    /// What happened.
    pub fn event_type(&self) -> &EventType {
        &self.event_type
    }

    /// The version of the data's shape.
    pub fn schema_version(&self) -> u32 {
        self.schema_version
    }

    /// The canonical JSON of the facts.
    pub fn data(&self) -> &str {
        &self.text[self.data.clone()]
    }

    /// The canonical JSON of what the writer says beside them.
    pub fn metadata(&self) -> &str {
        &self.text[self.metadata.clone()]
    }

    /// This event as the head of its stream.
    pub fn head(&self) -> StreamHead {
        StreamHead { revision: self.revision, digest: self.digest }
    }

    /// The head that this event was sealed behind.
    pub fn expected(&self) -> Option<StreamHead> {
        let revision = Revision::new(self.revision.get().checked_sub(1)?)?;
        Some(StreamHead { revision, digest: self.previous_digest })
    }
}

fn push(text: &mut String, part: &str) -> Range<usize> {
    let start = text.len();
    text.push_str(part);
    start..text.len()
}

/// The digest of an event's canonical text.
pub(super) fn digest_of_event(text: &str) -> Digest {
    Digest::of_parts(&[DIGEST_DOMAIN, text.as_bytes()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PersistedJson;

    #[test]
    fn what_cannot_be_sealed_is_named() {
        let stream = || StreamName::parse("delivery-a").unwrap();
        let draft = |metadata| EventDraft {
            event_type: EventType::new("delivery.claimed").unwrap(),
            schema_version: 1,
            data: CanonicalJson::from_canonical("{}"),
            metadata,
        };
        let plain = || draft(Metadata::default());
        let refused = |head, drafts: Vec<EventDraft>, at| {
            EventBatch::seal(stream(), head, drafts, at).unwrap_err().to_string()
        };
        let past = Instant::MAX_RFC3339.saturating_add(1);
        let last = Revision::new((1 << 53) - 1).unwrap();
        let full = Some(StreamHead { revision: last, digest: Digest::ZERO });
        let custom = Some(PersistedJson::parse("[]").unwrap());
        assert_eq!(refused(None, vec![], Instant::ZERO), "a batch holds at least one event");
        assert_eq!(
            refused(None, vec![plain()], past),
            "recordedAt 253402300800000 ms is past the year 9999: the host's clock is wrong"
        );
        assert_eq!(
            refused(full, vec![plain()], Instant::ZERO),
            "the stream is full: a revision is at most 2^53 - 1"
        );
        assert_eq!(
            refused(None, vec![draft(Metadata { custom, ..Metadata::default() })], Instant::ZERO),
            "the metadata's custom value is not a JSON object"
        );
    }
}
