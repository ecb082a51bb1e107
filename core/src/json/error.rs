//! What can be wrong with a JSON text.

/// Where and why a JSON text was refused.
///
/// # Examples
///
/// ```
/// use recount_core::PersistedJson;
///
/// let error = PersistedJson::parse(r#"{"a":[1,{"n":9007199254740993}]}"#).unwrap_err();
/// assert_eq!(error.path(), "$.a[1].n");
/// assert_eq!(
///     error.to_string(),
///     "the number 9007199254740993 would become 9007199254740992 at $.a[1].n (byte 13): \
///      pass it as text, or as a number that a double holds exactly",
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} at {path} (byte {offset}){}", self.kind.hint())]
pub struct JsonError {
    kind: JsonErrorKind,
    path: String,
    offset: usize,
}

/// Why a JSON text was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JsonErrorKind {
    /// It is not JSON (RFC 8259).
    #[error("expected {expected}")]
    Syntax {
        /// What would have continued it.
        expected: &'static str,
    },
    /// A key stands twice in one object; keys compare after unescaping.
    #[error("the key {key:?} stands twice in one object")]
    DuplicateKey {
        /// The unescaped key.
        key: String,
    },
    /// A number that a double does not hold: its canonical spelling has another value.
    #[error("the number {text} would become {canonical}")]
    InexactNumber {
        /// As it was written.
        text: String,
        /// As it would be written again.
        canonical: String,
    },
    /// A number past the largest double.
    #[error("the number {text} is out of range")]
    NumberRange {
        /// As it was written.
        text: String,
    },
    /// A `\u` escape of half a surrogate pair.
    #[error("half of a surrogate pair")]
    LoneSurrogate,
    /// Too many arrays and objects inside one another.
    #[error("nested deeper than {max} levels")]
    TooDeep {
        /// How deep it may be.
        max: usize,
    },
    /// Too many entries in one array or object.
    #[error("more than {max} entries in one array or object")]
    TooManyEntries {
        /// How many there may be.
        max: usize,
    },
    /// Too many values in all.
    #[error("more than {max} values")]
    TooManyNodes {
        /// How many there may be.
        max: usize,
    },
    /// The canonical spelling is too long.
    #[error("longer than {max} bytes")]
    TooLong {
        /// How long it may be.
        max: usize,
    },
}

impl JsonErrorKind {
    const fn hint(&self) -> &'static str {
        match self {
            Self::InexactNumber { .. } => {
                ": pass it as text, or as a number that a double holds exactly"
            }
            _ => "",
        }
    }
}

impl JsonError {
    pub(super) fn new(kind: JsonErrorKind, offset: usize) -> Self {
        Self { kind, path: "$".to_owned(), offset }
    }

    /// Puts a step in front of the path, as the error leaves an array or object.
    pub(super) fn inside(mut self, step: &str) -> Self {
        self.path.insert_str(1, step);
        self
    }

    /// Why it was refused.
    pub fn kind(&self) -> &JsonErrorKind {
        &self.kind
    }

    /// The JSON path of the value, `$` being the whole.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The byte offset in the text.
    pub fn offset(&self) -> usize {
        self.offset
    }
}
