//! What can be said of a row alone, on any thread.

use recount_core::{
    DecodeError, Digest, DomainEvent, Illegal, Instant, Invariant, MAX_ROW_BYTES, MerkleTree,
    Position, Revision, Row, RowError,
    delivery::{DeliveryEvent, OutboxLimits, Prepared},
    log::{Damage, Line},
};

use crate::verify::Rules;

/// A line that was looked at by itself.
pub(crate) type Examined = Result<ExaminedRow, Box<Unreadable>>;

/// A row, with all that can be known of it alone.
#[derive(Debug)]
pub(crate) struct ExaminedRow {
    pub(crate) position: Position,
    pub(crate) stream: Box<str>,
    pub(crate) revision: Revision,
    /// The digest that the row states.
    pub(crate) stated: Digest,
    /// The digest of its event, where that is another one.
    pub(crate) computed: Option<Box<Digest>>,
    pub(crate) previous: Digest,
    pub(crate) recorded_at: Instant,
    pub(crate) is_canonical: bool,
    /// Nothing where no rule that is asked for needs it.
    pub(crate) event: Option<Result<DomainEvent, Box<Undecodable>>>,
    /// What is wrong with the content of a `prepared`.
    pub(crate) content: Option<Box<Illegal>>,
    /// What D11 compares, of a `prepared`.
    pub(crate) admission: Option<Admission>,
    /// The leaf of the Merkle tree; only whoever wants the root pays for it.
    pub(crate) leaf: Option<Digest>,
}

/// An event whose data was not understood.
#[derive(Debug)]
pub(crate) struct Undecodable {
    pub(crate) error: DecodeError,
    /// The message, where the data at least names it.
    pub(crate) message_id: Option<String>,
}

/// Under which key a destination is asked to admit which content: parts of their digests.
///
/// 64 bits of the key tell apart all that a log can hold; the rule only warns.
#[derive(Debug)]
pub(crate) struct Admission {
    pub(crate) key: [u8; 8],
    pub(crate) content: [u8; 4],
}

/// A line that is not a row, with what can still be guessed from it.
#[derive(Debug)]
pub(crate) struct Unreadable {
    pub(crate) error: Damage,
    /// Whether it is a last line that was cut.
    pub(crate) is_torn: bool,
    /// What stands where a stream's name would.
    pub(crate) stream: Option<String>,
    /// What stands where the previous digest would.
    pub(crate) previous: Option<Digest>,
    pub(crate) length: usize,
}

/// What is looked at.
pub(crate) struct Examiner<'a> {
    pub(crate) rules: Rules,
    pub(crate) limits: Option<&'a OutboxLimits>,
    /// Whether the Merkle tree is wanted.
    pub(crate) with_leaves: bool,
    /// The stream whose events are wanted, where it is not all.
    pub(crate) only: Option<&'a str>,
}

impl Examiner<'_> {
    /// Looks at what some rules need, and nothing more.
    pub(crate) fn of(rules: Rules) -> Self {
        Self { rules, limits: None, with_leaves: false, only: None }
    }

    pub(crate) fn examine(&self, line: Line<'_>) -> Examined {
        let mut spare = String::new();
        let read = if self.rules.need_content() && self.only.is_none() {
            Row::read_with_event(line.bytes, &mut spare)
        } else {
            Row::read(line.bytes, &mut spare).map(|row| (row, None))
        };
        let examined = read.map_err(Damage::Row).and_then(|(row, event)| {
            line.check_listed(row.stream, row.revision)?;
            Ok(self.examine_row(&row, event))
        });
        examined.map_err(|error| Box::new(Unreadable::guess(error, line)))
    }

    fn examine_row(&self, row: &Row<'_>, event: Option<DomainEvent>) -> ExaminedRow {
        let is_wanted = self.only.is_none_or(|only| row.stream == only);
        let event = (self.rules.need_content() && is_wanted).then(|| match event {
            Some(event) => Ok(event),
            None => DomainEvent::decode(row.event_type, row.schema_version, row.data)
                .map_err(|error| Box::new(Undecodable { error, message_id: message_id(row.data) })),
        });
        let (mut content, mut admission) = (None, None);
        if let Some(Ok(DomainEvent::Delivery(DeliveryEvent::Prepared(prepared)))) = &event {
            if self.rules.holds(Invariant::D2) || self.rules.holds(Invariant::D10) {
                content = prepared.check_content(self.limits).err().map(Box::new);
            }
            admission = self.rules.holds(Invariant::D11).then(|| Admission::of(prepared));
        }
        let computed = row.digest_of_event();
        ExaminedRow {
            position: row.position,
            stream: row.stream.into(),
            revision: row.revision,
            stated: row.digest,
            computed: (computed != row.digest).then(|| Box::new(computed)),
            previous: row.previous_digest,
            recorded_at: row.recorded_at,
            is_canonical: row.is_canonical,
            event,
            content,
            admission,
            // What the event is, not what the row says of it: a root is proof whatever is checked.
            leaf: self.with_leaves.then(|| MerkleTree::leaf(computed)),
        }
    }
}

impl Admission {
    fn of(prepared: &Prepared) -> Self {
        let envelope = &prepared.envelope;
        let length = envelope.thread_id.len().to_le_bytes();
        let parts = [&length, envelope.thread_id.as_bytes(), envelope.admission_key.as_bytes()];
        let key = Digest::of_parts(&parts);
        let first = |digest: &Digest| *digest.as_bytes().first_chunk().expect("32 bytes");
        let content = *prepared.envelope_digest.as_bytes().first_chunk().expect("32 bytes");
        Self { key: first(&key), content }
    }
}

/// The message that data names, whatever else is in it.
fn message_id(data: &str) -> Option<String> {
    let data: serde_json::Value = serde_json::from_str(data).ok()?;
    Some(data.get("messageId")?.as_str()?.to_owned())
}

impl std::fmt::Display for Unreadable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.is_torn {
            return write!(
                f,
                "the last row is cut after {} bytes; everything before it is usable, and `recount \
                 repair` moves it aside",
                self.length
            );
        }
        self.error.fmt(f)
    }
}

impl Unreadable {
    /// A line that was too long to be kept.
    pub(crate) fn oversized(length: u64) -> Self {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let error = RowError::TooLong { length, max: MAX_ROW_BYTES }.into();
        Self { error, is_torn: false, stream: None, previous: None, length }
    }

    fn guess(error: Damage, line: Line<'_>) -> Self {
        let after = |key: &str| {
            let text = line.bytes;
            let at = text.windows(key.len()).rposition(|window| window == key.as_bytes())?;
            Some(&text[at + key.len()..])
        };
        let quoted = |rest: &[u8]| {
            let end = rest.iter().position(|byte| *byte == b'"')?;
            String::from_utf8(rest[..end].to_vec()).ok()
        };
        let before = |key: &str| {
            let text = line.bytes;
            let end = text.windows(key.len()).rposition(|window| window == key.as_bytes())?;
            let start = text[..end].iter().rposition(|byte| *byte == b'"')? + 1;
            String::from_utf8(text[start..end].to_vec()).ok()
        };
        Self {
            error,
            is_torn: !line.is_ended,
            // Where the key itself is damaged, the name still stands before the type.
            stream: after(",\"stream\":\"").and_then(quoted).or_else(|| before("\",\"type\":\"")),
            previous: after(",\"previousDigest\":\"")
                .and_then(quoted)
                .and_then(|it| it.parse().ok()),
            length: line.bytes.len(),
        }
    }
}
