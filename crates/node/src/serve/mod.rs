//! The node's server: threads that answer HTTP and gRPC from an engine, over TCP and Unix sockets.
//!
//! Each worker is one thread with a runtime of its own; a connection lives on one worker, so nothing is locked or
//! handed over while a request is answered. The first worker also accepts.

mod acceptor;
mod authorize;
mod check;
mod chunked;
mod connection;
mod control;
mod credentials_json;
mod date;
mod descriptors_json;
mod door;
mod facts_json;
mod facts_scan;
mod forwarded;
mod grpc;
mod head;
mod health;
mod identified;
mod json;
mod limit_json;
mod listener;
mod metrics;
mod peer;
mod prefixed;
mod problem;
mod proxy;
mod reply_text;
mod router;
mod shared;
mod tls;
mod watch;
mod worker;

use crate::Engine;
use acceptor::Acceptor;
use door::Door;
use headgate_core::answer::HeaderOptions;
use listener::Listener;
use parking_lot::Mutex;
use proxy::Upstreams;
use shared::Shared;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tls::Tls;
pub use tls::TlsFiles;
use tokio::sync::{mpsc, watch as signal};

/// How a server listens and what it puts up with.
#[derive(Clone, Debug)]
pub struct Options {
    /// `HOST:PORT`; port 0 takes a free one. Here as at the next two, HTTP and gRPC are both answered.
    pub listen: Option<String>,
    pub grpc: Option<String>,
    /// The path of a Unix socket.
    pub uds: Option<PathBuf>,
    /// `HOST:PORT` for health and metrics, which are then told nowhere else.
    pub admin: Option<String>,
    /// The Unix socket of a control plane whose requests come in here as well: at the admin door where there is one.
    pub control: Option<PathBuf>,
    /// TLS on all TCP doors.
    pub tls: Option<TlsFiles>,
    pub admin_tls: AdminTls,
    /// What clients are told of their limits.
    pub headers: HeaderOptions,
    /// Refusals as RFC 9457 problems.
    pub problem_body: bool,
    /// 0: as many as there are cores.
    pub threads: usize,
    pub max_connections: usize,
    pub max_body_bytes: usize,
    /// For the head of a request to arrive whole, then for its body, then for the client to take the answer.
    pub header_timeout: Duration,
    /// Between requests.
    pub idle_timeout: Duration,
    /// `[PREFIX=]URL`, each: where there are any, `listen` is a gateway to them and answers nothing itself.
    pub upstreams: Vec<String>,
    /// The authority of upstreams under TLS; none for those of the system.
    pub upstream_ca: Option<PathBuf>,
    pub upstream_connect_timeout: Duration,
    /// Without a byte that moves in either direction.
    pub upstream_timeout: Duration,
    /// For a connection that waits for its next request.
    pub upstream_idle: Duration,
    /// To each upstream.
    pub upstream_connections: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            listen: None,
            grpc: None,
            uds: None,
            admin: None,
            control: None,
            tls: None,
            admin_tls: AdminTls::On,
            headers: HeaderOptions::default(),
            problem_body: false,
            threads: 0,
            max_connections: 10_000,
            max_body_bytes: 64 * 1024,
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(75),
            upstreams: Vec::new(),
            upstream_ca: None,
            upstream_connect_timeout: Duration::from_secs(5),
            upstream_timeout: Duration::from_secs(60),
            upstream_idle: Duration::from_secs(4),
            upstream_connections: 4_096,
        }
    }
}

/// Says what is wrong with upstreams, as [`Options::upstreams`] has them.
pub fn check_upstreams(upstreams: &[String]) -> Result<(), String> {
    Upstreams::check(upstreams)
}

/// What the admin door asks of its clients where the others speak TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdminTls {
    Off,
    On,
    /// A certificate, as at the other doors.
    Mutual,
}

/// Bound when made, answering from `start` to `drain`.
pub struct Server {
    shared: Arc<Shared>,
    /// What was bound, by the door's name.
    addresses: Vec<(&'static str, String)>,
    state: Mutex<State>,
    /// Threads do not survive a fork: a child must not wait for its parent's.
    process: u32,
}

enum State {
    Bound(Vec<(Door, Listener)>),
    Running(Running),
    Ended,
}

struct Running {
    stop: signal::Sender<bool>,
    threads: Vec<JoinHandle<io::Result<bool>>>,
}

impl Server {
    pub fn bind(engine: Arc<Engine>, options: Options) -> io::Result<Server> {
        let tls = options.tls.clone().map(Tls::load).transpose()?.map(Arc::new);
        let upstreams = Upstreams::parse(&options.upstreams, options.upstream_ca.as_deref())
            .map_err(|why| io::Error::new(io::ErrorKind::InvalidInput, format!("upstream: {why}")))?;
        let is_gateway = !upstreams.all.is_empty();
        let open = |name| Door { name, is_admin: false, is_gateway: false, tls: tls.clone(), is_mutual: true };
        let mut listeners = Vec::new();
        if let Some(address) = &options.listen {
            listeners.push((Door { is_gateway, ..open("http") }, Listener::tcp(address)?));
        } else if is_gateway {
            let what = "upstreams need an address to listen on for the requests that go to them";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        if let Some(address) = &options.grpc {
            listeners.push((open("grpc"), Listener::tcp(address)?));
        }
        if let Some(path) = &options.uds {
            listeners.push((Door { tls: None, ..open("uds") }, Listener::unix(path)?));
        }
        if listeners.is_empty() {
            let what = "a server needs an address to listen on or the path of a Unix socket";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        if let Some(address) = &options.admin {
            let door = Door {
                is_admin: true,
                tls: tls.clone().filter(|_| options.admin_tls != AdminTls::Off),
                is_mutual: options.admin_tls == AdminTls::Mutual,
                ..open("admin")
            };
            listeners.push((door, Listener::tcp(address)?));
        }
        let cores = || thread::available_parallelism().map_or(1, usize::from);
        let workers = if options.threads == 0 { cores() } else { options.threads };
        Ok(Server {
            addresses: listeners.iter().map(|(door, listener)| (door.name, listener.address())).collect(),
            shared: Arc::new(Shared::new(engine, options, tls, upstreams, workers)),
            state: Mutex::new(State::Bound(listeners)),
            process: std::process::id(),
        })
    }

    /// What was bound: `http` `127.0.0.1:8080`, `uds` `unix:/run/headgate.sock`.
    pub fn addresses(&self) -> &[(&'static str, String)] {
        &self.addresses
    }

    /// Reads the certificate and its key again, for connections to come. On an error the old ones go on.
    pub fn reload_tls(&self) -> Result<(), String> {
        self.shared.reload_tls()
    }

    /// Shown by `/readyz` and counted: the last reload failed, and why.
    pub fn set_rules_error(&self, error: Option<String>) {
        self.shared.set_rules_error(error);
    }

    /// Starts answering.
    pub fn start(&self) -> io::Result<()> {
        let mut state = self.state.lock();
        let State::Bound(listeners) = &mut *state else {
            return Err(io::Error::other("a server starts once"));
        };
        let listeners = std::mem::take(listeners);
        let (stop, stopped) = signal::channel(false);
        let (senders, receivers): (Vec<_>, Vec<_>) =
            self.shared.workers.iter().map(|_| mpsc::unbounded_channel()).unzip();
        let mut acceptors: Vec<Acceptor> = listeners
            .into_iter()
            .map(|(door, listener)| Acceptor {
                listener,
                door,
                shared: self.shared.clone(),
                arrivals: senders.clone(),
                stop: stopped.clone(),
            })
            .collect();
        drop(senders);
        let mut threads = Vec::new();
        for (number, arrivals) in receivers.into_iter().enumerate() {
            let (shared, acceptors) = (self.shared.clone(), std::mem::take(&mut acceptors));
            let name = format!("headgate-http-{number}");
            let run = move || worker::run(&shared, number, arrivals, acceptors);
            threads.push(thread::Builder::new().name(name).spawn(run)?);
        }
        *state = State::Running(Running { stop, threads });
        Ok(())
    }

    /// Stops accepting, lets what is under way finish, closes. False when `timeout` cut it short.
    pub fn drain(&self, timeout: Duration) -> bool {
        let mut state = self.state.lock();
        let State::Running(running) = std::mem::replace(&mut *state, State::Ended) else { return true };
        if self.process != std::process::id() {
            std::mem::forget(running);
            return true;
        }
        let now = Instant::now();
        // Draining without end is draining for a very long time.
        self.shared.drain_until(now.checked_add(timeout).unwrap_or(now + Duration::from_secs(u64::from(u32::MAX))));
        running.stop.send_replace(true);
        running.threads.into_iter().fold(true, |all, thread| all & matches!(thread.join(), Ok(Ok(true))))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.drain(Duration::ZERO);
    }
}

#[cfg(test)]
mod tests;
