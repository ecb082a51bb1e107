//! Reading expressions.

use super::{
    error::{CronError, CronErrorKind as Kind, CronField as Field},
    rule::{DayRule, Rule},
};

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// A field's values, a bit each, and how they were given.
#[derive(Clone, Copy)]
struct Values {
    bits: u64,
    /// Whether the first item is `*` or `*/1`: then it restricts nothing, whatever follows.
    is_unrestricted: bool,
    /// Whether the first item begins with `*`.
    has_star: bool,
}

/// A piece of the expression, with where it stands.
#[derive(Clone, Copy)]
struct Piece<'a> {
    text: &'a str,
    at: usize,
}

/// The fields of an expression; the zone is looked at between their number and what they say.
pub(super) struct Fields<'a>(Vec<Piece<'a>>);

impl<'a> Fields<'a> {
    pub(super) fn split(expression: &'a str) -> Result<Self, CronError> {
        let mut pieces = Piece { text: expression, at: 0 }.split(is_space);
        pieces.retain(|piece| !piece.text.is_empty());
        if !matches!(pieces.len(), 5 | 6) {
            let kind = Kind::Fields { found: pieces.len() };
            return Err(CronError { field: None, span: 0..expression.len(), kind });
        }
        Ok(Self(pieces))
    }

    pub(super) fn rule(self) -> Result<Rule, CronError> {
        let second = Piece { text: "0", at: 0 };
        let given = (self.0.len() == 5).then_some(second).into_iter().chain(self.0);
        let values = given.zip(Field::ALL).map(|(piece, field)| values(piece, field));
        let values: Vec<_> = values.collect::<Result<_, _>>()?;
        let [seconds, minutes, hours, days, months, weekdays] = values[..] else {
            // There are as many as there are fields.
            let kind = Kind::Fields { found: values.len() };
            return Err(CronError { field: None, span: 0..0, kind });
        };
        let are_both_restricted = !days.is_unrestricted && !weekdays.is_unrestricted;
        let is_either = are_both_restricted && !days.has_star && !weekdays.has_star;
        Ok(Rule {
            seconds: seconds.bits,
            minutes: minutes.bits,
            hours: hours.bits,
            days: days.bits,
            months: months.bits,
            // Sunday is 0 and 7.
            weekdays: (weekdays.bits | weekdays.bits >> 7) & 0x7f,
            day: if is_either { DayRule::Either } else { DayRule::Both },
        })
    }
}

fn values(piece: Piece<'_>, field: Field) -> Result<Values, CronError> {
    let (low, high) = (*field.range().start(), *field.range().end());
    let mut values: Option<Values> = None;
    for item in piece.split(|char| char == ',') {
        let (range, step) = match item.cut('/') {
            None => (item, 1),
            Some((range, step)) => (range, number_of_step(step, field)?),
        };
        let has_star = range.text == "*";
        let (from, to) = match range.cut('-') {
            _ if has_star => (low, high),
            // A value with a step goes on to the end of the field.
            None => {
                let from = value(range, field)?;
                (from, if item.text.contains('/') { high } else { from })
            }
            Some((from, to)) => (value(from, field)?, value(to, field)?),
        };
        if from > to {
            let kind = Kind::Reversed { field, text: range.text.to_owned() };
            return Err(range.wrong(field, kind));
        }
        let stepped = (from..=to).step_by(usize::try_from(step).unwrap_or(usize::MAX));
        let bits = stepped.fold(0, |bits, value| bits | 1 << value);
        let is_unrestricted = has_star && step == 1;
        let first = values.get_or_insert(Values { bits: 0, is_unrestricted, has_star });
        first.bits |= bits;
    }
    // Even an empty text has an item, which is then no value.
    let values = values.unwrap_or(Values { bits: 0, is_unrestricted: true, has_star: true });
    let all =
        if values.is_unrestricted { (low..=high).fold(0, |bits, it| bits | 1 << it) } else { 0 };
    Ok(Values { bits: values.bits | all, ..values })
}

fn number_of_step(piece: Piece<'_>, field: Field) -> Result<u32, CronError> {
    digits(piece.text).filter(|step| (1..=*field.range().end()).contains(step)).ok_or_else(|| {
        let text = piece.text.to_owned();
        piece.wrong(field, Kind::Step { field, text })
    })
}

fn value(piece: Piece<'_>, field: Field) -> Result<u32, CronError> {
    let number = digits(piece.text).filter(|number| field.range().contains(number));
    number.or_else(|| named(piece.text, field)).ok_or_else(|| {
        let text = piece.text.to_owned();
        piece.wrong(field, Kind::Value { field, text })
    })
}

fn named(text: &str, field: Field) -> Option<u32> {
    let (names, first): (&[&str], u32) = match field {
        Field::Month => (&MONTHS, 1),
        Field::Weekday => (&WEEKDAYS, 0),
        _ => return None,
    };
    let at = names.iter().position(|name| name.eq_ignore_ascii_case(text))?;
    u32::try_from(at).ok().map(|at| at + first)
}

/// A number in ASCII digits, with any zeros in front.
fn digits(text: &str) -> Option<u32> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number
        .then(|| text.trim_start_matches('0'))
        .and_then(|text| if text.is_empty() { Some(0) } else { text.parse().ok() })
}

/// What JavaScript takes for white space.
fn is_space(char: char) -> bool {
    matches!(
        char,
        '\t'..='\r'
            | ' '
            | '\u{a0}'
            | '\u{1680}'
            | '\u{2000}'..='\u{200a}'
            | '\u{2028}'
            | '\u{2029}'
            | '\u{202f}'
            | '\u{205f}'
            | '\u{3000}'
            | '\u{feff}'
    )
}

impl Piece<'_> {
    fn split(self, at: impl Fn(char) -> bool) -> Vec<Self> {
        let mut pieces = Vec::new();
        let mut start = 0;
        for (end, char) in self.text.char_indices().filter(|(_, char)| at(*char)) {
            pieces.push(Self { text: &self.text[start..end], at: self.at + start });
            start = end + char.len_utf8();
        }
        pieces.push(Self { text: &self.text[start..], at: self.at + start });
        pieces
    }

    /// Both sides of the first of a character.
    fn cut(self, at: char) -> Option<(Self, Self)> {
        let (left, right) = self.text.split_once(at)?;
        let behind = self.at + left.len() + at.len_utf8();
        Some((Self { text: left, at: self.at }, Self { text: right, at: behind }))
    }

    fn wrong(self, field: Field, kind: Kind) -> CronError {
        CronError { field: Some(field), span: self.at..self.at + self.text.len(), kind }
    }
}
