//! What a view is kept as: lines of canonical JSON, the last of which is the digest of the others.
//!
//! The first line tells what it is of: the log, the position, the digest there, the fold. Then come
//! the outboxes that are set aside and the unfinished messages, each in order. So the same state
//! has the same bytes, and the file is as large as what is unfinished.

use recount_core::{
    Digest, DomainEvent, Position, StreamName, canonicalize,
    delivery::{MessageDeliveryKey, MessageDeliveryRecord},
    log::LogHead,
};
use serde::{Deserialize, Serialize};

use super::{
    Unusable,
    fold::{Fold, SetAside},
};

/// The version of the fold: another one where the same events fold to something else, or where
/// something else of it is kept.
const FOLD_VERSION: u64 = 1;

const KIND: &str = "recount.deliveries";

/// What the first line holds.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Header {
    checkpoint: String,
    digest: Option<Digest>,
    fold_version: u64,
    ignored: u64,
    log_id: Option<Digest>,
    position: Option<Position>,
    /// The digest of all types that are understood, with their versions.
    schemas: Digest,
}

/// What every header of this kind begins with, in whatever version of the fold.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AnyHeader {
    checkpoint: String,
    fold_version: u64,
    schemas: Digest,
}

/// Any other line but the last, as it is written.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum Line<'a> {
    Aside(&'a SetAside),
    Record(&'a MessageDeliveryRecord),
}

/// Any other line but the last, as it is read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum Entry {
    Aside(SetAside),
    Record(Box<MessageDeliveryRecord>),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Trailer {
    sha256: Digest,
}

/// A state as it is kept, with its digest.
pub(super) struct Kept {
    pub(super) bytes: Vec<u8>,
    pub(super) digest: Digest,
}

fn schemas() -> Digest {
    let schemas: Vec<_> = DomainEvent::schemas().collect();
    let schemas = serde_json::to_vec(&schemas).expect("names and numbers are JSON");
    Digest::of_bytes(&schemas)
}

/// Writes a state.
pub(super) fn write(fold: &Fold) -> Kept {
    let mut bytes = Vec::new();
    let header = Header {
        checkpoint: KIND.to_owned(),
        digest: fold.head.map(|head| head.digest),
        fold_version: FOLD_VERSION,
        ignored: fold.ignored,
        log_id: fold.log_id,
        position: fold.head.map(|head| head.position),
        schemas: schemas(),
    };
    push(&mut bytes, &header);
    fold.aside.values().for_each(|aside| push(&mut bytes, &Line::Aside(aside)));
    fold.records().for_each(|record| push(&mut bytes, &Line::Record(record)));
    let digest = Digest::of_bytes(&bytes);
    push(&mut bytes, &Trailer { sha256: digest });
    Kept { bytes, digest }
}

fn push(bytes: &mut Vec<u8>, line: &impl Serialize) {
    let text = serde_json::to_string(line).expect("a line is JSON");
    let text = canonicalize(&text).expect("what was read from a log is within the bounds of JSON");
    bytes.extend_from_slice(text.as_bytes());
    bytes.push(b'\n');
}

/// Reads a state; whether it is one of a log is not known yet.
pub(super) fn read(bytes: &[u8]) -> Result<Fold, Unusable> {
    let first = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let header: AnyHeader = serde_json::from_slice(first).map_err(|_| Unusable::NotOne)?;
    if header.checkpoint != KIND {
        return Err(Unusable::NotOne);
    }
    if header.fold_version != FOLD_VERSION || header.schemas != schemas() {
        return Err(Unusable::FoldVersion { found: header.fold_version, ours: FOLD_VERSION });
    }
    let body = checked_body(bytes)?;
    let content = |error: serde_json::Error| Unusable::Content { why: error.to_string() };
    let mut lines = body.lines();
    let header: Header = serde_json::from_str(lines.next().unwrap_or_default()).map_err(content)?;
    let mut fold = Fold::default();
    (fold.log_id, fold.ignored) = (header.log_id, header.ignored);
    fold.head =
        header.position.zip(header.digest).map(|(position, digest)| LogHead { position, digest });
    for line in lines {
        match serde_json::from_str(line).map_err(content)? {
            Entry::Aside(aside) => {
                let stream = StreamName::parse(&aside.stream);
                let stream =
                    stream.map_err(|error| Unusable::Content { why: error.to_string() })?;
                fold.aside.insert(stream, aside);
            }
            Entry::Record(record) => {
                let MessageDeliveryKey { owner_thread_id, message_id } = record.key.clone();
                if !fold.put(*record) {
                    let why = format!(
                        "message {message_id} of {owner_thread_id} is finished, there twice, or of \
                         an outbox that is set aside"
                    );
                    return Err(Unusable::Content { why });
                }
            }
        }
    }
    Ok(fold)
}

/// All lines but the last, which is their digest.
fn checked_body(bytes: &[u8]) -> Result<&str, Unusable> {
    let whole = bytes.strip_suffix(b"\n").ok_or(Unusable::Cut)?;
    let end = memchr::memrchr(b'\n', whole).ok_or(Unusable::Cut)? + 1;
    let trailer: Trailer = serde_json::from_slice(&whole[end..]).map_err(|_| Unusable::Cut)?;
    let computed = Digest::of_bytes(&bytes[..end]);
    if computed != trailer.sha256 {
        return Err(Unusable::Edited { stated: trailer.sha256, computed });
    }
    std::str::from_utf8(&bytes[..end]).map_err(|error| Unusable::Content { why: error.to_string() })
}
