use headgate_core::rule_document::{Mistake, Step};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

pyo3::create_exception!(headgate._core, RulesError, PyValueError, "A rule document was wrong; `errors` lists how.");

/// Mistakes as a list of (path, message).
pub fn mistakes_to_list<'py>(py: Python<'py>, mistakes: &[Mistake]) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for mistake in mistakes {
        let path = PyList::empty(py);
        for step in &mistake.path {
            match step {
                Step::Key(key) => path.append(key)?,
                Step::Index(index) => path.append(index)?,
            }
        }
        list.append((PyTuple::new(py, path)?, &mistake.message))?;
    }
    Ok(list)
}

/// The exception that carries mistakes.
pub fn rules_error(py: Python<'_>, mistakes: &[Mistake]) -> PyErr {
    let text: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
    let error = RulesError::new_err(text.join("\n"));
    let attached = mistakes_to_list(py, mistakes).and_then(|list| error.value(py).setattr("errors", list));
    attached.err().unwrap_or(error)
}
