//! Folds of Recount's events.
//!
//! [`verify`] proves or disproves that every rule was kept, [`replay`] rebuilds the records. Both
//! read a log once, in order, and hold what is unfinished and little else.

mod examine;
mod replay;

mod scan;
mod verify;
mod view;

pub use replay::{ReplayError, ReplayOptions, ReplaySummary, replay};
pub use verify::{
    Coverage, ExpectError, Expected, Finding, Report, Rule, Rules, UnknownRule, VerifyOptions,
    verify,
};
pub use view::{DeliveryView, Rebuilt, Resumed, SaveError, Saved, SetAside, Unusable, ViewError};
