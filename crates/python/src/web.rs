//! Who a request is from, by what a server knows of it.

use crate::engine::PyEngine;
use crate::identity::{Identity, known, unverified};
use headgate_core::client_ip::client_ip;
use headgate_core::net::parse_ip;
use headgate_node::Engine;
use headgate_node::identity::{Credentials, Identity as Ways};
use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString, PyTuple};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::net::IpAddr;

/// The headers that say who is asking, as a server gave them.
#[derive(Default)]
struct Shown<'a> {
    authorization: SmallVec<[Cow<'a, [u8]>; 1]>,
    api_key: SmallVec<[Cow<'a, [u8]>; 1]>,
    forwarded_for: SmallVec<[Cow<'a, [u8]>; 2]>,
}

/// Who an ASGI request is from.
#[pyfunction]
#[pyo3(signature = (engine, scope))]
pub fn identify_asgi(engine: &Bound<'_, PyEngine>, scope: &Bound<'_, PyDict>) -> PyResult<Identity> {
    let engine = &engine.get().inner;
    let ways = engine.identity();
    with_shown(scope, ways.api_key_header().as_bytes(), |shown, client| identify(engine, &ways, shown, client))
}

/// Where it is from, whoever it is.
pub fn address_asgi(engine: &Bound<'_, PyEngine>, scope: &Bound<'_, PyDict>) -> PyResult<Option<IpAddr>> {
    let ways = engine.get().inner.identity();
    with_shown(scope, b"", |shown, client| address(&ways, shown, client))
}

fn with_shown<R>(
    scope: &Bound<'_, PyDict>,
    api_key_header: &[u8],
    f: impl FnOnce(&Shown<'_>, Option<&str>) -> R,
) -> PyResult<R> {
    let py = scope.py();
    let headers = scope.get_item(intern!(py, "headers"))?;
    let mut pairs: SmallVec<[(Bound<'_, PyBytes>, Bound<'_, PyBytes>); 4]> = SmallVec::new();
    if let Some(headers) = &headers {
        for pair in headers.try_iter()? {
            let (name, value) = name_and_value(&pair?)?;
            // Most headers say nothing of who is asking.
            let is_ours = matches!(name.as_bytes(), b"authorization" | b"x-forwarded-for")
                || name.as_bytes().eq_ignore_ascii_case(api_key_header);
            if is_ours {
                pairs.push((name, value));
            }
        }
    }
    let mut shown = Shown::default();
    for (name, value) in &pairs {
        let value = Cow::Borrowed(value.as_bytes());
        match name.as_bytes() {
            b"authorization" => shown.authorization.push(value),
            b"x-forwarded-for" => shown.forwarded_for.push(value),
            _ => shown.api_key.push(value),
        }
    }
    let client = scope.get_item(intern!(py, "client"))?.filter(|client| !client.is_none());
    let client = client.map(|client| client.get_item(0)).transpose()?;
    let client = client.as_ref().map(|host| host.cast::<PyString>()?.to_str()).transpose()?;
    Ok(f(&shown, client))
}

/// The same of a WSGI request.
#[pyfunction]
pub fn identify_wsgi(engine: &Bound<'_, PyEngine>, environ: &Bound<'_, PyDict>) -> PyResult<Identity> {
    let py = environ.py();
    let engine = &engine.get().inner;
    let ways = engine.identity();
    let authorization = environ.get_item(intern!(py, "HTTP_AUTHORIZATION"))?;
    let forwarded_for = environ.get_item(intern!(py, "HTTP_X_FORWARDED_FOR"))?;
    let api_key = match ways.takes_keys() {
        true => environ.get_item(format!("HTTP_{}", ways.api_key_header().to_ascii_uppercase().replace('-', "_")))?,
        false => None,
    };
    let shown = Shown {
        authorization: authorization.iter().map(latin_1).collect::<PyResult<_>>()?,
        api_key: api_key.iter().map(latin_1).collect::<PyResult<_>>()?,
        forwarded_for: forwarded_for.iter().map(latin_1).collect::<PyResult<_>>()?,
    };
    let client = environ.get_item(intern!(py, "REMOTE_ADDR"))?;
    let client = client.as_ref().map(|host| host.cast::<PyString>()?.to_str()).transpose()?;
    Ok(identify(engine, &ways, &shown, client.filter(|host| !host.is_empty())))
}

fn identify(engine: &Engine, ways: &Ways, shown: &Shown<'_>, client: Option<&str>) -> Identity {
    let ip = address(ways, shown, client);
    let token_twice = ways.takes_tokens() && shown.authorization.len() > 1;
    if token_twice || (ways.takes_keys() && shown.api_key.len() > 1) {
        return unverified(ways, "credentials were sent more than once".into(), ip);
    }
    let (authorization, api_key) = (shown.authorization.first(), shown.api_key.first());
    let credentials =
        Credentials { authorization: authorization.map(|value| &**value), api_key: api_key.map(|value| &**value) };
    known(engine, ways, &credentials, ip)
}

/// Where a request is from. A server that names no client speaks over a Unix socket; one that names something that is no
/// address is trusted in nothing.
fn address(ways: &Ways, shown: &Shown<'_>, client: Option<&str>) -> Option<IpAddr> {
    let forwarded_for = shown.forwarded_for.iter().map(|value| &**value);
    match client.map(parse_ip) {
        None => client_ip(None, forwarded_for, ways.trusted()),
        Some(None) => None,
        Some(peer) => client_ip(peer, forwarded_for, ways.trusted()),
    }
}

/// WSGI hands bytes over as text, one character each.
fn latin_1<'a>(text: &'a Bound<'_, PyAny>) -> PyResult<Cow<'a, [u8]>> {
    let text = text.cast::<PyString>()?.to_str()?;
    Ok(match text.is_ascii() {
        true => Cow::Borrowed(text.as_bytes()),
        false => Cow::Owned(text.chars().map(|character| u8::try_from(character).unwrap_or(b'?')).collect()),
    })
}

fn name_and_value<'py>(pair: &Bound<'py, PyAny>) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
    if let Ok(pair) = pair.cast::<PyTuple>() {
        return Ok((pair.get_item(0)?.cast_into()?, pair.get_item(1)?.cast_into()?));
    }
    Ok((pair.get_item(0)?.cast_into()?, pair.get_item(1)?.cast_into()?))
}

/// The address a client is counted by.
#[pyfunction]
pub fn counted_ip(engine: &Bound<'_, PyEngine>, ip: &str) -> PyResult<String> {
    let wrong = || PyValueError::new_err(format!("ip: `{ip}` is not an IPv4 or IPv6 address"));
    let ip = parse_ip(ip).ok_or_else(wrong)?;
    Ok(engine.get().inner.counted_ip(ip).to_string())
}
