//! Credentials that are known by their own shape, wherever they stand.

use std::{ops::Range, sync::LazyLock};

use regex::Regex;

use super::{is_likely, pattern};

/// Patterns whose groups are what is secret; what stands before tells its type and is kept.
static SHAPES: LazyLock<[Regex; 3]> = LazyLock::new(|| [TOKENS, PLACES, PRIVATE_KEYS].map(pattern));

/// Tokens that begin with what they are.
const TOKENS: &str = r"(?x-u) (?: \b | \\[nrt] | %[0-9A-Fa-f]{2} ) (?:
    (?: gh[oprsu]_ | github_pat_ | gl(?:agent|cbt|dt|ffct|ft|imt|oas|ptt|pat|rt|soat)-
      | sk-(?:admin|ant|lf|or|proj|svcacct)- | xapp- | xox[a-z](?:\.xox[a-z])?-
      | AIza | ya29\. | GOCSPX- | 1//0 | hv[brs]\. | SG\. | pypi-AgE | nvapi- | tskey-[a-z]+-
      | figd_ | gl(?:c|sa)_ | sntry[su]_ | AT[AC]TT3 | PMAK- | sq0(?:atp|csp)-
    ) ( [A-Za-z0-9_-]{10,} (?: \.[A-Za-z0-9_-]+ )* =* )
  | (?: sk- | [rs]k_(?:live|test)_ | do[opr]_v1_ | shp(?:at|ca|pa|ss|tka)_ | npm_ | rubygems_
      | hf_ | r8_ | gsk_ | xai- | pplx- | lin_api_ | dckr_pat_ | NRAK- | phx_ | sbp_ | pul-
      | AGE-SECRET-KEY-1 | dapi
    ) ( [A-Za-z0-9]{20,} )
  | whsec_ ( [A-Za-z0-9+/]{16,} =* )
  | (?: AKIA | ASIA | ABIA | ACCA ) ( [A-Z0-9]{16} ) \b
  | cio ( [A-Za-z0-9]{32} ) \b
  | eyJ ( [A-Za-z0-9_-]{6,} (?: \.[A-Za-z0-9_-]* )+ )
  | (?: bot )? [0-9]{8,10} : ( AA[A-Za-z0-9_-]{30,} )
  | [A-Za-z0-9]{14} \.atlasv1\. ( [A-Za-z0-9_=-]{20,} )
)";

/// Addresses that let in whoever knows them, and names with a password behind them, of databases
/// and of `curl -u`.
const PLACES: &str = r#"(?xi-u)
    hooks\.slack\.com/(?:services|triggers|workflows)/ ( [A-Z0-9/_-]+ )
  | discord(?:app)?\.com/api/(?:v[0-9]+/)?webhooks/[0-9]+/ ( [A-Z0-9_-]+ )
  | [a-z0-9_.-]+ : ( (?u-i:[^\ \t\r\n"'@/][^\ \t\r\n"'@]*) ) @(?:tcp|unix)\(
  | (?:^|[\x20"'`]) (?:-u|--user) [\x20=]+ ["']? [a-z0-9_.@+-]+ : ( (?u-i:[^\ \t\r\n"'`]+) )"#;

/// The lines between the marks of a private key, as text or with its line ends escaped.
const PRIVATE_KEYS: &str = r"(?x-u) -----BEGIN\ [A-Z0-9\ ]*PRIVATE\ KEY[A-Z\ ]*-----
    ( (?: (?: \s | \\+[nrt] )* [A-Z][A-Za-z-]+:\x20 [\x20-\x5b\x5d-\x7e]* )*
      (?: (?: \s | \\+[nrt] )* =?[A-Za-z0-9+/]{16,}={0,2} )+ )
    (?: ( (?: \s | \\+[nrt] )* =?[A-Za-z0-9+/]{1,15}={0,2} ) (?: \s | \\+[nrt] )* -----END )?";

/// A scheme and what may be its credential: `Bearer …`, but not the bearer of a word.
static SCHEMES: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"(?xi-u) \b (?: basic | bearer ) (?: [\x20\t]+ | %20 ) ( [A-Z0-9._~+/-]+ =* )")
});

/// Finds what has the shape of a credential.
pub(super) fn find(text: &str, found: &mut Vec<Range<usize>>) {
    for captures in SHAPES.iter().flat_map(|shape| shape.captures_iter(text)) {
        found.extend(captures.iter().skip(1).flatten().map(|group| group.range()));
    }
    for captures in SCHEMES.captures_iter(text) {
        found.extend(captures.get(1).filter(|it| is_credential(it.as_str())).map(|it| it.range()));
    }
    find_in_addresses(text, found);
}

fn is_credential(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_mixed =
        bytes.windows(2).any(|it| it[0].is_ascii_lowercase() && it[1].is_ascii_uppercase());
    is_likely(text) || (text.len() >= 8 && is_mixed)
}

/// Finds who an address says is asking: `scheme://user:password@host`.
fn find_in_addresses(text: &str, found: &mut Vec<Range<usize>>) {
    for (at, _) in text.match_indices("://") {
        let start = at + 3;
        let rest = &text[start..];
        let word = &rest[..rest.find(ends_host).unwrap_or(rest.len())];
        let Some(end) = word.rfind('@').or_else(|| slashed(rest, word)) else { continue };
        let user = &rest[..end];
        let is_web = text[..at].ends_with("http") || text[..at].ends_with("https");
        // On the web a token stands for the user as often as for the password.
        let secret = match user.split_once(':') {
            _ if is_web => 0,
            Some((user, _)) => user.len() + 1,
            None => continue,
        };
        if secret < end {
            found.push(start + secret..start + end);
        }
    }
}

/// Where a password ends that has a slash in it, unlike a port and `host:80/@scope`.
fn slashed(rest: &str, word: &str) -> Option<usize> {
    let (_, tail) = word.rsplit_once(':')?;
    if tail.ends_with(']') || tail.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // No farther than a password is long, as addresses may follow one another without an end.
    let near = &rest[..rest.floor_char_boundary(256)];
    let first = near[..near.find(ends_word).unwrap_or(near.len())].find('@')?;
    let tail = &rest[first..];
    let host = &tail[..tail.find(ends_host).unwrap_or(tail.len())];
    host.rfind('@').map(|last| first + last)
}

fn ends_host(char: char) -> bool {
    ends_word(char) || matches!(char, '/' | '?' | '#')
}

fn ends_word(char: char) -> bool {
    char.is_whitespace() || matches!(char, '"' | '\'' | '`' | '<' | '>' | '\\')
}
