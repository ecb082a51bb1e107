//! The bounds of a diagnostic.

use super::{CauseReason, Diagnostic, ErrorDiagnostic, OmittedReason, Scalar};
use crate::PersistedJson;

pub(super) const MAX_TEXT: usize = 16 * 1_024;
const MAX_NAME: usize = 1_024;
const MAX_NODES: usize = 1_024;
pub(super) const MAX_LEVELS: usize = 56;
const MAX_TOTAL: usize = 128 * 1_024;
const MAX_LIST: usize = 128;
const MAX_FIELDS: usize = 32;
pub(super) const CUT: &str = "[truncated]";

impl Diagnostic {
    /// The same within the bounds: what does not fit is marked, never dropped silently.
    ///
    /// Doing it twice changes nothing more.
    ///
    /// # Examples
    ///
    /// ```
    /// use recount_core::Diagnostic;
    ///
    /// let bounded = Diagnostic::text("x".repeat(20_000)).bounded();
    /// let expected = format!("{}[truncated]", "x".repeat(16 * 1024 - 11));
    /// assert_eq!(bounded, Diagnostic::text(expected));
    /// assert_eq!(bounded.clone().bounded(), bounded);
    /// ```
    #[must_use]
    pub fn bounded(mut self) -> Self {
        Budget { nodes: MAX_NODES, text: MAX_TOTAL }.node(&mut self, 0);
        self
    }
}

/// What is left to spend while a diagnostic is bounded.
struct Budget {
    nodes: usize,
    text: usize,
}

impl Budget {
    fn node(&mut self, node: &mut Diagnostic, level: usize) {
        if self.nodes == 0 || level >= MAX_LEVELS {
            *node = Diagnostic::Omitted { reason: OmittedReason::Limit };
            return;
        }
        self.nodes -= 1;
        match node {
            Diagnostic::Error(error) => self.error(error, level),
            Diagnostic::Cause { reasons, truncated } => {
                if reasons.len() > MAX_LIST {
                    reasons.truncate(MAX_LIST);
                    *truncated = Some(true);
                }
                for reason in reasons {
                    match reason {
                        // List, entry and its field: three levels of JSON.
                        CauseReason::Fail { error: nested }
                        | CauseReason::Die { defect: nested } => {
                            self.node(nested, level + 3);
                        }
                        CauseReason::Interrupt { fiber_id } => {
                            if let Some(fiber_id) = fiber_id {
                                self.scalar(fiber_id, MAX_NAME);
                            }
                        }
                    }
                }
            }
            Diagnostic::Value { value } => self.scalar(value, MAX_TEXT),
            Diagnostic::Omitted { .. } => {}
        }
    }

    fn error(&mut self, error: &mut ErrorDiagnostic, level: usize) {
        let mut cut = false;
        // Causes come first: they matter more than the outer stack when the budget is short.
        for nested in [&mut error.cause, &mut error.reason].into_iter().flatten() {
            self.node(nested, level + 1);
        }
        if let Some(errors) = &mut error.errors {
            cut |= errors.len() > MAX_LIST;
            errors.truncate(MAX_LIST);
            for nested in errors {
                self.node(nested, level + 2);
            }
        }
        if let Some(fields) = &mut error.omitted_fields {
            cut |= fields.len() > MAX_FIELDS;
            fields.truncate(MAX_FIELDS);
            for field in fields {
                cut |= self.cut(field, MAX_NAME);
            }
        }
        if let Some(context) = &mut error.context {
            while context.len() > MAX_FIELDS || context.keys().any(|key| key.len() > MAX_NAME) {
                let longest = context.keys().max_by_key(|key| key.len()).cloned();
                cut |= longest.is_some_and(|key| context.remove(&key).is_some());
            }
            for value in context.values_mut() {
                cut |= self.cut(value, MAX_NAME);
            }
        }
        for name in [&mut error.error_tag, &mut error.name].into_iter().flatten() {
            cut |= self.cut(name, MAX_NAME);
        }
        for text in [&mut error.message, &mut error.stack].into_iter().flatten() {
            cut |= self.cut(text, MAX_TEXT);
        }
        if let Some(code) = &mut error.code {
            self.scalar(code, MAX_NAME);
        }
        if cut {
            error.truncated = Some(true);
        }
    }

    fn scalar(&mut self, value: &mut Scalar, max: usize) {
        if let Scalar::Number(number) = value {
            // A number is kept as it will be read again, or as its digits where it would change.
            let digits = number.to_string();
            let exact = PersistedJson::parse(&digits).ok();
            *value = match exact.and_then(|exact| serde_json::from_str(exact.as_str()).ok()) {
                Some(exact) => Scalar::Number(exact),
                None => Scalar::Text(digits),
            };
        }
        if let Scalar::Text(text) = value {
            self.cut(text, max);
        }
    }

    /// Cuts a text to the bound and to what is left, and says whether it did.
    fn cut(&mut self, text: &mut String, max: usize) -> bool {
        let max = max.min(self.text);
        let length = text.encode_utf16().count();
        if length <= max {
            self.text -= length;
            return false;
        }
        let marker = &CUT[..CUT.len().min(max)];
        let mut kept = 0;
        let mut units = 0;
        for char in text.chars() {
            units += char.len_utf16();
            if units > max - marker.len() {
                break;
            }
            kept += char.len_utf8();
        }
        text.truncate(kept);
        text.push_str(marker);
        self.text -= text.encode_utf16().count();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(levels: usize) -> Diagnostic {
        let mut diagnostic = Diagnostic::text("root");
        for _ in 0..levels {
            let cause = Some(diagnostic);
            diagnostic =
                Diagnostic::Error(Box::new(ErrorDiagnostic { cause, ..Default::default() }));
        }
        diagnostic
    }

    fn depth(mut diagnostic: &Diagnostic) -> (usize, &Diagnostic) {
        let mut levels = 0;
        while let Diagnostic::Error(error) = diagnostic {
            levels += 1;
            diagnostic = error.cause.as_ref().unwrap();
        }
        (levels, diagnostic)
    }

    #[test]
    fn levels_past_the_bound_are_marked() {
        let limit = Diagnostic::Omitted { reason: OmittedReason::Limit };
        assert_eq!(depth(&nested(60).bounded()), (56, &limit));
        assert_eq!(nested(55).bounded(), nested(55));
    }

    #[test]
    fn nodes_texts_and_lists_past_the_bound_are_marked_once() {
        let errors = vec![Diagnostic::text("e".repeat(2_000)); 2_000];
        let wide = Diagnostic::Error(Box::new(ErrorDiagnostic {
            errors: Some(errors),
            message: Some("lost".to_owned()),
            omitted_fields: Some(vec!["f".to_owned(); 40]),
            ..Default::default()
        }));
        let bounded = wide.bounded();
        let Diagnostic::Error(error) = &bounded else { panic!("{bounded:?}") };
        assert_eq!(error.errors.as_ref().unwrap().len(), 128);
        assert_eq!(error.omitted_fields.as_ref().unwrap().len(), 32);
        assert_eq!(error.truncated, Some(true));
        assert_eq!(error.message.as_deref(), Some(""), "the text budget is spent");
        assert_eq!(bounded.clone().bounded(), bounded);
    }
}
