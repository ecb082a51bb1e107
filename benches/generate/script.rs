//! What a message will go through, drawn when it is prepared, so that the length of a log can be
//! hit exactly.

use super::random::Random;

/// One event after `prepared`, by the wish that it grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Due at once, after a pause, or after a lease that nothing was heard of (D12).
    Claim,
    /// Only past the deadline, which parks it.
    ClaimLate,
    Accept,
    Observe,
    Process,
    Refuse,
    /// Parks it where its attempts are used up.
    Retry,
    Park,
    Recover,
    Defer,
}

/// The steps of a message after `prepared`, the last one first.
#[derive(Clone, Debug)]
pub(super) struct Script {
    pub(super) steps: Vec<Step>,
    /// Whether it goes behind the message before it in its outbox.
    pub(super) waits: bool,
}

use Step::{Accept, Claim, ClaimLate, Defer, Observe, Park, Process, Recover, Refuse, Retry};

/// Attempts that the default policy allows.
const MAX_ATTEMPTS: usize = 8;

impl Script {
    /// More than any script has; a few deferrals may be put before the last script of a log.
    pub(super) const MAX_EVENTS: u64 = 25;

    /// How many events it is, `prepared` included.
    pub(super) fn events(&self) -> u64 {
        u64::try_from(self.steps.len()).expect("a length is a u64") + 1
    }

    /// A script that ends processed or refused.
    pub(super) fn finished(random: &mut Random) -> Self {
        let looks = Self::looks(random);
        let mut waits = false;
        let steps = match random.below(1_000) {
            0..610 => Self::of([&[Claim, Accept], &looks[..], &[Claim, Process]]),
            610..665 => Self::of([&[Claim, Refuse][..]]),
            665..785 => {
                let failed = [Claim, Retry].repeat(Self::some(random, 4));
                Self::of([&failed, &[Claim, Accept], &looks[..], &[Claim, Process]])
            }
            785..805 => {
                let failed = [Claim, Retry].repeat(MAX_ATTEMPTS);
                Self::of([&failed[..], &[Recover, Claim, Accept, Claim, Process]])
            }
            805..820 => {
                Self::of([&[Claim, Retry, ClaimLate, Recover, Claim, Accept, Claim, Process][..]])
            }
            820..845 => Self::of([&[Claim, Accept, Claim, Park, Recover, Claim, Process][..]]),
            845..855 => Self::of([&[Park, Recover, Claim, Accept, Claim, Process][..]]),
            855..900 => Self::of([&[Claim, Accept, Claim, Retry, Claim, Process][..]]),
            900..903 => Self::of([&[Claim, Claim, Accept, Claim, Process][..]]),
            _ => {
                waits = true;
                let deferred = [Defer].repeat(Self::some(random, 2));
                Self::of([&deferred, &[Claim, Accept], &looks[..], &[Claim, Process]])
            }
        };
        Self { steps, waits }
    }

    /// A script that leaves the message unfinished.
    pub(super) fn unfinished(random: &mut Random) -> Self {
        let exhausted = [Claim, Retry].repeat(MAX_ATTEMPTS);
        let steps: &[Step] = match random.below(10) {
            0..3 => &[Claim, Accept, Claim, Observe],
            3 => &[Claim, Accept],
            4 => &[Claim],
            5 => &[],
            6 => &[Claim, Retry],
            7 => &[Claim, Accept, Claim, Park],
            _ => &exhausted,
        };
        let steps = Self::of([steps]);
        Self { steps, waits: false }
    }

    /// The last script of a log: exactly so many events, at least one.
    pub(super) fn filling(events: u64, is_finished: bool) -> Self {
        let end: &[Step] = match events {
            3.. if is_finished => &[Claim, Refuse],
            _ => &[],
        };
        let steps = usize::try_from(events - 1).expect("a script is short");
        let deferred = [Defer].repeat(steps - end.len());
        let steps = Self::of([&deferred, end]);
        Self { steps, waits: false }
    }

    /// How often a destination that still works on the message is asked.
    fn looks(random: &mut Random) -> Vec<Step> {
        [Claim, Observe].repeat(match random.below(100) {
            0..25 => 0,
            25..75 => 1,
            75..92 => 2,
            _ => 4,
        })
    }

    fn some(random: &mut Random, most: u64) -> usize {
        usize::try_from(random.between(1, most)).expect("a small number")
    }

    fn of<const N: usize>(parts: [&[Step]; N]) -> Vec<Step> {
        let mut steps = parts.concat();
        steps.reverse();
        steps
    }
}
