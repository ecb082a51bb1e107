//! The general reader: any JSON text in, its canonical spelling out.

use std::{borrow::Cow, cmp::Ordering, fmt::Write as _, ops::Range};

use super::{JsonError, JsonErrorKind, Limits, number};

/// What happens to a number that a double does not hold exactly.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Numbers {
    /// It is refused.
    Exact,
    /// It is rounded, as ECMAScript reads it.
    Rounded,
}

/// Writes a JSON text canonically (RFC 8785).
///
/// Keys are sorted by UTF-16 code units, numbers are spelt as ECMAScript spells the double that
/// they are read as, and text has the shortest escapes. [`PersistedJson`](crate::PersistedJson)
/// refuses the numbers that this rounds.
///
/// # Errors
///
/// [`JsonError`] where the text is not JSON, a key stands twice in an object, a number is past
/// the largest double, or values stand deeper than 200 levels.
///
/// # Examples
///
/// ```
/// let canonical = recount_core::canonicalize(r#"{ "b": 1e2, "a": "\u00e9\/" }"#)?;
/// assert_eq!(canonical, r#"{"a":"é/","b":100}"#);
/// # Ok::<_, recount_core::JsonError>(())
/// ```
pub fn canonicalize(text: &str) -> Result<String, JsonError> {
    let limits = Limits { depth: 200, bytes: usize::MAX, ..Limits::ROW };
    rewrite(text, limits, Numbers::Rounded)
}

pub(crate) fn rewrite(text: &str, limits: Limits, numbers: Numbers) -> Result<String, JsonError> {
    let out = String::with_capacity(text.len());
    let mut rewriter = Rewriter { text, at: 0, out, nodes: 0, limits, numbers };
    rewriter.value(limits.depth)?;
    rewriter.skip_space();
    if rewriter.at < text.len() {
        return Err(rewriter.syntax("the end of the text"));
    }
    if rewriter.out.len() > limits.bytes {
        let kind = JsonErrorKind::TooLong { max: limits.bytes };
        return Err(JsonError::new(kind, text.len()));
    }
    Ok(rewriter.out)
}

struct Rewriter<'a> {
    text: &'a str,
    at: usize,
    out: String,
    nodes: usize,
    limits: Limits,
    numbers: Numbers,
}

type Step<T = ()> = Result<T, JsonError>;

impl<'a> Rewriter<'a> {
    fn error(&self, kind: JsonErrorKind) -> JsonError {
        JsonError::new(kind, self.at)
    }

    fn syntax(&self, expected: &'static str) -> JsonError {
        self.error(JsonErrorKind::Syntax { expected })
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn value(&mut self, depth: usize) -> Step {
        self.nodes += 1;
        if self.nodes > self.limits.nodes {
            return Err(self.error(JsonErrorKind::TooManyNodes { max: self.limits.nodes }));
        }
        self.skip_space();
        match self.peek() {
            Some(b'"') => {
                let text = self.string()?;
                write_string(&mut self.out, &text);
                Ok(())
            }
            Some(b'{') => self.object(self.deeper(depth)?),
            Some(b'[') => self.array(self.deeper(depth)?),
            Some(b't') => self.word("true"),
            Some(b'f') => self.word("false"),
            Some(b'n') => self.word("null"),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => Err(self.syntax("a value")),
        }
    }

    fn deeper(&self, depth: usize) -> Step<usize> {
        let max = self.limits.depth;
        depth.checked_sub(1).ok_or_else(|| self.error(JsonErrorKind::TooDeep { max }))
    }

    fn word(&mut self, word: &'static str) -> Step {
        if !self.text[self.at..].starts_with(word) {
            return Err(self.syntax(word));
        }
        self.at += word.len();
        self.out.push_str(word);
        Ok(())
    }

    fn object(&mut self, depth: usize) -> Step {
        self.at += 1;
        self.out.push('{');
        let inside = self.out.len();
        let mut members: Vec<(Cow<'a, str>, Range<usize>)> = Vec::new();
        self.skip_space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            self.out.push('}');
            return Ok(());
        }
        loop {
            self.skip_space();
            if self.peek() != Some(b'"') {
                return Err(self.syntax("a key in quotes"));
            }
            self.one_more_entry(members.len())?;
            let key = self.string()?;
            let start = self.out.len();
            write_string(&mut self.out, &key);
            self.out.push(':');
            self.skip_space();
            if self.peek() != Some(b':') {
                return Err(self.syntax("a colon"));
            }
            self.at += 1;
            self.value(depth).map_err(|error| error.inside(&step(&key)))?;
            members.push((key, start..self.out.len()));
            if self.next_entry(b'}', "a comma or a closing brace")? {
                break;
            }
            self.out.push(',');
        }
        if !members.is_sorted_by(|left, right| utf16_order(&left.0, &right.0) == Ordering::Less) {
            self.sort(inside, &mut members)?;
        }
        self.out.push('}');
        Ok(())
    }

    fn sort(&mut self, inside: usize, members: &mut [(Cow<'a, str>, Range<usize>)]) -> Step {
        members.sort_by(|left, right| utf16_order(&left.0, &right.0));
        if let Some(twice) = members.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            let key = twice[0].0.clone().into_owned();
            return Err(self.error(JsonErrorKind::DuplicateKey { key }));
        }
        let written = self.out.split_off(inside);
        for (index, (_, range)) in members.iter().enumerate() {
            if index > 0 {
                self.out.push(',');
            }
            self.out.push_str(&written[range.start - inside..range.end - inside]);
        }
        Ok(())
    }

    fn array(&mut self, depth: usize) -> Step {
        self.at += 1;
        self.out.push('[');
        self.skip_space();
        if self.peek() == Some(b']') {
            self.at += 1;
            self.out.push(']');
            return Ok(());
        }
        for index in 0.. {
            self.one_more_entry(index)?;
            self.value(depth).map_err(|error| error.inside(&format!("[{index}]")))?;
            if self.next_entry(b']', "a comma or a closing bracket")? {
                break;
            }
            self.out.push(',');
        }
        self.out.push(']');
        Ok(())
    }

    fn one_more_entry(&self, before: usize) -> Step {
        let max = self.limits.entries;
        if before >= max {
            return Err(self.error(JsonErrorKind::TooManyEntries { max }));
        }
        Ok(())
    }

    /// Whether the array or object ends here.
    fn next_entry(&mut self, end: u8, expected: &'static str) -> Step<bool> {
        self.skip_space();
        let found = self.peek();
        if found != Some(b',') && found != Some(end) {
            return Err(self.syntax(expected));
        }
        self.at += 1;
        Ok(found == Some(end))
    }

    fn string(&mut self) -> Step<Cow<'a, str>> {
        self.at += 1;
        let start = self.at;
        let mut unescaped: Option<String> = None;
        loop {
            let rest = &self.text.as_bytes()[self.at..];
            let run = rest
                .iter()
                .position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20))
                .ok_or_else(|| self.syntax("a closing quote"))?;
            let plain = &self.text[self.at..self.at + run];
            if let Some(text) = &mut unescaped {
                text.push_str(plain);
            }
            self.at += run;
            match rest[run] {
                b'"' => break,
                b'\\' => {
                    let text =
                        unescaped.get_or_insert_with(|| self.text[start..self.at].to_owned());
                    let (char, length) =
                        escape(&rest[run..]).map_err(|kind| JsonError::new(kind, self.at))?;
                    text.push(char);
                    self.at += length;
                }
                _ => return Err(self.syntax("an escape in place of a control character")),
            }
        }
        let end = self.at;
        self.at += 1;
        Ok(unescaped.map_or(Cow::Borrowed(&self.text[start..end]), Cow::Owned))
    }

    fn number(&mut self) -> Step {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek() {
            Some(b'0') => self.at += 1,
            _ => self.digits()?,
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        let text = &self.text[start..self.at];
        let kind = match number::canonical(text) {
            None => JsonErrorKind::NumberRange { text: text.to_owned() },
            Some(canonical)
                if self.numbers == Numbers::Exact && !number::same_value(text, &canonical) =>
            {
                JsonErrorKind::InexactNumber { text: text.to_owned(), canonical }
            }
            Some(canonical) => {
                self.out.push_str(&canonical);
                return Ok(());
            }
        };
        Err(JsonError::new(kind, start))
    }

    fn digits(&mut self) -> Step {
        if !self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            return Err(self.syntax("a digit"));
        }
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        Ok(())
    }
}

/// One step of a JSON path.
fn step(key: &str) -> String {
    let simple = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if !key.is_empty() && key.bytes().all(simple) {
        format!(".{key}")
    } else {
        format!("[{key:?}]")
    }
}

pub(super) fn utf16_order(left: &str, right: &str) -> Ordering {
    if left.is_ascii() && right.is_ascii() {
        return left.cmp(right);
    }
    left.encode_utf16().cmp(right.encode_utf16())
}

/// Reads the escape that the bytes begin with: its character and its length.
fn escape(bytes: &[u8]) -> Result<(char, usize), JsonErrorKind> {
    let char = match bytes.get(1) {
        Some(b'"') => '"',
        Some(b'\\') => '\\',
        Some(b'/') => '/',
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(b'u') => {
            let first = unit(&bytes[2..])?;
            if let Some(char) = char::from_u32(first.into()) {
                return Ok((char, 6));
            }
            let (Some(b"\\u"), 0xd800..0xdc00) = (bytes.get(6..8), first) else {
                return Err(JsonErrorKind::LoneSurrogate);
            };
            return match char::decode_utf16([first, unit(&bytes[8..])?]).next() {
                Some(Ok(char)) => Ok((char, 12)),
                _ => Err(JsonErrorKind::LoneSurrogate),
            };
        }
        _ => {
            return Err(JsonErrorKind::Syntax { expected: "one of \" \\ / b f n r t u" });
        }
    };
    Ok((char, 2))
}

fn unit(bytes: &[u8]) -> Result<u16, JsonErrorKind> {
    let digits = bytes.get(..4).and_then(|digits| std::str::from_utf8(digits).ok());
    digits
        .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
        .and_then(|digits| u16::from_str_radix(digits, 16).ok())
        .ok_or(JsonErrorKind::Syntax { expected: "four hex digits" })
}

/// The text behind the inside of a JSON string; `None` where an escape is wrong.
pub(super) fn unescape(written: &str) -> Option<Cow<'_, str>> {
    let Some(first) = written.find('\\') else {
        return Some(Cow::Borrowed(written));
    };
    let mut text = written[..first].to_owned();
    let mut at = first;
    while at < written.len() {
        let rest = &written[at..];
        let run = rest.find('\\').unwrap_or(rest.len());
        text.push_str(&rest[..run]);
        at += run;
        if run < rest.len() {
            let (char, length) = escape(&written.as_bytes()[at..]).ok()?;
            text.push(char);
            at += length;
        }
    }
    Some(Cow::Owned(text))
}

fn write_string(out: &mut String, text: &str) {
    out.push('"');
    let mut rest = text;
    while let Some(at) = rest.bytes().position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20)) {
        out.push_str(&rest[..at]);
        match rest.as_bytes()[at] {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            0x8 => out.push_str("\\b"),
            0xc => out.push_str("\\f"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            control => write!(out, "\\u{control:04x}").expect("a String takes all"),
        }
        rest = &rest[at + 1..];
    }
    out.push_str(rest);
    out.push('"');
}
