//! Reading what is there.

use futures_util::StreamExt;

use super::{all, append, batch, collect, name};
use crate::{
    Position, RecordedEvent, Revision,
    log::{Direction, EventLog},
};

const STARTS: [Option<u64>; 6] = [None, Some(0), Some(1), Some(4), Some(9), Some((1 << 53) - 1)];
const LIMITS: [usize; 5] = [0, 1, 3, 300, usize::MAX];

/// The rule in its plainest form.
fn expected(
    events: &[RecordedEvent],
    from: Option<u64>,
    direction: Direction,
    limit: usize,
) -> Vec<RecordedEvent> {
    let numbered = || (0..).zip(events.iter().cloned());
    let mut numbered: Vec<_> = match direction {
        Direction::Forward => numbered().filter(|it| it.0 >= from.unwrap_or(0)).collect(),
        Direction::Backward => numbered().filter(|it| it.0 <= from.unwrap_or(u64::MAX)).collect(),
    };
    if direction == Direction::Backward {
        numbered.reverse();
    }
    numbered.into_iter().map(|it| it.1).take(limit).collect()
}

pub(super) async fn reads_go_both_ways_from_anywhere(log: &dyn EventLog) {
    let mut heads = [None; 2];
    for round in 0..150 {
        let of = round % 2;
        let batch = batch(&format!("delivery-{of}"), heads[of], &["x", "y"]);
        append(log, &batch).await;
        heads[of] = Some(batch.head());
    }
    let all = all(log).await;
    let stream = name("delivery-1");
    let of_stream: Vec<_> = all.iter().filter(|it| *it.event.stream() == stream).cloned().collect();
    assert_eq!((all.len(), of_stream.len()), (300, 150), "how many events there are");
    for direction in [Direction::Forward, Direction::Backward] {
        for (from, limit) in STARTS.iter().flat_map(|from| LIMITS.map(|limit| (*from, limit))) {
            let what = format!("from {from:?}, {direction:?}, at most {limit}");
            let found = log.read_all(from.and_then(Position::new), direction, limit);
            let wanted = expected(&all, from, direction, limit);
            assert_eq!(collect(found).await, wanted, "the log {what}");
            let found = log.read_stream(&stream, from.and_then(Revision::new), direction, limit);
            let wanted = expected(&of_stream, from, direction, limit);
            assert_eq!(collect(found).await, wanted, "a stream {what}");
        }
    }
}

pub(super) async fn nothing_is_read_where_nothing_is(log: &dyn EventLog) {
    for round in 0..2 {
        for direction in [Direction::Forward, Direction::Backward] {
            for from in STARTS {
                let from = from.and_then(Revision::new);
                let mut events = log.read_stream(&name("delivery-none"), from, direction, 9);
                let found = events.next().await;
                assert!(found.is_none(), "a stream that does not exist has {found:?}");
            }
            let from = Position::new(round);
            let found = collect(log.read_all(from, Direction::Forward, 9)).await;
            assert_eq!(found, [], "the log behind its end");
        }
        // Names of which one begins with the other are two streams.
        append(log, &batch(&format!("delivery-none{round}"), None, &["1"])).await;
    }
}
