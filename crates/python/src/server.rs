//! The node's HTTP server, as Python sees it.

use crate::decision::header_options;
use crate::engine::PyEngine;
use headgate_node::serve::{AdminTls, Options, Server as Inner, TlsFiles};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::PathBuf;
use std::time::Duration;

/// The most worker threads a server may be told to run.
const THREADS_MAX: usize = 1_024;
/// The draft of the IETF's fields that is sent.
const DRAFT: u8 = 11;

#[pyclass(frozen, module = "headgate._core")]
pub struct Server {
    inner: Inner,
}

#[pymethods]
impl Server {
    #[new]
    #[pyo3(signature = (engine, *, listen = None, grpc = None, uds = None, admin = None, control = None, tls_cert = None, tls_key = None,
        tls_client_ca = None, admin_tls = "on", families = None, jitter = 0.1, problem_body = false, threads = 0,
        max_connections = 10_000, max_body_bytes = 65_536, header_timeout = 10.0, idle_timeout = 75.0, upstreams = Vec::new(), upstream_ca = None,
        upstream_connect_timeout = 5.0, upstream_timeout = 60.0, upstream_idle = 4.0, upstream_connections = 4_096))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        engine: PyRef<'_, PyEngine>,
        listen: Option<String>,
        grpc: Option<String>,
        uds: Option<PathBuf>,
        admin: Option<String>,
        control: Option<PathBuf>,
        tls_cert: Option<PathBuf>,
        tls_key: Option<PathBuf>,
        tls_client_ca: Option<PathBuf>,
        admin_tls: &str,
        families: Option<Vec<String>>,
        jitter: f64,
        problem_body: bool,
        threads: usize,
        max_connections: usize,
        max_body_bytes: usize,
        header_timeout: f64,
        idle_timeout: f64,
        upstreams: Vec<String>,
        upstream_ca: Option<PathBuf>,
        upstream_connect_timeout: f64,
        upstream_timeout: f64,
        upstream_idle: f64,
        upstream_connections: usize,
    ) -> PyResult<Self> {
        if listen.is_none() && grpc.is_none() && uds.is_none() {
            return Err(PyValueError::new_err("listen, grpc, uds: at least one of them is needed"));
        }
        if threads > THREADS_MAX {
            return Err(PyValueError::new_err(format!("threads: expected 0 to {THREADS_MAX}, got {threads}")));
        }
        if max_connections == 0 || max_body_bytes == 0 || upstream_connections == 0 {
            let words = "max_connections, max_body_bytes, upstream_connections: expected at least 1";
            return Err(PyValueError::new_err(words));
        }
        let admin_tls = match admin_tls {
            "off" => AdminTls::Off,
            "on" => AdminTls::On,
            "mutual" => AdminTls::Mutual,
            other => {
                let words = format!("admin_tls: expected off, on or mutual, got `{other}`");
                return Err(PyValueError::new_err(words));
            }
        };
        let options = Options {
            listen,
            grpc,
            uds,
            admin,
            control,
            tls: tls_files(tls_cert, tls_key, tls_client_ca)?,
            admin_tls,
            headers: header_options(families, DRAFT, jitter)?,
            problem_body,
            threads,
            max_connections,
            max_body_bytes,
            header_timeout: seconds("header_timeout", header_timeout)?,
            idle_timeout: seconds("idle_timeout", idle_timeout)?,
            upstreams,
            upstream_ca,
            upstream_connect_timeout: seconds("upstream_connect_timeout", upstream_connect_timeout)?,
            upstream_timeout: seconds("upstream_timeout", upstream_timeout)?,
            upstream_idle: seconds("upstream_idle", upstream_idle)?,
            upstream_connections,
        };
        Ok(Self { inner: Inner::bind(engine.inner.clone(), options)? })
    }

    fn start(&self) -> PyResult<()> {
        Ok(self.inner.start()?)
    }

    fn addresses<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let addresses = PyDict::new(py);
        for (name, address) in self.inner.addresses() {
            addresses.set_item(name, address)?;
        }
        Ok(addresses)
    }

    fn reload_tls(&self, py: Python<'_>) -> Option<String> {
        py.detach(|| self.inner.reload_tls().err())
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

fn tls_files(cert: Option<PathBuf>, key: Option<PathBuf>, client_ca: Option<PathBuf>) -> PyResult<Option<TlsFiles>> {
    match (cert, key, client_ca) {
        (Some(cert), Some(key), client_ca) => Ok(Some(TlsFiles { cert, key, client_ca })),
        (None, None, None) => Ok(None),
        _ => Err(PyValueError::new_err("tls_cert, tls_key: both are needed, tls_client_ca only beside them")),
    }
}

fn seconds(name: &str, value: f64) -> PyResult<Duration> {
    let time = Duration::try_from_secs_f64(value).ok().filter(|time| !time.is_zero());
    time.ok_or_else(|| PyValueError::new_err(format!("{name}: expected a number of seconds above 0, got {value}")))
}
