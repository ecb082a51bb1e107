//! JSON values that are kept: bounded, and held in their canonical spelling.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::{Value, value::RawValue};

use super::{JsonError, Limits, Numbers, Scanner, canonical::rewrite};
use crate::Digest;

/// A JSON value in its canonical spelling, of any size and depth that a row can hold.
///
/// Two are equal when their content is, whatever spacing and key order they came with. It
/// serialises into any format as the value that it is, and deserialises from `serde_json`.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct CanonicalJson(Box<str>);

/// A JSON value of a host: bounded, exact, and held in its canonical spelling.
///
/// At most 64 levels deep, 4 096 entries in an array or object, 65 536 values, 1 MiB encoded.
/// Repeated keys and numbers that would change are refused, so that what was taken can always be
/// read back (`spec/common.md`).
///
/// # Examples
///
/// ```
/// use recount_core::PersistedJson;
///
/// let input = PersistedJson::parse(r#"{"b": 1.0, "a": []}"#)?;
/// assert_eq!(input.as_str(), r#"{"a":[],"b":1}"#);
/// assert_eq!(input, PersistedJson::from_value(&serde_json::json!({"a": [], "b": 1}))?);
/// # Ok::<_, recount_core::JsonError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct PersistedJson(CanonicalJson);

impl CanonicalJson {
    /// Takes a text that the caller knows to be canonical.
    pub(crate) fn from_canonical(text: impl Into<Box<str>>) -> Self {
        Self(text.into())
    }

    /// The canonical text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The value as a tree.
    ///
    /// # Panics
    ///
    /// Never: the text is canonical JSON.
    pub fn to_value(&self) -> Value {
        serde_json::from_str(&self.0).expect("the text is canonical JSON")
    }

    /// SHA-256 over the canonical text.
    pub fn digest(&self) -> Digest {
        Digest::of_bytes(self.0.as_bytes())
    }

    fn read(text: &str, limits: Limits) -> Result<Self, JsonError> {
        if Scanner::is_canonical(text, limits) {
            return Ok(Self(text.into()));
        }
        rewrite(text, limits, Numbers::Exact).map(|text| Self(text.into()))
    }
}

impl PersistedJson {
    /// Reads a JSON text.
    ///
    /// # Errors
    ///
    /// [`JsonError`], which names the path: not JSON, a repeated key, a number that a double does
    /// not hold exactly, or a bound passed.
    pub fn parse(text: &str) -> Result<Self, JsonError> {
        CanonicalJson::read(text, Limits::PERSISTED).map(Self)
    }

    /// Takes a value that is in memory already.
    ///
    /// # Errors
    ///
    /// As [`PersistedJson::parse`].
    pub fn from_value(value: &Value) -> Result<Self, JsonError> {
        Self::parse(&value.to_string())
    }

    /// Takes JSON that the caller knows to be within the bounds.
    pub(super) fn from_canonical(json: CanonicalJson) -> Self {
        Self(json)
    }

    /// The canonical text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// The value as a tree.
    pub fn to_value(&self) -> Value {
        self.0.to_value()
    }

    /// SHA-256 over the canonical text.
    pub fn digest(&self) -> Digest {
        self.0.digest()
    }
}

impl fmt::Debug for CanonicalJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for PersistedJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl Serialize for CanonicalJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_value().serialize(serializer)
    }
}

impl Serialize for PersistedJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
    limits: Limits,
) -> Result<CanonicalJson, D::Error> {
    let raw = Box::<RawValue>::deserialize(deserializer)?;
    CanonicalJson::read(raw.get(), limits).map_err(de::Error::custom)
}

impl<'de> Deserialize<'de> for CanonicalJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        self::deserialize(deserializer, Limits::DATA)
    }
}

impl<'de> Deserialize<'de> for PersistedJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        self::deserialize(deserializer, Limits::PERSISTED).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::canonicalize;

    fn error(text: &str) -> String {
        PersistedJson::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn o_20_a_repeated_key_is_refused_however_it_is_spelt() {
        assert_eq!(
            error(r#"{"rev":1,"rev":2}"#),
            r#"the key "rev" stands twice in one object at $ (byte 17)"#
        );
        assert_eq!(
            error(r#"{"a":[{"rev":1,"b":0,"r\u0065v":2}]}"#),
            r#"the key "rev" stands twice in one object at $.a[0] (byte 34)"#
        );
    }

    #[test]
    fn o_21_numbers_are_kept_or_refused_and_never_changed() {
        for (text, kept) in [
            ("1.0", "1"),
            ("1e2", "100"),
            ("-0", "0"),
            ("9007199254740991.0", "9007199254740991"),
            ("9007199254740994", "9007199254740994"),
        ] {
            assert_eq!(PersistedJson::parse(text).unwrap().as_str(), kept);
        }
        let change = |text: &str, becomes: &str| {
            format!(
                "the number {text} would become {becomes} at $ (byte 0): pass it as text, or as a \
                 number that a double holds exactly"
            )
        };
        for (text, becomes) in [
            ("9007199254740993", "9007199254740992"),
            ("18446744073709551615", "18446744073709552000"),
            ("1e-400", "0"),
            ("333333333.33333329", "333333333.3333333"),
        ] {
            assert_eq!(error(text), change(text, becomes));
        }
        // 2^64 itself is a double, so its shortest spelling alone decides.
        assert_eq!(
            error("18446744073709551616"),
            change("18446744073709551616", "18446744073709552000")
        );
        assert_eq!(error("[1e400]"), "the number 1e400 is out of range at $[0] (byte 1)");
        assert_eq!(error("01"), "expected the end of the text at $ (byte 1)");
    }

    #[test]
    fn bounds_are_held_and_named() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(PersistedJson::parse(&nested(64)).is_ok());
        assert!(error(&nested(65)).starts_with("nested deeper than 64 levels at $[0][0]"));
        assert!(error(&nested(200_000)).starts_with("nested deeper than 64 levels"));
        let list = |length: usize| format!("[{}0]", "0,".repeat(length - 1));
        assert!(PersistedJson::parse(&list(4_096)).is_ok());
        assert_eq!(
            error(&list(4_097)),
            "more than 4096 entries in one array or object at $ (byte 8193)"
        );
        let many = format!("[{}0]", format!("{},", list(4_095)).repeat(16));
        assert!(error(&many).starts_with("more than 65536 values at $[15]"));
        let text = |length: usize| format!("\"{}\"", "a".repeat(length - 2));
        assert!(PersistedJson::parse(&text(1 << 20)).is_ok());
        assert_eq!(error(&text((1 << 20) + 1)), "longer than 1048576 bytes at $ (byte 1048577)");
    }

    #[test]
    fn bad_text_is_named_by_path_and_byte() {
        for (text, message) in [
            ("", "expected a value at $ (byte 0)"),
            ("{\"a\":tru}", "expected true at $.a (byte 5)"),
            ("{a:1}", "expected a key in quotes at $ (byte 1)"),
            ("{\"a\" 1}", "expected a colon at $ (byte 5)"),
            ("[1 2]", "expected a comma or a closing bracket at $ (byte 3)"),
            ("{\"a\":1", "expected a comma or a closing brace at $ (byte 6)"),
            ("\"a", "expected a closing quote at $ (byte 1)"),
            ("\"\n\"", "expected an escape in place of a control character at $ (byte 1)"),
            ("\"\\x\"", "expected one of \" \\ / b f n r t u at $ (byte 1)"),
            ("\"\\u12g4\"", "expected four hex digits at $ (byte 1)"),
            ("{\"a b\":\"\\ud800\"}", "half of a surrogate pair at $[\"a b\"] (byte 8)"),
            ("\"\\udc00\\ud800\"", "half of a surrogate pair at $ (byte 1)"),
            ("-", "expected a digit at $ (byte 1)"),
            ("1.", "expected a digit at $ (byte 2)"),
            ("1e+", "expected a digit at $ (byte 3)"),
            ("nul", "expected null at $ (byte 0)"),
        ] {
            assert_eq!(error(text), message, "{text}");
        }
    }

    fn any_json() -> impl Strategy<Value = String> {
        let text = "[\"\\\\\\PC]{0,6}|[\u{0}-\u{1f}\u{7f}\u{fb33}\u{1F600}a]{0,3}";
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            text.prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 5, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map(text, inner, 0..5)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
        .prop_map(|value| value.to_string())
    }

    proptest! {
        #[test]
        fn the_scanner_takes_what_the_reader_writes_and_nothing_else(text in any_json()) {
            let canonical = canonicalize(&text).unwrap();
            prop_assert!(Scanner::is_canonical(&canonical, Limits::ROW));
            prop_assert_eq!(Scanner::is_canonical(&text, Limits::ROW), canonical == text);
            prop_assert_eq!(canonicalize(&canonical).unwrap(), canonical);
        }

        #[test]
        fn one_edited_byte_leaves_scanner_and_reader_agreeing(
            text in any_json(), at in any::<prop::sample::Index>(), byte in any::<u8>(),
        ) {
            let mut bytes = canonicalize(&text).unwrap().into_bytes();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            if let Ok(edited) = std::str::from_utf8(&bytes) {
                let same = canonicalize(edited).is_ok_and(|canonical| canonical == edited);
                prop_assert_eq!(Scanner::is_canonical(edited, Limits::ROW), same);
            }
        }
    }
}
