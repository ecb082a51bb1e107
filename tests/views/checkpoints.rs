//! Checkpoints: used where they fit, and otherwise ignored, told of and kept.

use std::{fs, path::Path, sync::Arc};

use futures_executor::block_on;
use recount::{
    DeliveryView, Digest, EventBatch, Resumed, StreamName, Unusable,
    log::{EventLog, MemoryLog},
    service::DueIndex,
};

use super::{
    caught_up,
    logs::{Happened, World, append, seal},
    state,
};
use crate::lab::pinned;

/// Changes a checkpoint and makes its digest right again.
pub(super) fn forge(path: &Path, change: impl FnOnce(String) -> String) {
    let text = fs::read_to_string(path).unwrap();
    let end = text.trim_end().rfind('\n').unwrap() + 1;
    let changed = change(text[..end].to_owned());
    assert_ne!(changed, text[..end], "nothing was changed");
    let digest = Digest::of_bytes(changed.as_bytes());
    fs::write(path, format!("{changed}{{\"sha256\":\"{digest}\"}}\n")).unwrap();
}

fn resume(log: &Arc<MemoryLog>, path: &Path) -> (DeliveryView, Resumed) {
    block_on(DeliveryView::resume(log.clone(), path)).unwrap()
}

fn ignored(log: &Arc<MemoryLog>, path: &Path) -> Unusable {
    let before = fs::read(path).ok();
    let (view, resumed) = resume(log, path);
    let Resumed::Ignored(why) = resumed else { panic!("{resumed:?}") };
    assert_eq!(view.head(), None, "nothing of it is used");
    assert_eq!(fs::read(path).ok(), before, "it is left as it is");
    block_on(view.catch_up()).unwrap();
    assert_eq!(state(&view), state(&caught_up(log)));
    why
}

#[test]
fn what_is_not_a_checkpoint_of_the_log_is_ignored_and_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint");
    let world = World::plain(1);
    let log = world.log();
    let whole = {
        block_on(caught_up(&log).save(&path)).unwrap();
        fs::read(&path).unwrap()
    };
    let mut told = String::new();
    let mut tell = |what: &str, why: Unusable| {
        let source = std::error::Error::source(&why).map(|it| format!(": {it}"));
        told.push_str(&format!("{what}: {why}{}\n", source.unwrap_or_default()));
    };
    let mut with = |what: &str, log: &Arc<MemoryLog>, bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        tell(what, ignored(log, &path));
    };
    with("empty", &log, b"");
    with("some text", &log, b"hello\n");
    with("a log", &log, &world.text);
    with("half of it", &log, &whole[..whole.len() / 2]);
    let text = String::from_utf8(whole.clone()).unwrap();
    let edited = text.replacen("\"attempts\":1", "\"attempts\":7", 1);
    with("edited", &log, edited.as_bytes());
    with("without a message", &log, without_line(&text, 3).as_bytes());

    let forged = |change: &dyn Fn(String) -> String| {
        fs::write(folder.path().join("forged"), &whole).unwrap();
        forge(&folder.path().join("forged"), change);
        fs::read(folder.path().join("forged")).unwrap()
    };
    let version = forged(&|text| text.replacen("\"foldVersion\":1", "\"foldVersion\":2", 1));
    with("of a newer fold", &log, &version);
    let schemas = forged(&|text| {
        let at = text.find("\"schemas\":\"").unwrap() + 11;
        text.replacen(&text[at..at + 64], &"0".repeat(64), 1)
    });
    with("of a fold that knows other types", &log, &schemas);
    let finished =
        forged(&|text| text.replacen("\"status\":\"pending\"", "\"status\":\"processed\"", 1));
    with("with a finished message", &log, &finished);
    let twice = forged(&|text| {
        let line = text.lines().last().unwrap();
        format!("{text}{line}\n")
    });
    with("with a message twice", &log, &twice);
    let other = forged(&|text| text.replacen("\"ignored\":0", "\"ignored\":\"none\"", 1));
    with("with a word for a number", &log, &other);

    with("of another log", &World::plain(2).log(), &whole);
    let shorter = Arc::new(MemoryLog::new());
    append(&*shorter, &world.batches[..700]);
    with("of a log that lost its end", &shorter, &whole);
    with("of a log that went another way", &went_another_way(&world), &whole);
    with("of a log that is empty now", &Arc::new(MemoryLog::new()), &whole);
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    tell("a folder", ignored(&log, &path));
    pinned(|| insta::assert_snapshot!(told));
}

fn without_line(text: &str, number: usize) -> String {
    let lines = text.lines().enumerate().filter(|(index, _)| *index != number);
    lines.flat_map(|(_, line)| [line, "\n"]).collect()
}

/// The same log up to its last events, which are others.
fn went_another_way(world: &World) -> Arc<MemoryLog> {
    let log = Arc::new(MemoryLog::new());
    let (same, rest) = world.batches.split_at(world.batches.len() - 20);
    append(&*log, same);
    let elsewhere = |batch: &EventBatch| Happened {
        stream: StreamName::parse("other-stream").unwrap(),
        ..Happened::of(&batch.events()[0])
    };
    append(&*log, &seal(&rest.iter().map(elsewhere).collect::<Vec<_>>()));
    log
}

#[test]
fn no_byte_of_a_checkpoint_can_be_changed_or_cut_unnoticed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint");
    let log = Arc::new(MemoryLog::new());
    append(&*log, &World::with_strangers(1).batches[..40]);
    block_on(caught_up(&log).save(&path)).unwrap();
    let whole = fs::read(&path).unwrap();
    assert!(whole.len() > 3_000, "{}", whole.len());
    let is_ignored = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        matches!(resume(&log, &path).1, Resumed::Ignored(_))
    };
    let last = whole.len() - 90;
    for end in (0..last).step_by(11).chain(last..whole.len()) {
        assert!(is_ignored(&whole[..end]), "cut at {end}");
    }
    for at in (0..last).step_by(7).chain(last..whole.len()) {
        let mut edited = whole.clone();
        edited[at] ^= 1;
        assert!(is_ignored(&edited), "byte {at}");
    }
    assert!(is_ignored(&[&whole[..], b"\n"].concat()), "a line more");
    assert!(!is_ignored(&whole));
}

#[test]
fn what_is_not_ours_is_kept_when_a_view_is_saved() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint");
    let world = World::plain(1);
    let log = world.log();
    let view = caught_up(&log);
    let save = || block_on(view.save(&path)).unwrap().unwrap();
    assert_eq!(save().kept, None, "there was nothing");
    assert_eq!(save().kept, None, "it is our own");
    for number in 1..3 {
        fs::write(&path, format!("theirs {number}")).unwrap();
        let kept = save().kept.expect("it is not ours");
        assert_eq!(kept, folder.path().join(format!("checkpoint.ignored-{number}")));
        assert_eq!(fs::read_to_string(kept).unwrap(), format!("theirs {number}"));
        assert!(matches!(resume(&log, &path).1, Resumed::From(_)));
    }
    // An older one of the same log is replaced, a newer one is not, and nothing is left aside.
    let older = DeliveryView::new(Arc::new(MemoryLog::new()));
    assert_eq!(block_on(older.save(&path)).unwrap(), None);
    let growing = Arc::new(MemoryLog::new());
    append(&*growing, &world.batches[..700]);
    let behind = caught_up(&growing);
    append(&*growing, &world.batches[700..]);
    assert_eq!(block_on(behind.save(&path)).unwrap(), None, "a newer one stands there");
    fs::remove_file(&path).unwrap();
    block_on(behind.save(&path)).unwrap().expect("there is none");
    assert_eq!(save().kept, None, "an older one is replaced");
    assert!(matches!(resume(&log, &path).1, Resumed::From(head) if Some(head) == view.head()));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
}

#[test]
fn a_view_that_cannot_be_saved_says_why_and_leaves_what_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let view = caught_up(&World::plain(1).log());
    let error = block_on(view.save(folder.path().join("no/such/folder"))).unwrap_err();
    let place = folder.path().join("no/such/folder");
    assert_eq!(error.to_string(), format!("the checkpoint {} cannot be written", place.display()));
    let error = block_on(view.save(folder.path())).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "{} is no checkpoint of this log, and cannot be kept under another name",
            folder.path().display()
        )
    );
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_view_that_was_resumed_goes_on_with_what_was_appended_since() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint");
    let world = World::plain(4);
    let log = Arc::new(MemoryLog::new());
    append(&*log, &world.batches[..900]);
    let saved = block_on(caught_up(&log).save(&path)).unwrap().unwrap();
    append(&*log, &world.batches[900..]);
    let (view, resumed) = resume(&log, &path);
    assert!(matches!(resumed, Resumed::From(head) if head == saved.head));
    assert_eq!(view.digest(), saved.digest);
    block_on(view.catch_up()).unwrap();
    assert_eq!(view.head(), block_on(log.head()).unwrap());
    assert_eq!(state(&view), state(&caught_up(&log)));
}
