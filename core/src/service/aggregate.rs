//! What an aggregate needs, to have streams that are owned.

use std::error::Error;

use crate::{
    DomainEvent, StreamName, ThreadId,
    delivery::{DeliveryError, DeliveryEvent, Outbox, OutboxCommand, SavedMessage},
};

/// The outer level of an aggregate: what a stream's events fold to.
///
/// Its functions read no clock and do no I/O, and the same events fold to the same state.
///
/// # Examples
///
/// ```
/// use recount_core::{
///     StreamName, ThreadId,
///     delivery::{Outbox, OutboxCommand, OutboxLimits},
///     service::StreamAggregate,
/// };
/// # use recount_core::doc::message;
///
/// let sender = ThreadId::new("sender")?;
/// let mut outbox = <Outbox as StreamAggregate>::empty(&sender);
/// assert_eq!(<Outbox as StreamAggregate>::stream(&sender).as_str(), "delivery-sender");
///
/// let limits = OutboxLimits::default();
/// let prepare = OutboxCommand::Prepare { message: Box::new(message("m-1")), limits };
/// let event = outbox.decide(&prepare)?.expect("the message is new");
/// let before = outbox.before(&event);
/// outbox.evolve(&event);
/// outbox.undo(before);
/// assert_eq!(outbox, Outbox::new(sender));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub trait StreamAggregate: Sized + Send {
    /// Which of the aggregates it is; each has a stream of its own.
    type Key: Clone + Send + Sync;
    /// What may be wished of it.
    type Command: Send;
    /// What happens to it.
    type Event: Clone + Into<DomainEvent> + Send;
    /// Why a wish is not granted.
    type Error: Error + Send + Sync + 'static;
    /// What an event can change, as it was before.
    type Undo: Send;

    /// The aggregate that nothing happened to.
    fn empty(key: &Self::Key) -> Self;

    /// The stream of an aggregate.
    fn stream(key: &Self::Key) -> StreamName;

    /// Takes an event that is one of its own; `None` where it is another aggregate's.
    fn own(event: DomainEvent) -> Option<Self::Event>;

    /// Decides what happens; `None` where a wish is granted and changes nothing.
    ///
    /// # Errors
    ///
    /// The aggregate's own: why the wish is not granted.
    fn decide(&self, command: &Self::Command) -> Result<Option<Self::Event>, Self::Error>;

    /// Keeps what an event can change.
    fn before(&self, event: &Self::Event) -> Self::Undo;

    /// Applies an event.
    fn evolve(&mut self, event: &Self::Event);

    /// Takes back the event that was applied since [`StreamAggregate::before`], so that nothing
    /// shows that it ever was.
    fn undo(&mut self, undo: Self::Undo);
}

impl StreamAggregate for Outbox {
    type Key = ThreadId;
    type Command = OutboxCommand;
    type Event = DeliveryEvent;
    type Error = DeliveryError;
    type Undo = SavedMessage;

    fn empty(owner: &ThreadId) -> Self {
        Self::new(owner.clone())
    }

    fn stream(owner: &ThreadId) -> StreamName {
        StreamName::delivery(owner)
    }

    fn own(event: DomainEvent) -> Option<DeliveryEvent> {
        let DomainEvent::Delivery(event) = event;
        Some(event)
    }

    fn decide(&self, command: &OutboxCommand) -> Result<Option<DeliveryEvent>, DeliveryError> {
        self.decide(command)
    }

    fn before(&self, event: &DeliveryEvent) -> SavedMessage {
        self.saved(event.message_id())
    }

    fn evolve(&mut self, event: &DeliveryEvent) {
        self.evolve(event);
    }

    fn undo(&mut self, saved: SavedMessage) {
        self.put_back(saved);
    }
}
