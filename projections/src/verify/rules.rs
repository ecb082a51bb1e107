//! Which rules are asked for.

use std::str::FromStr;

use recount_core::Invariant;

/// A set of rules.
///
/// # Examples
///
/// ```
/// use recount_core::Invariant;
/// use recount_projections::Rules;
///
/// let rules = Rules::only(&["L".parse()?]).without(&["L7".parse()?]);
/// assert!(rules.holds(Invariant::L1));
/// assert!(!rules.holds(Invariant::L7));
/// assert_eq!(rules.to_string(), "L1-L6, L8");
/// # Ok::<_, recount_projections::UnknownRule>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules(u64);

/// One rule by its id, or all of a letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule(Vec<Invariant>);

/// A text that names no rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no rule {id:?}: they are {}", Rules::ALL)]
pub struct UnknownRule {
    /// The text.
    pub id: String,
}

impl FromStr for Rule {
    type Err = UnknownRule;

    fn from_str(id: &str) -> Result<Self, UnknownRule> {
        let named = |rule: &&Invariant| {
            let family = rule.id().trim_end_matches(|char: char| char.is_ascii_digit());
            rule.id() == id || family == id
        };
        let rules: Vec<_> = Invariant::ALL.iter().filter(named).copied().collect();
        if rules.is_empty() { Err(UnknownRule { id: id.to_owned() }) } else { Ok(Self(rules)) }
    }
}

const fn bit(rule: Invariant) -> u64 {
    1 << rule as u32
}

impl Rules {
    /// Every rule.
    pub const ALL: Self = Self((1 << Invariant::ALL.len()) - 1);

    /// What a replay needs: the chain, and that data decodes.
    pub(crate) const REPLAY: Self = Self((bit(Invariant::L8) << 1) - 1);

    /// These rules and no others.
    pub fn only(rules: &[Rule]) -> Self {
        Self(rules.iter().flat_map(|rule| &rule.0).fold(0, |set, rule| set | bit(*rule)))
    }

    /// All of these rules but some.
    #[must_use]
    pub fn without(self, rules: &[Rule]) -> Self {
        Self(self.0 & !Self::only(rules).0)
    }

    /// Whether a rule is among them.
    pub const fn holds(self, rule: Invariant) -> bool {
        self.0 & bit(rule) != 0
    }

    /// Whether a rule is among them that needs more than the chain.
    pub(crate) fn need_content(self) -> bool {
        use Invariant::{L1, L2, L3, L4, L5, L7};
        Invariant::ALL
            .iter()
            .any(|rule| self.holds(*rule) && !matches!(rule, L1 | L2 | L3 | L4 | L5 | L7))
    }
}

impl Default for Rules {
    fn default() -> Self {
        Self::ALL
    }
}

impl std::fmt::Display for Rules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut parts = Vec::new();
        let mut held = Invariant::ALL.iter().filter(|rule| self.holds(**rule)).peekable();
        while let Some(first) = held.next() {
            let mut last = first;
            while let Some(next) = held.next_if(|next| {
                **next as u32 == *last as u32 + 1 && next.id()[..1] == first.id()[..1]
            }) {
                last = next;
            }
            parts.push(if last == first { first.to_string() } else { format!("{first}-{last}") });
        }
        f.pad(&if parts.is_empty() { "no rule".to_owned() } else { parts.join(", ") })
    }
}
