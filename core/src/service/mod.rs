//! Services: what works on a log, written once for every backend.
//!
//! [`Owners`] is how a process writes. It gives each stream one owner, which decides the stream's
//! commands in order over the record in memory, and appends their events together. An aggregate
//! that has streams of its own is a [`StreamAggregate`]. [`OutboxService`] is what hosts ask about
//! outboxes, [`DueIndex`] what drivers ask about what is due.

mod aggregate;
mod answer;
mod desk;
#[doc(hidden)]
pub mod doc;
mod driver;
mod due;
mod error;
mod failure;
mod known;
mod outboxes;
mod owner;
mod owners;
mod ports;
mod registry;
mod run;
#[cfg(all(test, feature = "memory"))]
mod tests;
mod under_way;
mod wake;
mod wishes;

pub use aggregate::StreamAggregate;
pub use desk::{MAX_GROUP_BYTES, MAX_GROUP_COMMANDS};
pub use driver::{DeliveryDriver, DueMessages, MAX_CONCURRENCY};
pub use due::{DueIndex, Upcoming};
pub use error::{OwnerError, StreamError};
pub use failure::DeliveryFailure;
pub use outboxes::OutboxService;
pub use owners::{Committed, Owners, Submission};
pub use ports::{
    Admission, AdmissionError, Clock, Failpoint, FailpointError, NoFailpoint, Point,
    SubmissionStatus,
};
pub use registry::MAX_IDLE_STREAMS;
pub use wake::{LocalWake, Wake};
pub use wishes::NewMessage;
