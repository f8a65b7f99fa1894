use crate::errors::mistakes_to_list;
use crate::quotas::{Cost, algorithm, quotas, value_error};
use headgate_core::limit_text;
use headgate_core::path::normalise;
use headgate_core::rule_document::read_document;
use pyo3::prelude::*;
use pyo3::types::PyList;

#[pyfunction]
pub fn validate_rules<'py>(py: Python<'py>, document: &str) -> PyResult<Bound<'py, PyList>> {
    let mistakes = py.detach(|| read_document(document)).err().unwrap_or_default();
    mistakes_to_list(py, &mistakes)
}

#[pyfunction]
#[pyo3(signature = (text, algorithm = None), name = "parse_limit")]
pub fn parse_limit(text: &str, algorithm: Option<&str>) -> PyResult<Vec<(&'static str, u64, f64, u64)>> {
    let quotas = limit_text::parse_limits(text, self::algorithm(algorithm)?).map_err(value_error)?;
    let parts = quotas.iter().map(|q| (q.algorithm.name(), q.count, q.window_us as f64 / 1e6, q.capacity));
    Ok(parts.collect())
}

#[pyfunction]
pub fn normalise_path(path: &str) -> String {
    normalise(path).into_owned()
}

/// Raises what `check_limit` would of these arguments.
#[pyfunction]
#[pyo3(signature = (limit, window = None, cost = Cost(1), algorithm = None, burst = None))]
pub fn check_limit_arguments(
    limit: &Bound<'_, PyAny>,
    window: Option<&Bound<'_, PyAny>>,
    cost: Cost,
    algorithm: Option<&str>,
    burst: Option<u64>,
) -> PyResult<()> {
    let _ = cost;
    quotas(limit, window, self::algorithm(algorithm)?, burst).map(|_| ())
}
