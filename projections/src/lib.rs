//! Folds of Recount's events.
//!
//! [`verify`] proves or disproves that every rule was kept, [`replay`] rebuilds the records. Both
//! read a log once, in order, and hold what is unfinished and little else.

mod examine;
mod replay;

mod scan;
mod timeline;
mod until;
mod verify;
mod view;

pub use replay::{ReplayError, ReplayOptions, ReplaySummary, replay};
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
