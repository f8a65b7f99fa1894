//! The engine, as Python sees it.

use crate::clock::FakeClock;
use crate::decision::Decision;
use crate::errors::rules_error;
use crate::explain::explain;
use crate::facts::FactArgs;
use crate::quotas::{Cost, Quotas, algorithm, quotas};
use headgate_core::facts::FACT_BYTES_MAX;
use headgate_core::rule::Principal;
use headgate_core::rule_document::{Mistake, read_document, read_override, read_rule};
use headgate_core::rule_index::BookError;
use headgate_core::verdict::Path;
use headgate_node::store::Mode;
use headgate_node::{Clock, Engine, Options, bulk};
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The most counters an engine may be told to keep.
const KEYS_MAX: usize = 1_000_000_000;

#[pyclass(subclass, frozen, name = "Engine", module = "headgate._core")]
pub struct PyEngine {
    pub inner: Arc<Engine>,
}

impl PyEngine {
    fn decide(&self, facts: &FactArgs<'_, '_>, cost: Cost, mode: Mode) -> PyResult<Decision> {
        let rules = self.inner.rules_full();
        let verdict = facts.with(|facts| self.inner.check(&rules, facts, cost.0, mode))?;
        Ok(Decision::new(Some(rules), verdict))
    }

    #[inline]
    fn decide_limit(&self, key: &str, quotas: &Quotas, cost: Cost, mode: Mode) -> PyResult<Decision> {
        check_key(key)?;
        Ok(Decision::new(None, self.inner.check_limits(key, quotas, cost.0, mode)))
    }
}

#[inline]
fn check_key(key: &str) -> PyResult<()> {
    if key.is_empty() || key.len() > FACT_BYTES_MAX {
        return Err(PyValueError::new_err(format!("key: must be 1 to {FACT_BYTES_MAX} bytes long")));
    }
    Ok(())
}

fn book_error(py: Python<'_>, error: BookError) -> PyErr {
    rules_error(py, &[Mistake::at_root(error.0)])
}

#[pymethods]
impl PyEngine {
    #[new]
    #[pyo3(signature = (*_args, max_keys = 1_000_000, clock = None, region = None, no_rule = "allow", ipv6_prefix = 64,
        refused_memory = None, **_kwargs))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        _args: &Bound<'_, PyTuple>,
        max_keys: usize,
        clock: Option<PyRef<'_, FakeClock>>,
        region: Option<String>,
        no_rule: &str,
        ipv6_prefix: u8,
        refused_memory: Option<bool>,
        _kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        if max_keys == 0 || max_keys > KEYS_MAX {
            return Err(PyValueError::new_err(format!("max_keys: expected 1 to {KEYS_MAX}, got {max_keys}")));
        }
        if ipv6_prefix == 0 || ipv6_prefix > 128 {
            return Err(PyValueError::new_err("ipv6_prefix: expected 1 to 128"));
        }
        let deny_without_rule = match no_rule {
            "allow" => false,
            "deny" => true,
            other => return Err(PyValueError::new_err(format!("no_rule: expected allow or deny, got `{other}`"))),
        };
        let clock = clock.map_or_else(Clock::system, |clock| Clock::Fake(clock.now_us.clone()));
        let refused_memory = refused_memory.unwrap_or(false);
        let options = Options { max_keys, region, deny_without_rule, ipv6_prefix, refused_memory };
        Ok(Self { inner: Arc::new(Engine::new(options, clock)) })
    }

    #[pyo3(signature = (*, user = None, tier = None, path = None, method = None, ip = None, org = None, api_key = None, region = None, descriptors = None, cost = Cost(1)))]
    #[allow(clippy::too_many_arguments)]
    fn check(
        &self,
        user: Option<&Bound<'_, PyAny>>,
        tier: Option<&Bound<'_, PyAny>>,
        path: Option<&Bound<'_, PyAny>>,
        method: Option<&Bound<'_, PyAny>>,
        ip: Option<&Bound<'_, PyAny>>,
        org: Option<&Bound<'_, PyAny>>,
        api_key: Option<&Bound<'_, PyAny>>,
        region: Option<&Bound<'_, PyAny>>,
        descriptors: Option<&Bound<'_, PyAny>>,
        cost: Cost,
    ) -> PyResult<Decision> {
        let facts = FactArgs { user, tier, path, method, ip, org, api_key, region, descriptors };
        self.decide(&facts, cost, Mode::Check)
    }

    #[pyo3(signature = (*, user = None, tier = None, path = None, method = None, ip = None, org = None, api_key = None, region = None, descriptors = None, cost = Cost(1)))]
    #[allow(clippy::too_many_arguments)]
    fn peek(
        &self,
        user: Option<&Bound<'_, PyAny>>,
        tier: Option<&Bound<'_, PyAny>>,
        path: Option<&Bound<'_, PyAny>>,
        method: Option<&Bound<'_, PyAny>>,
        ip: Option<&Bound<'_, PyAny>>,
        org: Option<&Bound<'_, PyAny>>,
        api_key: Option<&Bound<'_, PyAny>>,
        region: Option<&Bound<'_, PyAny>>,
        descriptors: Option<&Bound<'_, PyAny>>,
        cost: Cost,
    ) -> PyResult<Decision> {
        let facts = FactArgs { user, tier, path, method, ip, org, api_key, region, descriptors };
        self.decide(&facts, cost, Mode::Peek)
    }

    #[pyo3(signature = (*, user = None, tier = None, path = None, method = None, ip = None, org = None, api_key = None, region = None, descriptors = None))]
    #[allow(clippy::too_many_arguments)]
    fn reset(
        &self,
        user: Option<&Bound<'_, PyAny>>,
        tier: Option<&Bound<'_, PyAny>>,
        path: Option<&Bound<'_, PyAny>>,
        method: Option<&Bound<'_, PyAny>>,
        ip: Option<&Bound<'_, PyAny>>,
        org: Option<&Bound<'_, PyAny>>,
        api_key: Option<&Bound<'_, PyAny>>,
        region: Option<&Bound<'_, PyAny>>,
        descriptors: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<usize> {
        let facts = FactArgs { user, tier, path, method, ip, org, api_key, region, descriptors };
        let rules = self.inner.rules_full();
        facts.with(|facts| self.inner.reset(&rules, facts))
    }

    #[pyo3(signature = (*, user = None, tier = None, path = None, method = None, ip = None, org = None, api_key = None, region = None, descriptors = None, cost = Cost(1)))]
    #[allow(clippy::too_many_arguments)]
    fn explain(
        &self,
        user: Option<&Bound<'_, PyAny>>,
        tier: Option<&Bound<'_, PyAny>>,
        path: Option<&Bound<'_, PyAny>>,
        method: Option<&Bound<'_, PyAny>>,
        ip: Option<&Bound<'_, PyAny>>,
        org: Option<&Bound<'_, PyAny>>,
        api_key: Option<&Bound<'_, PyAny>>,
        region: Option<&Bound<'_, PyAny>>,
        descriptors: Option<&Bound<'_, PyAny>>,
        cost: Cost,
    ) -> PyResult<String> {
        let facts = FactArgs { user, tier, path, method, ip, org, api_key, region, descriptors };
        let rules = self.inner.rules_full();
        facts.with(|facts| explain(&self.inner, &rules, facts, cost.0))
    }

    #[pyo3(signature = (key, limit, window = None, cost = Cost(1), algorithm = None, burst = None))]
    fn check_limit(
        &self,
        key: &str,
        limit: &Bound<'_, PyAny>,
        window: Option<&Bound<'_, PyAny>>,
        cost: Cost,
        algorithm: Option<&str>,
        burst: Option<u64>,
    ) -> PyResult<Decision> {
        let quotas = quotas(limit, window, self::algorithm(algorithm)?, burst)?;
        self.decide_limit(key, &quotas, cost, Mode::Check)
    }

    #[pyo3(signature = (key, limit, window = None, cost = Cost(1), algorithm = None, burst = None))]
    fn peek_limit(
        &self,
        key: &str,
        limit: &Bound<'_, PyAny>,
        window: Option<&Bound<'_, PyAny>>,
        cost: Cost,
        algorithm: Option<&str>,
        burst: Option<u64>,
    ) -> PyResult<Decision> {
        let quotas = quotas(limit, window, self::algorithm(algorithm)?, burst)?;
        self.decide_limit(key, &quotas, cost, Mode::Peek)
    }

    #[pyo3(signature = (key, limit, window = None, algorithm = None, burst = None))]
    fn reset_limit(
        &self,
        key: &str,
        limit: &Bound<'_, PyAny>,
        window: Option<&Bound<'_, PyAny>>,
        algorithm: Option<&str>,
        burst: Option<u64>,
    ) -> PyResult<usize> {
        check_key(key)?;
        let quotas = quotas(limit, window, self::algorithm(algorithm)?, burst)?;
        Ok(self.inner.reset_limits(key, &quotas))
    }

    /// What a call costs before anything is decided: the benchmark's yardstick.
    #[pyo3(signature = (key, limit, window = None, cost = Cost(1), algorithm = None, burst = None))]
    fn _noop(
        &self,
        key: &str,
        limit: &Bound<'_, PyAny>,
        window: Option<&Bound<'_, PyAny>>,
        cost: Cost,
        algorithm: Option<&str>,
        burst: Option<u64>,
    ) {
        std::hint::black_box((key, limit, window, cost.0, algorithm, burst));
    }

    #[pyo3(signature = (decision, amount = None))]
    fn refund(&self, decision: &Decision, amount: Option<Cost>) -> PyResult<u64> {
        let amount = amount.map_or(u64::MAX, |amount| amount.0);
        if decision.settled.swap(true, Ordering::AcqRel) {
            return Ok(0);
        }
        Ok(self.inner.refund(&decision.verdict, amount))
    }

    fn commit(&self, decision: &Decision, actual: Cost) -> PyResult<u64> {
        let actual = actual.0;
        if decision.settled.swap(true, Ordering::AcqRel) {
            return Err(PyRuntimeError::new_err("this decision was committed or refunded already"));
        }
        if !decision.verdict.results.iter().any(|result| result.spent) {
            return Ok(0);
        }
        let charged = decision.verdict.cost;
        if actual > charged {
            self.inner.spend_extra(&decision.verdict, actual - charged);
            return Ok(0);
        }
        Ok(self.inner.refund(&decision.verdict, charged - actual))
    }

    fn load_rules(&self, py: Python<'_>, document: &str) -> PyResult<()> {
        let document = py.detach(|| read_document(document)).map_err(|mistakes| rules_error(py, &mistakes))?;
        py.detach(|| self.inner.load(&document)).map_err(|error| book_error(py, error))
    }

    fn load_rules_file(&self, py: Python<'_>, path: &str) -> PyResult<usize> {
        let loaded = py.detach(|| bulk::load_file(&self.inner, std::path::Path::new(path)));
        loaded.map_err(|error| match error {
            bulk::BulkError::Io(error) => PyOSError::new_err(format!("{path}: {error}")),
            bulk::BulkError::Line(mistake) => rules_error(py, &[mistake]),
        })
    }

    fn put_rule(&self, py: Python<'_>, rule: &str) -> PyResult<()> {
        let rule = read_rule(rule).map_err(|mistakes| rules_error(py, &mistakes))?;
        py.detach(|| self.inner.put_rule(&rule)).map_err(|error| book_error(py, error))
    }

    fn remove_rule(&self, py: Python<'_>, name: &str) -> bool {
        py.detach(|| self.inner.remove_rule(name))
    }

    fn put_override(&self, py: Python<'_>, r#override: &str) -> PyResult<()> {
        let parsed = read_override(r#override).map_err(|mistakes| rules_error(py, &mistakes))?;
        py.detach(|| self.inner.put_override(&parsed)).map_err(|error| book_error(py, error))
    }

    fn remove_override(&self, py: Python<'_>, kind: &str, value: &str) -> PyResult<bool> {
        let principal = Principal::ALL.into_iter().find(|principal| principal.name() == kind);
        let unknown = || PyValueError::new_err(format!("kind: expected user, org or api_key, got `{kind}`"));
        let principal = principal.ok_or_else(unknown)?;
        Ok(py.detach(|| self.inner.remove_override(principal, value)))
    }

    fn rule_count(&self) -> usize {
        self.inner.rules().rule_count()
    }

    fn rules_version(&self) -> u64 {
        self.inner.rules().version
    }

    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = PyDict::new(py);
        let occupancy = py.detach(|| self.inner.occupancy());
        stats.set_item("keys", occupancy.keys)?;
        stats.set_item("cells", occupancy.cells)?;
        stats.set_item("rules", self.rule_count())?;
        let (mut allowed, mut refused) = (0, 0);
        for path in Path::ALL {
            let (yes, no) = (self.inner.counters.by_path(path, true), self.inner.counters.by_path(path, false));
            stats.set_item(format!("path_{}", path.name()), yes + no)?;
            allowed += yes;
            refused += no;
        }
        stats.set_item("allowed", allowed)?;
        stats.set_item("refused", refused)?;
        Ok(stats)
    }

    /// Nanoseconds each rule selection took: the benchmark's view of the index alone.
    #[pyo3(signature = (orgs, path, tier = None))]
    fn _bench_select(&self, py: Python<'_>, orgs: Vec<String>, path: &str, tier: Option<&str>) -> Vec<u64> {
        py.detach(|| self.inner.time_selections(&orgs, path, tier))
    }
}
