//! What several themes need: files of vectors, and events that are held to their rules.

pub(crate) mod edits;
pub(crate) mod histories;

use std::{collections::BTreeMap, env, fs, path::PathBuf};

use proptest::{
    strategy::Strategy,
    test_runner::{Config, RngAlgorithm, TestCaseResult, TestRng, TestRunner},
};
use recount_core::{
    DomainEvent, EventDraft, Invariant, Legal, MessageId, Metadata,
    delivery::{
        DeliveryError, DeliveryEvent, Evolved, MessageDeliveryRecord, Outbox, OutboxCommand,
        OutboxCounts,
    },
};
use serde::de::DeserializeOwned;

/// A file of vectors.
pub(crate) struct Vectors {
    folder: PathBuf,
    name: String,
    text: String,
}

impl Vectors {
    /// The project's copy, and the file of the same name in the folder `RECOUNT_VECTORS`.
    pub(crate) fn all(name: &str) -> Vec<Self> {
        let own = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/vectors");
        let mut files = vec![Self::read(own, name).expect("the project has a copy")];
        if let Some(folder) = env::var_os("RECOUNT_VECTORS") {
            let folder = PathBuf::from(folder);
            assert!(folder.is_dir(), "RECOUNT_VECTORS is no folder: {}", folder.display());
            files.extend(Self::read(folder, name));
        }
        files
    }

    /// The whole text.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Another file of the same folder.
    pub(crate) fn beside(&self, name: &str) -> String {
        Self::read(self.folder.clone(), name).expect("the files belong together").text
    }

    /// Plain, or compressed where it is large.
    fn read(folder: PathBuf, name: &str) -> Option<Self> {
        let text = fs::read_to_string(folder.join(name)).ok().or_else(|| {
            let file = fs::File::open(folder.join(format!("{name}.zst"))).ok()?;
            let bytes = zstd::decode_all(file).expect("the copy is whole");
            Some(String::from_utf8(bytes).expect("vectors are text"))
        })?;
        Some(Self { folder, name: name.to_owned(), text })
    }

    /// The lines, each with its place.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (String, &str)> {
        let name = self.folder.join(&self.name).display().to_string();
        self.text.lines().zip(1..).map(move |(line, number)| (format!("{name}:{number}"), line))
    }

    /// A case a line; a file without any is an error, since it would hold nothing.
    pub(crate) fn cases<T: DeserializeOwned>(&self) -> Result<Vec<(String, T)>, String> {
        let read = |(place, line): (String, &str)| match serde_json::from_str(line) {
            Ok(case) => Ok((place, case)),
            Err(error) => Err(format!("{place}: {error}")),
        };
        let cases: Vec<_> = self.lines().map(read).collect::<Result<_, _>>()?;
        if cases.is_empty() { Err(format!("{} holds no case", self.name)) } else { Ok(cases) }
    }
}

#[test]
fn vectors_without_a_case_are_an_error() {
    let file = |text: &str| Vectors {
        folder: PathBuf::new(),
        name: "empty.jsonl".to_owned(),
        text: text.to_owned(),
    };
    let error = file("").cases::<u8>().unwrap_err();
    assert_eq!(error, "empty.jsonl holds no case");
    let error = file("1\n\n").cases::<u8>().unwrap_err();
    assert_eq!(error, "empty.jsonl:2: EOF while parsing a value at line 1 column 0");
}

/// Holds a property to 200 values that are the same in every run.
pub(crate) fn for_all<S: Strategy>(strategy: S, property: impl Fn(S::Value) -> TestCaseResult) {
    let config = Config { cases: 200, failure_persistence: None, ..Config::default() };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    if let Err(error) = TestRunner::new_with_rng(config, rng).run(&strategy, property) {
        panic!("{error}");
    }
}

/// What an event is when it was stored and read back.
pub(crate) fn stored(event: &DeliveryEvent) -> DeliveryEvent {
    let draft = EventDraft::of(&DomainEvent::Delivery(event.clone()), Metadata::default());
    let data = draft.data.as_str();
    match DomainEvent::decode(&draft.event_type, draft.schema_version, data) {
        Ok(DomainEvent::Delivery(event)) => event,
        other => panic!("{data} is read as {other:?}"),
    }
}

/// Decides and evolves, and holds the event to what is promised of every event: it is stored
/// exactly, is legal where it was decided, and leaves a valid record. `None` is a repeat.
pub(crate) fn apply(
    outbox: &mut Outbox,
    command: &OutboxCommand,
) -> Result<Option<DeliveryEvent>, DeliveryError> {
    let Some(event) = outbox.decide(command)? else { return Ok(None) };
    assert_eq!(stored(&event), event);
    assert_eq!(outbox.legal(&event, None), Legal::Ok, "{event:?}");
    if let DeliveryEvent::Prepared(prepared) = &event {
        assert_eq!(prepared.check_content(None), Ok(()));
    }
    assert_eq!(outbox.evolve(&event), Evolved::Applied);
    let record = outbox.record(event.message_id()).expect("an event was applied to it");
    assert_eq!(record.check(), Ok(()));
    Ok(Some(event))
}

/// All that can be seen of an outbox.
pub(crate) type View = (OutboxCounts, BTreeMap<MessageId, MessageDeliveryRecord>);

pub(crate) fn view(outbox: &Outbox) -> View {
    let record = |record: &MessageDeliveryRecord| (record.key.message_id.clone(), record.clone());
    (outbox.counts(), outbox.records().map(record).collect())
}

/// Applies events without a look at them.
pub(crate) fn fold<'a>(
    mut outbox: Outbox,
    events: impl IntoIterator<Item = &'a DeliveryEvent>,
) -> Outbox {
    for event in events {
        outbox.evolve(event);
    }
    outbox
}

/// Whether an event is legal, or cannot be told to be, or the rule that it breaks.
pub(crate) fn verdict(legal: &Legal) -> Result<bool, Invariant> {
    match legal {
        Legal::Ok => Ok(true),
        Legal::Unchecked(_) => Ok(false),
        Legal::Violation(illegal) => Err(illegal.invariant),
    }
}
