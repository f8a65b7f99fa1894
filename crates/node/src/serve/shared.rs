//! What a server's threads share.

use super::Options;
use super::grpc::Method;
use super::grpc::code::Code;
use super::proxy::{Dealings, Spare, Upstreams};
use super::router::Route;
use super::tls::Tls;
use crate::Engine;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;
use tokio::sync::Notify;

/// Statuses that are counted one by one. The last stands for those that rules ask for.
pub(crate) const STATUSES: [u16; 15] =
    [200, 400, 401, 403, 404, 405, 408, 413, 429, 431, 500, 502, 503, 504, OTHER_STATUS];
pub(crate) const OTHER_STATUS: u16 = 0;

pub(crate) struct Shared {
    pub engine: Arc<Engine>,
    pub options: Options,
    pub workers: Box<[Arc<Worker>]>,
    pub tls: Option<Arc<Tls>>,
    pub upstreams: Upstreams,
    /// Health and metrics have a door of their own.
    pub has_admin: bool,
    is_draining: AtomicBool,
    /// Tells connections that see to their own end.
    pub draining: Notify,
    drain_until: Mutex<Option<Instant>>,
    rules_error: Mutex<Option<String>>,
    pub reload_errors: AtomicU64,
    tls_error: Mutex<Option<String>>,
    pub tls_reload_errors: AtomicU64,
    /// Connections turned away because there were too many.
    pub refused_connections: AtomicU64,
}

impl Shared {
    pub fn new(
        engine: Arc<Engine>,
        options: Options,
        tls: Option<Arc<Tls>>,
        upstreams: Upstreams,
        workers: usize,
    ) -> Self {
        let dealings = || upstreams.all.iter().map(|_| Dealings::default()).collect();
        let worker = |_| Arc::new(Worker { upstreams: dealings(), ..Worker::default() });
        Self {
            workers: (0..workers).map(worker).collect(),
            upstreams,
            engine,
            tls,
            has_admin: options.admin.is_some(),
            options,
            is_draining: AtomicBool::new(false),
            draining: Notify::new(),
            drain_until: Mutex::new(None),
            rules_error: Mutex::new(None),
            reload_errors: AtomicU64::new(0),
            tls_error: Mutex::new(None),
            tls_reload_errors: AtomicU64::new(0),
            refused_connections: AtomicU64::new(0),
        }
    }

    #[inline]
    pub fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Relaxed)
    }

    /// From now on connections end with the request they are at.
    pub fn drain_until(&self, deadline: Instant) {
        *self.drain_until.lock() = Some(deadline);
        self.is_draining.store(true, Ordering::Relaxed);
        self.draining.notify_waiters();
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

    /// Reads the certificate again; on an error the old one goes on, and the error is told.
    pub fn reload_tls(&self) -> Result<(), String> {
        let Some(tls) = &self.tls else { return Ok(()) };
        let outcome = tls.reload();
        if outcome.is_err() {
            self.tls_reload_errors.fetch_add(1, Ordering::Relaxed);
        }
        *self.tls_error.lock() = outcome.clone().err();
        outcome
    }

    pub fn tls_error(&self) -> Option<String> {
        self.tls_error.lock().clone()
    }

    pub fn connections(&self) -> usize {
        self.workers.iter().map(|worker| worker.connections.load(Ordering::Relaxed)).sum()
    }

    pub fn calls(&self, method: Method, code: usize) -> u64 {
        self.workers.iter().map(|worker| worker.calls[method as usize][code].load(Ordering::Relaxed)).sum()
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
    /// With each upstream, in their order.
    pub upstreams: Box<[Dealings]>,
    /// Buffers of requests to upstreams that are over.
    pub spare: Mutex<Vec<Spare>>,
    requests: [[AtomicU64; STATUSES.len()]; Route::ALL.len()],
    calls: [[AtomicU64; Code::ALL.len()]; Method::ALL.len()],
}

impl Worker {
    #[inline]
    pub fn tick(&self) -> u32 {
        self.tick.load(Ordering::Relaxed)
    }

    #[inline]
    pub fn count_call(&self, method: Method, code: Code) {
        let code = Code::ALL.iter().position(|known| *known == code).unwrap_or(0);
        self.calls[method as usize][code].fetch_add(1, Ordering::Relaxed);
    }

    #[inline]
    pub fn count_request(&self, route: Route, status: u16) {
        let status = STATUSES.iter().position(|known| *known == status).unwrap_or(STATUSES.len() - 1);
        self.requests[route as usize][status].fetch_add(1, Ordering::Relaxed);
    }
}
