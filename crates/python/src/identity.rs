//! Who is asking, as Python sees it.

use crate::errors::rules_error;
use headgate_core::Facts;
use headgate_core::client_ip::{Trusted, client_ip};
use headgate_core::net::parse_ip;
use headgate_node::Engine;
use headgate_node::identity::{
    ApiKeys as InnerKeys, Claims, Credentials, Identity as Ways, KeySources, KeysError, Known, Tokens as InnerTokens,
    Who, read_keys_document, read_keys_file,
};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

/// What a peer that came over a Unix socket is called.
const UNIX_PEER: &str = "unix";
const HEADER_BYTES_MAX: usize = 128;

/// Verifies tokens: keys, and what is asked of a token beside its signature.
#[pyclass(frozen, module = "headgate._core")]
pub struct Tokens {
    inner: Arc<InnerTokens>,
}

#[pymethods]
impl Tokens {
    #[new]
    #[pyo3(signature = (*, secret = None, public_keys = Vec::new(), jwks = None, jwks_is_remote = false,
        algorithms = Vec::new(), issuers = Vec::new(), audiences = Vec::new(), leeway = 30.0, required_claims = None,
        user_claim = "sub", tier_claim = "tier", org_claim = "org", cache = 10_000))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        secret: Option<&[u8]>,
        public_keys: Vec<String>,
        jwks: Option<&str>,
        jwks_is_remote: bool,
        algorithms: Vec<String>,
        issuers: Vec<String>,
        audiences: Vec<String>,
        leeway: f64,
        required_claims: Option<Vec<String>>,
        user_claim: &str,
        tier_claim: &str,
        org_claim: &str,
        cache: usize,
    ) -> PyResult<Self> {
        if !(0.0..=86_400.0).contains(&leeway) {
            return Err(PyValueError::new_err(format!("jwt_leeway: expected seconds from 0 to 86400, got {leeway}")));
        }
        let claims = Claims {
            issuers,
            audiences,
            leeway_us: (leeway * 1e6).round() as u64,
            required: required_claims.unwrap_or(Claims::default().required),
            user: user_claim.into(),
            tier: tier_claim.into(),
            org: org_claim.into(),
        };
        let (public_keys, algorithms) = (as_texts(&public_keys), as_texts(&algorithms));
        let sources = KeySources { secret, public_keys: &public_keys, jwks, jwks_is_remote, algorithms: &algorithms };
        let inner = InnerTokens::new(&sources, claims, cache).map_err(PyValueError::new_err)?;
        Ok(Self { inner: Arc::new(inner) })
    }

    #[getter]
    fn key_count(&self) -> usize {
        self.inner.key_count()
    }

    fn take_keys_wanted(&self) -> bool {
        self.inner.take_keys_wanted()
    }
}

/// API keys by the keyed hash of their value.
#[pyclass(frozen, module = "headgate._core")]
pub struct ApiKeys {
    inner: Arc<InnerKeys>,
}

#[pymethods]
impl ApiKeys {
    #[staticmethod]
    fn from_document(py: Python<'_>, secret: &[u8], document: &str) -> PyResult<Self> {
        Self::made(py, "", py.detach(|| read_keys_document(secret, document)))
    }

    #[staticmethod]
    fn from_file(py: Python<'_>, secret: &[u8], path: &str) -> PyResult<Self> {
        Self::made(py, path, py.detach(|| read_keys_file(secret, Path::new(path))))
    }

    fn __len__(&self) -> usize {
        self.inner.len()
    }

    #[getter]
    fn memory_bytes(&self) -> usize {
        self.inner.bytes()
    }
}

impl ApiKeys {
    fn made(py: Python<'_>, path: &str, read: Result<InnerKeys, KeysError>) -> PyResult<Self> {
        let inner = read.map_err(|error| match error {
            KeysError::Io(error) => PyOSError::new_err(format!("{path}: {error}")),
            KeysError::Secret(message) => PyValueError::new_err(message),
            KeysError::Mistakes(mistakes) => rules_error(py, &mistakes),
        })?;
        Ok(Self { inner: Arc::new(inner) })
    }
}

/// Who is asking.
#[pyclass(frozen, eq, module = "headgate._core")]
#[derive(PartialEq)]
pub struct Identity {
    known: Arc<Known>,
    ip: Option<IpAddr>,
    error: Option<String>,
    pub is_rejected: bool,
}

impl Identity {
    /// Nobody, at this address.
    pub fn at(ip: Option<IpAddr>) -> Self {
        Self { known: Arc::default(), ip, error: None, is_rejected: false }
    }

    pub fn as_facts(&self) -> Facts<'_> {
        let (user, org) = (self.user(), self.org());
        Facts { user, org, tier: self.tier(), api_key: self.api_key(), ip: self.ip, ..Facts::default() }
    }
}

#[pymethods]
impl Identity {
    #[getter]
    fn user(&self) -> Option<&str> {
        self.known.user.as_deref()
    }

    #[getter]
    fn tier(&self) -> Option<&str> {
        self.known.tier.as_deref()
    }

    #[getter]
    fn org(&self) -> Option<&str> {
        self.known.org.as_deref()
    }

    #[getter]
    fn api_key(&self) -> Option<&str> {
        self.known.api_key.as_deref()
    }

    #[getter]
    fn ip(&self) -> Option<String> {
        self.ip.map(|ip| ip.to_string())
    }

    #[getter]
    fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    #[getter]
    fn is_rejected(&self) -> bool {
        self.is_rejected
    }

    fn facts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let facts = PyDict::new(py);
        let ip = self.ip();
        let known = [("user", self.user()), ("tier", self.tier()), ("org", self.org()), ("api_key", self.api_key())];
        for (name, value) in known.into_iter().chain([("ip", ip.as_deref())]) {
            if let Some(value) = value {
                facts.set_item(name, value)?;
            }
        }
        Ok(facts)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let facts = self.facts(py)?;
        if let Some(error) = &self.error {
            facts.set_item("error", error)?;
        }
        let mut parts = Vec::new();
        for (name, value) in facts {
            parts.push(format!("{name}={}", value.repr()?));
        }
        Ok(format!("Identity({})", parts.join(", ")))
    }
}

/// What a request carries, as Python gives it.
pub struct Shown<'a> {
    pub authorization: Option<&'a str>,
    pub api_key: Option<&'a str>,
    pub peer: Option<&'a str>,
    pub forwarded_for: Option<&'a str>,
}

pub fn identify(engine: &Engine, shown: &Shown<'_>) -> PyResult<Identity> {
    let ip = address(shown.peer, shown.forwarded_for, engine.identity().trusted())?;
    let credentials = Credentials {
        authorization: shown.authorization.map(str::as_bytes),
        api_key: shown.api_key.map(str::as_bytes),
    };
    Ok(known(engine, &engine.identity(), &credentials, ip))
}

pub fn known(engine: &Engine, ways: &Ways, credentials: &Credentials<'_>, ip: Option<IpAddr>) -> Identity {
    match ways.identify(credentials, engine.wall_us()) {
        Who::Known(known) => Identity { known, ip, error: None, is_rejected: false },
        Who::Anonymous => Identity { known: Arc::default(), ip, error: None, is_rejected: false },
        Who::Unverified(why) => unverified(ways, why.text().into_owned(), ip),
    }
}

pub fn unverified(ways: &Ways, error: String, ip: Option<IpAddr>) -> Identity {
    Identity { known: Arc::default(), ip, error: Some(error), is_rejected: ways.rejects() }
}

/// A way of knowing callers, made of parts that outlive it: a new key set must not cost a table of millions of keys.
pub fn ways(
    tokens: Option<&Tokens>,
    api_keys: Option<&ApiKeys>,
    api_key_header: &str,
    trusted_proxies: &[String],
    rejects: bool,
) -> PyResult<Ways> {
    if !is_header_name(api_key_header) {
        return Err(PyValueError::new_err("api_key_header: expected the name of a header, such as X-API-Key"));
    }
    let trusted = Trusted::parse(trusted_proxies.iter().map(String::as_str));
    Ok(Ways {
        tokens: tokens.map(|tokens| tokens.inner.clone()),
        api_keys: api_keys.map(|keys| keys.inner.clone()),
        api_key_header: api_key_header.into(),
        trusted: trusted.map_err(|error| PyValueError::new_err(format!("trusted_proxies: {error}")))?,
        rejects,
    })
}

fn as_texts(texts: &[String]) -> Vec<&str> {
    texts.iter().map(String::as_str).collect()
}

/// The letters, digits and signs of a token (RFC 9110, 5.6.2).
fn is_header_name(name: &str) -> bool {
    let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.len() <= HEADER_BYTES_MAX && name.bytes().all(is_sign)
}

fn address(peer: Option<&str>, forwarded_for: Option<&str>, trusted: &Trusted) -> PyResult<Option<IpAddr>> {
    let Some(peer) = peer else {
        return match forwarded_for {
            None => Ok(None),
            Some(_) => {
                Err(PyValueError::new_err("forwarded_for: needs `peer`: only what trusted peers say is believed"))
            }
        };
    };
    let ip = match parse_ip(peer) {
        None if peer != UNIX_PEER => {
            let words = format!("peer: `{peer}` is not an IPv4 or IPv6 address, or `{UNIX_PEER}`");
            return Err(PyValueError::new_err(words));
        }
        ip => ip,
    };
    Ok(client_ip(ip, forwarded_for.map(str::as_bytes).into_iter(), trusted))
}
