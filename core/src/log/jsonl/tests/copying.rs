//! Copies that are interrupted, and disks that fill up.

use std::{
    io,
    path::Path,
    sync::{Arc, Mutex},
};

use super::{
    super::commit::{Locked, Storage},
    *,
};
use crate::log::{Copied, CopyError, copy};

/// A file with so much room, which is not synced, so that thousands of copies are quick.
#[derive(Debug)]
pub(in crate::log::jsonl) struct Small {
    pub(in crate::log::jsonl) file: Locked,
    pub(in crate::log::jsonl) room: usize,
    pub(in crate::log::jsonl) done: Done,
}

/// What was done to a file, in order.
pub(in crate::log::jsonl) type Done = Arc<Mutex<Vec<&'static str>>>;

impl Small {
    pub(in crate::log::jsonl) fn of(room: usize) -> impl FnOnce(Locked) -> Box<dyn Storage> {
        move |file| Box::new(Self { file, room, done: Done::default() })
    }

    /// A file that has room, and tells what is done to it.
    pub(in crate::log::jsonl) fn told(done: &Done) -> impl FnOnce(Locked) -> Box<dyn Storage> {
        let done = Arc::clone(done);
        move |file| Box::new(Self { file, room: usize::MAX, done })
    }

    fn did(&self, what: &'static str) {
        let mut done = self.done.lock().unwrap();
        if done.last() != Some(&what) {
            done.push(what);
        }
    }
}

impl Storage for Small {
    fn write(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.did("write");
        let length = bytes.len().min(self.room);
        self.room -= length;
        self.file.write(&bytes[..length], offset)?;
        if length < bytes.len() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn sync(&mut self) -> io::Result<()> {
        self.did("sync");
        Ok(())
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.did("truncate");
        self.file.truncate(length)
    }

    fn sync_name(&mut self, _: &Path) -> io::Result<()> {
        self.did("sync name");
        Ok(())
    }
}

fn copy_with_room(text: &[u8], sample: &Sample, room: usize) -> Result<Copied, CopyError> {
    let mut destination = JsonlDestination::open_with(&sample.path, Small::of(room)).unwrap();
    copy(JsonlRows::new(text), &mut destination)
}

#[test]
fn a_copy_that_was_interrupted_anywhere_is_finished_by_the_same_copy() {
    let text = three_rows();
    for length in 0..=text.len() {
        let sample = Sample::new(&text[..length]);
        let copied = copy_with_room(&text, &sample, usize::MAX).unwrap();
        assert_eq!(sample.text(), text, "{length}");
        let whole = memchr::memchr_iter(b'\n', &text[..length]).count() as u64;
        assert_eq!((copied.before, copied.events()), (whole, 3), "{length}");
    }
}

#[test]
fn what_was_copied_is_durable_whole_or_not() {
    let text = three_rows();
    let mut damaged = text.clone();
    damaged.extend_from_slice(b"no row\n");
    for (text, is_whole) in [(&text, true), (&damaged, false)] {
        let (sample, done) = (Sample::new(b""), Done::default());
        let destination = JsonlDestination::open_with(&sample.path, Small::told(&done));
        let copied = copy(JsonlRows::new(&text[..]), &mut destination.unwrap());
        assert_eq!(copied.is_ok(), is_whole);
        assert_eq!(*done.lock().unwrap(), ["write", "sync", "sync name"]);
    }
}

#[test]
fn a_disk_that_is_full_is_told_and_the_copy_goes_on_when_there_is_room() {
    let text = three_rows();
    for room in 0..text.len() {
        let sample = Sample::new(b"");
        let error = copy_with_room(&text, &sample, room).unwrap_err();
        let CopyError::Storage { source } = error else { panic!("{error:?}") };
        assert_eq!(source.to_string(), "no storage space");
        assert_eq!(sample.text(), text[..room]);
        copy_with_room(&text, &sample, usize::MAX).unwrap();
        assert_eq!(sample.text(), text);
    }
}

#[test]
fn a_row_that_was_cut_from_another_log_is_left() {
    let text = three_rows();
    let [a, _] = three();
    let other = rows(&[&a, &batch("delivery-c", None, &["ä"])]);
    for (text, other) in [(&text, &other), (&other, &text)] {
        // Up to here both rows are the same.
        let same = text.iter().zip(other).take_while(|(one, other)| one == other).count();
        for length in same + 1..other.len() - 1 {
            let sample = Sample::new(&other[..length]);
            let error = copy_with_room(text, &sample, usize::MAX).unwrap_err();
            assert_eq!(sample.text(), other[..length]);
            let is_told = match &error {
                CopyError::Damaged { source } => format!("{source:?}").contains("Torn"),
                // Only the line end is missing.
                CopyError::Differs { .. } => length == other.len() - 1,
                _ => false,
            };
            assert!(is_told, "{length}: {error:?}");
        }
    }
}

#[test]
fn a_file_that_is_open_for_writing_is_not_copied_to() {
    let sample = Sample::new(&three_rows());
    let log = JsonlLog::open(&sample.path).unwrap();
    let locked = |error: OpenError| {
        let path = sample.path.display();
        let told =
            format!("{path} is locked: another process, or this one, has it open for writing");
        assert_eq!(error.to_string(), told);
    };
    locked(JsonlDestination::open(&sample.path).unwrap_err());
    drop(log);
    let destination = JsonlDestination::open(&sample.path).unwrap();
    locked(JsonlDestination::open(&sample.path).unwrap_err());
    locked(JsonlLog::open(&sample.path).unwrap_err());
    drop(destination);
    JsonlLog::open(&sample.path).unwrap();
}

#[cfg(unix)]
#[test]
fn what_is_no_plain_file_is_not_copied_to() {
    let error = JsonlDestination::open("/dev/null").unwrap_err();
    assert_eq!(error.to_string(), "/dev/null could not be opened");
    let source = std::error::Error::source(&error).unwrap();
    assert_eq!(source.to_string(), "it is no plain file");
}

#[test]
fn a_pipe_takes_a_copy_too() {
    let text = three_rows();
    let mut writer = JsonlWriter::new(Vec::new());
    let copied = copy(JsonlRows::new(&text[..]), &mut writer).unwrap();
    assert_eq!((copied.before, copied.copied), (0, 3));
    assert_eq!(writer.finish().unwrap(), text);
    let mut room = [0; 100];
    let error = copy(JsonlRows::new(&text[..]), &mut JsonlWriter::new(&mut room[..])).unwrap_err();
    assert!(matches!(error, CopyError::Storage { .. }), "{error:?}");
}
