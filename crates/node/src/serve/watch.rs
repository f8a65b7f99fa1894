//! What a connection is doing and since when, so that one sweep can end those that take too long.
//!
//! A timer for each request would cost more than the request's own decision; marking a phase costs two stores.

use super::shared::Worker;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Phase {
    /// Nothing of a next request has come.
    Idle,
    /// Part of a request's head has come.
    Head,
    /// A request's body is awaited.
    Body,
    /// An answer is being sent.
    Answering,
    /// HTTP/2: many calls at once. The connection sees to its own end.
    Calls,
}

pub(crate) struct Watch {
    phase: AtomicU8,
    since_tick: AtomicU32,
    pub worker: Arc<Worker>,
}

impl Watch {
    pub fn new(worker: Arc<Worker>) -> Self {
        let since_tick = worker.tick();
        Self { phase: AtomicU8::new(Phase::Idle as u8), since_tick: AtomicU32::new(since_tick), worker }
    }

    #[inline]
    pub fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Relaxed);
        self.since_tick.store(self.worker.tick(), Ordering::Relaxed);
    }

    #[inline]
    pub fn is(&self, phase: Phase) -> bool {
        self.phase.load(Ordering::Relaxed) == phase as u8
    }

    /// How many ticks the present phase has lasted.
    pub fn ticks(&self) -> u32 {
        self.worker.tick().wrapping_sub(self.since_tick.load(Ordering::Relaxed))
    }
}
