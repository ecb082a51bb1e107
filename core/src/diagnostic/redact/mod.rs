//! What no event may hold: credentials in the texts of a failure.
//!
//! There are two ways to know one: by the name that it is given to (`values`, `names`), and by its
//! own shape (`shapes`). Both look at the same text, and what either finds is replaced once.

mod names;
mod shapes;
mod values;

use std::{collections::BTreeMap, ops::Range};

use regex::Regex;

use super::{CauseReason, Diagnostic, ErrorDiagnostic, Scalar};

const REDACTED: &str = "[redacted]";
/// More than texts need that were not made to need more; each takes as long as the text is.
const MAX_PASSES: usize = 8;

impl Diagnostic {
    /// The same without the credentials that are known as such in any of its texts.
    ///
    /// Known are passwords, tokens, keys, signatures and cookies that a name is given to, in
    /// headers, addresses, JSON, environments and the debug output of values; tokens of well-known
    /// issuers; bearer and basic credentials; and private keys. What says which it was stays: a
    /// scheme, a host, a parameter, a token's first letters. A secret that looks like any other word
    /// is not known.
    ///
    /// It belongs before [`Diagnostic::bounded`], as half a credential is not known either. Doing it
    /// twice changes nothing more.
    ///
    /// # Examples
    ///
    /// ```
    /// use recount_core::Diagnostic;
    ///
    /// let seen = Diagnostic::text("no route to postgres://app:hunter2@db.internal/jobs");
    /// let redacted = Diagnostic::text("no route to postgres://app:[redacted]@db.internal/jobs");
    /// assert_eq!(seen.redacted(), redacted);
    /// ```
    #[must_use]
    pub fn redacted(mut self) -> Self {
        // Not by recursion: what was not bounded yet may be deep.
        let mut left = vec![&mut self];
        while let Some(node) = left.pop() {
            match node {
                Diagnostic::Error(error) => error.redact(&mut left),
                Diagnostic::Cause { reasons, .. } => {
                    for reason in reasons {
                        match reason {
                            CauseReason::Fail { error: nested }
                            | CauseReason::Die { defect: nested } => left.push(nested),
                            CauseReason::Interrupt { fiber_id } => {
                                fiber_id.iter_mut().for_each(scalar);
                            }
                        }
                    }
                }
                Diagnostic::Value { value } => scalar(value),
                Diagnostic::Omitted { .. } => {}
            }
        }
        self
    }
}

impl ErrorDiagnostic {
    fn redact<'a>(&'a mut self, left: &mut Vec<&'a mut Diagnostic>) {
        let texts = [&mut self.error_tag, &mut self.message, &mut self.name, &mut self.stack];
        texts.into_iter().flatten().chain(self.omitted_fields.iter_mut().flatten()).for_each(text);
        self.code.iter_mut().for_each(scalar);
        if let Some(context) = &mut self.context {
            let entries = context.len();
            self::context(context);
            if context.len() < entries {
                // Two keys differed in nothing but what was secret.
                self.truncated = Some(true);
            }
        }
        left.extend(self.cause.iter_mut().chain(&mut self.reason));
        left.extend(self.errors.iter_mut().flatten());
    }
}

/// Replaces the credentials in keys and values, and values whose keys name a secret.
pub(crate) fn context(context: &mut BTreeMap<String, String>) {
    *context = std::mem::take(context).into_iter().map(entry).collect();
}

fn entry((mut key, mut value): (String, String)) -> (String, String) {
    match names::kind(&key) {
        None | Some(names::Kind::Parameter) => text(&mut value),
        Some(_) => REDACTED.clone_into(&mut value),
    }
    text(&mut key);
    (key, value)
}

fn scalar(value: &mut Scalar) {
    if let Scalar::Text(value) = value {
        text(value);
    }
}

/// Replaces the credentials in a text.
pub(crate) fn text(text: &mut String) {
    // What replaces one may tell of another: `token: https://u:p@h` is a longer word then.
    for _ in 0..MAX_PASSES {
        match replaced(text) {
            Some(replaced) if replaced != *text => *text = replaced,
            _ => return,
        }
    }
}

fn replaced(text: &str) -> Option<String> {
    let mut found = Vec::new();
    values::find(text, &mut found);
    shapes::find(text, &mut found);
    if found.is_empty() {
        return None;
    }
    found.sort_unstable_by_key(|range: &Range<usize>| (range.start, range.end));
    let mut redacted = String::with_capacity(text.len());
    let mut at = 0;
    let mut found = found.into_iter().peekable();
    while let Some(Range { start, mut end }) = found.next() {
        while let Some(next) = found.next_if(|next| next.start <= end) {
            end = end.max(next.end);
        }
        redacted.push_str(&text[at..start]);
        redacted.push_str(REDACTED);
        at = end;
    }
    redacted.push_str(&text[at..]);
    Some(redacted)
}

/// Whether a word is hardly one of a language.
fn is_likely(word: &str) -> bool {
    let has_digit = word.bytes().any(|byte| byte.is_ascii_digit());
    word == REDACTED || word.len() >= 20 || (word.len() >= 6 && has_digit)
}

fn pattern(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the patterns are constants, which the tests compile")
}

#[cfg(test)]
mod tests;
