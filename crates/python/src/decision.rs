//! A decision, as Python sees it.

use headgate_core::algorithm::NEVER;
use headgate_core::answer::{Answer, Draft, HeaderOptions};
use headgate_core::decision_json::write_decision;
use headgate_core::rule_index::RuleSet;
use headgate_core::verdict::{self, Verdict};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

#[pyclass(frozen, module = "headgate._core")]
pub struct Decision {
    pub rules: Option<Arc<RuleSet>>,
    pub verdict: Verdict,
    /// A charge is returned or settled at most once.
    pub settled: AtomicBool,
}

impl Decision {
    #[inline]
    pub fn new(rules: Option<Arc<RuleSet>>, verdict: Verdict) -> Self {
        Self { rules, verdict, settled: AtomicBool::new(false) }
    }

    pub fn answer(&self) -> Answer<'_> {
        Answer::new(self.rules.as_deref(), &self.verdict)
    }
}

fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

fn wait(us: u64) -> Option<f64> {
    (us != NEVER).then(|| seconds(us))
}

#[pymethods]
impl Decision {
    #[inline]
    fn __bool__(&self) -> bool {
        self.verdict.allowed
    }

    #[getter]
    fn allowed(&self) -> bool {
        self.verdict.allowed
    }

    #[getter]
    fn limit(&self) -> Option<u64> {
        self.verdict.binding().map(|result| result.quota.capacity)
    }

    #[getter]
    fn remaining(&self) -> Option<u64> {
        self.verdict.binding().map(|result| result.measure.remaining)
    }

    #[getter]
    fn retry_after(&self) -> Option<f64> {
        wait(self.verdict.retry_after_us)
    }

    #[getter]
    fn reset_after(&self) -> Option<f64> {
        self.verdict.binding().map(|result| seconds(result.measure.reset_after_us))
    }

    #[getter]
    fn rule(&self) -> Option<&str> {
        self.rules.as_deref().zip(self.verdict.rule).map(|(rules, rule)| rules.name(rule))
    }

    #[getter]
    fn path(&self) -> &'static str {
        self.verdict.path.name()
    }

    #[getter]
    fn degraded(&self) -> bool {
        self.verdict.degraded
    }

    #[getter]
    fn status(&self) -> u16 {
        self.verdict.status
    }

    #[getter]
    fn results(&self) -> Vec<LimitResult> {
        let result = |result: &verdict::LimitResult| LimitResult { rules: self.rules.clone(), result: *result };
        self.verdict.results.iter().map(result).collect()
    }

    #[getter]
    fn skipped(&self) -> Vec<(String, String)> {
        let Some(rules) = &self.rules else { return Vec::new() };
        self.verdict.skipped().iter().map(|(rule, fact)| (rules.name(*rule).to_owned(), fact.to_string())).collect()
    }

    #[pyo3(signature = (*, families = None, draft = 11, jitter = 0.1))]
    fn headers<'py>(
        &self,
        py: Python<'py>,
        families: Option<Vec<String>>,
        draft: u8,
        jitter: f64,
    ) -> PyResult<Bound<'py, PyDict>> {
        let headers = PyDict::new(py);
        for (name, value) in self.answer().headers(&header_options(families, draft, jitter)?) {
            headers.set_item(name, value)?;
        }
        Ok(headers)
    }

    #[pyo3(signature = (*, problem = false, jitter = 0.1))]
    fn body<'py>(&self, py: Python<'py>, problem: bool, jitter: f64) -> PyResult<Bound<'py, PyAny>> {
        let text = self.answer().body(problem, jitter);
        py.import("json")?.call_method1("loads", (text,))
    }

    fn to_json(&self) -> String {
        let mut out = Vec::with_capacity(512);
        write_decision(&mut out, self.rules.as_deref(), &self.verdict);
        String::from_utf8_lossy(&out).into_owned()
    }

    fn __repr__(&self) -> String {
        let word = if self.verdict.allowed { "allowed" } else { "refused" };
        let mut text = format!("<Decision {word}");
        if let Some(rule) = self.rule() {
            text.push_str(&format!(" rule={rule:?}"));
        }
        if let Some(result) = self.verdict.binding() {
            text.push_str(&format!(" remaining={}/{}", result.measure.remaining, result.quota.capacity));
        }
        if let (false, Some(seconds)) = (self.verdict.allowed, self.retry_after()) {
            text.push_str(&format!(" retry_after={seconds}s"));
        }
        format!("{text} path={}>", self.path())
    }
}

pub fn header_options(families: Option<Vec<String>>, draft: u8, jitter: f64) -> PyResult<HeaderOptions> {
    let mut options = HeaderOptions { jitter, ..HeaderOptions::default() };
    if !(0.0..=1.0).contains(&jitter) {
        return Err(PyValueError::new_err("jitter: expected a part from 0 to 1"));
    }
    options.draft = match draft {
        10 => Draft::Ten,
        11 => Draft::Eleven,
        _ => return Err(PyValueError::new_err("draft: expected 10 or 11")),
    };
    if let Some(families) = families {
        let wrong = |family: &&String| family.as_str() != "x-ratelimit" && family.as_str() != "ietf";
        if let Some(family) = families.iter().find(wrong) {
            return Err(PyValueError::new_err(format!("families: `{family}` is not one of x-ratelimit, ietf")));
        }
        options.x_ratelimit = families.iter().any(|family| family == "x-ratelimit");
        options.ietf = families.iter().any(|family| family == "ietf");
    }
    Ok(options)
}

#[pyclass(frozen, module = "headgate._core")]
pub struct LimitResult {
    rules: Option<Arc<RuleSet>>,
    result: verdict::LimitResult,
}

#[pymethods]
impl LimitResult {
    #[getter]
    fn allowed(&self) -> bool {
        self.result.allowed()
    }

    #[getter]
    fn shadow(&self) -> bool {
        self.result.shadow
    }

    #[getter]
    fn rule(&self) -> Option<&str> {
        self.rules.as_deref().zip(self.result.rule).map(|(rules, rule)| rules.name(rule))
    }

    #[getter]
    fn label(&self) -> String {
        let nth = self.result.nth;
        match self.rules.as_deref().zip(self.result.rule) {
            Some((rules, rule)) => rules.record(rule).limits[usize::from(nth)].label.to_string(),
            None => nth.to_string(),
        }
    }

    #[getter]
    fn by<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let names = match self.rules.as_deref().zip(self.result.rule) {
            Some((rules, rule)) => rules.by(rules.record(rule).template.by).by.names(),
            None => Vec::new(),
        };
        PyTuple::new(py, names)
    }

    #[getter]
    fn algorithm(&self) -> &'static str {
        self.result.quota.algorithm.name()
    }

    #[getter]
    fn limit(&self) -> u64 {
        self.result.quota.capacity
    }

    #[getter]
    fn window(&self) -> f64 {
        seconds(self.result.quota.full_window_us())
    }

    #[getter]
    fn remaining(&self) -> u64 {
        self.result.measure.remaining
    }

    #[getter]
    fn retry_after(&self) -> Option<f64> {
        wait(self.result.wait_us)
    }

    #[getter]
    fn reset_after(&self) -> f64 {
        seconds(self.result.measure.reset_after_us)
    }

    fn __repr__(&self) -> String {
        let word = if self.allowed() { "allowed" } else { "refused" };
        let (remaining, limit) = (self.remaining(), self.limit());
        format!("<LimitResult {word} rule={:?} remaining={remaining}/{limit}>", self.rule().unwrap_or("-"))
    }
}
