//! The engine, as Python sees it.

use crate::clock::FakeClock;
use crate::decision::Decision;
use crate::errors::rules_error;
use crate::explain::explain;
use crate::facts::FactArgs;
use crate::feed::{self, Applied};
use crate::identity::{ApiKeys, Identity, Shown, Tokens, identify, ways};
use crate::mailbox::Mailbox;
use crate::quotas::{Cost, Quotas, algorithm, quotas};
use crate::stats::stats;
use crate::store::{MEMORY_STORE, open_store, tell_events};
use headgate_core::facts::FACT_BYTES_MAX;
use headgate_core::rule::{OnStoreFailure, Principal};
use headgate_core::rule_document::{Mistake, read_document, read_override, read_rule};
use headgate_core::rule_index::{BookError, RuleSet};
use headgate_core::verdict::Verdict;
use headgate_node::asking::Step;
use headgate_node::feed::FeedStatus;
use headgate_node::status_json::{event_json, store_json};
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
    fn decide(&self, py: Python<'_>, facts: &FactArgs<'_, '_>, cost: Cost, mode: Mode) -> PyResult<Decision> {
        let rules = self.inner.rules_full();
        if self.inner.is_shared() {
            let step = facts.with(|facts| self.inner.begin(&rules, facts, cost.0, mode))?;
            let verdict = self.wait(py, Some(&rules), step);
            return Ok(Decision::new(Some(rules), verdict));
        }
        let verdict = facts.with(|facts| self.inner.check(&rules, facts, cost.0, mode))?;
        Ok(Decision::new(Some(rules), verdict))
    }

    #[inline]
    fn decide_limit(&self, py: Python<'_>, key: &str, quotas: &Quotas, cost: Cost, mode: Mode) -> PyResult<Decision> {
        check_key(key)?;
        if self.inner.is_shared() {
            let step = self.inner.begin_limits(key, quotas, cost.0, mode);
            return Ok(Decision::new(None, self.wait(py, None, step)));
        }
        Ok(Decision::new(None, self.inner.check_limits(key, quotas, cost.0, mode)))
    }

    /// Waits for the store while other Python threads run. Only that: a lock held without the interpreter's could be
    /// copied, held, into a fork.
    pub fn wait(&self, py: Python<'_>, rules: Option<&RuleSet>, step: Step) -> Verdict {
        let verdict = match step {
            Step::Done(verdict) => verdict,
            Step::Ask(question, asked) => {
                let ticket = py.detach(|| self.inner.ask_blocking(question));
                self.inner.finish(rules, asked, &ticket)
            }
        };
        self.tell_events(py);
        verdict
    }

    /// Returns part of a decision's charges; unless the store's word is waited for, nobody knows how much.
    fn give_back(&self, py: Python<'_>, decision: &Decision, amount: u64, wait: bool) -> u64 {
        if wait || !self.inner.is_shared() {
            return py.detach(|| self.inner.refund(&decision.verdict, amount));
        }
        self.inner.refund_later(&decision.verdict, amount);
        0
    }

    /// Logs what happened to the store since the last time, in the thread of whoever asks: ours has no business in Python.
    pub fn tell_events(&self, py: Python<'_>) {
        if self.inner.events.has_untold() {
            tell_events(py, &self.inner);
        }
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
        refused_memory = None, store = "memory://", store_deadline = 0.005, on_store_failure = "open", max_in_flight = 10_000,
        **_kwargs))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        _args: &Bound<'_, PyTuple>,
        max_keys: usize,
        clock: Option<PyRef<'_, FakeClock>>,
        region: Option<String>,
        no_rule: &str,
        ipv6_prefix: u8,
        refused_memory: Option<bool>,
        store: &str,
        store_deadline: f64,
        on_store_failure: &str,
        max_in_flight: usize,
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
        let on_store_failure = OnStoreFailure::from_name(on_store_failure).ok_or_else(|| {
            let words = format!("on_store_failure: expected open, closed or local, got `{on_store_failure}`");
            PyValueError::new_err(words)
        })?;
        let refused_memory = refused_memory.unwrap_or(store != MEMORY_STORE);
        let events = Arc::default();
        let remote = open_store(py, store, store_deadline, &clock, &events)?;
        let options = Options {
            max_keys,
            region,
            deny_without_rule,
            ipv6_prefix,
            refused_memory,
            on_store_failure,
            max_in_flight,
        };
        let engine = Self { inner: Arc::new(Engine::with_store(options, clock, remote, events)) };
        engine.tell_events(py);
        Ok(engine)
    }

    /// Decides now, or gives a future of `loop` that a mailbox will resolve.
    #[pyo3(signature = (r#loop, mailbox, *, user = None, tier = None, path = None, method = None, ip = None, org = None, api_key = None, region = None, descriptors = None, cost = Cost(1)))]
    #[allow(clippy::too_many_arguments)]
    fn _ask<'py>(
        &self,
        py: Python<'py>,
        r#loop: &Bound<'py, PyAny>,
        mailbox: &Bound<'py, Mailbox>,
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
    ) -> PyResult<Bound<'py, PyAny>> {
        let facts = FactArgs { user, tier, path, method, ip, org, api_key, region, descriptors };
        let rules = self.inner.rules_full();
        let step = facts.with(|facts| self.inner.begin(&rules, facts, cost.0, Mode::Check))?;
        self.tell_events(py);
        Mailbox::send(mailbox, py, r#loop, &self.inner, Some(rules), step)
    }

    #[pyo3(signature = (r#loop, mailbox, key, limit, window = None, cost = Cost(1), algorithm = None, burst = None))]
    #[allow(clippy::too_many_arguments)]
    fn _ask_limit<'py>(
        &self,
        py: Python<'py>,
        r#loop: &Bound<'py, PyAny>,
        mailbox: &Bound<'py, Mailbox>,
        key: &str,
        limit: &Bound<'_, PyAny>,
        window: Option<&Bound<'_, PyAny>>,
        cost: Cost,
        algorithm: Option<&str>,
        burst: Option<u64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let quotas = quotas(limit, window, self::algorithm(algorithm)?, burst)?;
        check_key(key)?;
        let step = self.inner.begin_limits(key, &quotas, cost.0, Mode::Check);
        self.tell_events(py);
        Mailbox::send(mailbox, py, r#loop, &self.inner, None, step)
    }

    /// Whether counters are shared through a store.
    #[getter]
    fn is_shared(&self) -> bool {
        self.inner.is_shared()
    }

    fn store_status(&self, py: Python<'_>) -> String {
        py.detach(|| store_json(&self.inner))
    }

    fn _untold_events(&self) -> String {
        let events: Vec<String> = self.inner.events.untold().iter().map(event_json).collect();
        format!("[{}]", events.join(","))
    }

    #[pyo3(signature = (*, user = None, tier = None, path = None, method = None, ip = None, org = None, api_key = None, region = None, descriptors = None, cost = Cost(1)))]
    #[allow(clippy::too_many_arguments)]
    fn check(
        &self,
        py: Python<'_>,
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
        self.decide(py, &facts, cost, Mode::Check)
    }

    #[pyo3(signature = (*, user = None, tier = None, path = None, method = None, ip = None, org = None, api_key = None, region = None, descriptors = None, cost = Cost(1)))]
    #[allow(clippy::too_many_arguments)]
    fn peek(
        &self,
        py: Python<'_>,
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
        self.decide(py, &facts, cost, Mode::Peek)
    }

    #[pyo3(signature = (*, user = None, tier = None, path = None, method = None, ip = None, org = None, api_key = None, region = None, descriptors = None))]
    #[allow(clippy::too_many_arguments)]
    fn reset(
        &self,
        py: Python<'_>,
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
        facts.with(|facts| py.detach(|| self.inner.reset(&rules, facts)))
    }

    #[pyo3(signature = (*, user = None, tier = None, path = None, method = None, ip = None, org = None, api_key = None, region = None, descriptors = None, cost = Cost(1)))]
    #[allow(clippy::too_many_arguments)]
    fn explain(
        &self,
        py: Python<'_>,
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
        facts.with(|facts| py.detach(|| explain(&self.inner, &rules, facts, cost.0)))
    }

    #[pyo3(signature = (key, limit, window = None, cost = Cost(1), algorithm = None, burst = None))]
    #[allow(clippy::too_many_arguments)]
    fn check_limit(
        &self,
        py: Python<'_>,
        key: &str,
        limit: &Bound<'_, PyAny>,
        window: Option<&Bound<'_, PyAny>>,
        cost: Cost,
        algorithm: Option<&str>,
        burst: Option<u64>,
    ) -> PyResult<Decision> {
        let quotas = quotas(limit, window, self::algorithm(algorithm)?, burst)?;
        self.decide_limit(py, key, &quotas, cost, Mode::Check)
    }

    #[pyo3(signature = (key, limit, window = None, cost = Cost(1), algorithm = None, burst = None))]
    #[allow(clippy::too_many_arguments)]
    fn peek_limit(
        &self,
        py: Python<'_>,
        key: &str,
        limit: &Bound<'_, PyAny>,
        window: Option<&Bound<'_, PyAny>>,
        cost: Cost,
        algorithm: Option<&str>,
        burst: Option<u64>,
    ) -> PyResult<Decision> {
        let quotas = quotas(limit, window, self::algorithm(algorithm)?, burst)?;
        self.decide_limit(py, key, &quotas, cost, Mode::Peek)
    }

    #[pyo3(signature = (key, limit, window = None, algorithm = None, burst = None))]
    fn reset_limit(
        &self,
        py: Python<'_>,
        key: &str,
        limit: &Bound<'_, PyAny>,
        window: Option<&Bound<'_, PyAny>>,
        algorithm: Option<&str>,
        burst: Option<u64>,
    ) -> PyResult<usize> {
        check_key(key)?;
        let quotas = quotas(limit, window, self::algorithm(algorithm)?, burst)?;
        Ok(py.detach(|| self.inner.reset_limits(key, &quotas)))
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

    #[pyo3(signature = (decision, amount = None, *, wait = true))]
    fn refund(&self, py: Python<'_>, decision: &Decision, amount: Option<Cost>, wait: bool) -> PyResult<u64> {
        let amount = amount.map_or(u64::MAX, |amount| amount.0);
        if decision.settled.swap(true, Ordering::AcqRel) {
            return Ok(0);
        }
        Ok(self.give_back(py, decision, amount, wait))
    }

    #[pyo3(signature = (decision, actual, *, wait = true))]
    fn commit(&self, py: Python<'_>, decision: &Decision, actual: Cost, wait: bool) -> PyResult<u64> {
        let actual = actual.0;
        if decision.settled.swap(true, Ordering::AcqRel) {
            return Err(PyRuntimeError::new_err("this decision was committed or refunded already"));
        }
        if !decision.verdict.results.iter().any(|result| result.spent) {
            return Ok(0);
        }
        let charged = decision.verdict.cost;
        if actual > charged {
            py.detach(|| self.inner.spend_extra(&decision.verdict, actual - charged, wait));
            return Ok(0);
        }
        Ok(self.give_back(py, decision, charged - actual, wait))
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

    #[pyo3(signature = (*, authorization = None, api_key = None, peer = None, forwarded_for = None))]
    fn identify(
        &self,
        authorization: Option<&str>,
        api_key: Option<&str>,
        peer: Option<&str>,
        forwarded_for: Option<&str>,
    ) -> PyResult<Identity> {
        identify(&self.inner, &Shown { authorization, api_key, peer, forwarded_for })
    }

    #[pyo3(signature = (tokens, api_keys, *, api_key_header, trusted_proxies, reject))]
    fn _set_identity(
        &self,
        tokens: Option<&Tokens>,
        api_keys: Option<&ApiKeys>,
        api_key_header: &str,
        trusted_proxies: Vec<String>,
        reject: bool,
    ) -> PyResult<()> {
        self.inner.set_identity(ways(tokens, api_keys, api_key_header, &trusted_proxies, reject)?);
        Ok(())
    }

    #[pyo3(signature = (error))]
    fn _set_identity_error(&self, error: Option<String>) {
        self.inner.set_identity_error(error);
    }

    fn rule_count(&self) -> usize {
        self.inner.rules().rule_count()
    }

    fn rules_version(&self) -> u64 {
        self.inner.rules().version
    }

    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        stats(py, &self.inner)
    }

    fn apply_delta(&self, py: Python<'_>, raw: &[u8], key: &[u8]) -> PyResult<Applied> {
        feed::apply_delta(py, &self.inner, raw, key)
    }

    fn apply_snapshot(&self, py: Python<'_>, path: &str, key: &[u8]) -> PyResult<Applied> {
        feed::apply_snapshot(py, &self.inner, path, key)
    }

    fn feed_position(&self, py: Python<'_>) -> (u64, u64) {
        let position = py.detach(|| self.inner.feed_position());
        (position.epoch, position.version)
    }

    #[pyo3(signature = (*, contact_us, source, error))]
    fn set_feed_status(&self, contact_us: u64, source: String, error: Option<String>) {
        self.inner.set_feed_status(FeedStatus { contact_us, source, error });
    }

    fn take_keys_from_feed(&self, py: Python<'_>, secret: &[u8]) -> PyResult<()> {
        py.detach(|| self.inner.take_keys_from_feed(secret)).map_err(PyValueError::new_err)
    }

    fn take_used_keys(&self, py: Python<'_>, limit: usize) -> Vec<String> {
        py.detach(|| self.inner.take_used_keys(limit))
    }

    /// Nanoseconds each rule selection took: the benchmark's view of the index alone.
    #[pyo3(signature = (orgs, path, tier = None))]
    fn _bench_select(&self, py: Python<'_>, orgs: Vec<String>, path: &str, tier: Option<&str>) -> Vec<u64> {
        py.detach(|| self.inner.time_selections(&orgs, path, tier))
    }
}
