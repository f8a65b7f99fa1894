//! Who is asking: the one place that turns what a request carries into facts that can be trusted.
//!
//! Every door gives what it was handed and takes what comes back. Credentials that do not verify never become a user or a
//! tier, whatever is done about them.

mod api_keys;
mod api_keys_file;
mod api_keys_overlay;
mod base64;
mod claims;
mod der;
mod jwks;
mod jwt;
mod key;
mod pem;
mod strict_json;
mod texts;
mod token_cache;

pub use api_keys::{ApiKeys, ApiKeysBuilder, KeyEntry};
pub use api_keys_file::{KeysError, add_key, key_change, read_keys_document, read_keys_file};
pub use api_keys_overlay::KeyChange;
pub use claims::Claims;
pub use jwks::JWKS_BYTES_MAX;
pub use jwt::{CACHE_MAX, KEYS_MAX, KeySources, TOKEN_BYTES_MAX, Tokens};

use headgate_core::client_ip::Trusted;
use headgate_core::facts::FACT_BYTES_MAX;
use serde_json::Value;
use std::borrow::Cow;
use std::sync::Arc;

/// The header an API key comes in, unless told otherwise.
pub const API_KEY_HEADER: &str = "X-API-Key";

/// How this node knows who is asking. Immutable: a change is another one, swapped whole.
#[derive(Clone, Debug)]
pub struct Identity {
    pub tokens: Option<Arc<Tokens>>,
    pub api_keys: Option<Arc<ApiKeys>>,
    pub api_key_header: Box<str>,
    pub trusted: Trusted,
    /// Whether credentials that do not verify are refused rather than taken for none.
    pub rejects: bool,
}

/// Knows nobody.
impl Default for Identity {
    fn default() -> Self {
        Self {
            tokens: None,
            api_keys: None,
            api_key_header: API_KEY_HEADER.into(),
            trusted: Trusted::loopback(),
            rejects: true,
        }
    }
}

/// What a request carries, as its headers hold it.
#[derive(Clone, Copy, Default)]
pub struct Credentials<'a> {
    pub authorization: Option<&'a [u8]>,
    pub api_key: Option<&'a [u8]>,
}

#[derive(Clone, Debug)]
pub enum Who {
    /// Nothing was given that we look at.
    Anonymous,
    Known(Arc<Known>),
    /// Something was given, and it is not good.
    Unverified(Why),
}

/// What verified credentials say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    pub user: Option<Box<str>>,
    pub tier: Option<Box<str>>,
    pub org: Option<Box<str>>,
    /// The key's id, never its value.
    pub api_key: Option<Box<str>>,
}

/// What was wrong with credentials. Carries nothing of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    TooLong,
    Malformed,
    Critical,
    Algorithm,
    NoKey,
    Signature,
    Expired,
    NotYetValid,
    IssuedLater,
    WrongIssuer,
    WrongAudience,
    /// The name, as set by the operator.
    MissingClaim(Box<str>),
    BadClaim(Box<str>),
    UnknownApiKey,
    ExpiredApiKey,
    RevokedApiKey,
}

impl Why {
    pub fn text(&self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Why::TooLong => "the credentials are too long",
            Why::Malformed => "the token is not a well-formed JWT",
            Why::Critical => "the token asks for an extension that is not supported",
            Why::Algorithm => "the token is signed in a way that is not accepted here",
            Why::NoKey => "there is no key to verify the token with",
            Why::Signature => "the token's signature is wrong",
            Why::Expired => "the token has expired",
            Why::NotYetValid => "the token is not valid yet",
            Why::IssuedLater => "the token was issued in the future",
            Why::WrongIssuer => "the token is from another issuer",
            Why::WrongAudience => "the token is meant for another audience",
            Why::MissingClaim(name) => return Cow::Owned(format!("the token has no claim `{name}`")),
            Why::BadClaim(name) => return Cow::Owned(format!("the token's claim `{name}` cannot be used")),
            Why::UnknownApiKey => "the API key is not known",
            Why::ExpiredApiKey => "the API key has expired",
            Why::RevokedApiKey => "the API key was revoked",
        })
    }
}

impl Identity {
    /// Who is asking, at this time of the wall clock. A token and a key given together must both be good.
    pub fn identify(&self, credentials: &Credentials<'_>, now_us: u64) -> Who {
        let token = self.tokens.as_ref().zip(credentials.authorization.and_then(bearer));
        let key = self.api_keys.as_ref().zip(credentials.api_key);
        let found = match (token, key) {
            (None, None) => return Who::Anonymous,
            (Some((tokens, token)), None) => tokens.verify(token, now_us),
            (None, Some((keys, key))) => keys.verify(key, now_us).map(Arc::new),
            (Some((tokens, token)), Some((keys, key))) => tokens
                .verify(token, now_us)
                .and_then(|of_token| keys.verify(key, now_us).map(|of_key| Arc::new(both(&of_token, of_key)))),
        };
        found.map_or_else(Who::Unverified, Who::Known)
    }

    pub fn api_key_header(&self) -> &str {
        &self.api_key_header
    }

    pub fn trusted(&self) -> &Trusted {
        &self.trusted
    }

    pub fn rejects(&self) -> bool {
        self.rejects
    }

    pub fn takes_tokens(&self) -> bool {
        self.tokens.is_some()
    }

    pub fn takes_keys(&self) -> bool {
        self.api_keys.is_some()
    }

    /// A fact that these credentials speak of, whether or not they are good; so it cannot be given beside them.
    pub fn speaks_of(&self, credentials: &Credentials<'_>) -> Spoken {
        let token = self.tokens.as_ref().filter(|_| credentials.authorization.is_some());
        let key = self.api_keys.is_some() && credentials.api_key.is_some();
        Spoken {
            user: key || token.is_some_and(|tokens| tokens.tells_user()),
            tier: key || token.is_some_and(|tokens| tokens.tells_tier()),
            org: key || token.is_some_and(|tokens| tokens.tells_org()),
            api_key: key,
        }
    }
}

/// Which facts credentials speak of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spoken {
    pub user: bool,
    pub tier: bool,
    pub org: bool,
    pub api_key: bool,
}

/// The token says who, the key says what was bought.
fn both(token: &Known, key: Known) -> Known {
    Known {
        user: token.user.clone().or(key.user),
        org: token.org.clone().or(key.org),
        tier: key.tier.or_else(|| token.tier.clone()),
        api_key: key.api_key,
    }
}

/// The token of `Bearer <token>`; other schemes are not for us.
fn bearer(authorization: &[u8]) -> Option<&[u8]> {
    let value = authorization.trim_ascii();
    let (scheme, rest) = value.split_at_checked(6)?;
    if !scheme.eq_ignore_ascii_case(b"bearer") {
        return None;
    }
    match rest.first() {
        None => Some(rest),
        Some(b' ' | b'\t') => Some(rest.trim_ascii_start()),
        Some(_) => None,
    }
}

/// A text or whole number as the text of a fact; none when it cannot be one.
fn fact_text(value: &Value) -> Option<Box<str>> {
    let text: Box<str> = match value {
        Value::String(text) => text.as_str().into(),
        Value::Number(number) if !number.is_f64() => number.to_string().into(),
        _ => return None,
    };
    is_fact(&text).then_some(text)
}

/// Facts go into headers, logs and keys of stores: they are short and hold no control characters.
fn is_fact(text: &str) -> bool {
    !text.is_empty() && text.len() <= FACT_BYTES_MAX && !text.chars().any(char::is_control)
}

#[cfg(test)]
mod tests;
