//! Holding what a destination has against the source, row by row.

use super::{CopyError, Destination, Tally, head_of};
use crate::{
    Digest, MAX_ROW_BYTES, Position, RecordedEvent, RowError,
    log::{Block, Damage, EventReader, Line, Place, ReadError, RowSource, reader},
    write_row,
};

/// Reads as many events as the destination has, each of them the same, and returns the one that
/// is there in part, with how much of its row is.
pub(super) fn compare<S: RowSource, D: Destination + ?Sized>(
    events: &mut EventReader<S>,
    destination: &mut D,
    tally: &mut Tally,
) -> Result<Option<(RecordedEvent, usize)>, CopyError> {
    let mut rows = destination.rows()?;
    let mut block = Block::default();
    let mut row = Vec::new();
    while next(&mut rows, &mut block)? {
        for (index, line) in block.lines().enumerate() {
            let Some(read) = events.next() else {
                return Err(goes_on(&mut rows, &block, index, tally.tree.size()));
            };
            let event = read.map_err(|source| {
                tally.before = tally.tree.size();
                tally.stopped(source)
            })?;
            row.clear();
            write_row(&mut row, event.position, &event.event);
            if !line.is_ended && row.starts_with(line.bytes) {
                return Ok(Some((event, line.bytes.len())));
            }
            // Behind bytes that are the same, a table may still find them elsewhere.
            if !line.is_ended || line.bytes != &row[..row.len() - 1] || !is_in_place(line, &event) {
                return Err(difference(line, &event));
            }
            tally.count(head_of(&event));
        }
        check_length(&block, tally.tree.size())?;
    }
    Ok(None)
}

fn next(rows: &mut impl RowSource, block: &mut Block) -> Result<bool, CopyError> {
    rows.next(block).map_err(|error| CopyError::Storage { source: error.into() })
}

/// Refuses a block that stands for a row which is too long to be one.
fn check_length(block: &Block, position: u64) -> Result<(), CopyError> {
    let Some(long) = block.oversized() else { return Ok(()) };
    let position = Position::new(position).unwrap_or_default();
    let length = usize::try_from(long.length).unwrap_or(usize::MAX);
    let damage = RowError::TooLong { length, max: MAX_ROW_BYTES }.into();
    Err(damaged(reader::place(position, None, long.offset), damage))
}

/// Whether a table, if the row is from one, finds it where it belongs.
fn is_in_place(line: Line<'_>, event: &RecordedEvent) -> bool {
    line.check_listed(event.event.stream(), event.event.revision()).is_ok()
}

/// What to say of a row that is not the source's.
fn difference(line: Line<'_>, event: &RecordedEvent) -> CopyError {
    let position = event.position;
    match digest_of(line, position) {
        Ok(at_destination) => {
            CopyError::Differs { position, at_source: event.event.digest(), at_destination }
        }
        Err(damage) => damaged_line(line, position, damage),
    }
}

/// The digest of the event in a row, where it is one in its place.
fn digest_of(line: Line<'_>, expected: Position) -> Result<Digest, Damage> {
    let found = reader::read_row(line)?;
    if found.position != expected {
        return Err(Damage::Position { found: found.position, expected });
    }
    line.check_listed(found.event.stream(), found.event.revision())?;
    Ok(found.event.digest())
}

/// Counts what the destination has behind the source's last event, from a row of a block on.
fn goes_on(rows: &mut impl RowSource, block: &Block, index: usize, at_source: u64) -> CopyError {
    let mut at_destination = at_source;
    let mut count = |line: Line<'_>| {
        let position = Position::new(at_destination).unwrap_or_default();
        digest_of(line, position).map_err(|damage| damaged_line(line, position, damage))?;
        at_destination += 1;
        Ok(())
    };
    let mut count_all = || {
        block.lines().skip(index).try_for_each(&mut count)?;
        let mut block = Block::default();
        while next(rows, &mut block)? {
            block.lines().try_for_each(&mut count)?;
        }
        Ok(())
    };
    match count_all() {
        Ok(()) => CopyError::Longer { at_source, at_destination },
        Err(error) => error,
    }
}

fn damaged_line(line: Line<'_>, position: Position, damage: Damage) -> CopyError {
    damaged(reader::place(position, reader::stream_of(line.bytes), line.offset), damage)
}

fn damaged(place: Place, source: Damage) -> CopyError {
    CopyError::Damaged { source: ReadError::Damaged { place: place.into(), source } }
}
