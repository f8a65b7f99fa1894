//! What a verified token says: whether it holds here and now, and of whom it speaks.

use super::{Known, Why, fact_text};
use serde_json::{Map, Value};

/// What is asked of every token beyond its signature.
#[derive(Clone, Debug)]
pub struct Claims {
    /// Any of these; empty is anyone.
    pub issuers: Vec<String>,
    /// Any of these; empty is any.
    pub audiences: Vec<String>,
    /// How far clocks may be apart.
    pub leeway_us: u64,
    pub required: Vec<String>,
    /// A claim's name, or a JSON pointer if it begins with `/`; empty: not taken from tokens.
    pub user: String,
    pub tier: String,
    pub org: String,
}

impl Default for Claims {
    fn default() -> Self {
        Self {
            issuers: Vec::new(),
            audiences: Vec::new(),
            leeway_us: 30_000_000,
            required: vec!["exp".into()],
            user: "sub".into(),
            tier: "tier".into(),
            org: "org".into(),
        }
    }
}

type Object = Map<String, Value>;

impl Claims {
    /// Who the token speaks of, and until when (in microseconds).
    pub(super) fn check(&self, claims: &Value, now_us: u64) -> Result<(Known, u64), Why> {
        let object = claims.as_object().ok_or(Why::Malformed)?;
        let good_until_us = self.check_times(object, now_us)?;
        self.check_issuer(object)?;
        self.check_audience(object)?;
        for name in &self.required {
            if find(claims, name).is_none() {
                return Err(Why::MissingClaim(name.as_str().into()));
            }
        }
        let fact = |name: &String| match find(claims, name) {
            Some(value) => fact_text(value).map(Some).ok_or_else(|| Why::BadClaim(name.as_str().into())),
            None => Ok(None),
        };
        let known = Known { user: fact(&self.user)?, tier: fact(&self.tier)?, org: fact(&self.org)?, api_key: None };
        Ok((known, good_until_us))
    }

    fn check_times(&self, claims: &Object, now_us: u64) -> Result<u64, Why> {
        let (now_s, leeway_s) = (now_us as f64 / 1e6, self.leeway_us as f64 / 1e6);
        let [expires_s, not_before_s, issued_s] =
            [time_s(claims, "exp")?, time_s(claims, "nbf")?, time_s(claims, "iat")?];
        if expires_s.is_some_and(|at_s| now_s >= at_s + leeway_s) {
            return Err(Why::Expired);
        }
        if not_before_s.is_some_and(|at_s| now_s + leeway_s < at_s) {
            return Err(Why::NotYetValid);
        }
        if issued_s.is_some_and(|at_s| now_s + leeway_s < at_s) {
            return Err(Why::IssuedLater);
        }
        // A cast of a float saturates.
        Ok(expires_s.map_or(u64::MAX, |at_s| ((at_s + leeway_s) * 1e6) as u64))
    }

    fn check_issuer(&self, claims: &Object) -> Result<(), Why> {
        let issuer = claims.get("iss").and_then(Value::as_str);
        let is_ours = |issuer: &str| self.issuers.iter().any(|known| known == issuer);
        if self.issuers.is_empty() || issuer.is_some_and(is_ours) { Ok(()) } else { Err(Why::WrongIssuer) }
    }

    fn check_audience(&self, claims: &Object) -> Result<(), Why> {
        if self.audiences.is_empty() {
            return Ok(());
        }
        let is_us = |value: &Value| value.as_str().is_some_and(|one| self.audiences.iter().any(|known| known == one));
        let is_meant = match claims.get("aud") {
            Some(Value::Array(list)) => list.iter().all(Value::is_string) && list.iter().any(is_us),
            Some(one) => is_us(one),
            None => false,
        };
        if is_meant { Ok(()) } else { Err(Why::WrongAudience) }
    }
}

/// A claim by name or pointer; null is the same as absent.
fn find<'c>(claims: &'c Value, name: &str) -> Option<&'c Value> {
    let found = match name {
        "" => None,
        pointer if pointer.starts_with('/') => claims.pointer(pointer),
        _ => claims.get(name),
    };
    found.filter(|value| !value.is_null())
}

/// A time must be a number: a text taken for "not given" would be a token without an end.
fn time_s(claims: &Object, name: &'static str) -> Result<Option<f64>, Why> {
    match claims.get(name) {
        None => Ok(None),
        Some(Value::Number(number)) => {
            number.as_f64().filter(|at_s| at_s.is_finite()).map(Some).ok_or(Why::BadClaim(name.into()))
        }
        Some(_) => Err(Why::BadClaim(name.into())),
    }
}
