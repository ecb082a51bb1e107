//! Following a log from where a state stands.

use std::sync::{PoisonError, RwLock};

use futures_util::TryStreamExt;
use recount_core::{
    DomainEvent, Position,
    delivery::{DeliveryEvent, MessageTags},
    log::{Direction, EventLog, LogHead, ReadError},
};

use super::fold::{Fold, NeedsHistory, is_of};

/// Folds what a log has behind the head of a state, to its end.
pub(super) async fn follow(log: &dyn EventLog, state: &RwLock<Fold>) -> Result<(), ReadError> {
    follow_to(log, state, Position::MAX).await
}

/// Folds what a log has behind the head of a state, up to a position.
///
/// Where the log has another event at the head, as after a backup was put in its place, everything
/// is folded anew.
pub(super) async fn follow_to(
    log: &dyn EventLog,
    state: &RwLock<Fold>,
    last: Position,
) -> Result<(), ReadError> {
    let write = || state.write().unwrap_or_else(PoisonError::into_inner);
    let head = write().head;
    let from = |head: Option<LogHead>| {
        log.read_all(head.map(|head| head.position), Direction::Forward, usize::MAX)
    };
    let mut events = from(head);
    if let Some(head) = head {
        let first = events.try_next().await?;
        if first.is_none_or(|first| first.event.digest() != head.digest) {
            *write() = Fold::default();
            events = from(None);
        }
    }
    while let Some(recorded) = events.try_next().await? {
        if recorded.position > last {
            break;
        }
        let applied = write().apply(&recorded);
        if let Err(needed) = applied {
            let prepared = history(log, &needed).await?;
            let mut fold = write();
            fold.remember(&needed.stream, prepared);
            let again = fold.apply(&recorded);
            debug_assert_eq!(again, Ok(()), "what was asked for is there");
        }
    }
    Ok(())
}

/// The messages that were prepared in a stream before a revision.
async fn history(log: &dyn EventLog, needed: &NeedsHistory) -> Result<MessageTags, ReadError> {
    let NeedsHistory { stream, before } = needed;
    let limit = usize::try_from(before.get()).unwrap_or(usize::MAX);
    let mut events = log.read_stream(stream, None, Direction::Forward, limit);
    let mut prepared = MessageTags::default();
    while let Some(recorded) = events.try_next().await? {
        let event = &recorded.event;
        let decoded = DomainEvent::decode(event.event_type(), event.schema_version(), event.data());
        if let Ok(DomainEvent::Delivery(DeliveryEvent::Prepared(event))) = decoded
            && is_of(&event, stream)
        {
            prepared.insert(&event.message_id);
        }
    }
    Ok(prepared)
}
