//! Messages that one thread owes to others.
//!
//! Each is frozen when prepared, admitted at its destination once, observed until settled, and
//! never lost: it ends processed or refused, or waits parked for a person (`spec/delivery.md`).
//!
//! The aggregate has two levels. [`MessageDeliveryRecord`] is one message's state machine.
//! [`Outbox`] is all of a source thread's messages, which share a stream: it inserts, keeps
//! capacity, and holds a message back behind its predecessor.

mod command;
mod decide;
mod error;
mod event;
mod evolve;
mod key;
mod legal;
mod outbox;
mod policy;
mod query;
mod record;
mod tags;

pub use command::{MessageDeliveryChange, MessageDeliveryCommand, PrepareMessage};
pub use error::{Conflict, DeliveryError, ErrorReason, InvalidRecord};
pub use event::{
    Accepted, Claimed, Deferred, DeliveryEvent, Notified, Observed, Parked, ParkedBy, Prepared,
    Processed, Recovered, Refused, Retried,
};
pub use evolve::{Evolved, Ignored};
pub use key::{KeyError, MessageDeliveryKey};
pub use outbox::{Followed, Outbox, OutboxCommand, OutboxCounts, SavedMessage};
pub use policy::{MessageDeliveryPolicy, OutboxLimits};
pub use query::{BatchSize, ListMessages, MAX_BATCH, MAX_PAGE, MessagePage, read_pending};
pub use record::{MessageDeliveryRecord, MessageDeliveryStatus, ParkReason, Retry, RetryReason};
pub use tags::MessageTags;

pub(crate) use event::SCHEMAS;
