//! Logs that go from kind to kind, and destinations that are not theirs.

use std::{
    fs,
    fs::File,
    path::{Path, PathBuf},
};

use tempfile::TempDir;

use super::*;
use crate::{
    EventBatch, SealedEvent, StreamHead,
    log::{
        conformance::batch,
        jsonl::{JsonlDestination, JsonlRows, JsonlWriter, ZstdDestination, ZstdReader},
        sqlite::{SqliteDestination, SqliteRows},
    },
    write_row,
};

/// A kind of log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Jsonl,
    Zstd,
    Sqlite,
}

const KINDS: [Kind; 3] = [Kind::Jsonl, Kind::Zstd, Kind::Sqlite];

impl Kind {
    fn destination(self, path: &Path) -> Box<dyn Destination> {
        match self {
            Self::Jsonl => Box::new(JsonlDestination::open(path).unwrap()),
            Self::Zstd => Box::new(ZstdDestination::open(path).unwrap()),
            Self::Sqlite => Box::new(SqliteDestination::open(path).unwrap()),
        }
    }

    fn rows(self, path: &Path) -> Box<dyn RowSource> {
        let file = || File::open(path).unwrap();
        match self {
            Self::Jsonl => Box::new(JsonlRows::new(file())),
            Self::Zstd => Box::new(JsonlRows::new(ZstdReader::new(file()).unwrap())),
            Self::Sqlite => Box::new(SqliteRows::open(path).unwrap()),
        }
    }

    /// Copies a text to a file.
    fn copy(self, text: &[u8], path: &Path) -> Result<Copied, CopyError> {
        copy(JsonlRows::new(text), &mut *self.destination(path))
    }

    /// The rows of a file as a text.
    fn text(self, path: &Path) -> Vec<u8> {
        let mut writer = JsonlWriter::new(Vec::new());
        for event in EventReader::of(self.rows(path)) {
            writer.write(&event.unwrap().event).unwrap();
        }
        writer.finish().unwrap()
    }
}

/// A folder for files.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

/// Events of three streams in turn.
fn events(tags: &[&str]) -> Vec<SealedEvent> {
    let mut heads: [Option<StreamHead>; 3] = [None; 3];
    let event = |(index, tag): (usize, &&str)| {
        let stream = format!("delivery-{}", index % 3);
        let batch: EventBatch = batch(&stream, heads[index % 3], &[tag]);
        heads[index % 3] = Some(batch.head());
        batch.events()[0].clone()
    };
    tags.iter().enumerate().map(event).collect()
}

fn rows_of(events: &[SealedEvent]) -> Vec<Vec<u8>> {
    let row = |(event, position): (&SealedEvent, u64)| {
        let mut row = Vec::new();
        write_row(&mut row, Position::new(position).unwrap(), event);
        row
    };
    events.iter().zip(0..).map(row).collect()
}

fn rows(tags: &[&str]) -> Vec<Vec<u8>> {
    rows_of(&events(tags))
}

fn text(tags: &[&str]) -> Vec<u8> {
    rows(tags).concat()
}

const TAGS: [&str; 7] = ["1", "2", "ä\n", "4", "", "6", "7"];

#[test]
fn a_log_is_the_same_bytes_whichever_way_it_went() {
    let folder = Folder::new();
    let text = text(&TAGS);
    let first = events(&TAGS)[0].digest();
    for from in KINDS {
        let source = folder.path(&format!("{from:?}"));
        let copied = from.copy(&text, &source).unwrap();
        assert_eq!((copied.before, copied.copied, copied.log_id), (0, 7, Some(first)));
        assert_eq!(copied.last.map(|last| last.position.get()), Some(6));
        for to in KINDS {
            let path = folder.path(&format!("{from:?}-{to:?}"));
            let again = copy(from.rows(&source), &mut *to.destination(&path)).unwrap();
            assert_eq!(again, copied);
            assert_eq!(to.text(&path), text, "{from:?} to {to:?}");
            if to != Kind::Sqlite {
                let expected = fs::read(folder.path(&format!("Jsonl-{to:?}"))).unwrap();
                assert_eq!(fs::read(&path).unwrap(), expected, "{from:?} to {to:?}");
            }
        }
    }
    assert_eq!(fs::read(folder.path("Sqlite-Jsonl")).unwrap(), text);
}

#[test]
fn the_root_is_that_of_all_events_however_many_were_there() {
    let folder = Folder::new();
    let rows = rows(&TAGS);
    let mut tree = MerkleTree::default();
    for event in events(&TAGS) {
        tree.push_leaf(MerkleTree::leaf(event.digest()));
    }
    for kind in KINDS {
        for there in 0..=TAGS.len() {
            let path = folder.path(&format!("{kind:?}-{there}"));
            kind.copy(&rows[..there].concat(), &path).unwrap();
            let copied = kind.copy(&rows.concat(), &path).unwrap();
            assert_eq!(copied.root, tree.root());
            assert_eq!((copied.before, copied.events()), (there as u64, 7));
            assert_eq!(kind.text(&path), rows.concat(), "{kind:?} {there}");
        }
    }
}

/// What a copy says to what is there, which must not change it.
fn refused(kind: Kind, there: &[u8], source: &[u8]) -> String {
    let folder = Folder::new();
    let path = folder.path("there");
    kind.copy(there, &path).unwrap();
    let before = Digest::of_bytes(&fs::read(&path).unwrap());
    let error = kind.copy(source, &path).unwrap_err();
    assert_eq!(Digest::of_bytes(&fs::read(&path).unwrap()), before, "{kind:?}");
    assert_eq!(kind.text(&path), there, "{kind:?}");
    error.to_string()
}

#[test]
fn another_log_is_left_as_it_is() {
    let ours = events(&["1", "2", "3", "4", "5"]);
    let differs = |position: usize, other: &SealedEvent| {
        format!(
            "the destination holds another log: at position {position} it has event {}, the source \
             has {}",
            other.digest(),
            ours[position].digest()
        )
    };
    let ours_text = text(&["1", "2", "3", "4", "5"]);
    for kind in KINDS {
        for position in 0..5 {
            let mut tags = ["1", "2", "3", "4", "5"];
            tags[position] = "other";
            let others = events(&tags);
            // All of it, and a beginning that ends with the one event.
            for length in [5, position + 1] {
                let told = refused(kind, &rows_of(&others[..length]).concat(), &ours_text);
                assert_eq!(told, differs(position, &others[position]), "{kind:?}");
            }
        }
        let longer = text(&["1", "2", "3", "4", "5", "6", "7"]);
        assert_eq!(
            refused(kind, &longer, &ours_text),
            "the destination goes on where the source ends: it has 7 events, the source has 5"
        );
        assert_eq!(
            refused(kind, &text(&["1"]), b""),
            "the destination goes on where the source ends: it has 1 event, the source has 0"
        );
    }
}

#[test]
fn what_is_before_the_damage_of_a_source_is_copied() {
    let rows = rows(&TAGS);
    for kind in KINDS {
        for there in [0, 1, 3, 4] {
            let folder = Folder::new();
            let path = folder.path("copy");
            kind.copy(&rows[..there].concat(), &path).unwrap();
            let mut damaged = rows.clone();
            damaged[3] = String::from_utf8(damaged[3].clone()).unwrap().replace('4', "5").into();
            let error = kind.copy(&damaged.concat(), &path).unwrap_err();
            let CopyError::Source { copied, source } = &error else { panic!("{error:?}") };
            let before = there.min(3) as u64;
            assert_eq!((copied.before, copied.events()), (before, 3), "{kind:?}");
            assert!(source.to_string().contains("position 3, "), "{source}");
            assert_eq!(error.to_string(), "the source cannot be read behind its first 3 events");
            assert_eq!(kind.text(&path), rows[..there.max(3)].concat(), "{kind:?}");
            kind.copy(&rows.concat(), &path).unwrap();
            assert_eq!(kind.text(&path), rows.concat(), "{kind:?}");
        }
    }
}

#[test]
fn a_source_that_fails_is_copied_up_to_there() {
    struct Failing<'a>(&'a [u8]);
    impl std::io::Read for Failing<'_> {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            match self.0.read(into)? {
                0 => Err(std::io::Error::other("the disk is gone")),
                read => Ok(read),
            }
        }
    }
    let rows = rows(&TAGS);
    for kind in KINDS {
        let folder = Folder::new();
        let path = folder.path("copy");
        let text = [&rows[..4].concat(), &rows[4][..9]].concat();
        let source = JsonlRows::new(Failing(&text));
        let error = copy(source, &mut *kind.destination(&path)).unwrap_err();
        let CopyError::Source { copied, source } = error else { panic!("{error:?}") };
        assert_eq!((copied.copied, source.to_string().as_str()), (4, "the log could not be read"));
        assert_eq!(kind.text(&path), rows[..4].concat());
    }
}

#[test]
fn a_damaged_destination_is_told_and_left_as_it_is() {
    let folder = Folder::new();
    let path = folder.path("copy.jsonl");
    let rows = rows(&TAGS);
    let told = |there: &[u8], source: &[u8]| {
        fs::write(&path, there).unwrap();
        let error = Kind::Jsonl.copy(source, &path).unwrap_err();
        assert_eq!(fs::read(&path).unwrap(), there);
        let CopyError::Damaged { source } = error else { panic!("{error:?}") };
        let damage = std::error::Error::source(&source).unwrap().to_string();
        format!("{source}: {damage}")
    };
    let text = rows.concat();
    let offset = rows[0].len();
    let at =
        |stream: &str| format!("the log is damaged at position 1, {stream}line 2, byte {offset}");

    let cut = [&rows[0][..], b"{\"digest\":\"0"].concat();
    let torn = "the last row is cut after 12 bytes: `recount repair` moves them aside";
    assert_eq!(told(&cut, &text), format!("{}: {torn}", at("")));
    // Behind all of the source there is nothing that a cut row could be the beginning of.
    let cut = [&rows[0][..], b"{\"digest\":\""].concat();
    let torn = "the last row is cut after 11 bytes: `recount repair` moves them aside";
    assert_eq!(told(&cut, &rows[0]), format!("{}: {torn}", at("")));

    let swapped = [&rows[0][..], &rows[2], &rows[1]].concat();
    let position = "the position is 2, expected 1";
    assert_eq!(told(&swapped, &text), format!("{}: {position}", at("stream delivery-2, ")));

    let notes = [&rows[0][..], b"my notes\n"].concat();
    assert!(told(&notes, &text).contains("not JSON"), "{}", told(&notes, &text));

    let mut long = rows[0].clone();
    long.resize(offset + (16 << 20) + 1, b'x');
    let too_long = "a row of 16777217 bytes is longer than 16777216";
    assert_eq!(told(&long, &text), format!("{}: {too_long}", at("")));
}

#[test]
fn a_table_that_finds_events_elsewhere_is_told() {
    let folder = Folder::new();
    let path = folder.path("copy.db");
    let text = text(&TAGS);
    Kind::Sqlite.copy(&text, &path).unwrap();
    let connection = rusqlite::Connection::open(&path).unwrap();
    let trigger: String = connection
        .query_row(
            "SELECT sql FROM sqlite_schema WHERE name = 'streams_are_not_changed'",
            [],
            |row| row.get(0),
        )
        .unwrap();
    connection.execute_batch("DROP TRIGGER streams_are_not_changed").unwrap();
    connection.execute("UPDATE streams SET name = 'delivery-x' WHERE id = 2", []).unwrap();
    connection.execute_batch(&trigger).unwrap();
    drop(connection);
    let error = Kind::Sqlite.copy(&text, &path).unwrap_err();
    let CopyError::Damaged { source } = error else { panic!("{error:?}") };
    assert_eq!(
        std::error::Error::source(&source).unwrap().to_string(),
        "the table lists revision 0 of \"delivery-x\", the event is revision 0 of \"delivery-1\""
    );
}

#[test]
fn every_error_says_what_it_is() {
    let damage = || ReadError::Storage { source: "gone".into() };
    for (error, text) in [
        (CopyError::Damaged { source: damage() }, "the destination is damaged"),
        (
            CopyError::CutFrame { offset: 7, length: 5 },
            "the destination's last zstd frame is cut after 5 bytes, at byte 7 of the text, and is \
             not the beginning of what would be written there",
        ),
        (
            CopyError::Interfered { expected: 3, found: 1 },
            "another process appended to the destination: it has 1 event, not 3",
        ),
        (CopyError::Storage { source: "gone".into() }, "the destination failed"),
    ] {
        assert_eq!(error.to_string(), text);
    }
}
