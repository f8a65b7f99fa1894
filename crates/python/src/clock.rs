use crate::quotas::seconds_to_us;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// 2025-01-01T00:00:00Z: any fixed moment will do, and a whole day is easy to reason about.
const DEFAULT_START_S: f64 = 1_735_689_600.0;

#[pyclass(frozen, module = "headgate._core")]
pub struct FakeClock {
    pub now_us: Arc<AtomicU64>,
}

#[pymethods]
impl FakeClock {
    #[new]
    #[pyo3(signature = (start = DEFAULT_START_S))]
    fn new(start: f64) -> PyResult<Self> {
        Ok(Self { now_us: Arc::new(AtomicU64::new(seconds_to_us("start", start)?)) })
    }

    fn advance(&self, seconds: f64) -> PyResult<()> {
        if !(0.0..=1e11).contains(&seconds) {
            return Err(PyValueError::new_err("advance: a clock only moves forward; expected seconds >= 0"));
        }
        self.now_us.fetch_add((seconds * 1e6).round() as u64, Ordering::Relaxed);
        Ok(())
    }

    fn now(&self) -> f64 {
        self.now_us() as f64 / 1e6
    }

    fn now_us(&self) -> u64 {
        self.now_us.load(Ordering::Relaxed)
    }
}
