//! Taking down any error with what led to it.

use std::{error::Error, fmt::Write, io};

use serde_json::Number;

use super::{
    Diagnostic, ErrorDiagnostic, OmittedReason, Scalar,
    bound::{CUT, MAX_LEVELS, MAX_TEXT},
};

impl Diagnostic {
    /// Takes down an error and the chain of its sources, without credentials and within bounds.
    ///
    /// Of each its message is kept, and of an I/O error the system's number or the kind. A chain
    /// that is longer than the bound ends in [`OmittedReason::Limit`], one that leads back to itself
    /// in [`OmittedReason::Cycle`]. However much an error writes, only what fits is held.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io;
    ///
    /// use recount_core::Diagnostic;
    ///
    /// let error = io::Error::new(io::ErrorKind::TimedOut, "no answer from https://u:p@host/");
    /// let diagnostic = serde_json::to_value(Diagnostic::of_error(&error))?;
    /// assert_eq!(diagnostic["_tag"], "Error");
    /// assert_eq!(diagnostic["message"], "no answer from https://[redacted]@host/");
    /// assert_eq!(diagnostic["code"], "TimedOut");
    /// # Ok::<_, serde_json::Error>(())
    /// ```
    pub fn of_error(error: &(dyn Error + 'static)) -> Self {
        let mut chain: Vec<&(dyn Error + 'static)> = Vec::new();
        let mut next = Some(error);
        let mut end = None;
        while let Some(error) = next {
            let is_same = |seen: &&(dyn Error + 'static)| {
                // An error without fields has the address of any other.
                size_of_val(*seen) > 0 && std::ptr::addr_eq(*seen, error)
            };
            if chain.iter().any(is_same) {
                end = Some(Self::Omitted { reason: OmittedReason::Cycle });
                break;
            }
            if chain.len() == MAX_LEVELS {
                end = Some(Self::Omitted { reason: OmittedReason::Limit });
                break;
            }
            chain.push(error);
            next = error.source();
        }
        let nested = chain.into_iter().rfold(end, |cause, error| {
            Some(Self::Error(Box::new(ErrorDiagnostic {
                cause,
                code: code(error),
                ..message(error)
            })))
        });
        let whole = nested.unwrap_or(Self::Omitted { reason: OmittedReason::Unsupported });
        whole.redacted().bounded()
    }
}

/// What an error says of itself; marked where that was too much, or not all of it.
fn message(error: &dyn Error) -> ErrorDiagnostic {
    // Credentials are looked for in more than is kept, so that none is cut in two and missed.
    let mut text = Cut { text: String::new(), left: 2 * MAX_TEXT };
    let is_whole = write!(text, "{error}").is_ok();
    let mut message = text.text;
    if !is_whole {
        message.push_str(CUT);
    }
    ErrorDiagnostic {
        message: Some(message),
        truncated: (!is_whole).then_some(true),
        ..ErrorDiagnostic::default()
    }
}

/// The system's number of an I/O error, or its kind.
fn code(error: &(dyn Error + 'static)) -> Option<Scalar> {
    let error: &io::Error = error.downcast_ref()?;
    Some(match error.raw_os_error() {
        Some(number) => Scalar::Number(Number::from(number)),
        None => Scalar::Text(format!("{:?}", error.kind())),
    })
}

/// Takes so many bytes, and refuses what comes then.
struct Cut {
    text: String,
    left: usize,
}

impl Write for Cut {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let mut end = text.len().min(self.left);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.text.push_str(&text[..end]);
        self.left -= end;
        if end == text.len() { Ok(()) } else { Err(std::fmt::Error) }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use super::*;

    /// An error that is its own source, so often.
    #[derive(Debug)]
    struct Chain(u32, Option<Box<Chain>>);

    impl Chain {
        fn of(length: u32) -> Self {
            (1..length).fold(Self(0, None), |source, number| Self(number, Some(source.into())))
        }
    }

    impl Drop for Chain {
        fn drop(&mut self) {
            // A long chain is taken apart link by link, so that no stack is needed for it.
            let mut next = self.1.take();
            while let Some(mut chain) = next {
                next = chain.1.take();
            }
        }
    }

    impl fmt::Display for Chain {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "link {}", self.0)
        }
    }

    impl Error for Chain {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1.as_deref().map(|source| source as &(dyn Error + 'static))
        }
    }

    fn messages(diagnostic: &Diagnostic) -> (Vec<String>, Option<OmittedReason>) {
        let (mut messages, mut next) = (Vec::new(), Some(diagnostic));
        while let Some(Diagnostic::Error(error)) = next {
            messages.extend(error.message.clone());
            next = error.cause.as_ref();
        }
        let end = next.map(|end| match end {
            Diagnostic::Omitted { reason } => *reason,
            other => panic!("{other:?}"),
        });
        (messages, end)
    }

    #[test]
    fn a_chain_of_sources_is_taken_down_to_its_end_or_to_the_bound() {
        let (few, end) = messages(&Diagnostic::of_error(&Chain::of(3)));
        assert_eq!((few, end), (["link 2", "link 1", "link 0"].map(String::from).to_vec(), None));
        let (most, end) = messages(&Diagnostic::of_error(&Chain::of(56)));
        assert_eq!((most.len(), end), (56, None));
        for length in [57, 10_000] {
            let (many, end) = messages(&Diagnostic::of_error(&Chain::of(length)));
            assert_eq!((many.len(), end), (56, Some(OmittedReason::Limit)));
        }
    }

    #[derive(Debug)]
    struct Circle(#[expect(dead_code, reason = "so that it has an address of its own")] u8);

    impl fmt::Display for Circle {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("round")
        }
    }

    impl Error for Circle {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            static OTHER: Circle = Circle(1);
            Some(&OTHER)
        }
    }

    #[test]
    fn a_chain_that_leads_back_to_itself_is_told() {
        let (seen, end) = messages(&Diagnostic::of_error(&Circle(0)));
        assert_eq!((seen.len(), end), (2, Some(OmittedReason::Cycle)));
    }

    /// An error that writes what it is made of, without end or until it fails.
    #[derive(Debug)]
    struct Talks {
        times: u64,
        fails: bool,
    }

    impl fmt::Display for Talks {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            for _ in 0..self.times {
                f.write_str("öx ")?;
            }
            if self.fails { Err(fmt::Error) } else { Ok(()) }
        }
    }

    impl Error for Talks {}

    #[test]
    fn an_error_that_does_not_end_or_fails_to_say_all_is_marked() {
        let of = |times, fails| match Diagnostic::of_error(&Talks { times, fails }) {
            Diagnostic::Error(error) => (error.message.unwrap(), error.truncated),
            other => panic!("{other:?}"),
        };
        assert_eq!(of(2, false), ("öx öx ".to_owned(), None));
        assert_eq!(of(2, true), ("öx öx [truncated]".to_owned(), Some(true)));
        let (endless, truncated) = of(u64::MAX, false);
        assert_eq!(endless.encode_utf16().count(), MAX_TEXT);
        assert!(endless.starts_with("öx öx ") && endless.ends_with(CUT));
        assert_eq!(truncated, Some(true));
    }

    #[test]
    fn an_io_error_keeps_the_number_of_the_system() {
        let code = |error: io::Error| match Diagnostic::of_error(&error) {
            Diagnostic::Error(error) => error.code.unwrap(),
            other => panic!("{other:?}"),
        };
        assert_eq!(code(io::Error::from_raw_os_error(111)), Scalar::Number(111.into()));
        let kind = code(io::ErrorKind::UnexpectedEof.into());
        assert_eq!(kind, Scalar::Text("UnexpectedEof".to_owned()));
    }
}
