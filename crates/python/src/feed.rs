//! What a control plane sends, as Python hands it over.

use headgate_node::Engine;
use headgate_node::feed::{Applied as Inner, FeedError};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use std::path::Path;

const KEY_BYTES_MIN: usize = 32;

/// What became of a delta or a snapshot.
#[pyclass(frozen, module = "headgate._core")]
pub struct Applied {
    inner: Inner,
}

#[pymethods]
impl Applied {
    #[getter]
    fn epoch(&self) -> u64 {
        self.inner.position.epoch
    }

    #[getter]
    fn version(&self) -> u64 {
        self.inner.position.version
    }

    #[getter]
    fn entries(&self) -> usize {
        self.inner.entries
    }

    #[getter]
    fn refused(&self) -> Vec<(&'static str, &str, &str)> {
        self.inner.refused.iter().map(|one| (one.kind, one.id.as_str(), one.message.as_str())).collect()
    }

    #[getter]
    fn is_full(&self) -> bool {
        self.inner.is_full
    }

    fn __repr__(&self) -> String {
        let (position, entries, refused) = (self.inner.position, self.inner.entries, self.inner.refused.len());
        format!("Applied(position={position}, entries={entries}, refused={refused})")
    }
}

pub fn apply_delta(py: Python<'_>, engine: &Engine, raw: &[u8], key: &[u8]) -> PyResult<Applied> {
    taken(py, "", key, || engine.apply_delta(raw, key))
}

pub fn apply_snapshot(py: Python<'_>, engine: &Engine, path: &str, key: &[u8]) -> PyResult<Applied> {
    taken(py, path, key, || engine.apply_snapshot(Path::new(path), key))
}

fn taken(
    py: Python<'_>,
    path: &str,
    key: &[u8],
    take: impl FnOnce() -> Result<Inner, FeedError> + Send,
) -> PyResult<Applied> {
    if key.len() < KEY_BYTES_MIN {
        return Err(PyValueError::new_err(format!("key: expected at least {KEY_BYTES_MIN} bytes, got {}", key.len())));
    }
    py.detach(take).map(|inner| Applied { inner }).map_err(|error| match (&error, error.reason()) {
        (FeedError::Io(error), _) => PyOSError::new_err(format!("{path}: {error}")),
        (_, reason) => raised(py, reason.unwrap_or("corrupt"), &error.to_string()).unwrap_or_else(|error| error),
    })
}

fn raised(py: Python<'_>, reason: &str, message: &str) -> PyResult<PyErr> {
    let error = py.import("headgate.errors")?.getattr("FeedError")?.call1((reason, message))?;
    Ok(PyErr::from_value(error))
}
