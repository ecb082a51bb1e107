//! The spelling of numbers: ECMAScript's `Number::toString`, as RFC 8785 asks.

/// The canonical spelling of a number's text, or `None` where no double is that large.
///
/// The text must be a number by the grammar of JSON.
pub(super) fn canonical(text: &str) -> Option<String> {
    let double: f64 = text.parse().ok()?;
    double.is_finite().then(|| ryu_js::Buffer::new().format_finite(double).to_owned())
}

/// Whether two numbers have one decimal value, whatever their spelling.
pub(super) fn same_value(left: &str, right: &str) -> bool {
    match (decimal(left), decimal(right)) {
        (Some(left), Some(right)) => left == right,
        _ => false,
    }
}

/// Sign, significant digits without zeros at either end, and the exponent of the last of them.
fn decimal(text: &str) -> Option<(bool, String, i64)> {
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    let significant = digits.trim_end_matches('0');
    if significant.is_empty() {
        return Some((false, String::new(), 0));
    }
    let dropped = i64::try_from(digits.len() - significant.len()).ok()?;
    let shift = i64::try_from(fraction.len()).ok()?;
    let exponent = exponent.parse::<i64>().ok()?.checked_sub(shift)?.checked_add(dropped)?;
    Some((negative, significant.to_owned(), exponent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_value_in_several_spellings() {
        for (left, right) in [
            ("1.0", "1"),
            ("1e2", "100"),
            ("-0", "0"),
            ("0e999999999999999999999", "0"),
            ("12.50E-1", "1.25"),
        ] {
            assert!(same_value(left, right), "{left} {right}");
        }
        for (left, right) in
            [("9007199254740993", "9007199254740992"), ("1", "-1"), ("1e-400", "0"), ("10", "1")]
        {
            assert!(!same_value(left, right), "{left} {right}");
        }
    }
}
