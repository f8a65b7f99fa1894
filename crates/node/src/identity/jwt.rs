//! Tokens (RFC 7519) in the compact form, verified with keys that are bound to their algorithms (RFC 8725).

use super::base64::decode_url;
use super::claims::Claims;
use super::key::{Algorithm, Algorithms, Key};
use super::strict_json::read_object;
use super::token_cache::TokenCache;
use super::{Known, Why, jwks, pem};
use headgate_core::hash::Keyed;
use serde_json::Value;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The longest token that is looked at.
pub const TOKEN_BYTES_MAX: usize = 8 * 1024;
/// Keys there may be in all.
pub const KEYS_MAX: usize = 100;
/// Keys tried for a token that does not say which.
const TRIED_MAX: usize = 16;
/// Tokens that may be remembered: about 200 bytes each.
pub const CACHE_MAX: usize = 10_000_000;

/// Where keys come from, as their contents.
#[derive(Default)]
pub struct KeySources<'a> {
    pub secret: Option<&'a [u8]>,
    pub public_keys: &'a [&'a str],
    pub jwks: Option<&'a str>,
    /// Whether the key set came over the network: symmetric keys in it are not taken.
    pub jwks_is_remote: bool,
    /// Narrows what may be used; empty is everything.
    pub algorithms: &'a [&'a str],
}

/// Verifies tokens. Its keys never change: other keys are another `Tokens`, and what was remembered dies with the old.
pub struct Tokens {
    keys: Vec<Key>,
    has_kids: bool,
    claims: Claims,
    cache: TokenCache,
    keyed: Keyed,
    keys_wanted: AtomicBool,
}

impl Tokens {
    /// Errors begin with the name of what is wrong. No key at all is allowed for those that wait for a key set.
    pub fn new(sources: &KeySources<'_>, claims: Claims, cache: usize) -> Result<Tokens, String> {
        let algorithms = match sources.algorithms {
            [] => Algorithms::ALL,
            names => Algorithms::parse(names.iter().copied()).map_err(|error| format!("jwt_algorithms: {error}"))?,
        };
        if cache > CACHE_MAX {
            return Err(format!("jwt_cache: at most {CACHE_MAX}"));
        }
        let keys = read_keys(sources, algorithms)?;
        if keys.len() > KEYS_MAX {
            return Err(format!("jwt: {} keys in all; at most {KEYS_MAX} are taken", keys.len()));
        }
        Ok(Tokens {
            has_kids: keys.iter().any(|key| key.kid.is_some()),
            keys,
            claims,
            cache: TokenCache::new(cache),
            keyed: Keyed::random(),
            keys_wanted: AtomicBool::new(false),
        })
    }

    /// Who a token speaks of.
    #[inline]
    pub(super) fn verify(&self, token: &[u8], now_us: u64) -> Result<Arc<Known>, Why> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(Why::TooLong);
        }
        let hash = self.keyed.bytes(0, token);
        if let Some(known) = self.cache.get(hash, now_us) {
            return Ok(known);
        }
        let (known, good_until_us) = self.verify_fully(token, now_us)?;
        let known = Arc::new(known);
        self.cache.put(hash, &known, good_until_us, now_us);
        Ok(known)
    }

    fn verify_fully(&self, token: &[u8], now_us: u64) -> Result<(Known, u64), Why> {
        let token = Parts::split(token).ok_or(Why::Malformed)?;
        let header = read_object(&decode_url(token.header).ok_or(Why::Malformed)?).ok_or(Why::Malformed)?;
        // We know no extension, so there is none whose meaning we could honour.
        if header.contains_key("crit") {
            return Err(Why::Critical);
        }
        let name = header.get("alg").and_then(Value::as_str).ok_or(Why::Malformed)?;
        let algorithm = Algorithm::from_name(name).ok_or(Why::Algorithm)?;
        let kid = match header.get("kid") {
            None => None,
            Some(kid) => Some(kid.as_str().ok_or(Why::Malformed)?),
        };
        let signature = decode_url(token.signature).ok_or(Why::Malformed)?;
        self.check_signature(algorithm, kid, token.signed, &signature)?;
        let claims = read_object(&decode_url(token.claims).ok_or(Why::Malformed)?).ok_or(Why::Malformed)?;
        self.claims.check(&Value::Object(claims), now_us)
    }

    /// The key id picks among keys that have one and means nothing else.
    fn check_signature(
        &self,
        algorithm: Algorithm,
        kid: Option<&str>,
        signed: &[u8],
        signature: &[u8],
    ) -> Result<(), Why> {
        let kid = kid.filter(|_| self.has_kids);
        let is_known = kid.is_some_and(|kid| self.keys.iter().any(|key| key.kid.as_deref() == Some(kid)));
        let is_meant = |key: &&Key| match kid {
            Some(kid) if is_known => key.kid.as_deref() == Some(kid),
            Some(_) => key.kid.is_none(),
            None => true,
        };
        let mut meant = self.keys.iter().filter(is_meant).peekable();
        let why = match meant.peek() {
            None => Why::NoKey,
            Some(_) => {
                let mut fitting = meant.filter(|key| key.algorithms.has(algorithm)).take(TRIED_MAX).peekable();
                let has_fitting = fitting.peek().is_some();
                if fitting.any(|key| key.verifies(algorithm, signed, signature)) {
                    return Ok(());
                }
                if has_fitting { Why::Signature } else { Why::Algorithm }
            }
        };
        if self.keys.is_empty() || (kid.is_some() && !is_known) {
            self.want_keys();
        }
        Err(why)
    }

    /// Tells whoever fetches key sets that a token named a key nobody knows. Written once, not once a request.
    fn want_keys(&self) {
        if !self.keys_wanted.load(Ordering::Relaxed) {
            self.keys_wanted.store(true, Ordering::Relaxed);
        }
    }

    /// Whether a token named a key nobody knows since the last time this was asked.
    pub fn take_keys_wanted(&self) -> bool {
        self.keys_wanted.swap(false, Ordering::Relaxed)
    }

    pub fn key_count(&self) -> usize {
        self.keys.len()
    }

    /// Whether tokens can tell this fact (`tier`, `org`) at all.
    pub(super) fn tells_tier(&self) -> bool {
        !self.claims.tier.is_empty()
    }

    pub(super) fn tells_org(&self) -> bool {
        !self.claims.org.is_empty()
    }

    pub(super) fn tells_user(&self) -> bool {
        !self.claims.user.is_empty()
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").field("keys", &self.keys.len()).finish_non_exhaustive()
    }
}

fn read_keys(sources: &KeySources<'_>, algorithms: Algorithms) -> Result<Vec<Key>, String> {
    let mut keys = Vec::new();
    if let Some(secret) = sources.secret {
        let found = Key::secrets(secret, None, algorithms).map_err(|error| format!("jwt_secret: {error}"))?;
        keys.extend(useful(found, "jwt_secret")?);
    }
    for text in sources.public_keys {
        let found = pem::keys(text, algorithms).map_err(|error| format!("jwt_public_key: {error}"))?;
        keys.extend(useful(found, "jwt_public_key")?);
    }
    if let Some(text) = sources.jwks {
        let found = jwks::keys(text, algorithms, !sources.jwks_is_remote);
        keys.extend(found.map_err(|error| format!("jwt_jwks: {error}"))?);
    }
    Ok(keys)
}

fn useful(keys: Vec<Key>, name: &str) -> Result<Vec<Key>, String> {
    match keys.iter().any(|key| !key.algorithms.is_empty()) {
        true => Ok(keys),
        false => Err(format!("{name}: is of no use with the algorithms that jwt_algorithms allows")),
    }
}

/// `header.claims.signature`, still encoded.
struct Parts<'t> {
    header: &'t [u8],
    claims: &'t [u8],
    signature: &'t [u8],
    signed: &'t [u8],
}

impl<'t> Parts<'t> {
    fn split(token: &'t [u8]) -> Option<Parts<'t>> {
        let mut parts = token.split(|byte| *byte == b'.');
        let (header, claims, signature) = (parts.next()?, parts.next()?, parts.next()?);
        let signed = &token[..header.len() + 1 + claims.len()];
        parts.next().is_none().then_some(Parts { header, claims, signature, signed })
    }
}
