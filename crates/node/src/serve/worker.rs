//! A worker: one thread, one runtime, its connections, and the sweep over them.

use super::acceptor::{Acceptor, Arrival};
use super::connection::serve;
use super::date;
use super::door::Origin;
use super::listener::Stream;
use super::peer::{Peer, move_in_small_steps};
use super::shared::{Shared, Worker};
use super::watch::{Phase, Watch};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::MissedTickBehavior;
use tokio_rustls::TlsAcceptor;

/// How often connections are looked at for having taken too long: the precision of every timeout.
pub(crate) const TICK: Duration = Duration::from_millis(100);
/// The same while draining, when someone waits for the end.
const DRAIN_TICK: Duration = Duration::from_millis(5);

/// One open connection, as the sweep sees it.
struct Entry {
    watch: Arc<Watch>,
    task: AbortHandle,
}

/// Runs a worker to its end; false when draining was cut short.
pub(crate) fn run(
    shared: &Arc<Shared>,
    number: usize,
    arrivals: mpsc::UnboundedReceiver<Arrival>,
    acceptors: Vec<Acceptor>,
) -> io::Result<bool> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    date::refresh();
    runtime.block_on(async {
        for acceptor in acceptors {
            tokio::spawn(acceptor.run());
        }
        let mut worker = Sweeping { shared: shared.clone(), state: shared.workers[number].clone(), open: Vec::new() };
        worker.admit_all(arrivals).await;
        let has_drained = worker.drain().await;
        // Connections end before the runtime that carries them.
        for upstream in &worker.state.upstreams {
            upstream.sweep(0, 0);
        }
        Ok(has_drained)
    })
}

struct Sweeping {
    shared: Arc<Shared>,
    state: Arc<Worker>,
    open: Vec<Entry>,
}

impl Sweeping {
    /// Takes connections in until the acceptors are gone.
    async fn admit_all(&mut self, mut arrivals: mpsc::UnboundedReceiver<Arrival>) {
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                arrival = arrivals.recv() => match arrival {
                    Some(arrival) => self.admit(arrival),
                    None => return,
                },
                _ = ticks.tick() => {
                    self.state.tick.fetch_add(1, Ordering::Relaxed);
                    date::refresh();
                    self.sweep();
                }
            }
        }
    }

    fn admit(&mut self, Arrival { stream, origin, tls }: Arrival) {
        let counted = Counted(self.state.clone());
        let watch = Arc::new(Watch::new(self.state.clone()));
        let here = Here { shared: self.shared.clone(), watch: watch.clone(), origin, tls };
        if let (Stream::Tcp(stream), true) = (&stream, origin.is_gateway) {
            move_in_small_steps(stream);
        }
        // A stream that cannot be registered is dropped, which closes it.
        let task = match stream {
            Stream::Tcp(stream) => TcpStream::from_std(stream).map(|stream| here.spawn(stream, counted)),
            Stream::Unix(stream) => UnixStream::from_std(stream).map(|stream| here.spawn(stream, counted)),
        };
        if let Ok(task) = task {
            self.open.push(Entry { watch, task });
        }
    }

    /// Ends what takes too long, and forgets what has ended.
    fn sweep(&mut self) {
        let header_ticks = ticks(self.shared.options.header_timeout);
        let idle_ticks = ticks(self.shared.options.idle_timeout);
        let upstream_ticks = ticks(self.shared.options.upstream_idle);
        for upstream in &self.state.upstreams {
            upstream.sweep(self.state.tick(), upstream_ticks);
        }
        self.open.retain(|entry| {
            let allowed_ticks = if entry.watch.is(Phase::Idle) { idle_ticks } else { header_ticks };
            if entry.watch.ticks() > allowed_ticks && !entry.watch.is(Phase::Calls) {
                entry.task.abort();
            }
            !entry.task.is_finished()
        });
    }

    /// Lets requests under way finish; true when all did in time.
    async fn drain(&mut self) -> bool {
        let deadline = self.shared.drain_deadline().unwrap_or_else(Instant::now);
        // What arrived before the end was called is under way as well: let the runtime read it.
        tokio::time::sleep(DRAIN_TICK.min(deadline.saturating_duration_since(Instant::now()))).await;
        let mut ticked = Instant::now();
        loop {
            // A request that is never finished holds up the end no longer than it might have lasted anyway.
            if ticked.elapsed() >= TICK {
                ticked = Instant::now();
                self.state.tick.fetch_add(1, Ordering::Relaxed);
                self.sweep();
            }
            for entry in self.open.iter().filter(|entry| entry.watch.is(Phase::Idle)) {
                entry.task.abort();
            }
            tokio::task::yield_now().await;
            self.open.retain(|entry| !entry.task.is_finished());
            if self.open.is_empty() {
                return true;
            }
            if Instant::now() >= deadline {
                return false;
            }
            tokio::time::sleep(DRAIN_TICK).await;
        }
    }
}

/// At least one tick more than the time, since the first may be nearly over.
fn ticks(time: Duration) -> u32 {
    u32::try_from(time.as_millis().div_ceil(TICK.as_millis())).unwrap_or(u32::MAX - 1)
}

/// What a connection is served with.
struct Here {
    shared: Arc<Shared>,
    watch: Arc<Watch>,
    origin: Origin,
    tls: Option<Arc<rustls::ServerConfig>>,
}

impl Here {
    fn spawn<S>(self, stream: S, counted: Counted) -> AbortHandle
    where
        S: Peer + Send + 'static,
    {
        let Here { shared, watch, origin, tls } = self;
        let task = tokio::spawn(async move {
            let _counted = counted;
            let Some(tls) = tls else { return serve(stream, shared, watch, origin).await };
            watch.enter(Phase::Head);
            let served = async move {
                // A client that fails the handshake was told by it.
                if let Ok(stream) = TlsAcceptor::from(tls).accept(stream).await {
                    serve(stream, shared, watch, origin).await;
                }
            };
            // Apart, so that connections without TLS do not carry room for it.
            Box::pin(served).await;
        });
        task.abort_handle()
    }
}

/// Counts a connection out however it ends.
struct Counted(Arc<Worker>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}
