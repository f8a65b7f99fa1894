//! What a web application's client sees: headers and bodies of decisions, in the forms servers take them.

use crate::decision::{Decision, header_options};
use crate::policies::Policies;
use headgate_core::answer::{Answer, HeaderOptions, binding_step};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};
use smallvec::SmallVec;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Every header a decision can have, as ASGI has names.
const NAMES: [&str; 7] = [
    "retry-after",
    "x-ratelimit-limit",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
    "x-ratelimit-retry-after",
    "ratelimit-policy",
    "ratelimit",
];

/// A step of a request's decision, and what the policy of a limit without a rule is named.
#[derive(FromPyObject)]
struct Step<'py>(PyRef<'py, Decision>, Option<Bound<'py, PyString>>);

type Steps<'py> = SmallVec<[Step<'py>; 2]>;

/// Which headers and bodies answers have.
#[pyclass(frozen, module = "headgate._core")]
pub struct Answers {
    options: HeaderOptions,
    problem: bool,
    policies: Mutex<Policies>,
}

#[pymethods]
impl Answers {
    #[new]
    #[pyo3(signature = (*, families = None, draft = 11, jitter = 0.1, problem = false))]
    fn new(families: Option<Vec<String>>, draft: u8, jitter: f64, problem: bool) -> PyResult<Self> {
        Ok(Self { options: header_options(families, draft, jitter)?, problem, policies: Mutex::default() })
    }

    /// Headers as ASGI has them: those given, then ours that are not among them.
    fn asgi<'py>(&self, given: &Bound<'py, PyAny>, steps: &Bound<'py, PyList>) -> PyResult<Bound<'py, PyList>> {
        let py = given.py();
        let headers = PyList::empty(py);
        let mut is_given = [false; NAMES.len()];
        for pair in given.try_iter()? {
            let pair = pair?;
            if let Ok(name) = pair.get_item(0)?.cast::<PyBytes>() {
                mark(&mut is_given, name.as_bytes());
            }
            headers.append(pair)?;
        }
        let names = interned_names(py);
        self.each(steps, |nth, _, value| match is_given[nth] {
            true => Ok(()),
            false => headers.append((names[nth].bind(py), PyBytes::new(py, value.as_bytes()))),
        })?;
        Ok(headers)
    }

    /// The same as WSGI has them.
    fn wsgi<'py>(&self, given: &Bound<'py, PyAny>, steps: &Bound<'py, PyList>) -> PyResult<Bound<'py, PyList>> {
        let py = given.py();
        let headers = PyList::empty(py);
        let mut is_given = [false; NAMES.len()];
        for pair in given.try_iter()? {
            let pair = pair?;
            if let Ok(name) = pair.get_item(0)?.cast::<PyString>() {
                mark(&mut is_given, name.to_str()?.as_bytes());
            }
            headers.append(pair)?;
        }
        self.each(steps, |nth, name, value| match is_given[nth] {
            true => Ok(()),
            false => headers.append((PyString::intern(py, name), value)),
        })?;
        Ok(headers)
    }

    fn headers<'py>(&self, py: Python<'py>, steps: &Bound<'py, PyList>) -> PyResult<Bound<'py, PyDict>> {
        let headers = PyDict::new(py);
        self.each(steps, |_, name, value| headers.set_item(PyString::intern(py, name), value))?;
        Ok(headers)
    }

    /// The body of a refusal.
    fn body<'py>(&self, py: Python<'py>, steps: &Bound<'py, PyList>) -> PyResult<Bound<'py, PyBytes>> {
        let text = with_answers(steps, |answers| {
            binding_step(answers).map(|answer| answer.body(self.problem, self.options.jitter)).unwrap_or_default()
        })?;
        Ok(PyBytes::new(py, text.as_bytes()))
    }

    #[getter]
    fn content_type(&self) -> &'static str {
        if self.problem { "application/problem+json" } else { "application/json" }
    }
}

/// An ASGI application's `send`: puts rate headers on the response, and has what depends on it settled.
#[pyclass(frozen, module = "headgate._core")]
pub struct AsgiSender {
    answers: Py<Answers>,
    passage: Py<PyAny>,
    steps: Py<PyList>,
    send: Py<PyAny>,
    is_started: AtomicBool,
}

#[pymethods]
impl AsgiSender {
    #[new]
    fn new(answers: Py<Answers>, passage: Py<PyAny>, steps: Py<PyList>, send: Py<PyAny>) -> Self {
        Self { answers, passage, steps, send, is_started: AtomicBool::new(false) }
    }

    #[getter]
    fn is_started(&self) -> bool {
        self.is_started.load(Ordering::Relaxed)
    }

    fn __call__<'py>(&self, py: Python<'py>, message: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyAny>> {
        let kind = message.get_item(intern!(py, "type"))?;
        let is_start = match &kind {
            Some(kind) => kind.eq(intern!(py, "http.response.start"))?,
            None => false,
        };
        let send = self.send.bind(py);
        if !is_start {
            return send.call1((message,));
        }
        self.is_started.store(true, Ordering::Relaxed);
        if self.passage.bind(py).getattr(intern!(py, "settles"))?.is_truthy()? {
            self.passage.bind(py).call_method1(intern!(py, "settle_asgi"), (message,))?;
        }
        let given = match message.get_item(intern!(py, "headers"))? {
            Some(given) => given,
            None => PyList::empty(py).into_any(),
        };
        let headers = self.answers.get().asgi(&given, self.steps.bind(py))?;
        let told = message.copy()?;
        told.set_item(intern!(py, "headers"), headers)?;
        send.call1((told,))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.passage)?;
        visit.call(&self.steps)?;
        visit.call(&self.send)
    }
}

impl Answers {
    fn each(
        &self,
        steps: &Bound<'_, PyList>,
        mut put: impl FnMut(usize, &'static str, &str) -> PyResult<()>,
    ) -> PyResult<()> {
        let mut outcome = Ok(());
        with_answers(steps, |answers| {
            let Some(step) = binding_step(answers) else { return };
            let put_policies = |text: &mut String| {
                self.policies.lock().unwrap_or_else(PoisonError::into_inner).put(text, answers);
            };
            step.each_header_with(put_policies, &self.options, &mut |name, value| {
                let nth = NAMES.iter().position(|known| known.eq_ignore_ascii_case(name));
                if let (Some(nth), Ok(())) = (nth, &outcome) {
                    outcome = put(nth, name, value);
                }
            });
        })?;
        outcome
    }
}

/// Which of the steps a request's answer speaks of.
#[pyfunction]
pub fn binding_position(steps: &Bound<'_, PyList>) -> PyResult<usize> {
    with_answers(steps, |answers| {
        let bound = binding_step(answers);
        bound.and_then(|bound| answers.iter().position(|answer| std::ptr::eq(answer, bound))).unwrap_or(0)
    })
}

fn with_answers<R>(steps: &Bound<'_, PyList>, f: impl FnOnce(&[Answer<'_>]) -> R) -> PyResult<R> {
    let steps: Steps<'_> = steps.iter().map(|step| step.extract()).collect::<PyResult<_>>()?;
    let mut answers: SmallVec<[Answer<'_>; 2]> = SmallVec::new();
    for Step(decision, name) in &steps {
        let answer = decision.answer();
        let plain_name = match name {
            Some(name) => name.to_str()?,
            None => answer.plain_name,
        };
        answers.push(Answer { plain_name, ..answer });
    }
    Ok(f(&answers))
}

fn mark(is_given: &mut [bool; NAMES.len()], name: &[u8]) {
    // Few headers begin as ours do.
    if !matches!(name.first(), Some(b'r' | b'R' | b'x' | b'X')) {
        return;
    }
    if let Some(nth) = NAMES.iter().position(|known| known.as_bytes().eq_ignore_ascii_case(name)) {
        is_given[nth] = true;
    }
}

fn interned_names(py: Python<'_>) -> &[Py<PyBytes>; NAMES.len()] {
    static INTERNED: PyOnceLock<[Py<PyBytes>; NAMES.len()]> = PyOnceLock::new();
    INTERNED.get_or_init(py, || NAMES.map(|name| PyBytes::new(py, name.as_bytes()).unbind()))
}
