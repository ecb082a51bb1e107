//! Files that are no log, or not in full.

use std::{error::Error, os::unix::fs::FileExt};

use super::*;
use crate::{Digest, SealedEvent, log::ReadError};

/// An error and what led to it.
fn told(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        if !text.ends_with(&error.to_string()) {
            text = format!("{text}: {error}");
        }
        source = error.source();
    }
    text
}

/// What reader and log say of a text, which must be the same, and how many events were read.
fn error_of(text: &[u8]) -> (usize, String) {
    let sample = Sample::new(text);
    let mut reader = JsonlReader::open(&sample.path).unwrap();
    let read = reader.by_ref().take_while(Result::is_ok).count();
    assert!(reader.next().is_none(), "an error ends the reader");
    let error = JsonlReader::new(text).find_map(Result::err).unwrap();
    let refused = JsonlLog::open(&sample.path).unwrap_err();
    assert_eq!(told(&refused), told(&error));
    assert_eq!(sample.text(), text, "a refused file is left as it is");
    (read, told(&error))
}

fn error_at(text: &[u8], events_before: usize) -> String {
    let (read, error) = error_of(text);
    assert_eq!(read, events_before, "{error}");
    error
}

/// Where the lines begin.
fn offsets(text: &[u8]) -> Vec<usize> {
    let ends = text.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
    std::iter::once(0).chain(ends.map(|(at, _)| at + 1)).collect()
}

fn replaced(from: &str, to: &str) -> Vec<u8> {
    let text = String::from_utf8(three_rows()).unwrap();
    assert!(text.contains(from));
    text.replacen(from, to, 1).into_bytes()
}

#[test]
fn o_19_a_torn_last_row_is_refused_and_left_as_it_is() {
    let [a, _] = three();
    let good = rows(&[&a]);
    let mut text = good.clone();
    text.extend_from_slice(b"{\"position\":2,\"ty");
    assert_eq!(
        error_at(&text, 2),
        "the log is damaged at position 2, line 3, byte 716: the last row is cut after 17 bytes: \
         `recount repair` moves them aside"
    );
    // In every place of the last row, also in the middle of a character.
    let text = three_rows();
    let cut_char = text.iter().position(|byte| *byte == 0xC3).unwrap() + 1;
    assert!(cut_char > good.len() && str::from_utf8(&text[..cut_char]).is_err());
    for length in (good.len() + 1)..text.len() - 1 {
        let expected = format!("cut after {} bytes", length - good.len());
        let error = error_at(&text[..length], 2);
        assert!(error.contains(&expected), "{length}: {error}");
    }
}

#[tokio::test]
async fn o_19_a_complete_last_row_without_its_newline_is_an_event_and_gets_it() {
    let mut text = three_rows();
    assert_eq!(text.pop(), Some(b'\n'));
    let sample = Sample::new(&text);
    assert_eq!(JsonlReader::new(&text[..]).flatten().count(), 3);
    let log = JsonlLog::open(&sample.path).unwrap();
    assert_eq!(all(&log).await.len(), 3);
    let [a, b] = three();
    log.append(b.clone()).await.unwrap();
    assert_eq!(sample.text(), text, "nothing is written where nothing is appended");
    let appended = log.append(next_of(&b)).await.unwrap();
    assert_eq!(appended.first_position.get(), 3);
    assert_eq!(sample.text(), rows(&[&a, &b, &next_of(&b)]));
    assert_eq!(all(&log).await.len(), 4);
    drop(log);
    assert_eq!(all(&JsonlLog::open(&sample.path).unwrap()).await.len(), 4);
}

#[test]
fn damage_in_the_middle_is_told_with_its_place() {
    let text = three_rows();
    let starts = offsets(&text);
    assert_eq!(starts, [0, 358, 716, 1075]);
    let place = "the log is damaged at position 1, stream delivery-a, line 2, byte 358: ";
    let [a, _] = three();
    let digests: Vec<_> = a.events().iter().map(SealedEvent::digest).collect();

    let error = error_at(&replaced("{\"tag\":\"2\"}", "{\"tag\":\"3\"}"), 1);
    let stated = format!("{place}the digest is {}, the event's is ", digests[1]);
    assert!(error.starts_with(&stated), "{error}");

    let error = error_at(&replaced(",\"position\":1}", ", \"position\":1}"), 1);
    assert_eq!(error, format!("{place}the row is not canonical JSON"));

    let unplaced = "the log is damaged at position 1, line 2, byte 358: ";
    let error = error_at(&replaced(",\"position\":1}", ",\"position\":1"), 1);
    assert_eq!(
        error,
        format!("{unplaced}not JSON: expected a comma or a closing brace at $ (byte 356)")
    );
    let error = error_at(&replaced("\n", "\n\n"), 1);
    assert_eq!(error, format!("{unplaced}not JSON: expected a value at $ (byte 0)"));
}

#[test]
fn an_error_ends_a_reader_whatever_follows() {
    let many = batch("delivery-a", None, &vec!["x"; 5_000]);
    let text = [b"damage\n", &rows(&[&many])[..]].concat();
    assert!(text.len() > 1 << 20, "there is more than one block");
    let mut reader = JsonlReader::new(&text[..]);
    assert!(reader.next().is_some_and(|read| read.is_err()));
    assert!(reader.next().is_none());
}

#[test]
fn o_20_a_repeated_key_is_refused_with_its_line() {
    let place = "the log is damaged at position 1, line 2, byte 358: not JSON: the key";
    let error = error_at(&replaced(",\"position\":1}", ",\"position\":1,\"position\":1}"), 1);
    assert_eq!(error, format!("{place} \"position\" stands twice in one object at $ (byte 370)"));
    let repeated = replaced("{\"tag\":\"2\"}", "{\"tag\":\"2\",\"t\\u0061g\":\"2\"}");
    let error = error_at(&repeated, 1);
    assert_eq!(
        error,
        format!("{place} \"tag\" stands twice in one object at $.event.data (byte 119)")
    );
}

#[test]
fn o_24_positions_and_chains_are_followed() {
    let text = three_rows();
    let lines: Vec<_> = text.split_inclusive(|byte| *byte == b'\n').collect();
    // A gap, an order that is not, and a repeat byte for byte.
    for (order, before, expected) in [
        (
            &[1][..],
            0,
            "position 0, stream delivery-a, line 1, byte 0: the position is 1, expected 0",
        ),
        (
            &[0, 2, 1],
            1,
            "position 1, stream delivery-b, line 2, byte 358: the position is 2, expected 1",
        ),
        (
            &[0, 1, 1],
            2,
            "position 2, stream delivery-a, line 3, byte 716: the position is 1, expected 2",
        ),
    ] {
        let text: Vec<u8> = order.iter().flat_map(|line| lines[*line]).copied().collect();
        assert_eq!(error_at(&text, before), format!("the log is damaged at {expected}"));
    }
    // Positions that count, and streams that do not.
    let [a, _] = three();
    let other = batch("delivery-a", None, &["x"]);
    let next = next_of(&other);
    let place = "the log is damaged at position 1, stream delivery-a, line 2, byte 358: ";
    let error = error_at(&rows(&[&other, &a]), 1);
    let head = format!("revision 0 ({})", other.head().digest);
    let expected = format!("{place}the event is sealed to no event, the stream is at {head}");
    assert_eq!(error, expected);
    let error = error_at(&rows(&[&batch("delivery-b", None, &["x"]), &next]), 1);
    let expected = format!("{place}the event is sealed to {head}, the stream is at no event");
    assert_eq!(error, expected);
    let forged = batch("delivery-a", None, &["y"]);
    let error = error_at(&rows(&[&forged, &next]), 1);
    let found = format!("revision 0 ({})", forged.head().digest);
    assert_eq!(error, format!("{place}the event is sealed to {head}, the stream is at {found}"));
}

#[test]
fn the_first_event_of_a_stream_is_chained_to_zeros() {
    let [_, b] = three();
    let (zeros, ones) = ("0".repeat(64), "1".repeat(64));
    let event = b.events()[0].text().replace(&zeros, &ones);
    let digest = Digest::of_parts(&[b"recount.event.v1\0", event.as_bytes()]);
    let row = format!("{{\"digest\":\"{digest}\",\"event\":{event},\"position\":0}}\n");
    assert_eq!(
        error_at(row.as_bytes(), 0),
        format!(
            "the log is damaged at position 0, stream delivery-b, line 1, byte 0: the stream's \
             first event is chained to {ones}, not to zeros"
        )
    );
}

#[test]
fn o_25_a_line_of_64_mib_is_refused_with_its_size() {
    let mut text = three_rows();
    text.resize(text.len() + (64 << 20), b'x');
    text.push(b'\n');
    assert_eq!(
        error_at(&text, 3),
        "the log is damaged at position 3, line 4, byte 1075: a row of 67108864 bytes is longer \
         than 16777216"
    );
}

#[tokio::test]
async fn a_file_that_changes_below_an_open_log_is_told_with_its_place() {
    let sample = Sample::new(&three_rows());
    let log = JsonlLog::open(&sample.path).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&sample.path).unwrap();
    let read = async || {
        let events: Vec<_> = log.read_all(None, Direction::Forward, 9).collect().await;
        let (last, before) = events.split_last().unwrap();
        assert_eq!(before.iter().flatten().count(), before.len());
        (before.len(), last.as_ref().err().map(|error| told(error)))
    };
    assert_eq!(read().await, (2, None));

    let other = rows(&[&batch("delivery-a", None, &["x"])]);
    file.write_all_at(&other, 0).unwrap();
    let (before, error) = read().await;
    let [a, _] = three();
    assert_eq!(before, 0);
    assert_eq!(
        error.unwrap(),
        format!(
            "the log is damaged at position 0, stream delivery-a, line 1, byte 0: the digest is \
             {}, the event's is {}",
            batch("delivery-a", None, &["x"]).head().digest,
            a.events()[0].digest()
        )
    );
    file.write_all_at(&three_rows(), 0).unwrap();
    file.set_len(800).unwrap();
    assert_eq!(
        read().await,
        (
            2,
            Some(
                "the log is damaged at position 2, line 3, byte 716: the last row is cut after 84 \
             bytes: `recount repair` moves them aside"
                    .to_owned()
            )
        )
    );
    file.set_len(0).unwrap();
    let error = log.read_stream(three()[0].stream(), None, Direction::Backward, 9).next().await;
    assert!(matches!(error, Some(Err(ReadError::Damaged { .. }))), "{error:?}");
}

#[test]
fn what_cannot_be_opened_is_told() {
    let sample = Sample::new(b"");
    let missing = sample.path.join("log.jsonl");
    let error = JsonlLog::open(&missing).unwrap_err();
    assert_eq!(
        told(&error),
        format!("{} could not be opened: Not a directory (os error 20)", missing.display())
    );
    let error = JsonlReader::open(&missing).unwrap_err();
    assert_eq!(told(&error), "the log could not be read: Not a directory (os error 20)");
}
