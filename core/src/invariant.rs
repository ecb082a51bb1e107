//! The rules that a log keeps, by id (`spec/invariants.md`).

use std::{fmt, str::FromStr};

use serde::{Serialize, Serializer};

macro_rules! invariants {
    ($($name:ident, $severity:ident, $rule:literal;)*) => {
        /// A rule that a log keeps.
        ///
        /// # Examples
        ///
        /// ```
        /// use recount_core::Invariant;
        ///
        /// let rule: Invariant = "D8".parse()?;
        /// assert_eq!(rule.rule(), "nothing follows processed or refused");
        /// let error = "D0".parse::<Invariant>().unwrap_err();
        /// assert_eq!(error.to_string(), "there is no invariant \"D0\"");
        /// # Ok::<_, recount_core::UnknownInvariant>(())
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Invariant {
            $(#[doc = $rule] $name,)*
        }

        impl Invariant {
            /// Every rule, in the order of the specification.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The id.
            pub const fn id(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }

            /// The rule in words.
            pub const fn rule(self) -> &'static str {
                match self {
                    $(Self::$name => $rule,)*
                }
            }

            /// How bad it is where it does not hold.
            pub const fn severity(self) -> Severity {
                match self {
                    $(Self::$name => Severity::$severity,)*
                }
            }
        }
    };
}

invariants! {
    L1, Error, "positions count up without a gap";
    L2, Error, "revisions of a stream count from 0 without a gap";
    L3, Error, "`previousDigest` is the digest before it in the stream";
    L4, Error, "the digest is that of the event's bytes";
    L5, Error, "the row is canonical";
    L6, Error, "type and schema version are known, and the data decodes";
    L7, Warning, "`recordedAt` does not go back in a stream";
    L8, Error, "stream name and key in the data agree";
    D1, Error, "a message begins with exactly one `prepared`";
    D2, Error, "input digest and envelope digest recompute";
    D3, Error, "the record is valid after every event";
    D4, Error, "every event is legal in the state before it (state machine, fence, lease)";
    D5, Error, "claims only when due; lease and next-look instants are those that policy and command give";
    D6, Error, "attempts rise by one a claim, automatic attempts never pass the policy, a generation rises only by recovery";
    D7, Error, "one receipt a message, for its thread; settlement ids match it";
    D8, Error, "nothing follows processed or refused";
    D9, Error, "no claim of a pending message before its predecessor's admission or refusal is known";
    D10, Error, "pending and retained capacity of an owner are never exceeded";
    D11, Warning, "no two messages of different content share a destination thread and admission key";
    D12, Warning, "no lease expires without an outcome";
}

/// How bad a rule that does not hold is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The log is wrong.
    Error,
    /// A person should look.
    Warning,
}

/// A text that is the id of no rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no invariant {id:?}")]
pub struct UnknownInvariant {
    /// The text.
    pub id: String,
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.id())
    }
}

impl Serialize for Invariant {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.id())
    }
}

impl FromStr for Invariant {
    type Err = UnknownInvariant;

    fn from_str(id: &str) -> Result<Self, UnknownInvariant> {
        let found = Self::ALL.iter().find(|invariant| invariant.id() == id);
        found.copied().ok_or_else(|| UnknownInvariant { id: id.to_owned() })
    }
}

/// Whether an event could have been the answer to a command in the state before it.
///
/// # Examples
///
/// ```
/// use recount_core::delivery::{Outbox, OutboxLimits};
/// use recount_core::{Invariant, Legal, ThreadId};
/// # use recount_core::doc::message;
///
/// let mut outbox = Outbox::new(ThreadId::new("sender")?);
/// let prepared = message("m-1").decide(&OutboxLimits::default())?.into();
/// assert_eq!(outbox.legal(&prepared, None), Legal::Ok);
/// outbox.evolve(&prepared);
/// let Legal::Violation(broken) = outbox.legal(&prepared, None) else { unreachable!() };
/// assert_eq!(broken.to_string(), "D1: the message was prepared before");
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Legal {
    /// It could.
    Ok,
    /// It cannot be decided any more.
    Unchecked(Unchecked),
    /// It could not.
    Violation(Illegal),
}

/// Why it cannot be decided any more whether an event was legal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Unchecked {
    /// It is about something that broke a rule before.
    SetAside,
    /// It depends on another message that broke a rule before.
    Predecessor,
    /// It depends on how many there are, and some of them broke a rule before.
    Counts,
}

impl Unchecked {
    /// The reason in words.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SetAside => "the message broke a rule before",
            Self::Predecessor => "the predecessor broke a rule before",
            Self::Counts => "messages of the outbox broke a rule before, so none can be counted",
        }
    }
}

/// A rule that an event breaks: the most specific of those it breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{invariant}: {why}")]
pub struct Illegal {
    /// The rule.
    pub invariant: Invariant,
    /// How it is broken here.
    pub why: String,
}

impl Legal {
    pub(crate) fn violation(invariant: Invariant, why: impl Into<String>) -> Self {
        Self::Violation(Illegal { invariant, why: why.into() })
    }
}
