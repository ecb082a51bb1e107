//! Positions, revisions and digests: the rules of the log itself.

use hashbrown::{HashMap, HashSet};
use recount_core::{
    Digest, Instant, Invariant, MessageId, Position, Severity, StreamName, StreamNameError,
    delivery::Outbox, log::Place,
};

use crate::examine::{ExaminedRow, Unreadable};

/// Where the log and its streams stand.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    streams: Vec<StreamState>,
    index: HashMap<String, StreamIndex>,
    log: LogState,
}

/// Which of the streams, in the order of their first rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamIndex(usize);

#[derive(Debug, Default)]
struct LogState {
    /// For how many lines that are no rows a stream was looked for.
    guesses: u32,
    /// The position that comes next.
    next: u64,
    /// The line that was read last, from 1.
    line: u64,
}

/// Where a stream stands.
#[derive(Debug)]
pub(crate) struct StreamState {
    pub(crate) name: Result<StreamName, StreamNameError>,
    /// The revision that comes next.
    next: u64,
    /// The head's digest as its row states it, and as its event has it; an edit of either is
    /// reported once, where it was made.
    stated: Digest,
    computed: Digest,
    recorded_at: Instant,
    /// The last row's position and line.
    last: (Position, u64),
    /// The messages, of a stream that has any.
    pub(crate) outbox: Option<Outbox>,
    /// Messages that broke a rule before one of the stream told whose outbox it is.
    pub(crate) aside: HashSet<MessageId>,
}

/// A rule that a row breaks, and how.
pub(crate) type Broken = (Invariant, String);

/// What the chain says of a row.
#[derive(Debug, Default)]
pub(crate) struct Links {
    /// Rules that it breaks, the most specific first.
    pub(crate) broken: Vec<Broken>,
    /// Whether the very same row stood there before.
    pub(crate) is_repeat: bool,
}

impl Links {
    /// The most specific rule that is broken, warnings apart.
    pub(crate) fn error(self) -> Option<Broken> {
        self.broken.into_iter().find(|it| it.0.severity() == Severity::Error)
    }
}

impl Chain {
    /// Begins the next line.
    pub(crate) fn next_line(&mut self) {
        self.log.line += 1;
    }

    /// The current line, from 1.
    pub(crate) fn line(&self) -> u64 {
        self.log.line
    }

    /// Moves on to a row, and says which rules of the log itself it breaks.
    pub(crate) fn check(&mut self, row: &ExaminedRow) -> (StreamIndex, Links) {
        let next = StreamIndex(self.streams.len());
        let index = *self.index.entry_ref(&*row.stream).or_insert(next);
        if index.0 == next.0 {
            self.streams.push(StreamState::new(&row.stream));
        }
        (index, self.streams[index.0].check(row, &mut self.log))
    }

    /// The streams, in the order of their first rows.
    pub(crate) fn streams(&self) -> &[StreamState] {
        &self.streams
    }

    /// One stream.
    pub(crate) fn stream_mut(&mut self, index: StreamIndex) -> &mut StreamState {
        &mut self.streams[index.0]
    }

    /// Where the row of the current line is.
    pub(crate) fn place(&self, row: &ExaminedRow, offset: Option<u64>) -> Place {
        Place {
            position: Some(row.position),
            stream: Some(row.stream.to_string()),
            line: offset.map(|_| self.log.line),
            offset,
        }
    }

    /// Where a line is that is no row: its position is the one that should be there.
    pub(crate) fn place_of(&mut self, line: &Unreadable, offset: Option<u64>) -> Place {
        let position = Position::new(self.log.next);
        self.log.next += 1;
        // The digest before it tells whose next event it was. To find that out all streams are
        // looked at, which a text of nothing but such lines must not make slow.
        self.log.guesses += u32::from(line.stream.is_none());
        let previous = line.previous.filter(|_| self.log.guesses <= GUESSES);
        let owner = |previous: Digest| {
            let mut index = self.index.iter();
            let follows = |index: StreamIndex| self.streams[index.0].is_followed_by(previous);
            index.find(|(_, index)| follows(**index)).map(|(name, _)| name.as_str())
        };
        let stream = line.stream.as_deref().or_else(|| previous.and_then(owner));
        Place {
            position,
            stream: stream.map(ToOwned::to_owned),
            line: offset.map(|_| self.log.line),
            offset,
        }
    }
}

/// For how many lines that are no rows a stream is looked for.
const GUESSES: u32 = 1_000;

impl LogState {
    /// L1.
    fn check(&mut self, row: &ExaminedRow) -> Option<Broken> {
        let (found, expected) = (row.position.get(), self.next);
        self.next = expected.max(found + 1);
        gap("position", "row", found, expected).map(|why| (Invariant::L1, why))
    }
}

/// What is wrong where a number was found and another should have come.
fn gap(number: &str, thing: &str, found: u64, expected: u64) -> Option<String> {
    if found == expected {
        return None;
    }
    let last = expected.checked_sub(1);
    let last = last.map_or("the beginning".to_owned(), |last| format!("{number} {last}"));
    Some(match found.checked_sub(expected) {
        Some(1) => format!("{number} {found} follows {last}: 1 {thing} is missing"),
        Some(gap) => format!("{number} {found} follows {last}: {gap} {thing}s are missing"),
        None => format!("{number} {found} stands behind {last}"),
    })
}

impl StreamState {
    fn new(name: &str) -> Self {
        Self {
            name: StreamName::parse(name),
            next: 0,
            stated: Digest::ZERO,
            computed: Digest::ZERO,
            recorded_at: Instant::ZERO,
            last: (Position::ZERO, 0),
            outbox: None,
            aside: HashSet::new(),
        }
    }

    /// The latest time that an event of the stream was recorded at.
    pub(crate) fn recorded_at(&self) -> Instant {
        self.recorded_at
    }

    /// Whether a row that should have followed this stream would state this digest before it.
    fn is_followed_by(&self, previous: Digest) -> bool {
        self.stated == previous || self.computed == previous
    }

    /// L1 to L5, L7 and the name's part of L8, and moves on to this row.
    fn check(&mut self, row: &ExaminedRow, log: &mut LogState) -> Links {
        let mut links = Links::default();
        let (found, expected) = (row.revision.get(), self.next);
        links.is_repeat = found + 1 == expected && row.stated == self.stated;
        if let Some(computed) = &row.computed {
            let why = format!("the row states {}, its event has {computed}", row.stated);
            links.broken.push((Invariant::L4, why));
        }
        if !row.is_canonical {
            let why = "the row is not spelt as canonical JSON spells it".to_owned();
            links.broken.push((Invariant::L5, why));
        }
        if links.is_repeat {
            let (position, line) = self.last;
            let why = format!(
                "revision {found} stands twice: the same event is at position {position}, line {line}"
            );
            links.broken.push((Invariant::L2, why));
        } else if let Some(why) = gap("revision", "event", found, expected) {
            links.broken.push((Invariant::L2, why));
        } else if !self.is_followed_by(row.previous) {
            let why = format!("previousDigest is {}, expected {}", row.previous, self.stated);
            links.broken.push((Invariant::L3, why));
        }
        links.broken.extend(log.check(row));
        if let Err(error) = &self.name {
            links.broken.push((Invariant::L8, error.to_string()));
        }
        if row.recorded_at < self.recorded_at {
            let why = format!("recordedAt {} is before {}", row.recorded_at, self.recorded_at);
            links.broken.push((Invariant::L7, why));
        }
        if found >= expected {
            self.next = found + 1;
            self.stated = row.stated;
            self.computed = row.computed.as_deref().copied().unwrap_or(row.stated);
            self.last = (row.position, log.line);
        }
        self.recorded_at = self.recorded_at.max(row.recorded_at);
        links
    }
}
