//! Frames: cut, interrupted, of others.

use std::{
    fs,
    io::{Read as _, Write as _},
    path::PathBuf,
};

use super::*;
use crate::{
    EventBatch, Position,
    log::{
        Copied, CopyError,
        conformance::batch,
        copy,
        jsonl::{
            JsonlRows, OpenError,
            tests::copying::{Done, Small},
        },
    },
    write_row,
};

/// So small that a few rows are several frames.
const SMALL: usize = 800;

/// A file in a folder of its own.
struct Sample {
    path: PathBuf,
    _folder: tempfile::TempDir,
}

impl Sample {
    fn new(bytes: &[u8]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.jsonl.zst");
        fs::write(&path, bytes).unwrap();
        Self { path, _folder: folder }
    }

    fn bytes(&self) -> Vec<u8> {
        fs::read(&self.path).unwrap()
    }

    fn open(&self, room: usize) -> Result<ZstdDestination, OpenError> {
        ZstdDestination::open_with(&self.path, SMALL, Small::of(room))
    }

    fn copy(&self, text: &[u8]) -> Result<(Copied, bool), CopyError> {
        let mut destination = self.open(usize::MAX).unwrap();
        let copied = copy(JsonlRows::new(text), &mut destination)?;
        Ok((copied, destination.is_cut_elsewhere()))
    }
}

/// The rows of a log of so many events.
fn rows(count: usize) -> Vec<Vec<u8>> {
    let tags: Vec<_> = (0..count).map(|index| format!("{index:x}é").repeat(index % 7)).collect();
    let tags: Vec<_> = tags.iter().map(String::as_str).collect();
    let batch: EventBatch = batch("delivery-a", None, &tags);
    let row = |(event, position)| {
        let mut row = Vec::new();
        write_row(&mut row, Position::new(position).unwrap(), event);
        row
    };
    batch.events().iter().zip(0..).map(row).collect()
}

/// What a copy into a new file is.
fn frames(text: &[u8]) -> Vec<u8> {
    let sample = Sample::new(b"");
    let (_, is_cut_elsewhere) = sample.copy(text).unwrap();
    assert!(!is_cut_elsewhere);
    sample.bytes()
}

fn decoded(frames: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    ZstdReader::new(frames).unwrap().read_to_end(&mut text).unwrap();
    text
}

/// How long each frame is, compressed.
fn lengths(mut frames: &[u8]) -> Vec<usize> {
    let mut lengths = Vec::new();
    while !frames.is_empty() {
        let length = ::zstd::zstd_safe::find_frame_compressed_size(frames).unwrap();
        lengths.push(length);
        frames = &frames[length..];
    }
    lengths
}

#[test]
fn a_frame_ends_with_a_row_has_its_length_and_a_checksum() {
    let text = rows(12).concat();
    let frames = frames(&text);
    assert_eq!(::zstd::decode_all(&frames[..]).unwrap(), text);
    let lengths = lengths(&frames);
    assert!(lengths.len() > 3, "{lengths:?}");
    let mut rest = &frames[..];
    for (index, length) in lengths.iter().enumerate() {
        let (frame, behind) = rest.split_at(*length);
        let text = ::zstd::decode_all(frame).unwrap();
        assert!(text.ends_with(b"\n"));
        let last_row =
            text[..text.len() - 1].iter().rposition(|it| *it == b'\n').map_or(0, |it| it + 1);
        assert!(last_row < SMALL, "frame {index} is longer than it should be");
        assert!(text.len() >= SMALL || behind.is_empty(), "frame {index} is shorter");
        let size = ::zstd::zstd_safe::get_frame_content_size(frame).unwrap();
        assert_eq!(size, Some(text.len() as u64));
        let mut wrong = frame.to_vec();
        *wrong.last_mut().unwrap() ^= 1;
        let error = ::zstd::decode_all(&wrong[..]).unwrap_err().to_string();
        assert!(error.contains("checksum"), "{error}");
        rest = behind;
    }
}

#[test]
fn a_writer_makes_the_same_frames_however_the_text_comes() {
    let text = rows(12).concat();
    for step in [1, 7, 300, 801, text.len()] {
        let mut out = Vec::new();
        let mut frames = frames::Frames::new(SMALL).unwrap();
        for mut part in text.chunks(step) {
            while !part.is_empty() {
                let (taken, is_end) = frames.take(part);
                part = &part[taken..];
                if is_end {
                    out.extend_from_slice(frames.end().unwrap());
                }
            }
        }
        if !frames.text().is_empty() {
            out.extend_from_slice(frames.end().unwrap());
        }
        assert_eq!(out, self::frames(&text), "{step}");
    }
    let long = rows(7).concat().repeat(1_000);
    let mut writer = ZstdWriter::new(Vec::new()).unwrap();
    writer.write_all(&long).unwrap();
    writer.flush().unwrap();
    let frames = writer.finish().unwrap();
    assert_eq!(decoded(&frames), long);
    assert!(lengths(&frames).len() > 1, "the text is more than one frame");
}

#[test]
fn a_copy_that_was_interrupted_anywhere_is_finished_by_the_same_copy() {
    let text = rows(12).concat();
    let frames = frames(&text);
    for length in 0..=frames.len() {
        let sample = Sample::new(&frames[..length]);
        let (copied, is_cut_elsewhere) = sample.copy(&text).unwrap();
        assert_eq!(sample.bytes(), frames, "{length}");
        assert_eq!((copied.events(), is_cut_elsewhere), (12, false), "{length}");
    }
}

#[test]
fn a_cut_frame_is_written_again_and_made_durable() {
    let text = rows(12).concat();
    let frames = frames(&text);
    let (sample, done) = (Sample::new(&frames[..frames.len() - 5]), Done::default());
    let mut destination =
        ZstdDestination::open_with(&sample.path, SMALL, Small::told(&done)).unwrap();
    copy(JsonlRows::new(&text[..]), &mut destination).unwrap();
    assert_eq!(*done.lock().unwrap(), ["truncate", "write", "sync", "sync name"]);
}

#[test]
fn a_disk_that_is_full_is_told_and_the_copy_goes_on_when_there_is_room() {
    let text = rows(12).concat();
    let frames = frames(&text);
    for room in (0..frames.len()).step_by(7) {
        let sample = Sample::new(b"");
        let mut destination = sample.open(room).unwrap();
        let error = copy(JsonlRows::new(&text[..]), &mut destination).unwrap_err();
        drop(destination);
        assert!(matches!(error, CopyError::Storage { .. }), "{error:?}");
        assert_eq!(sample.bytes(), frames[..room]);
        sample.copy(&text).unwrap();
        assert_eq!(sample.bytes(), frames);
    }
}

#[test]
fn an_interrupted_copy_of_a_log_that_has_grown_is_that_of_the_grown_log() {
    let rows = rows(12);
    let whole = frames(&rows.concat());
    for count in 1..12 {
        let before = frames(&rows[..count].concat());
        let last = before.len() - lengths(&before).last().unwrap();
        for length in last..before.len() {
            let sample = Sample::new(&before[..length]);
            let (_, is_cut_elsewhere) = sample.copy(&rows.concat()).unwrap();
            assert_eq!(sample.bytes(), whole, "{count} events, {length} bytes");
            assert!(!is_cut_elsewhere);
        }
    }
}

#[test]
fn whole_frames_are_never_changed_and_what_is_new_is_put_behind_them() {
    let rows = rows(12);
    let text = rows.concat();
    let new = frames(&text);
    for count in 0..=12 {
        let before = frames(&rows[..count].concat());
        let sample = Sample::new(&before);
        let (copied, is_cut_elsewhere) = sample.copy(&text).unwrap();
        assert_eq!((copied.before, copied.events()), (count as u64, 12));
        let bytes = sample.bytes();
        assert!(bytes.starts_with(&before), "{count}");
        assert_eq!(decoded(&bytes), text, "{count}");
        assert_eq!(is_cut_elsewhere, bytes != new, "{count}");
    }
}

#[test]
fn frames_of_another_program_are_gone_on_behind() {
    let rows = rows(12);
    let text = rows.concat();
    let of = |text: &[u8]| ::zstd::encode_all(text, 9).unwrap();
    let start: usize = rows[..4].iter().map(Vec::len).sum();
    let skipped = [&b"\x50\x2a\x4d\x18\x03\0\0\0abc"[..], &of(&text[..start])].concat();
    for there in [
        of(&text[..start]),
        // Frames that end within rows, an empty one, one to be skipped.
        [of(&text[..100]), of(&text[100..start + 50])].concat(),
        [of(b""), of(&text[..start])].concat(),
        skipped,
    ] {
        let sample = Sample::new(&there);
        let (copied, is_cut_elsewhere) = sample.copy(&text).unwrap();
        assert_eq!((copied.before, copied.events(), is_cut_elsewhere), (4, 12, true));
        let bytes = sample.bytes();
        assert!(bytes.starts_with(&there));
        assert_eq!(decoded(&bytes), text);
        assert_eq!(::zstd::decode_all(&bytes[..]).unwrap(), text);
    }
    // Nothing is new, so nothing is cut anywhere.
    let there = of(&text);
    let sample = Sample::new(&there);
    assert!(!sample.copy(&text).unwrap().1);
    assert_eq!(sample.bytes(), there);
}

#[test]
fn a_frame_that_was_cut_from_something_else_is_left() {
    let rows = rows(12);
    let text = rows.concat();
    let ours = frames(&text);
    let first = lengths(&ours)[0];
    let other = String::from_utf8(rows[7].clone()).unwrap().replace('é', "e");
    let mut others = rows.clone();
    others[7] = other.into();
    let others = ::zstd::encode_all(&others.concat()[..], 3).unwrap();
    let whole_text = decoded(&ours[..first]).len();
    for there in [
        [&ours[..first], &others[..others.len() - 3]].concat(),
        [&ours[..first], &ours[first..first + 30], b"\0\0\0"].concat(),
    ] {
        let sample = Sample::new(&there);
        let error = sample.copy(&text).unwrap_err();
        let length = there.len() - first;
        assert!(
            matches!(error, CopyError::CutFrame { offset, length: cut }
                if (offset, cut) == (whole_text as u64, length as u64)),
            "{error:?}"
        );
        assert_eq!(sample.bytes(), there);
    }
    // Behind all of the source there is nothing that it could be the beginning of.
    let there = [&ours[..], &ours[..20]].concat();
    let sample = Sample::new(&there);
    let error = sample.copy(&text).unwrap_err();
    assert!(matches!(error, CopyError::CutFrame { .. }), "{error:?}");
    assert_eq!(sample.bytes(), there);
}

#[test]
fn what_is_no_frame_is_not_opened() {
    let text = rows(12).concat();
    let mut wrong = frames(&text);
    let end = wrong.len() - 1;
    wrong[end] ^= 1;
    for there in [wrong, b"my notes".to_vec(), [frames(&text), b"my notes".to_vec()].concat()] {
        let sample = Sample::new(&there);
        let error = sample.open(usize::MAX).unwrap_err();
        assert!(matches!(error, OpenError::Storage { .. }), "{error:?}");
        assert_eq!(sample.bytes(), there);
    }
}

#[test]
fn text_comes_whole_however_the_frames_do() {
    struct Trickle<'a>(&'a [u8]);
    impl std::io::Read for Trickle<'_> {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            let length = self.0.len().min(1);
            self.0.read(&mut into[..length])
        }
    }
    let text = rows(12).concat();
    let frames = [frames(&text), ::zstd::encode_all(&b""[..], 3).unwrap(), frames(&text)].concat();
    let mut reader = ZstdReader::new(Trickle(&frames)).unwrap();
    let mut read = Vec::new();
    let mut byte = [0; 1];
    while reader.read(&mut byte).unwrap() > 0 {
        read.push(byte[0]);
    }
    assert_eq!(read, text.repeat(2));
}
