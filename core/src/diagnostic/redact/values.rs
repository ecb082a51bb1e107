//! Values that a name is given: `password=…`, `"apiKey": "…"`, `Authorization: Bearer …`.

use std::{ops::Range, sync::LazyLock};

use regex::Regex;

use super::{
    is_likely,
    names::{self, Kind},
    pattern,
};

/// What may stand between a name and a quoted value: `Some(`, `[`, `AccessToken { value: `.
static OPENING: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r#"(?x-u)^ (?: \[\s* | & | b | [A-Za-z_][A-Za-z0-9_:]*\(
            | [A-Za-z_][A-Za-z0-9_:]* \x20\{\ (?:inner|raw|secret|token|value):\x20
        ){0,4} \\*["'`]"#,
    )
});

/// What may stand between two quoted values of a list.
static BETWEEN: LazyLock<Regex> = LazyLock::new(|| pattern(r#"(?-u)^\s*,\s*\\*["'`]"#));

/// What says how a credential is to be read, and may be seen.
static SCHEME: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?xi-u)^ \[? (?: aws4-hmac-sha256 | apikey | basic | bearer | digest | dpop | hawk | hmac-sha256
            | key | negotiate | ntlm | oauth | sharedkey(?:lite)? | signature | token ) [\x20\t]+",
    )
});

/// Values that say whether there is a secret, and no more.
const NOTHING: [&str; 7] = ["", "false", "nil", "none", "null", "true", "undefined"];

/// Finds the values of names that stand for credentials.
pub(super) fn find(text: &str, found: &mut Vec<Range<usize>>) {
    let mut at = 0;
    while let Some((start, name)) = next_name(text, at) {
        at = start;
        let Some(kind) = name.kind() else { continue };
        let before = found.len();
        Value { text, name, kind }.find(start, found);
        if found.len() > before {
            at = found[found.len() - 1].end;
        }
    }
}

/// A name before what gives it a value.
struct Name<'a> {
    text: &'a str,
    before: &'a str,
    is_quoted: bool,
    separator: Separator,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Separator {
    Equals,
    Colon,
    /// `--password …`, `"--password", "…"`
    Space,
    /// `<password>…</password>`
    Tag,
}

/// The next name that may be given a value, and where the value begins.
fn next_name(text: &str, from: usize) -> Option<(usize, Name<'_>)> {
    for (at, byte) in text.bytes().enumerate().skip(from) {
        let rest = &text.as_bytes()[at..];
        let (separator, length) = match byte {
            b'=' if rest.starts_with(b"=>") => (Separator::Equals, 2),
            b'=' if !rest.starts_with(b"==") => (Separator::Equals, 1),
            b'%' if rest.len() > 2 && rest[..3].eq_ignore_ascii_case(b"%3d") => {
                (Separator::Equals, 3)
            }
            b'\\' if rest.len() > 5 && rest[..6].eq_ignore_ascii_case(br"\u003d") => {
                (Separator::Equals, 6)
            }
            b':' if rest.starts_with(b":=") => (Separator::Equals, 2),
            b':' if !rest.starts_with(b"::") && !rest.starts_with(b"://") => (Separator::Colon, 1),
            b' ' => (Separator::Space, 1),
            b'>' => (Separator::Tag, 1),
            _ => continue,
        };
        if let Some(name) = Name::before(&text[from..at], separator) {
            return Some((at + length, name));
        }
    }
    None
}

impl<'a> Name<'a> {
    /// The name at the end of a text.
    fn before(text: &'a str, separator: Separator) -> Option<Self> {
        let close = |char| matches!(char, '"' | '\'' | '`' | ']' | '\\' | ' ' | '\t');
        let named = match separator {
            Separator::Equals | Separator::Colon => text.trim_end_matches(close),
            Separator::Space => text.trim_end_matches(['"', '\'', ',']),
            Separator::Tag => text,
        };
        let is_quoted = text[named.len()..].contains(['"', '\'', '`']);
        let of_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.".contains(byte);
        let length = named.bytes().rev().take_while(of_name).count();
        let (before, name) = named.split_at(named.len() - length);
        let (before, name) = unescape(before, name);
        let fits = match separator {
            Separator::Equals | Separator::Colon => !name.is_empty(),
            Separator::Space => {
                // A flag, or a pair as debug output has it: `("x-api-key", "…")`.
                let is_pair = before.ends_with("(\"") && text.ends_with("\",");
                name.starts_with("--") || (is_pair && !name.is_empty())
            }
            Separator::Tag => before.ends_with('<'),
        };
        fits.then_some(Self { text: name, before, is_quoted, separator })
    }

    fn kind(&self) -> Option<Kind> {
        let kind = names::kind(self.text)?;
        let is_parameter =
            self.separator == Separator::Equals && self.before.ends_with(['?', '&', '#', '%', ';']);
        if kind != Kind::Parameter || is_parameter {
            return Some(kind);
        }
        // In prose a name has spaces: `api key: …`.
        let before = self.before.strip_suffix(' ')?;
        let start = before.rfind(|char: char| !char.is_ascii_alphanumeric()).map_or(0, |at| at + 1);
        let whole = format!("{}_{}", before.get(start..)?, self.text);
        names::kind(&whole).filter(|kind| *kind == Kind::Secret)
    }
}

/// Takes an escape that stands before a name from it: `\n`, `\u0026`, `%26`.
fn unescape<'a>(before: &'a str, name: &'a str) -> (&'a str, &'a str) {
    let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if before.ends_with('%') && name.get(..2).is_some_and(is_hex) {
        return (before, &name[2..]);
    }
    if before.ends_with('\\') {
        if name.starts_with('u') && name.get(1..5).is_some_and(is_hex) {
            // What is escaped like this stands between parameters: `&` in JSON of some writers.
            return ("&", &name[5..]);
        }
        return (before, name.strip_prefix(['n', 'r', 't']).unwrap_or(name));
    }
    (before, name)
}

/// The value of a name.
struct Value<'a> {
    text: &'a str,
    name: Name<'a>,
    kind: Kind,
}

impl Value<'_> {
    fn find(&self, start: usize, found: &mut Vec<Range<usize>>) {
        let blank = |byte: &u8| matches!(byte, b' ' | b'\t');
        let start = start + self.text.bytes().skip(start).take_while(blank).count();
        let rest = &self.text[start..];
        let Some(opening) = OPENING.find(rest) else {
            return self.add(start..start + self.bare(rest), false, found);
        };
        let is_list = opening.as_str().starts_with('[');
        let mut content = start + opening.end();
        loop {
            let end = content + quoted(&self.text[..content], &self.text[content..]);
            self.add(content..end, true, found);
            let close = end + self.text.bytes().skip(end).take_while(|byte| *byte == b'\\').count();
            let next = self.text.get(close + 1..).filter(|_| is_list);
            match next.and_then(|next| BETWEEN.find(next)) {
                Some(next) => content = close + 1 + next.end(),
                None => break,
            }
        }
    }

    fn add(&self, mut range: Range<usize>, is_quoted: bool, found: &mut Vec<Range<usize>>) {
        if self.kind == Kind::Authorization {
            range.start += SCHEME.find(&self.text[range.clone()]).map_or(0, |scheme| scheme.end());
        }
        let value = &self.text[range.clone()];
        let says_nothing = NOTHING.iter().any(|word| value.eq_ignore_ascii_case(word));
        // `PWD` is where a process stands, too.
        let is_folder = self.name.text.ends_with("PWD") && value.starts_with('/');
        let in_prose = self.kind == Kind::Likely
            && matches!(self.name.separator, Separator::Colon | Separator::Space)
            && !self.name.is_quoted
            && !is_quoted;
        // A reason: `invalid password: connection refused`.
        let rest = self.text[range.end..].strip_prefix(' ').unwrap_or_default();
        let is_reason = self.name.separator == Separator::Colon
            && !self.name.is_quoted
            && !is_quoted
            && value.bytes().all(|byte| byte.is_ascii_lowercase())
            && rest.starts_with(|char: char| char.is_ascii_lowercase());
        if !says_nothing && !is_folder && !is_reason && (!in_prose || is_likely(value)) {
            found.push(range);
        }
    }

    /// How long a value is that no quotes enclose.
    fn bare(&self, rest: &str) -> usize {
        let scheme = SCHEME.find(rest).filter(|_| self.kind == Kind::Authorization);
        if let Some(scheme) = scheme {
            let name = scheme.as_str().trim_start_matches('[').trim_end();
            let has_one_word = ["basic", "bearer"].iter().any(|it| name.eq_ignore_ascii_case(it));
            let credential = &rest[scheme.end()..];
            return scheme.end() + if has_one_word { word(credential) } else { line(credential) };
        }
        if self.kind == Kind::Cookie {
            return line(rest);
        }
        if self.name.separator == Separator::Tag {
            let end = rest.find(['<', '\n', '"']);
            return end.filter(|end| rest[*end..].starts_with("</")).unwrap_or(0);
        }
        if self.name.separator == Separator::Space && rest.starts_with("--") {
            return 0;
        }
        let word = word(rest);
        if is_struct(&rest[..word], &rest[word..]) { 0 } else { word }
    }
}

const LINE_ENDS: [char; 4] = ['\n', '\r', '"', '`'];

fn line(rest: &str) -> usize {
    rest.find(|char| char == '\'' || LINE_ENDS.contains(&char)).unwrap_or(rest.len())
}

/// How long the word is that a text begins with; an object or a list is none.
fn word(text: &str) -> usize {
    let inner = text.trim_start_matches(['{', '[']);
    if inner.len() < text.len() && (ends_text(inner) || inner.starts_with('\'')) {
        return 0;
    }
    let mut open = 0_usize;
    for (at, char) in text.char_indices() {
        let rest = &text[at + char.len_utf8()..];
        let ends = match char {
            ' ' | '\t' | ';' | '<' | '>' | '|' => true,
            '\\' => rest.starts_with(['n', 'r', 't', 'u', '\\', '\'']) || ends_text(rest),
            ',' | '&' => begins_pair(rest),
            '(' | '[' | '{' => {
                open += 1;
                false
            }
            ')' | ']' | '}' if open > 0 => {
                open -= 1;
                false
            }
            ')' | ']' | '}' | ':' | '\'' => ends_text(rest),
            _ => LINE_ENDS.contains(&char),
        };
        if ends {
            return at;
        }
    }
    text.len()
}

/// Whether a word is the name of a type, whose fields follow and have names of their own.
fn is_struct(word: &str, rest: &str) -> bool {
    rest.starts_with(" {")
        && word.starts_with(|char: char| char.is_ascii_uppercase())
        && word.bytes().all(|byte| byte.is_ascii_alphabetic() || b"_:".contains(&byte))
}

/// Whether what stands behind a comma or ampersand is no more of the value.
fn begins_pair(rest: &str) -> bool {
    let of_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.[]".contains(byte);
    let (name, rest) = rest.split_at(rest.bytes().take_while(of_name).count());
    match (name, rest.bytes().next()) {
        ("", _) => ends_text(rest),
        ("amp", Some(b';')) | (_, Some(b'=' | b':')) => true,
        _ => false,
    }
}

/// Whether a value is likelier to have ended before this than to go on.
fn ends_text(rest: &str) -> bool {
    const ENDS: [char; 9] = [' ', '\t', ',', '.', ';', ':', ')', ']', '}'];
    rest.is_empty() || rest.starts_with(['\\', '\n', '\r', '"', '`']) || rest.starts_with(ENDS)
}

/// How long the content is behind an opening quote, whose escapes tell how deep it stands: JSON
/// within JSON within the text of an error has `\\\"`.
fn quoted(opened: &str, rest: &str) -> usize {
    let Some(quote) = opened.chars().next_back() else { return 0 };
    let escapes =
        opened[..opened.len() - 1].bytes().rev().take_while(|byte| *byte == b'\\').count();
    let mut run = 0;
    for (at, char) in rest.char_indices() {
        match char {
            '\\' => run += 1,
            // Escapes beyond those of the opening one belong to the content, in pairs.
            _ if char == quote && run % (2 * (escapes + 1)) == escapes => return at - escapes,
            '\n' if quote != '"' => return at,
            _ => run = 0,
        }
    }
    rest.find(['\n', '\r']).unwrap_or(rest.len())
}
