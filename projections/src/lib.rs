//! Folds of Recount's events.
//!
//! [`verify`] proves or disproves that every rule was kept, [`replay`] rebuilds the records,
//! [`stats`] counts, and [`timeline`] tells what happened to one message: each reads a log once, in
//! order, and holds what is unfinished and little else. [`DeliveryView`] is kept for as long as a
//! host runs, and longer.

mod examine;
mod replay;

mod scan;
mod stats;
mod timeline;
mod until;
mod verify;
mod view;
mod walk;

pub use replay::{ReplayError, ReplayOptions, ReplaySummary, replay};
pub use stats::{Named, Spread, Stats, StatsOptions, stats};
pub use timeline::{
    Answer, Attempt, Explanation, FieldChange, Question, Timeline, TimelineEntry, TimelineOptions,
    timeline,
};
pub use until::{Until, UntilError};
pub use verify::{
    Coverage, ExpectError, Expected, Finding, Report, Rule, Rules, UnknownRule, VerifyOptions,
    verify,
};
pub use view::{DeliveryView, Rebuilt, Resumed, SaveError, Saved, SetAside, Unusable, ViewError};
