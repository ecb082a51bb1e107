//! Diagnostics of errors, whatever their type.

use std::{
    error::Error,
    fmt::{self, Write},
};

use super::{
    Diagnostic, ErrorDiagnostic, OmittedReason, Scalar,
    bound::{CUT, MAX_LEVELS, MAX_TEXT},
    redact,
};

/// Longer than a credential, so that one which was cut is within it.
const SLACK: usize = 4 * 1_024;

impl Diagnostic {
    /// What an error and its sources say, redacted and bounded.
    ///
    /// Each error of the chain is the cause of the one before; an I/O error's `code` is its kind. A
    /// chain that comes back to an error ends there as a cycle, and one past the bounds as such. Of
    /// a message no more is held than may be stored; one that fails while it is written is among
    /// the omitted fields. An error whose message panics, or goes on when there is no more room for
    /// it, is not guarded against.
    ///
    /// # Examples
    ///
    /// ```
    /// use recount_core::Diagnostic;
    ///
    /// let error = std::io::Error::other("GET https://api.example.com/?api_key=hunter2: timed out");
    /// let Diagnostic::Error(seen) = Diagnostic::of_error(&error) else { unreachable!() };
    /// let message = "GET https://api.example.com/?api_key=[redacted]: timed out";
    /// assert_eq!(seen.message.as_deref(), Some(message));
    /// ```
    #[must_use]
    pub fn of_error(error: &(dyn Error + 'static)) -> Self {
        let mut chain = vec![error];
        let mut next = error.source();
        let mut cause = None;
        while let Some(error) = next {
            let is_cycle = chain.iter().any(|seen| is_same(*seen, error));
            if is_cycle || chain.len() == MAX_LEVELS {
                let reason = if is_cycle { OmittedReason::Cycle } else { OmittedReason::Limit };
                cause = Some(Self::Omitted { reason });
                break;
            }
            chain.push(error);
            next = error.source();
        }
        for source in chain.drain(1..).rev() {
            cause = Some(Self::link(source, cause));
        }
        Self::link(error, cause).bounded()
    }

    /// One error of a chain, redacted.
    fn link(error: &(dyn Error + 'static), cause: Option<Self>) -> Self {
        let mut taken = Taken { text: String::new(), room: MAX_TEXT + SLACK };
        let is_whole = write!(taken, "{error}").is_ok();
        let is_broken = !is_whole && taken.room > 0;
        let io = error.downcast_ref::<std::io::Error>();
        Self::Error(Box::new(ErrorDiagnostic {
            cause,
            code: io.map(|io| Scalar::Text(format!("{:?}", io.kind()))),
            message: Some(taken.message()),
            omitted_fields: is_broken.then(|| vec!["message".to_owned()]),
            truncated: (!is_whole).then_some(true),
            ..ErrorDiagnostic::default()
        }))
    }
}

/// A message as it is written, of which no more is taken than there is room for.
struct Taken {
    text: String,
    /// How many code units may still come; none once something did not fit.
    room: usize,
}

impl Write for Taken {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for char in text.chars() {
            let Some(room) = self.room.checked_sub(char.len_utf16()).filter(|room| *room > 0)
            else {
                self.room = 0;
                return Err(fmt::Error);
            };
            self.room = room;
            self.text.push(char);
        }
        Ok(())
    }
}

impl Taken {
    fn message(mut self) -> String {
        redact::text(&mut self.text);
        if self.room == 0 {
            // The end may be half a credential, which nothing recognises.
            let whole = self.text.len().saturating_sub(SLACK);
            self.text.truncate(self.text.floor_char_boundary(whole));
            self.text.push_str(CUT);
        }
        self.text
    }
}

/// Whether two errors are one and the same: an error may begin with its source, at one address, but
/// is of another type then.
fn is_same(one: &(dyn Error + 'static), other: &(dyn Error + 'static)) -> bool {
    std::ptr::eq(one, other)
}

#[cfg(test)]
mod tests {
    use std::io;

    use serde_json::json;

    use super::*;

    type Show = fn(&Told, &mut fmt::Formatter<'_>) -> fmt::Result;

    /// An error that shows itself as it is told to.
    #[derive(Debug)]
    struct Told {
        text: String,
        show: Show,
        source: Option<Box<dyn Error + 'static>>,
    }

    impl Told {
        fn text(text: impl Into<String>, source: Option<Box<dyn Error>>) -> Self {
            Self { text: text.into(), show: |it, to| to.write_str(&it.text), source }
        }

        fn shown(show: Show) -> Self {
            Self { show, ..Self::text("", None) }
        }
    }

    impl fmt::Display for Told {
        fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
            (self.show)(self, to)
        }
    }

    impl Error for Told {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.source.as_deref()
        }
    }

    /// An error whose source is itself, or another of its kind without an end.
    #[derive(Debug)]
    struct Endless {
        is_itself: bool,
    }

    impl fmt::Display for Endless {
        fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
            to.write_str("again")
        }
    }

    impl Error for Endless {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(if self.is_itself { self } else { Box::leak(Box::new(Self { is_itself: false })) })
        }
    }

    /// An error that begins where its source does.
    #[derive(Debug)]
    struct Around(Endless);

    impl fmt::Display for Around {
        fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
            to.write_str("once")
        }
    }

    impl Error for Around {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.0)
        }
    }

    fn seen(error: &(dyn Error + 'static)) -> serde_json::Value {
        serde_json::to_value(Diagnostic::of_error(error)).unwrap()
    }

    /// How many errors a chain has, and what it ends with.
    fn chain(error: &(dyn Error + 'static)) -> (usize, serde_json::Value) {
        let mut next = seen(error);
        let mut errors = 0;
        while next["_tag"] == "Error" {
            errors += 1;
            next = next["cause"].take();
        }
        (errors, next)
    }

    fn message(error: &Told) -> String {
        let message = seen(error)["message"].as_str().unwrap().to_owned();
        assert!(message.encode_utf16().count() <= MAX_TEXT);
        message
    }

    #[test]
    fn an_error_is_seen_with_its_sources_and_what_is_known_of_their_types() {
        let io = io::Error::new(io::ErrorKind::ConnectionRefused, "no route, Bearer abc123");
        let middle = Told::text("GET https://bob:hunter2@h/ failed", Some(Box::new(io)));
        let outer = Told::text("not delivered", Some(Box::new(middle)));
        let root = json!({
            "_tag": "Error", "code": "ConnectionRefused", "message": "no route, Bearer [redacted]",
        });
        let middle = "GET https://[redacted]@h/ failed";
        let expected = json!({
            "_tag": "Error", "message": "not delivered",
            "cause": {"_tag": "Error", "message": middle, "cause": root},
        });
        assert_eq!(seen(&outer), expected);
    }

    #[test]
    fn a_chain_without_an_end_or_past_the_bound_ends_as_such() {
        let limit = json!({"_tag": "Omitted", "reason": "limit"});
        let cycle = json!({"_tag": "Omitted", "reason": "cycle"});
        assert_eq!(chain(&Endless { is_itself: true }), (1, cycle.clone()));
        assert_eq!(chain(&Around(Endless { is_itself: true })), (2, cycle));
        assert_eq!(chain(&Endless { is_itself: false }), (56, limit.clone()));
        let deep = |levels| {
            let root = Told::text("root", None);
            (1..levels).fold(root, |source, _| Told::text("link", Some(Box::new(source))))
        };
        assert_eq!(chain(&deep(10_000)), (56, limit));
        assert_eq!(chain(&deep(56)), (56, serde_json::Value::Null));
    }

    #[test]
    fn a_message_without_an_end_is_cut_and_one_that_fails_is_told() {
        let endless = Told::shown(|_, to| {
            loop {
                to.write_str("word 🚀 ")?;
            }
        });
        let text = message(&endless);
        assert!(text.starts_with("word 🚀 word") && text.ends_with(CUT), "{text}");
        assert_eq!(seen(&endless)["truncated"], true);
        let stubborn =
            Told::shown(|_, to| (0..1_000_000).try_for_each(|_| to.write_str("more").or(Ok(()))));
        assert!(message(&stubborn).ends_with(CUT));
        let failing = Told::shown(|_, to| to.write_str("half").and(Err(fmt::Error)));
        let expected = json!({
            "_tag": "Error", "message": "half", "omittedFields": ["message"], "truncated": true,
        });
        assert_eq!(seen(&failing), expected);
        let fitting = "x".repeat(MAX_TEXT);
        assert_eq!(message(&Told::text(&fitting, None)), fitting);
    }

    #[test]
    fn a_bound_within_a_credential_leaves_no_half_of_it() {
        let secret = ["gh", "p_", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"].concat();
        for bound in [MAX_TEXT, MAX_TEXT + SLACK] {
            for before in bound - secret.len() - 2..bound + 2 {
                let text = format!("{} {secret} {}", "x".repeat(before), "y".repeat(9_000));
                let text = message(&Told::text(text, None));
                assert!(!text.contains("a1"), "{before}: {}", &text[text.len() - 80..]);
            }
        }
        // What was redacted before it brings what was cut within the bound.
        let before = format!("password={} ", "p".repeat(MAX_TEXT + SLACK - 20));
        let text = message(&Told::text(format!("{before}{secret}"), None));
        assert_eq!(text, CUT);
    }
}
