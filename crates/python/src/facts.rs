//! Facts as Python callers give them.

use headgate_core::Facts;
use headgate_core::facts::{DESCRIPTORS_MAX, FACT_BYTES_MAX};
use headgate_core::net::parse_ip;
use headgate_core::path::PATH_BYTES_MAX;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt, PyMapping, PyString};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::net::IpAddr;

pub type Arg<'a, 'py> = Option<&'a Bound<'py, PyAny>>;

/// The arguments of a check, before they are read.
pub struct FactArgs<'a, 'py> {
    pub user: Arg<'a, 'py>,
    pub tier: Arg<'a, 'py>,
    pub path: Arg<'a, 'py>,
    pub method: Arg<'a, 'py>,
    pub ip: Arg<'a, 'py>,
    pub org: Arg<'a, 'py>,
    pub api_key: Arg<'a, 'py>,
    pub region: Arg<'a, 'py>,
    pub descriptors: Arg<'a, 'py>,
}

impl FactArgs<'_, '_> {
    /// Reads the arguments and gives them as facts.
    #[inline]
    pub fn with<R>(&self, f: impl FnOnce(Facts<'_>) -> R) -> PyResult<R> {
        let path = text("path", self.path, PATH_BYTES_MAX)?;
        let method = text("method", self.method, FACT_BYTES_MAX)?;
        self.with_request(path.as_deref(), method.as_deref(), None, f)
    }

    /// The same for a path and a method that a server gave, and an address where there is none among the arguments.
    #[inline]
    pub fn with_request<R>(
        &self,
        path: Option<&str>,
        method: Option<&str>,
        address: Option<IpAddr>,
        f: impl FnOnce(Facts<'_>) -> R,
    ) -> PyResult<R> {
        let user = text("user", self.user, FACT_BYTES_MAX)?;
        let tier = text("tier", self.tier, FACT_BYTES_MAX)?;
        let org = text("org", self.org, FACT_BYTES_MAX)?;
        let api_key = text("api_key", self.api_key, FACT_BYTES_MAX)?;
        let region = text("region", self.region, FACT_BYTES_MAX)?;
        let descriptors = descriptors(self.descriptors)?;
        let descriptors: SmallVec<[(&str, &str); 4]> =
            descriptors.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        Ok(f(Facts {
            user: user.as_deref(),
            api_key: api_key.as_deref(),
            org: org.as_deref(),
            ip: ip(self.ip)?.or(address),
            tier: tier.as_deref(),
            method,
            path,
            region: region.as_deref(),
            descriptors: &descriptors,
        }))
    }
}

/// A text, or a whole number where an id may be one.
#[inline]
fn text<'a>(name: &str, value: Arg<'a, '_>, bytes_max: usize) -> PyResult<Option<Cow<'a, str>>> {
    let Some(value) = value else { return Ok(None) };
    let text = if let Ok(text) = value.cast::<PyString>() {
        Cow::Borrowed(text.to_str()?)
    } else if value.is_instance_of::<PyInt>() && !value.is_instance_of::<PyBool>() {
        Cow::Owned(value.str()?.to_str()?.to_owned())
    } else {
        let kind = value.get_type().name()?;
        return Err(PyTypeError::new_err(format!("{name}: expected a text, got {kind}")));
    };
    if text.is_empty() || text.len() > bytes_max {
        return Err(PyValueError::new_err(format!(
            "{name}: must be 1 to {bytes_max} bytes long; leave it out if unknown"
        )));
    }
    Ok(Some(text))
}

#[inline]
fn ip(value: Arg<'_, '_>) -> PyResult<Option<IpAddr>> {
    let Some(text) = text("ip", value, FACT_BYTES_MAX)? else { return Ok(None) };
    let wrong = || PyValueError::new_err(format!("ip: `{text}` is not an IPv4 or IPv6 address"));
    parse_ip(&text).map(Some).ok_or_else(wrong)
}

fn descriptors(value: Arg<'_, '_>) -> PyResult<Vec<(String, String)>> {
    let Some(value) = value else { return Ok(Vec::new()) };
    let mapping =
        value.cast::<PyMapping>().map_err(|_| PyTypeError::new_err("descriptors: expected a mapping of texts"))?;
    if mapping.len()? > DESCRIPTORS_MAX {
        return Err(PyValueError::new_err(format!("descriptors: at most {DESCRIPTORS_MAX}")));
    }
    let mut pairs = Vec::new();
    for item in mapping.items()?.iter() {
        let (key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = item.extract()?;
        let key = text("descriptors", Some(&key), FACT_BYTES_MAX)?.unwrap_or_default().into_owned();
        let value = text(&format!("descriptors.{key}"), Some(&value), FACT_BYTES_MAX)?.unwrap_or_default().into_owned();
        pairs.push((key, value));
    }
    Ok(pairs)
}
