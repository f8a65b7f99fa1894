//! What middleware asks of the engine, by what a server knows of a request.

use crate::decision::Decision;
use crate::engine::PyEngine;
use crate::facts::FactArgs;
use crate::identity::Identity;
use crate::mailbox::Mailbox;
use crate::quotas::Cost;
use crate::web::{address_asgi, identify_asgi};
use headgate_core::Facts;
use headgate_core::facts::FACT_BYTES_MAX;
use headgate_core::path::PATH_BYTES_MAX;
use headgate_node::store::Mode;
use pyo3::exceptions::{PyKeyError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyBytes, PyDict, PyString};
use std::borrow::Cow;

/// What an application's own function may tell of who is asking.
const FACT_NAMES: [&str; 7] = ["user", "tier", "org", "api_key", "ip", "region", "descriptors"];

/// The running loop and its mailbox, where counters are shared.
type Here<'py> = Option<(Bound<'py, PyAny>, Bound<'py, Mailbox>)>;

/// Decides about an ASGI request: who is asking, and a decision or the future of one.
#[pyfunction]
#[pyo3(signature = (engine, scope, cost, here))]
pub fn ask_asgi<'py>(
    py: Python<'py>,
    engine: &Bound<'py, PyEngine>,
    scope: &Bound<'py, PyDict>,
    cost: Cost,
    here: Here<'py>,
) -> PyResult<(Bound<'py, Identity>, Option<Bound<'py, PyAny>>)> {
    let identity = Bound::new(py, identify_asgi(engine, scope)?)?;
    if identity.get().is_rejected {
        return Ok((identity, None));
    }
    let answer = with_head(scope, |path, method| {
        let facts = Facts { path: Some(path), method: Some(method), ..identity.get().as_facts() };
        begin(py, engine, facts, cost, &here)
    })?;
    Ok((identity, Some(answer)))
}

/// The same for who the application itself says is asking: a user's id, a dict of facts, or nobody.
#[pyfunction]
#[pyo3(signature = (engine, scope, who, cost, here))]
pub fn ask_asgi_for<'py>(
    py: Python<'py>,
    engine: &Bound<'py, PyEngine>,
    scope: &Bound<'py, PyDict>,
    who: Option<&Bound<'py, PyAny>>,
    cost: Cost,
    here: Here<'py>,
) -> PyResult<(Bound<'py, Identity>, Bound<'py, PyAny>)> {
    let identity = Bound::new(py, Identity::at(address_asgi(engine, scope)?))?;
    let told = match who {
        Some(who) => match who.cast::<PyDict>() {
            Ok(told) => told.clone(),
            Err(_) => [(intern!(py, "user"), who)].into_py_dict(py)?,
        },
        None => PyDict::new(py),
    };
    let fact = |name: &Bound<'py, PyString>| Ok::<_, PyErr>(told.get_item(name)?.filter(|fact| !fact.is_none()));
    let (user, tier) = (fact(intern!(py, "user"))?, fact(intern!(py, "tier"))?);
    let (org, api_key) = (fact(intern!(py, "org"))?, fact(intern!(py, "api_key"))?);
    let (ip, region) = (fact(intern!(py, "ip"))?, fact(intern!(py, "region"))?);
    let descriptors = fact(intern!(py, "descriptors"))?;
    let known = [&user, &tier, &org, &api_key, &ip, &region, &descriptors];
    if known.into_iter().flatten().count() < told.len() {
        refuse_unknown(&told)?;
    }
    let args = FactArgs {
        user: user.as_ref(),
        tier: tier.as_ref(),
        path: None,
        method: None,
        ip: ip.as_ref(),
        org: org.as_ref(),
        api_key: api_key.as_ref(),
        region: region.as_ref(),
        descriptors: descriptors.as_ref(),
    };
    let address = identity.get().as_facts().ip;
    let answer = with_head(scope, |path, method| {
        args.with_request(Some(path), Some(method), address, |facts| begin(py, engine, facts, cost, &here))?
    })?;
    Ok((identity, answer))
}

/// Decides by what is known of who is asking.
#[pyfunction]
pub fn check_identified(
    py: Python<'_>,
    engine: &Bound<'_, PyEngine>,
    identity: &Identity,
    path: &Bound<'_, PyAny>,
    method: &str,
    cost: Cost,
) -> PyResult<Decision> {
    let engine = engine.get();
    let path = path_text(path)?;
    let (path, method) = (checked_path(&path)?, checked_method(method)?);
    let facts = Facts { path: Some(path), method: Some(method), ..identity.as_facts() };
    let rules = engine.inner.rules_full();
    let verdict = match engine.inner.is_shared() {
        true => engine.wait(py, Some(&rules), engine.inner.begin(&rules, facts, cost.0, Mode::Check)),
        false => engine.inner.check(&rules, facts, cost.0, Mode::Check),
    };
    Ok(Decision::new(Some(rules), verdict))
}

fn begin<'py>(
    py: Python<'py>,
    engine: &Bound<'py, PyEngine>,
    facts: Facts<'_>,
    cost: Cost,
    here: &Here<'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let engine = engine.get();
    let rules = engine.inner.rules_full();
    match here {
        Some((r#loop, mailbox)) => {
            let step = engine.inner.begin(&rules, facts, cost.0, Mode::Check);
            engine.tell_events(py);
            Mailbox::send(mailbox, py, r#loop, &engine.inner, Some(rules), step)
        }
        None => {
            let verdict = engine.inner.check(&rules, facts, cost.0, Mode::Check);
            Ok(Bound::new(py, Decision::new(Some(rules), verdict))?.into_any())
        }
    }
}

/// What is left out is no fact at all; what is none of ours is a mistake of the application.
fn refuse_unknown(told: &Bound<'_, PyDict>) -> PyResult<()> {
    for (name, _) in told {
        let name = name.cast::<PyString>()?.to_str()?;
        if !FACT_NAMES.contains(&name) {
            return Err(PyKeyError::new_err(name.to_owned()));
        }
    }
    Ok(())
}

/// Reads what an ASGI scope asks for: the path as it came, and the method.
fn with_head<R>(scope: &Bound<'_, PyDict>, f: impl FnOnce(&str, &str) -> PyResult<R>) -> PyResult<R> {
    let py = scope.py();
    let missing = |name: &str| PyTypeError::new_err(format!("{name}: an ASGI scope has one"));
    let method = scope.get_item(intern!(py, "method"))?.ok_or_else(|| missing("method"))?;
    let raw_path = scope.get_item(intern!(py, "raw_path"))?.filter(|path| !path.is_none());
    let path = match &raw_path {
        Some(path) => Cow::Borrowed(path.cast::<PyBytes>()?.as_bytes()),
        None => {
            let path = scope.get_item(intern!(py, "path"))?.ok_or_else(|| missing("path"))?;
            Cow::Owned(encoded(path.cast::<PyString>()?.to_str()?))
        }
    };
    // Some servers leave the query on it.
    let path = path.split(|byte| *byte == b'?').next().unwrap_or_default();
    let path = with_root(scope, String::from_utf8_lossy(path))?;
    let method = method.cast::<PyString>()?.to_str()?;
    f(checked_path(&path)?, checked_method(method)?)
}

/// The whole path. Frameworks serve a path with and without its root by one route, so rules must see one path too: the one
/// with it, which is what ASGI asks of servers.
fn with_root<'a>(scope: &Bound<'_, PyDict>, path: Cow<'a, str>) -> PyResult<Cow<'a, str>> {
    let py = scope.py();
    let Some(root) = scope.get_item(intern!(py, "root_path"))? else { return Ok(path) };
    let root = root.cast::<PyString>()?.to_str()?;
    if root.is_empty() {
        return Ok(path);
    }
    let decoded = scope.get_item(intern!(py, "path"))?;
    let rest = match &decoded {
        Some(decoded) => decoded.cast::<PyString>()?.to_str()?.strip_prefix(root),
        None => path.strip_prefix(root),
    };
    Ok(match rest {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => path,
        _ => Cow::Owned(String::from_utf8_lossy(&encoded(root)).into_owned() + &path),
    })
}

/// A decoded path as it may have come: what would be decoded again is encoded.
fn encoded(path: &str) -> Vec<u8> {
    path.replace('%', "%25").replace('?', "%3F").into_bytes()
}

/// A path as it came, in bytes or as text; of bytes that are no text, what can be read.
fn path_text<'a>(path: &'a Bound<'_, PyAny>) -> PyResult<Cow<'a, str>> {
    match path.cast::<PyBytes>() {
        Ok(path) => Ok(String::from_utf8_lossy(path.as_bytes())),
        Err(_) => Ok(Cow::Borrowed(path.cast::<PyString>()?.to_str()?)),
    }
}

/// A path that is not too long; that of a bare host is the root.
fn checked_path(path: &str) -> PyResult<&str> {
    if path.len() > PATH_BYTES_MAX {
        return Err(PyValueError::new_err(format!("path: at most {PATH_BYTES_MAX} bytes")));
    }
    Ok(if path.is_empty() { "/" } else { path })
}

fn checked_method(method: &str) -> PyResult<&str> {
    if method.len() > FACT_BYTES_MAX {
        return Err(PyValueError::new_err(format!("method: at most {FACT_BYTES_MAX} bytes")));
    }
    Ok(method)
}
