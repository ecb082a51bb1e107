//! Credentials are taken out of text: what they were for stays, they do not.
//!
//! Nothing here is a proof: who writes secrets in a way of their own is not found out. What is known
//! of the field is a row of [`KNOWN`], or a word of [`SECRET_NAME`].

use std::{borrow::Cow, collections::BTreeMap, sync::LazyLock};

use regex::{Captures, Regex};

use super::{CauseReason, Diagnostic, ErrorDiagnostic, Scalar};

/// What stands in the place of a credential.
const REDACTED: &str = "[redacted]";

/// Names of what is secret, at the end of a name: `client_secret`, `apiKey`, `X-Amz-Signature`.
const SECRET_NAME: &str = "(?:password|passwd|passphrase|passcode|pwd|secret|token|credentials?\
    |signature|authorization|cookie|session[_-]?id|api[_-]?key|access[_-]?key(?:[_-]?id)?\
    |account[_-]?key|private[_-]?key|secret[_-]?key|signing[_-]?key|encryption[_-]?key\
    |auth[_-]?key|shared[_-]?key|service[_-]?key|webhook[_-]?key|license[_-]?key)";

/// A pattern, and what of a match stays: what its first group has, and its last.
struct Known {
    pattern: Regex,
    /// Whether a match is a credential, where the pattern alone does not tell.
    is_secret: fn(&str) -> bool,
}

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the patterns are fixed")
}

/// Credentials that are known by themselves. `lead` and `tail` stay.
static KNOWN: LazyLock<Vec<Known>> = LazyLock::new(|| {
    let always: fn(&str) -> bool = |_| true;
    let known = |text: &str, is_secret| Known { pattern: pattern(text), is_secret };
    vec![
        // A private key, to its end or that of the text.
        known(
            "(?s)(?<lead>-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----).*?\
             (?<tail>-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|$)",
            always,
        ),
        // user:password@ in a URL. Behind a port the `@` is part of the path.
        known(
            "(?<lead>(?-u:\\b[A-Za-z][A-Za-z0-9+.-]*)://)[^\\x00-\\x20\"'<>`/@:]*:\
             [^\\x00-\\x20\"'<>`]*(?<tail>@)",
            |found| {
                let password = found.splitn(3, ':').nth(2).unwrap_or_default();
                let port = password.split('/').next().unwrap_or_default();
                !(password.contains('/') && port.bytes().all(|byte| byte.is_ascii_digit()))
            },
        ),
        // The key= of a query.
        known("(?<lead>[?&](?i-u:key|sig|auth|pass)=)[^\\x00-\\x20\"'<>&#\\[]+", always),
        // What a scheme of HTTP carries.
        known(
            "(?i-u)(?<lead>(?-u:\\b)(?:bearer|basic|negotiate)[ \\t]+)[a-z0-9._~+/-]{8,}=*",
            |found| {
                let token = found.rsplit([' ', '\t']).next().unwrap_or_default();
                token.len() >= 24 || token.bytes().any(|it| it.is_ascii_digit() || it == b'=')
            },
        ),
        // Tokens that their issuers made to be known.
        known(
            "(?-u:\\b)(?:gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{20,}\
             |glpat-[A-Za-z0-9_-]{16,}|(?:sk|pk|rk)_(?:live|test)_[A-Za-z0-9]{10,}\
             |xox[a-z]-[A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{10,}\
             |A(?:KIA|SIA|GPA|IDA|ROA)[A-Z0-9]{16}|AIza[A-Za-z0-9_-]{30,}|ya29\\.[A-Za-z0-9_-]{20,}\
             |npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{20,}|hf_[A-Za-z0-9]{20,}\
             |SG\\.[A-Za-z0-9_-]{16,}\\.[A-Za-z0-9_-]{16,}|do[opr]_v1_[0-9a-f]{40,}\
             |shp(?:at|ca|pa|ss)_[A-Fa-f0-9]{32,}|AGE-SECRET-KEY-1[A-Z0-9]{20,}\
             |eyJ[A-Za-z0-9_-]{6,}\\.[A-Za-z0-9_-]{6,}(?:\\.[A-Za-z0-9_-]*)?)",
            always,
        ),
        known("(?-u:\\b)sk-[A-Za-z0-9_-]{16,}", |found| {
            found.bytes().any(|byte| byte.is_ascii_digit())
        }),
        // Addresses that are secrets themselves.
        known(
            "(?i-u)(?<lead>(?:hooks\\.slack\\.com/(?:services|workflows|triggers)\
             |discord(?:app)?\\.com/api/webhooks)/)[a-z0-9_/-]+",
            always,
        ),
    ]
});

/// A name of a secret, what stands between it and its value, and how the value is quoted.
static NAMED: LazyLock<Regex> = LazyLock::new(|| {
    pattern(&format!(
        "(?i-u)(?<name>[a-z0-9_.-]*{SECRET_NAME})(?<by>\\\\*[\"'`]?[ \\t]*(?:=>|[:=])[ \\t]*\
         (?:[a-z]+\\()?|(?-u:\\b)[ ]+)(?<quote>\\\\*[\"'`])?"
    ))
});

static NAME: LazyLock<Regex> =
    LazyLock::new(|| pattern(&format!("(?i-u)^[a-z0-9_.-]*{SECRET_NAME}$")));

/// What may stand in front of the credential in an `authorization`.
static SCHEME: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        "(?i-u)^(?:bearer|basic|digest|negotiate|ntlm|token|apikey|hawk|signature|aws4[a-z0-9-]*)\
         [ \\t]+",
    )
});

impl Diagnostic {
    /// The same without the credentials that stand in its texts.
    ///
    /// Where they stood is `[redacted]`. Doing it twice changes nothing more. It comes before
    /// [`Diagnostic::bounded`], which might cut a credential in two.
    ///
    /// # Examples
    ///
    /// ```
    /// use recount_core::Diagnostic;
    ///
    /// let diagnostic = Diagnostic::text("GET /jobs?token=t0ps3cret&page=2: 401").redacted();
    /// assert_eq!(diagnostic, Diagnostic::text("GET /jobs?token=[redacted]&page=2: 401"));
    /// assert_eq!(diagnostic.clone().redacted(), diagnostic);
    /// ```
    #[must_use]
    pub fn redacted(mut self) -> Self {
        let mut rest = vec![&mut self];
        while let Some(node) = rest.pop() {
            match node {
                Diagnostic::Error(error) => redact_error(error, &mut rest),
                Diagnostic::Cause { reasons, .. } => {
                    for reason in reasons {
                        match reason {
                            CauseReason::Fail { error: nested }
                            | CauseReason::Die { defect: nested } => rest.push(nested),
                            CauseReason::Interrupt { fiber_id } => {
                                fiber_id.iter_mut().for_each(redact_scalar);
                            }
                        }
                    }
                }
                Diagnostic::Value { value } => redact_scalar(value),
                Diagnostic::Omitted { .. } => {}
            }
        }
        self
    }
}

fn redact_error<'a>(error: &'a mut ErrorDiagnostic, rest: &mut Vec<&'a mut Diagnostic>) {
    let ErrorDiagnostic {
        cause,
        code,
        context,
        error_tag,
        errors,
        message,
        name,
        omitted_fields,
        reason,
        stack,
        truncated: _,
    } = error;
    code.iter_mut().for_each(redact_scalar);
    context.iter_mut().for_each(redact_context);
    let texts = [error_tag, message, name, stack].into_iter().flatten();
    texts.chain(omitted_fields.iter_mut().flatten()).for_each(redact);
    rest.extend([cause, reason].into_iter().flatten());
    rest.extend(errors.iter_mut().flatten());
}

/// Takes the credentials out of a context, by their names or their looks.
pub(crate) fn redact_context(context: &mut BTreeMap<String, String>) {
    for (name, value) in context {
        if NAME.is_match(name) {
            REDACTED.clone_into(value);
        } else {
            redact(value);
        }
    }
}

fn redact_scalar(scalar: &mut Scalar) {
    if let Scalar::Text(text) = scalar {
        redact(text);
    }
}

/// Takes the credentials out of a text.
pub(crate) fn redact(text: &mut String) {
    for Known { pattern, is_secret } in &*KNOWN {
        let replace = |found: &Captures<'_>| {
            if !is_secret(&found[0]) {
                return found[0].to_owned();
            }
            let part = |name| found.name(name).map_or("", |part| part.as_str());
            format!("{}{REDACTED}{}", part("lead"), part("tail"))
        };
        if let Cow::Owned(replaced) = pattern.replace_all(text, replace) {
            *text = replaced;
        }
    }
    if let Some(replaced) = without_named(text) {
        *text = replaced;
    }
}

/// The text without the values of secrets that are named; nothing where there are none.
fn without_named(text: &str) -> Option<String> {
    let mut kept = String::new();
    let (mut copied, mut from) = (0, 0);
    while let Some(found) = NAMED.captures_at(text, from) {
        let start = found.get(0).map_or(text.len(), |whole| whole.end());
        let part = |name| found.name(name).map_or("", |part| part.as_str());
        let value = Value::at(text, start, part("name"), part("by"), part("quote"));
        from = start;
        if let Some(Value { start, end }) = value {
            kept.push_str(&text[copied..start]);
            kept.push_str(REDACTED);
            (copied, from) = (end, end);
        }
    }
    (copied > 0).then(|| kept + &text[copied..])
}

/// Where the value of a secret is.
struct Value {
    start: usize,
    end: usize,
}

impl Value {
    /// The value that begins here; nothing where it is none, or was taken out before.
    fn at(text: &str, start: usize, name: &str, by: &str, quote: &str) -> Option<Self> {
        let rest = &text[start..];
        // A header with several words.
        let name = name.to_ascii_lowercase();
        let is_header = name.ends_with("authorization") || name.ends_with("cookie");
        let scheme = SCHEME.find(rest).filter(|_| is_header).map_or(0, |scheme| scheme.end());
        if rest[scheme..].starts_with(REDACTED.trim_end_matches(']')) {
            return None;
        }
        let quoted = (!quote.is_empty()).then(|| end_of_quoted(rest, quote));
        let word = || rest.find(|it: char| " \t\r\n\"'`\\,;&)}]<>".contains(it) || it.is_control());
        let end = match quoted {
            Some(end) => end,
            None if scheme > 0 || (is_header && name.ends_with("cookie")) => {
                rest.find(['\r', '\n', '"', '\'', '\\', '}']).unwrap_or(rest.len())
            }
            None => word().unwrap_or(rest.len()),
        };
        let value = rest.get(scheme..end).unwrap_or_default();
        let is_flag = by.trim().is_empty();
        let is_secret = if quoted.is_some() || scheme > 0 {
            !value.is_empty() && (!is_flag || name.starts_with("--"))
        } else if is_flag {
            name.starts_with("--") && !value.is_empty() && !value.starts_with('-')
        } else if by.contains('=') || by.contains('(') || name.ends_with("cookie") {
            !value.is_empty()
        } else {
            // Prose has colons, too: "invalid token: expired".
            let has_digit = value.bytes().any(|byte| byte.is_ascii_digit());
            let is_plain = ["token", "signature", "credential", "authorization", "secret"]
                .iter()
                .any(|word| name.trim_end_matches('s') == *word);
            !value.is_empty() && (!is_plain || (has_digit && value.len() >= 8) || value.len() >= 24)
        };
        is_secret.then_some(Self { start: start + scheme, end: start + end })
    }
}

/// Where a quoted text ends, or the text around it.
fn end_of_quoted(rest: &str, quote: &str) -> usize {
    let mut from = 0;
    while let Some(at) = rest[from..].find(quote) {
        let end = from + at;
        // One that is escaped once more is part of the value.
        if !rest[..end].ends_with('\\') {
            return end;
        }
        from = end + quote.len();
    }
    rest.len()
}

#[cfg(test)]
mod tests;
