//! Opening the store a URL names, and telling what happens to it.

use headgate_node::events::Events;
use headgate_node::status_json::event_json;
use headgate_node::store::remote::{OpenError, Options, RemoteStore};
use headgate_node::{Clock, Engine};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use std::sync::Arc;
use std::time::Duration;

pub const MEMORY_STORE: &str = "memory://";
const DEADLINE_MAX_S: f64 = 60.0;

/// None for counters in this process. Raises ConfigError for a URL that cannot be, StoreError for a server that will not.
pub fn open_store(
    py: Python<'_>,
    url: &str,
    deadline_s: f64,
    clock: &Clock,
    events: &Arc<Events>,
) -> PyResult<Option<RemoteStore>> {
    if url == MEMORY_STORE {
        return Ok(None);
    }
    log_of(py)?;
    if !(0.0001..=DEADLINE_MAX_S).contains(&deadline_s) {
        let words = format!("store_deadline: expected seconds from 0.0001 to {DEADLINE_MAX_S}, got {deadline_s}");
        return Err(PyValueError::new_err(words));
    }
    let deadline = Duration::from_secs_f64(deadline_s);
    let options = Options { deadline, connect_timeout: Options::default().connect_timeout.max(deadline * 4) };
    let (clock, events) = (clock.clone(), events.clone());
    let opened = py.detach(|| RemoteStore::open(url, options, clock, events));
    opened.map(Some).map_err(|error| match error {
        OpenError::Url(error) => raise(py, "ConfigError", format!("store: {error}")),
        OpenError::Rejected(what) => raise(py, "StoreError", what),
    })
}

/// One of the package's own exceptions.
fn raise(py: Python<'_>, class: &str, message: String) -> PyErr {
    let made = py.import("headgate.errors").and_then(|errors| errors.getattr(class)?.call1((message,)));
    made.map_or_else(|error| error, PyErr::from_value)
}

/// What logs events. Imported when a store is opened and never later: a fork copies the lock of whoever is importing.
static LOG: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

fn log_of(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    LOG.import(py, "headgate.store_events", "log")
}

/// Logs what happened to the store since the last time.
#[cold]
pub fn tell_events(py: Python<'_>, engine: &Engine) {
    let events: Vec<String> = engine.events.untold().iter().map(event_json).collect();
    let log = || log_of(py)?.call1((format!("[{}]", events.join(",")),));
    if let Err(error) = log() {
        error.write_unraisable(py, None);
    }
}
