//! A log that was changed by hand is found out, wherever it was changed.

use recount::{Expected, Report, Rules, VerifyOptions, log::jsonl::JsonlRows};

use crate::{
    lab::{findings, life, rows},
    support::for_all,
};

const SAMPLE: &[u8] = include_bytes!("vectors/log-sample.jsonl");

fn sample() -> Vec<&'static [u8]> {
    SAMPLE.split_inclusive(|byte| *byte == b'\n').collect()
}

/// Findings by line, with the streams that they name.
fn found(text: &[u8]) -> (Vec<(u64, Option<String>)>, Report) {
    let mut places = Vec::new();
    let report = recount::verify(JsonlRows::new(text), &VerifyOptions::default(), |finding| {
        if finding.severity() == recount::Severity::Error {
            assert!(finding.place.position.is_some(), "{finding:?}");
            assert!(!finding.why.is_empty());
            places.push((finding.place.line.unwrap(), finding.place.stream));
        }
        Ok(())
    });
    (places, report.unwrap())
}

fn stream_of(row: &[u8]) -> String {
    recount::RecordedEvent::read(row.trim_ascii_end()).unwrap().event.stream().to_string()
}

#[test]
fn one_edited_byte_in_any_row_is_found_in_its_place() {
    let rows = sample();
    let mut random = 7_u64;
    let mut next = |bound: usize| {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(random >> 33).unwrap() % bound
    };
    let (mut violated, mut unreadable) = (0, 0);
    for round in 0..600 {
        let at = if round < rows.len() { round } else { next(rows.len()) };
        // The rows around it are enough, and quick; what was there before is as it was.
        let mut text = rows[..(at + 20).min(rows.len())].concat();
        let start: usize = rows[..at].iter().map(|row| row.len()).sum();
        let offset = start + next(rows[at].len() - 1);
        let byte =
            [b'0', b'9', b'a', b'"', b'{', b'}', b',', b' ', 0, 0xff, text[offset] ^ 1][next(11)];
        let before = text[offset];
        if before == byte || byte == b'\n' {
            continue;
        }
        text[offset] = byte;
        let (places, report) = found(&text);
        let line = at as u64 + 1;
        let place = places.iter().find(|place| place.0 == line);
        let (_, stream) =
            place.unwrap_or_else(|| panic!("line {line}, {before} -> {byte}: {places:?}"));
        assert!(stream.is_some(), "line {line}, byte {}, {before} -> {byte}", offset - start);
        violated += u32::from(report.is_violated());
        unreadable += u32::from(report.is_incomplete());
        assert!(report.is_violated() || report.is_incomplete());
    }
    assert!(violated > 300 && unreadable > 100, "{violated} {unreadable}");
}

#[test]
fn a_removed_row_is_found_unless_it_is_the_last() {
    let rows = sample();
    for at in 0..rows.len() - 1 {
        let text = [&rows[..at], &rows[at + 1..]].concat().concat();
        let (places, report) = found(&text);
        assert!(report.is_violated() && !report.is_incomplete());
        assert_eq!(places[0].0, at as u64 + 1, "the row behind it");
        let stream = stream_of(rows[at]);
        let is_last_of_stream = rows[at + 1..].iter().all(|row| stream_of(row) != stream);
        let is_named = places.iter().any(|place| place.1.as_ref() == Some(&stream));
        assert!(is_named || is_last_of_stream, "row {at}: {places:?}");
    }
}

#[test]
fn a_removed_last_row_is_found_by_what_an_earlier_report_printed() {
    let rows = sample();
    let (_, whole) = findings(SAMPLE, &VerifyOptions::default());
    let expected = Expected { events: 504, root: whole.root.unwrap() };
    let mut options = VerifyOptions::default();
    options.expected = Some(expected);
    assert_eq!(findings(SAMPLE, &options).1.mismatch, None);
    let (_, report) = findings(&rows[..503].concat(), &options);
    assert_eq!(report.violations, 0);
    assert!(report.is_violated());
    assert_eq!(report.mismatch.as_deref(), Some("expected 504 events, found 503"));
    let other = Expected { root: recount::Digest::ZERO, ..expected };
    options.expected = Some(other);
    let mismatch = findings(SAMPLE, &options).1.mismatch.unwrap();
    assert!(mismatch.starts_with("expected root 0000"), "{mismatch}");
}

#[test]
fn two_swapped_rows_are_found_in_their_places() {
    let rows = sample();
    for at in 0..rows.len() - 1 {
        for other in [at + 1, (at + 37) % rows.len()] {
            let mut swapped = rows.clone();
            swapped.swap(at, other);
            let (places, report) = found(&swapped.concat());
            assert!(report.is_violated());
            assert_eq!(places[0].0, at.min(other) as u64 + 1);
        }
    }
}

#[test]
fn a_cut_inside_a_row_is_found_and_what_is_before_it_is_checked() {
    let rows = sample();
    for at in (0..rows.len()).step_by(3) {
        let before = rows[..at].concat();
        for kept in [1, rows[at].len() / 2, rows[at].len() - 2] {
            let text = [&before, &rows[at][..kept]].concat();
            let (found, report) = findings(&text, &VerifyOptions::default());
            let torn = format!(
                "unreadable {at} the last row is cut after {kept} bytes; everything before it is usable, \
                 and `recount repair` moves it aside"
            );
            assert_eq!(found.last(), Some(&torn));
            assert_eq!(report.coverage.events, at as u64);
            assert!(report.is_incomplete() && !report.is_violated());
            assert_eq!(report.root, None);
        }
    }
    let unended = &SAMPLE[..SAMPLE.len() - 1];
    let (_, report) = findings(unended, &VerifyOptions::default());
    assert_eq!(report.coverage.events, 504, "a whole row without its line end is an event");
}

#[test]
fn o_24_gaps_repeats_and_disorder_are_found_and_told_apart() {
    let rows = rows(&life("m"));
    let check = |order: &[usize]| {
        let text: Vec<u8> = order.iter().flat_map(|at| rows[*at].clone()).collect();
        findings(&text, &VerifyOptions::default()).0
    };
    assert_eq!(
        check(&[0, 2])[0],
        "L2 2 revision 2 follows revision 0: 1 event is missing (also L1: position 2 follows position 0: 1 row is missing)"
    );
    assert_eq!(
        check(&[0, 2, 1])[1],
        "L2 1 revision 1 stands behind revision 2 (also L1: position 1 stands behind position 2)"
    );
    assert_eq!(
        check(&[0, 1, 1]),
        [
            "L2 1 revision 1 stands twice: the same event is at position 1, line 2 (also L1: position 1 stands behind position 1)"
        ]
    );
    let repeated = check(&[0, 1, 0, 1]);
    assert_eq!(repeated.len(), 2, "{repeated:?}");
    assert!(repeated[0].starts_with("L2 0 revision 0 stands behind revision 1"), "{repeated:?}");
}

#[test]
fn o_20_a_repeated_key_in_a_row_is_refused_with_its_line() {
    let mut rows = rows(&life("m"));
    let row = String::from_utf8(rows[2].clone()).unwrap();
    for (from, to) in [
        ("\"position\":2}", "\"position\":2,\"position\":3}"),
        ("\"revision\":2,", "\"revision\":2,\"r\\u0065vision\":3,"),
        ("\"queueSequence\":7,", "\"queueSequence\":7,\"queueSequence\":8,"),
    ] {
        rows[2] = row.replace(from, to).into_bytes();
        let (found, report) = findings(&rows.concat(), &VerifyOptions::default());
        assert!(found[0].starts_with("unreadable 2 not JSON: the key "), "{found:?}");
        assert!(report.is_incomplete());
    }
}

#[test]
fn o_21_a_position_that_is_no_integer_in_range_is_refused() {
    let mut rows = rows(&life("m"));
    let row = String::from_utf8(rows[4].clone()).unwrap();
    for (number, rule) in [
        ("18446744073709551616", "unreadable"),
        ("9007199254740993", "unreadable"),
        ("1e400", "unreadable"),
        ("04", "unreadable"),
        ("4.5", "unreadable"),
        ("-4", "unreadable"),
        ("4.0", "L5"),
        ("4e0", "L5"),
    ] {
        rows[4] = row.replace("\"position\":4}", &format!("\"position\":{number}}}")).into_bytes();
        let (found, _) = findings(&rows.concat(), &VerifyOptions::default());
        assert!(found[0].starts_with(rule), "{number}: {found:?}");
        assert_eq!(found.len(), 1, "{number}: {found:?}");
    }
}

#[test]
fn o_15_an_empty_id_in_a_row_is_refused_with_its_place() {
    let mut events = life("m");
    events[1].data["messageId"] = "".into();
    let (found, _) = findings(&rows(&events).concat(), &VerifyOptions::default());
    assert_eq!(
        found[0],
        "L6 1 the data of delivery.claimed does not decode at $.messageId: message id is empty"
    );
}

#[test]
fn one_job_and_several_find_the_same() {
    let rows = sample();
    let mut text = [&rows[..100], &rows[101..]].concat().concat().repeat(3);
    text[50_000] ^= 4;
    let mut options = VerifyOptions::default();
    let one = findings(&text, &options);
    options.jobs = 4;
    assert_eq!(findings(&text, &options), one);
}

#[test]
fn no_text_makes_a_reader_panic_and_none_is_read_without_a_word() {
    use proptest::prelude::*;

    let piece = prop_oneof![
        prop::sample::select(sample()[..40].to_vec()).prop_map(<[u8]>::to_vec),
        prop::collection::vec(any::<u8>(), 0..80),
        "[\\[\\]{}\":,0-9a-z\n]{0,60}".prop_map(String::into_bytes),
    ];
    let text = prop::collection::vec((piece, any::<prop::sample::Index>(), any::<bool>()), 0..12);
    for_all(text, |pieces| {
        let mut text = Vec::new();
        for (piece, at, is_cut) in pieces {
            let end = if is_cut { at.index(piece.len() + 1) } else { piece.len() };
            text.extend_from_slice(&piece[..end]);
        }
        let (found, report) = findings(&text, &VerifyOptions::default());
        let mut options = recount::ReplayOptions::default();
        options.keep_going = true;
        let replayed = recount::replay(JsonlRows::new(&text[..]), &options, |_| Ok(())).unwrap();
        let lines = report.coverage.events + report.coverage.unreadable;
        prop_assert_eq!(lines, text.split_inclusive(|byte| *byte == b'\n').count() as u64);
        prop_assert!(replayed.events + replayed.skipped == lines, "{:?}", replayed);
        let is_whole = recount::log::jsonl::JsonlReader::new(&text[..]).all(|read| read.is_ok());
        let is_log = found.iter().all(|it| !it.starts_with('L') && !it.starts_with('u'));
        prop_assert_eq!(is_whole, is_log, "{:?}", found);
        Ok(())
    });
}

#[test]
fn a_root_is_of_what_the_events_are_whatever_is_checked() {
    let (sample, options) = (rows(&life("m")).concat(), VerifyOptions::default());
    let (_, report) = findings(&sample, &options);
    let root = report.root.unwrap();
    let edited = String::from_utf8(sample).unwrap().replacen("\"principal\"", "\"somebody\"", 1);
    for rules in ["D", "D8", "L1", "L4"] {
        let mut options = VerifyOptions::default();
        options.rules = Rules::only(&[rules.parse().unwrap()]);
        options.expected = format!("5:{root}").parse().ok();
        let (_, report) = findings(edited.as_bytes(), &options);
        assert!(report.is_violated() && report.mismatch.is_some(), "{rules}: {report:?}");
        assert_ne!(report.root, Some(root));
    }
}
