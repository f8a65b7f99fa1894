//! What a server's threads share.

use super::Options;
use super::router::Route;
use crate::Engine;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

/// Statuses that are answered; every other one is counted as the last.
pub(crate) const STATUSES: [u16; 8] = [200, 400, 404, 405, 413, 431, 503, 500];

pub(crate) struct Shared {
    pub engine: Arc<Engine>,
    pub options: Options,
    pub workers: Box<[Arc<Worker>]>,
    draining: AtomicBool,
    drain_until: Mutex<Option<Instant>>,
    rules_error: Mutex<Option<String>>,
    pub reload_errors: AtomicU64,
}

impl Shared {
    pub fn new(engine: Arc<Engine>, options: Options, workers: usize) -> Self {
        Self {
            engine,
            options,
            workers: (0..workers).map(|_| Arc::default()).collect(),
            draining: AtomicBool::new(false),
            drain_until: Mutex::new(None),
            rules_error: Mutex::new(None),
            reload_errors: AtomicU64::new(0),
        }
    }

    #[inline]
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// From now on connections end with the request they are at.
    pub fn drain_until(&self, deadline: Instant) {
        *self.drain_until.lock() = Some(deadline);
        self.draining.store(true, Ordering::Relaxed);
    }

    pub fn drain_deadline(&self) -> Option<Instant> {
        *self.drain_until.lock()
    }

    pub fn set_rules_error(&self, error: Option<String>) {
        if error.is_some() {
            self.reload_errors.fetch_add(1, Ordering::Relaxed);
        }
        *self.rules_error.lock() = error;
    }

    pub fn rules_error(&self) -> Option<String> {
        self.rules_error.lock().clone()
    }

    pub fn connections(&self) -> usize {
        self.workers.iter().map(|worker| worker.connections.load(Ordering::Relaxed)).sum()
    }

    pub fn requests(&self, route: Route, status: usize) -> u64 {
        self.workers.iter().map(|worker| worker.requests[route as usize][status].load(Ordering::Relaxed)).sum()
    }
}

/// What one worker thread says of itself. On cache lines of its own.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Worker {
    /// Moves once a [`super::worker::TICK`]: time enough for timeouts, without asking a clock for each request.
    pub tick: AtomicU32,
    pub connections: AtomicUsize,
    requests: [[AtomicU64; STATUSES.len()]; Route::ALL.len()],
}

impl Worker {
    #[inline]
    pub fn tick(&self) -> u32 {
        self.tick.load(Ordering::Relaxed)
    }

    #[inline]
    pub fn count_request(&self, route: Route, status: u16) {
        let status = STATUSES.iter().position(|known| *known == status).unwrap_or(STATUSES.len() - 1);
        self.requests[route as usize][status].fetch_add(1, Ordering::Relaxed);
    }
}
