//! The node's HTTP server, as Python sees it.

use crate::engine::PyEngine;
use headgate_node::serve::{Options, Server as Inner};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::path::PathBuf;
use std::time::Duration;

/// The most worker threads a server may be told to run.
const THREADS_MAX: usize = 1_024;

#[pyclass(frozen, module = "headgate._core")]
pub struct Server {
    inner: Inner,
}

#[pymethods]
impl Server {
    #[new]
    #[pyo3(signature = (engine, *, listen = None, uds = None, threads = 0, max_connections = 10_000,
        max_body_bytes = 65_536, header_timeout = 10.0, idle_timeout = 75.0))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        engine: PyRef<'_, PyEngine>,
        listen: Option<String>,
        uds: Option<PathBuf>,
        threads: usize,
        max_connections: usize,
        max_body_bytes: usize,
        header_timeout: f64,
        idle_timeout: f64,
    ) -> PyResult<Self> {
        if listen.is_none() && uds.is_none() {
            return Err(PyValueError::new_err("listen, uds: at least one of them is needed"));
        }
        if threads > THREADS_MAX {
            return Err(PyValueError::new_err(format!("threads: expected 0 to {THREADS_MAX}, got {threads}")));
        }
        if max_connections == 0 || max_body_bytes == 0 {
            return Err(PyValueError::new_err("max_connections, max_body_bytes: expected at least 1"));
        }
        let options = Options {
            listen,
            uds,
            threads,
            max_connections,
            max_body_bytes,
            header_timeout: seconds("header_timeout", header_timeout)?,
            idle_timeout: seconds("idle_timeout", idle_timeout)?,
        };
        Ok(Self { inner: Inner::bind(engine.inner.clone(), options)? })
    }

    fn start(&self) -> PyResult<()> {
        Ok(self.inner.start()?)
    }

    fn addresses(&self) -> Vec<String> {
        self.inner.addresses().to_vec()
    }

    #[pyo3(signature = (error))]
    fn set_rules_error(&self, error: Option<String>) {
        self.inner.set_rules_error(error);
    }

    fn drain(&self, py: Python<'_>, timeout: f64) -> PyResult<bool> {
        let timeout = match timeout {
            0.0 => Duration::ZERO,
            _ => seconds("timeout", timeout)?,
        };
        Ok(py.detach(|| self.inner.drain(timeout)))
    }
}

fn seconds(name: &str, value: f64) -> PyResult<Duration> {
    let time = Duration::try_from_secs_f64(value).ok().filter(|time| !time.is_zero());
    time.ok_or_else(|| PyValueError::new_err(format!("{name}: expected a number of seconds above 0, got {value}")))
}
