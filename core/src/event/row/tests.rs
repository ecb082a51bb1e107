//! Rows as they are read: cut by position, and generally.

use proptest::prelude::*;

use super::*;
use crate::{
    CanonicalJson, EventBatch,
    event::{EventDraft, Metadata},
    json::is_canonical,
};

fn row(metadata: Metadata) -> String {
    row_of(EventDraft {
        event_type: EventType::new("delivery.claimed").unwrap(),
        schema_version: 1,
        data: CanonicalJson::from_canonical(r#"{"a":"\u0001é","b":[1,{}],"é":null}"#),
        metadata,
    })
}

fn row_of(draft: EventDraft) -> String {
    let stream = StreamName::parse("delivery-a%20b").unwrap();
    let batch = EventBatch::seal(stream, None, [draft], Instant::ZERO).unwrap();
    let mut row = Vec::new();
    write_row(&mut row, Position::ZERO, &batch.events()[0]);
    String::from_utf8(row).unwrap().trim_end().to_owned()
}

fn any_metadata() -> impl Strategy<Value = Metadata> {
    let text = || proptest::option::of("\\PC{0,4}|[\"\\\\\n]");
    (text(), text(), text(), any::<bool>()).prop_map(
        |(actor, causation_id, correlation_id, is_custom)| {
            let custom = is_custom.then(|| PersistedJson::parse(r#"{"b":1,"a":[]}"#).unwrap());
            Metadata { actor, causation_id, correlation_id, custom }
        },
    )
}

#[test]
fn a_row_of_another_shape_is_told_by_its_path() {
    let row = row(Metadata::of_actor("a"));
    let told = |from: &str, to: &str| {
        assert!(row.contains(from), "{from}");
        let mut spare = String::new();
        Row::read(row.replacen(from, to, 1).as_bytes(), &mut spare).unwrap_err().to_string()
    };
    for (from, to, message) in [
        (
            "\"position\":0",
            "\"place\":0",
            "not a row: unknown field `place`, expected one of `digest`, `event`, `position` at $.place",
        ),
        (",\"position\":0", "", "not a row: missing field `position` at $"),
        (
            "\"revision\":0",
            "\"revision\":-1",
            "not a row: invalid value: integer `-1`, expected u64 at $.event.revision",
        ),
        (
            "1970-01-01T00:00:00.000Z",
            "1970-01-01T00:00:00Z",
            "not a row: expected a time such as 2026-11-30T19:32:28.123Z at $.event.recordedAt",
        ),
        (
            "\"actor\":\"a\"",
            "\"actor\":null",
            "not a row: invalid type: null, expected a string at $.event.metadata.actor",
        ),
        (
            "\"actor\":\"a\"",
            "\"custom\":[]",
            "not a row: expected a JSON object at $.event.metadata.custom",
        ),
        (
            "delivery-a",
            "delivery\\\"a",
            "not a row: expected text that needs no escapes at $.event.stream",
        ),
        (
            "{\"digest\"",
            "[{\"digest\"",
            "not JSON: expected a comma or a closing bracket at $ (byte 378)",
        ),
    ] {
        assert_eq!(told(from, to), message, "{from} -> {to}");
    }
    let mut spare = String::new();
    let long = vec![b' '; MAX_ROW_BYTES + 1];
    let error = Row::read(&long, &mut spare).unwrap_err().to_string();
    assert_eq!(error, "a row of 16777217 bytes is longer than 16777216");
    let error = Row::read(b"{\"\xff", &mut spare).unwrap_err().to_string();
    assert_eq!(error, "not UTF-8 at byte 2 of the row");
}

proptest! {
    #[test]
    fn what_is_cut_is_what_the_general_reader_takes(
        metadata in any_metadata(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), "[\\\\\"{}:, 0-9a-fé]"), 0..3),
    ) {
        let mut text = row(metadata);
        for (at, with) in edits {
            let at = at.index(text.len());
            if let Some(char) = text.get(at..).and_then(|rest| rest.chars().next()) {
                text.replace_range(at..at + char.len_utf8(), &with);
            }
        }
        let is_general = is_canonical(&text) && read::<RowShape<'_>>(&text).is_ok();
        prop_assert_eq!(Row::cut(&text).is_some(), is_general, "{}", text);
    }

    #[test]
    fn an_event_that_is_cut_with_its_row_is_the_one_that_decodes(
        edits in prop::collection::vec((any::<prop::sample::Index>(), "[\\\\\"{}:, 0-9a-fé]?"), 0..2),
        is_newer in any::<bool>(),
    ) {
        let prepared = crate::doc::message("m").decide(&crate::delivery::OutboxLimits::default());
        let mut draft = EventDraft::of(
            &DomainEvent::Delivery(prepared.unwrap().into()), Metadata::of_actor("a"),
        );
        draft.schema_version += u32::from(is_newer);
        let mut text = row_of(draft);
        for (at, with) in edits {
            let at = at.index(text.len());
            if let Some(char) = text.get(at..).and_then(|rest| rest.chars().next()) {
                text.replace_range(at..at + char.len_utf8(), &with);
            }
        }
        let (mut spare, mut other) = (String::new(), String::new());
        let read = Row::read(text.as_bytes(), &mut spare);
        match Row::read_with_event(text.as_bytes(), &mut other) {
            Err(error) => prop_assert_eq!(read, Err(error)),
            Ok((row, event)) => {
                prop_assert_eq!(read, Ok(row));
                let decoded = DomainEvent::decode(row.event_type, row.schema_version, row.data);
                if let Some(event) = event {
                    prop_assert_eq!(Ok(event), decoded);
                } else {
                    // Where a text has an escape, it is left to the decoder.
                    let is_left = !row.is_canonical || row.data.contains('\\');
                    prop_assert!(is_left || decoded.is_err(), "{}", text);
                }
            }
        }
    }
}
