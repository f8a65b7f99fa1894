use crate::errors::{mistakes_to_list, rules_error};
use crate::quotas::{Cost, algorithm, quotas, value_error};
use headgate_core::limit_text;
use headgate_core::path::normalise;
use headgate_core::rule_document::{Mistake, read_block, read_document, read_override, read_rule};
use headgate_node::identity::key_change;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyList;

#[pyfunction]
pub fn validate_rules<'py>(py: Python<'py>, document: &str) -> PyResult<Bound<'py, PyList>> {
    let mistakes = py.detach(|| read_document(document)).err().unwrap_or_default();
    mistakes_to_list(py, &mistakes)
}

/// Raises what is wrong with an entry of the feed on its own, whatever else there is.
#[pyfunction]
pub fn check_entry(py: Python<'_>, kind: &str, body: &str) -> PyResult<()> {
    let mistakes = match kind {
        "rule" => read_rule(body).err(),
        "override" => read_override(body).err(),
        "block" => read_block(body).err(),
        "key" => key_change(body).err().map(|message| vec![Mistake::at_root(message)]),
        "switch" | "tier" => None,
        other => return Err(PyValueError::new_err(format!("kind: `{other}` is no kind of entry"))),
    };
    mistakes.map_or(Ok(()), |mistakes| Err(rules_error(py, &mistakes)))
}

#[pyfunction]
#[pyo3(signature = (text, algorithm = None), name = "parse_limit")]
pub fn parse_limit(text: &str, algorithm: Option<&str>) -> PyResult<Vec<(&'static str, u64, f64, u64)>> {
    let quotas = limit_text::parse_limits(text, self::algorithm(algorithm)?).map_err(value_error)?;
    let parts = quotas.iter().map(|q| (q.algorithm.name(), q.count, q.window_us as f64 / 1e6, q.capacity));
    Ok(parts.collect())
}

/// Raises what is wrong with the upstreams of a gateway.
#[pyfunction]
pub fn check_upstreams(upstreams: Vec<String>) -> PyResult<()> {
    headgate_node::serve::check_upstreams(&upstreams).map_err(PyValueError::new_err)
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
