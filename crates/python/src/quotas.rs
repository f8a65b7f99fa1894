//! Limits as Python callers give them.

use headgate_core::limit_text::{parse_duration_us, parse_limits};
use headgate_core::quota::COUNT_MAX;
use headgate_core::{Algorithm, Quota, QuotaError};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyString};
use smallvec::{SmallVec, smallvec};

pub type Quotas = SmallVec<[Quota; 1]>;

pub fn value_error(error: QuotaError) -> PyErr {
    PyValueError::new_err(error.0)
}

pub fn seconds_to_us(name: &str, seconds: f64) -> PyResult<u64> {
    if !(0.0..=1e11).contains(&seconds) {
        return Err(PyValueError::new_err(format!("{name}: expected seconds from 0 to 1e11, got {seconds}")));
    }
    Ok((seconds * 1e6).round() as u64)
}

/// A cost: a whole number, never negative.
#[derive(Clone, Copy)]
pub struct Cost(pub u64);

impl<'py> FromPyObject<'_, 'py> for Cost {
    type Error = PyErr;

    #[inline]
    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if value.is_instance_of::<PyBool>() || !value.is_instance_of::<PyInt>() {
            return Err(PyTypeError::new_err(format!(
                "cost: expected a whole number, got {}",
                value.get_type().name()?
            )));
        }
        match value.extract::<u64>() {
            Ok(cost) if cost <= COUNT_MAX => Ok(Self(cost)),
            _ => Err(PyValueError::new_err(format!(
                "cost: expected a whole number from 0 to {COUNT_MAX}, got {}",
                value.str()?.to_str()?.chars().take(40).collect::<String>()
            ))),
        }
    }
}

pub fn algorithm(name: Option<&str>) -> PyResult<Option<Algorithm>> {
    let Some(name) = name else { return Ok(None) };
    let unknown = || {
        let names = Algorithm::ALL.map(Algorithm::name).join(", ");
        PyValueError::new_err(format!("algorithm: `{name}` is not one of {names}, token_bucket"))
    };
    Algorithm::from_name(name).map(Some).ok_or_else(unknown)
}

/// `(5, 60)`, `(5, "1 minute")` or `("5/minute;100/hour", None)`.
#[inline]
pub fn quotas(
    limit: &Bound<'_, PyAny>,
    window: Option<&Bound<'_, PyAny>>,
    algorithm: Option<Algorithm>,
    burst: Option<u64>,
) -> PyResult<Quotas> {
    if let Ok(count) = limit.cast::<PyInt>() {
        let count = count.extract::<u64>().map_err(|_| {
            PyValueError::new_err(format!("limit: expected a whole number from 1 to {COUNT_MAX}, got {limit}"))
        })?;
        let window = window.ok_or_else(|| {
            PyTypeError::new_err("window: needed with a number as limit, as in check_limit(key, 5, 60)")
        })?;
        let quota = Quota::new(count, window_us(window)?, burst, algorithm).map_err(value_error)?;
        return Ok(smallvec![quota]);
    }
    let text = limit
        .cast::<PyString>()
        .map_err(|_| PyTypeError::new_err("limit: expected a whole number or a text such as \"5/minute\""))?;
    if window.is_some() || burst.is_some() {
        return Err(PyTypeError::new_err("window, burst: the text says both, as in \"5/minute burst 2\""));
    }
    let quotas: Quotas = parse_limits(text.to_str()?, algorithm).map_err(value_error)?.into();
    let same = |a: &Quota, b: &Quota| a.algorithm == b.algorithm && a.window_us == b.window_us;
    if quotas.iter().enumerate().any(|(n, quota)| quotas[..n].iter().any(|other| same(quota, other))) {
        return Err(PyValueError::new_err("limit: two limits have the same window; only the smaller would ever bind"));
    }
    Ok(quotas)
}

#[inline]
fn window_us(window: &Bound<'_, PyAny>) -> PyResult<u64> {
    if let Ok(seconds) = window.cast::<PyInt>()
        && let Ok(seconds) = seconds.extract::<u32>()
    {
        return Ok(u64::from(seconds) * 1_000_000);
    }
    if let Ok(text) = window.cast::<PyString>() {
        return parse_duration_us(text.to_str()?).map_err(value_error);
    }
    if window.is_instance_of::<PyFloat>() || window.is_instance_of::<PyInt>() {
        return seconds_to_us("window", window.extract()?);
    }
    Err(PyTypeError::new_err("window: expected seconds or a text such as \"60s\""))
}
