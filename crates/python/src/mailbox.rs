//! Where answers for an event loop arrive: the store's thread puts them in and writes one byte; the loop reads it and
//! takes them all out. No thread of ours ever needs the interpreter's lock.

use crate::decision::Decision;
use headgate_core::rule_index::RuleSet;
use headgate_node::Engine;
use headgate_node::asking::{Asked, Step};
use headgate_node::store::remote::{self, Question, Ticket};
use pyo3::intern;
use pyo3::prelude::*;
use std::collections::HashMap;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Questions that wait for the end of a round together.
const TOGETHER_MAX: usize = 32;

struct Box_ {
    /// None once the loop's side is gone: an answer kept here would keep this box, which it holds.
    ready: Mutex<Option<Vec<Arc<Ticket>>>>,
    is_told: AtomicBool,
    bell: UnixStream,
}

impl remote::Mailbox for Box_ {
    fn put(&self, ticket: Arc<Ticket>) {
        if let Some(ready) = &mut *self.ready.lock().unwrap_or_else(PoisonError::into_inner) {
            ready.push(ticket);
        }
    }

    fn wake(&self) {
        if !self.is_told.swap(true, Ordering::AcqRel) {
            let _ = (&self.bell).write(&[1]); // A loop that is gone needs no waking.
        }
    }
}

/// A check whose answer is awaited.
struct Waiting {
    future: Py<PyAny>,
    engine: Arc<Engine>,
    rules: Option<Arc<RuleSet>>,
    asked: Asked,
}

#[pyclass(frozen, module = "headgate._core")]
pub struct Mailbox {
    inner: Arc<Box_>,
    ear: UnixStream,
    /// Touched by the loop's thread only.
    waiting: Mutex<HashMap<u64, Waiting>>,
    /// Asked since the loop last went round, while others waited already. The loop cannot read an answer before it has, so
    /// nothing is lost by handing them over together then, and the store is asked once instead of many times.
    asked: Mutex<Vec<(Arc<Engine>, Question, u64)>>,
    next: AtomicU64,
    wakeups: AtomicU64,
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        *self.inner.ready.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

#[pymethods]
impl Mailbox {
    #[new]
    fn new() -> PyResult<Self> {
        let (ear, bell) = UnixStream::pair()?;
        ear.set_nonblocking(true)?;
        bell.set_nonblocking(true)?;
        let inner = Box_ { ready: Mutex::new(Some(Vec::new())), is_told: AtomicBool::new(false), bell };
        Ok(Self {
            inner: Arc::new(inner),
            ear,
            waiting: Mutex::default(),
            asked: Mutex::default(),
            next: AtomicU64::new(0),
            wakeups: AtomicU64::new(0),
        })
    }

    /// What the loop watches.
    fn fileno(&self) -> i32 {
        self.ear.as_raw_fd()
    }

    /// How often the loop was woken.
    #[getter]
    fn wakeups(&self) -> u64 {
        self.wakeups.load(Ordering::Relaxed)
    }

    /// Hands over all that was asked since the last time.
    fn flush(&self) {
        let asked = std::mem::take(&mut *self.asked.lock().unwrap_or_else(PoisonError::into_inner));
        let mailbox: Arc<dyn remote::Mailbox> = self.inner.clone();
        let mut asked = asked.into_iter().peekable();
        while let Some((engine, question, token)) = asked.next() {
            let of_same = std::iter::from_fn(|| asked.next_if(|(other, ..)| Arc::ptr_eq(other, &engine)));
            let rest = of_same.map(|(_, question, token)| (question, token));
            engine.hand_over(std::iter::once((question, token)).chain(rest), &mailbox);
        }
    }

    /// Resolves the futures of all answers that are there.
    fn drain(&self, py: Python<'_>) -> PyResult<()> {
        self.wakeups.fetch_add(1, Ordering::Relaxed);
        let mut bytes = [0; 64];
        while matches!((&self.ear).read(&mut bytes), Ok(count) if count == bytes.len()) {}
        self.inner.is_told.store(false, Ordering::Release);
        let ready = self.inner.ready.lock().unwrap_or_else(PoisonError::into_inner).as_mut().map(std::mem::take);
        for ticket in ready.unwrap_or_default() {
            let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(&ticket.token);
            let Some(Waiting { future, engine, rules, asked }) = waiting else { continue };
            let verdict = engine.finish(rules.as_deref(), asked, &ticket);
            // Cancelled while the store was asked: it counts all the same.
            let is_done = future.call_method0(py, intern!(py, "done"))?.is_truthy(py)?;
            if !is_done {
                let decision = Decision::new(rules, verdict);
                future.call_method1(py, intern!(py, "set_result"), (decision,))?;
            }
        }
        Ok(())
    }
}

impl Mailbox {
    /// A decision that is there already, or the future of one.
    pub fn send<'py>(
        this: &Bound<'py, Self>,
        py: Python<'py>,
        event_loop: &Bound<'py, PyAny>,
        engine: &Arc<Engine>,
        rules: Option<Arc<RuleSet>>,
        step: Step,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (question, asked) = match step {
            Step::Done(verdict) => return Ok(Bound::new(py, Decision::new(rules, verdict))?.into_any()),
            Step::Ask(question, asked) => (question, asked),
        };
        let future = event_loop.call_method0(intern!(py, "create_future"))?;
        let mailbox = this.get();
        let token = mailbox.next.fetch_add(1, Ordering::Relaxed);
        let waiting = Waiting { future: future.clone().unbind(), engine: engine.clone(), rules, asked };
        let mut all_waiting = mailbox.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let is_alone = all_waiting.is_empty();
        all_waiting.insert(token, waiting);
        drop(all_waiting);
        if is_alone {
            // Nobody else waits: there may be no others to wait for either.
            let inner: Arc<dyn remote::Mailbox> = mailbox.inner.clone();
            engine.hand_over(std::iter::once((question, token)), &inner);
            return Ok(future);
        }
        let mut asked = mailbox.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.push((engine.clone(), question, token));
        let (is_first, is_enough) = (asked.len() == 1, asked.len() >= TOGETHER_MAX);
        drop(asked);
        if is_enough {
            // The store can work on these while the loop goes on.
            mailbox.flush();
        } else if is_first {
            event_loop.call_method1(intern!(py, "call_soon"), (this.getattr(intern!(py, "flush"))?,))?;
        }
        Ok(future)
    }
}
