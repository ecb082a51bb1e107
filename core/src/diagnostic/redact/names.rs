//! Which names stand for a credential.

/// What stands behind a name that is given a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A secret, whatever it looks like.
    Secret,
    /// A secret, or in prose a word that is none: `unexpected token: comma`.
    Likely,
    /// A scheme that may be seen, and a secret.
    Authorization,
    /// Many values up to the end of the line.
    Cookie,
    /// A secret in a query string only: elsewhere a key is something to look up.
    Parameter,
}

/// Names that also count at the end of a word: `PGPASSWORD`, `authtoken`.
const ENDINGS: [(&str, Kind); 13] = [
    ("password", Kind::Secret),
    ("passwd", Kind::Secret),
    ("passphrase", Kind::Secret),
    ("pwd", Kind::Secret),
    ("secret", Kind::Secret),
    ("apikey", Kind::Secret),
    ("accesskey", Kind::Secret),
    ("secretkey", Kind::Secret),
    ("privatekey", Kind::Secret),
    ("authorization", Kind::Authorization),
    ("cookie", Kind::Cookie),
    ("token", Kind::Likely),
    ("sessid", Kind::Secret),
];

/// Names that count as whole words only.
const WORDS: [(&str, Kind); 12] = [
    ("assertion", Kind::Likely),
    ("auth", Kind::Likely),
    ("credential", Kind::Likely),
    ("jsessionid", Kind::Secret),
    ("jwt", Kind::Likely),
    ("key", Kind::Parameter),
    ("otp", Kind::Likely),
    ("pass", Kind::Likely),
    ("pw", Kind::Likely),
    ("samlresponse", Kind::Secret),
    ("sig", Kind::Likely),
    ("signature", Kind::Likely),
];

/// What a key opens where it is a secret; the keys of records and caches are not.
const KEYS: [&str; 30] = [
    "access",
    "account",
    "admin",
    "anthropic",
    "api",
    "app",
    "application",
    "auth",
    "aws",
    "azure",
    "client",
    "consumer",
    "cookie",
    "deploy",
    "encryption",
    "gemini",
    "hmac",
    "jwt",
    "master",
    "openai",
    "private",
    "secret",
    "service",
    "session",
    "shared",
    "signing",
    "ssh",
    "storage",
    "subscription",
    "webhook",
];

/// What a name may end in and still name the secret itself, unlike its id, file or type.
const TAILS: [&str; 9] =
    ["b64", "base64", "encoded", "hash", "header", "plain", "raw", "text", "value"];

/// What a name stands for, `None` where it is no secret.
pub(super) fn kind(name: &str) -> Option<Kind> {
    let mut words = words(name).rev().skip_while(|word| {
        word.bytes().all(|byte| byte.is_ascii_digit())
            || TAILS.iter().any(|tail| word.eq_ignore_ascii_case(tail))
    });
    let last = words.next()?;
    // A number of tokens is what models are billed by.
    let one =
        if ends(last, "tokens") { last } else { last.strip_suffix(['s', 'S']).unwrap_or(last) };
    let listed = |list: &[(&str, Kind)], is: fn(&str, &str) -> bool| {
        list.iter().find(|(name, _)| is(last, name) || is(one, name)).map(|(_, kind)| *kind)
    };
    let kind = listed(&ENDINGS, ends).or_else(|| listed(&WORDS, str::eq_ignore_ascii_case))?;
    let opens = |word: &str| KEYS.iter().any(|key| word.eq_ignore_ascii_case(key));
    if kind == Kind::Parameter {
        return match words.next() {
            None => Some(Kind::Parameter),
            Some(before) => opens(before).then_some(Kind::Secret),
        };
    }
    Some(kind)
}

fn ends(word: &str, ending: &str) -> bool {
    let start = word.len().checked_sub(ending.len());
    start.and_then(|start| word.get(start..)).is_some_and(|end| end.eq_ignore_ascii_case(ending))
}

/// The words of a name: `X-Amz-Signature`, `accessKey` and `API_KEY` have several.
fn words(name: &str) -> impl DoubleEndedIterator<Item = &str> {
    name.split(|char: char| !char.is_ascii_alphanumeric()).flat_map(humps)
}

fn humps(word: &str) -> impl DoubleEndedIterator<Item = &str> {
    let bytes = word.as_bytes();
    let is_start = |at: usize| {
        let (before, here) = (bytes[at - 1], bytes[at]);
        let ends_capitals = bytes.get(at + 1).is_some_and(u8::is_ascii_lowercase);
        before.is_ascii_digit() != here.is_ascii_digit()
            || (here.is_ascii_uppercase() && (!before.is_ascii_uppercase() || ends_capitals))
    };
    let inner = (1..bytes.len()).filter(|at| is_start(*at));
    let bounds: Vec<usize> = [0].into_iter().chain(inner).chain([bytes.len()]).collect();
    let ranges: Vec<_> = bounds.windows(2).map(|pair| pair[0]..pair[1]).collect();
    ranges.into_iter().map(|range| &word[range]).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets_are_known_in_every_spelling() {
        let secrets = "password PASSWD db_password2 DB_PASS1 PGPASSWORD userPwd client_secret \
            clientSecret SECRETS apiKey api-key X-Api-Key-1 APIKEY APIKey OPENAI_API_KEY AccountKey \
            aws_secret_access_key private_key signingKey password_hash secretValue PHPSESSID";
        for name in secrets.split_whitespace() {
            assert!(matches!(kind(name), Some(Kind::Secret | Kind::Likely)), "{name}");
        }
        let likely = "token accessToken X-Amz-Security-Token authtoken _authToken id_token jwt sig \
            X-Amz-Signature X-Amz-Credential credentials auth";
        for name in likely.split_whitespace() {
            assert_eq!(kind(name), Some(Kind::Likely), "{name}");
        }
        assert_eq!(kind("Proxy-Authorization"), Some(Kind::Authorization));
        assert_eq!(kind("set-cookie"), Some(Kind::Cookie));
        assert_eq!(kind("key"), Some(Kind::Parameter));
    }

    #[test]
    fn names_beside_them_are_not() {
        let others = "monkey turkey keyboard author authority primary_key admissionKey cache-key \
            tokens max_tokens promptTokens token_type tokenizer secret_name passwordPolicy \
            cookie_domain api_key_id keys.rs compass bypass bigpass design assign publicKey 7 _ - \
            passenger";
        for name in others.split_whitespace() {
            assert_eq!(kind(name), None, "{name}");
        }
        assert_eq!(kind(""), None);
    }
}
