//! One HTTP/2 connection: calls in, answers out. It sees to its own end, since the other side is to be told of it first.

use super::call;
use crate::serve::door::Origin;
use crate::serve::head::HEAD_BYTES_MAX;
use crate::serve::proxy;
use crate::serve::shared::{Shared, Worker};
use crate::serve::watch::{Phase, Watch};
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::MissedTickBehavior;

/// Calls under way at once on one connection.
const CALLS_MAX: u32 = 1_024;
/// What a connection may send before it is read: for one call, and for all of them.
const CALL_WINDOW_BYTES: u32 = 64 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 1024 * 1024;
const HEADER_BYTES_MAX: u32 = 16 * 1024;
/// What of one call's answer is held for a client that does not read.
const SEND_BYTES_MAX: usize = 64 * 1024;
/// Calls that were reset and are still remembered.
const RESET_CALLS_MAX: usize = 64;
/// How long a connection without calls is given to say that it heard of its end.
const FAREWELL: Duration = Duration::from_secs(1);
const TICK_MIN: Duration = Duration::from_millis(20);
const TICK_MAX: Duration = Duration::from_secs(15);

/// Serves a connection until it ends.
pub(crate) async fn serve<S>(stream: S, shared: Arc<Shared>, watch: Arc<Watch>, origin: Origin)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    watch.enter(Phase::Head);
    let mut builder = h2::server::Builder::new();
    builder
        .max_concurrent_streams(CALLS_MAX)
        .initial_window_size(CALL_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_header_list_size(if origin.is_gateway { HEAD_BYTES_MAX as u32 } else { HEADER_BYTES_MAX })
        .max_concurrent_reset_streams(RESET_CALLS_MAX)
        .max_send_buffer_size(SEND_BYTES_MAX);
    let Ok(connection) = builder.handshake::<_, Bytes>(stream).await else { return };
    watch.enter(Phase::Calls);
    let worker = watch.worker.clone();
    let calls = Arc::new(AtomicUsize::new(0));
    Serving { connection, shared, worker, origin, calls, active: Instant::now(), ending: None }.run().await;
}

struct Serving<S> {
    connection: h2::server::Connection<S, Bytes>,
    shared: Arc<Shared>,
    worker: Arc<Worker>,
    origin: Origin,
    /// How many are under way.
    calls: Arc<AtomicUsize>,
    /// When a call last came, or was seen under way.
    active: Instant,
    /// Since when the other side knows of the end.
    ending: Option<Instant>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Serving<S> {
    async fn run(mut self) {
        let idle_timeout = self.shared.options.idle_timeout;
        let mut ticks = tokio::time::interval((idle_timeout / 8).clamp(TICK_MIN, TICK_MAX));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let shared = self.shared.clone();
        let stop = shared.draining.notified();
        tokio::pin!(stop);
        stop.as_mut().enable();
        if self.shared.is_draining() {
            self.say_farewell();
            ticks = tokio::time::interval(TICK_MIN);
        }
        loop {
            tokio::select! {
                biased;
                call = self.connection.accept() => match call {
                    Some(Ok((request, respond))) => self.begin(request, respond),
                    // It is over, or what came was no HTTP/2; the other side was told which.
                    _ => return,
                },
                () = &mut stop, if self.ending.is_none() => {
                    self.say_farewell();
                    ticks = tokio::time::interval(TICK_MIN);
                }
                _ = ticks.tick() => {
                    if self.is_over(idle_timeout) {
                        return;
                    }
                }
            }
        }
    }

    fn begin(&mut self, request: http::Request<h2::RecvStream>, respond: h2::server::SendResponse<Bytes>) {
        self.active = Instant::now();
        let under_way = UnderWay::one(self.calls.clone());
        let (shared, worker, origin) = (self.shared.clone(), self.worker.clone(), self.origin);
        if origin.is_gateway {
            tokio::spawn(async move {
                let _under_way = under_way;
                proxy::answer_http2(request, respond, shared, worker, origin).await;
            });
            return;
        }
        tokio::spawn(async move {
            let _under_way = under_way;
            call::answer(request, respond, &shared, &worker).await;
        });
    }

    fn say_farewell(&mut self) {
        self.connection.graceful_shutdown();
        self.ending = Some(Instant::now());
    }

    /// Whether to stop waiting for the other side; begins the farewell of one that has had nothing to say.
    fn is_over(&mut self, idle_timeout: Duration) -> bool {
        if self.calls.load(Ordering::Relaxed) > 0 {
            self.active = Instant::now();
            return false;
        }
        match self.ending {
            // What the last call said may still be on its way to a client that reads slowly.
            Some(since) if self.origin.is_gateway && self.active > since => {
                self.active.elapsed() >= self.shared.options.upstream_timeout
            }
            Some(since) => since.elapsed() >= FAREWELL,
            None => {
                if self.active.elapsed() >= idle_timeout {
                    self.say_farewell();
                }
                false
            }
        }
    }
}

/// Counts a call out however it ends.
struct UnderWay(Arc<AtomicUsize>);

impl UnderWay {
    fn one(calls: Arc<AtomicUsize>) -> Self {
        calls.fetch_add(1, Ordering::Relaxed);
        Self(calls)
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
