//! Whether a text is canonical JSON, without building anything.

use std::cmp::Ordering;

use super::{Limits, canonical::unescape, number};

/// A cursor over canonical JSON.
///
/// Every step answers `None` where the text is not what it should be; the general reader then
/// says why.
pub(crate) struct Scanner<'a> {
    text: &'a str,
    at: usize,
    nodes: usize,
}

/// The inside of a string, as it is written.
#[derive(Clone, Copy)]
struct Written<'a> {
    text: &'a str,
    /// ASCII without escapes: its bytes are in the order of its UTF-16 code units.
    plain: bool,
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text, at: 0, nodes: 0 }
    }

    /// Whether a whole text is one canonical value within the limits.
    pub(crate) fn is_canonical(text: &'a str, limits: Limits) -> bool {
        let mut scan = Self::new(text);
        text.len() <= limits.bytes && scan.value(limits).is_some() && scan.is_at_end()
    }

    pub(crate) fn position(&self) -> usize {
        self.at
    }

    /// Goes back to a position.
    pub(crate) fn go_to(&mut self, position: usize) {
        self.at = position;
    }

    /// What was stepped over since a position.
    pub(crate) fn since(&self, start: usize) -> &'a str {
        &self.text[start..self.at]
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.at == self.text.len()
    }

    /// Steps over exactly these bytes.
    pub(crate) fn literal<const N: usize>(&mut self, expected: &[u8; N]) -> Option<()> {
        let found = self.text.as_bytes().get(self.at..)?.first_chunk::<N>()?;
        (found == expected).then(|| self.at += N)
    }

    /// Steps over a key with its quotes and colon, and what stands before it; or over nothing.
    pub(crate) fn key(&mut self, before: u8, key: &str) -> Option<()> {
        let (first, rest) = self.text.as_bytes().get(self.at..)?.split_first()?;
        let is_there = *first == before && rest.starts_with(key.as_bytes());
        is_there.then(|| self.at += 1 + key.len())
    }

    /// Steps over so many bytes of ASCII and returns them.
    pub(crate) fn take(&mut self, length: usize) -> Option<&'a str> {
        let taken = self.text.get(self.at..self.at + length)?;
        self.at += length;
        Some(taken)
    }

    /// Steps over a natural number that a double holds, and returns it.
    pub(crate) fn natural(&mut self) -> Option<u64> {
        let start = self.at;
        self.number()?;
        let value = self.text[start..self.at].parse().ok()?;
        (value < 1 << 53).then_some(value)
    }

    /// Steps over a string without escapes and returns what is between the quotes.
    pub(crate) fn plain_string(&mut self) -> Option<&'a str> {
        let written = self.string()?;
        (!written.text.contains('\\')).then_some(written.text)
    }

    /// Steps over one value and returns its text.
    pub(crate) fn value(&mut self, limits: Limits) -> Option<&'a str> {
        let start = self.at;
        self.nodes = 0;
        self.nested(limits.depth, limits)?;
        Some(&self.text[start..self.at])
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn nested(&mut self, depth: usize, limits: Limits) -> Option<()> {
        self.nodes += 1;
        if self.nodes > limits.nodes {
            return None;
        }
        match self.peek()? {
            b'"' => self.string().map(drop),
            b'{' => self.object(depth.checked_sub(1)?, limits),
            b'[' => self.array(depth.checked_sub(1)?, limits),
            b't' => self.literal(b"true"),
            b'f' => self.literal(b"false"),
            b'n' => self.literal(b"null"),
            _ => self.number(),
        }
    }

    fn object(&mut self, depth: usize, limits: Limits) -> Option<()> {
        self.at += 1;
        if self.peek()? == b'}' {
            self.at += 1;
            return Some(());
        }
        let mut last: Option<Written<'a>> = None;
        for _ in 0..limits.entries {
            let key = self.string()?;
            if last.is_some_and(|last| last.order(key) != Ordering::Less) {
                return None;
            }
            last = Some(key);
            self.literal(b":")?;
            self.nested(depth, limits)?;
            self.at += 1;
            match self.text.as_bytes().get(self.at - 1)? {
                b',' => {}
                b'}' => return Some(()),
                _ => return None,
            }
        }
        None
    }

    fn array(&mut self, depth: usize, limits: Limits) -> Option<()> {
        self.at += 1;
        if self.peek()? == b']' {
            self.at += 1;
            return Some(());
        }
        for _ in 0..limits.entries {
            self.nested(depth, limits)?;
            self.at += 1;
            match self.text.as_bytes().get(self.at - 1)? {
                b',' => {}
                b']' => return Some(()),
                _ => return None,
            }
        }
        None
    }

    fn string(&mut self) -> Option<Written<'a>> {
        self.literal(b"\"")?;
        let bytes = self.text.as_bytes();
        let start = self.at;
        let mut plain = true;
        loop {
            // Eight bytes at a time while none of them ends or escapes anything.
            while let Some(chunk) = bytes.get(self.at..).and_then(<[u8]>::first_chunk::<8>) {
                let word = u64::from_le_bytes(*chunk);
                if word & HIGH_BITS != 0 {
                    plain = false;
                }
                let stops = stops(word);
                if stops != 0 {
                    self.at += stops.trailing_zeros() as usize / 8;
                    break;
                }
                self.at += 8;
            }
            match *bytes.get(self.at)? {
                b'"' => break,
                b'\\' => {
                    plain = false;
                    self.escape()?;
                }
                0..0x20 => return None,
                byte => {
                    plain &= byte.is_ascii();
                    self.at += 1;
                }
            }
        }
        let text = &self.text[start..self.at];
        self.at += 1;
        Some(Written { text, plain })
    }

    /// The one escape that each character has that needs one.
    fn escape(&mut self) -> Option<()> {
        let rest = &self.text.as_bytes()[self.at + 1..];
        let length = match rest {
            [b'"' | b'\\' | b'b' | b't' | b'n' | b'f' | b'r', ..] => 2,
            [b'u', b'0', b'0', b'0', b'0'..=b'7' | b'b' | b'e' | b'f', ..]
            | [b'u', b'0', b'0', b'1', b'0'..=b'9' | b'a'..=b'f', ..] => 6,
            _ => return None,
        };
        self.at += length;
        Some(())
    }

    fn number(&mut self) -> Option<()> {
        let rest = &self.text.as_bytes()[self.at..];
        let digits = |from: usize| rest[from..].iter().take_while(|b| b.is_ascii_digit()).count();
        let sign = usize::from(rest.first() == Some(&b'-'));
        let whole = digits(sign);
        let next = rest.get(sign + whole);
        let length = if !matches!(next, Some(b'.' | b'e' | b'E')) && whole <= 15 {
            // A short integer: canonical but for zeros in front and minus zero.
            if whole == 0 || (rest[sign] == b'0' && whole + sign > 1) {
                return None;
            }
            sign + whole
        } else {
            let length = rest
                .iter()
                .take_while(|b| matches!(b, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E'))
                .count();
            let text = &self.text[self.at..self.at + length];
            if number::canonical(text).as_deref() != Some(text) {
                return None;
            }
            length
        };
        self.at += length;
        Some(())
    }
}

impl Written<'_> {
    /// The order of UTF-16 code units, which is not that of bytes.
    fn order(self, other: Self) -> Ordering {
        if self.plain && other.plain {
            return self.text.as_bytes().cmp(other.text.as_bytes());
        }
        match (unescape(self.text), unescape(other.text)) {
            (Some(left), Some(right)) => left.encode_utf16().cmp(right.encode_utf16()),
            _ => Ordering::Equal,
        }
    }
}

const HIGH_BITS: u64 = 0x8080_8080_8080_8080;
const LOW_BITS: u64 = 0x0101_0101_0101_0101;

/// The high bit of each byte that is a quote, a backslash or a control character. Bytes above
/// the first one found may be marked wrongly, so only that one counts.
const fn stops(word: u64) -> u64 {
    const fn zero_bytes(word: u64) -> u64 {
        word.wrapping_sub(LOW_BITS) & !word & HIGH_BITS
    }
    let quote = zero_bytes(word ^ (LOW_BITS * b'"' as u64));
    let backslash = zero_bytes(word ^ (LOW_BITS * b'\\' as u64));
    let control = word.wrapping_sub(LOW_BITS * 0x20) & !word & HIGH_BITS;
    quote | backslash | control
}
