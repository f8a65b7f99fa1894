//! The node's HTTP server: threads that answer from an engine, over TCP and Unix sockets.
//!
//! Each worker is one thread with a runtime of its own; a connection lives on one worker, so nothing is locked or
//! handed over while a request is answered. The first worker also accepts.

mod acceptor;
mod check;
mod chunked;
mod connection;
mod date;
mod descriptors_json;
mod facts_json;
mod facts_scan;
mod head;
mod health;
mod json;
mod limit_json;
mod listener;
mod metrics;
mod problem;
mod reply_text;
mod router;
mod shared;
mod watch;
mod worker;

use crate::Engine;
use acceptor::Acceptor;
use listener::Listener;
use parking_lot::Mutex;
use shared::Shared;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch as signal};

/// How a server listens and what it puts up with.
#[derive(Clone, Debug)]
pub struct Options {
    /// `HOST:PORT`; port 0 takes a free one.
    pub listen: Option<String>,
    /// The path of a Unix socket.
    pub uds: Option<PathBuf>,
    /// 0: as many as there are cores.
    pub threads: usize,
    pub max_connections: usize,
    pub max_body_bytes: usize,
    /// For the head of a request to arrive whole, then for its body, then for the client to take the answer.
    pub header_timeout: Duration,
    /// Between requests.
    pub idle_timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            listen: None,
            uds: None,
            threads: 0,
            max_connections: 10_000,
            max_body_bytes: 64 * 1024,
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(75),
        }
    }
}

/// Bound when made, answering from `start` to `drain`.
pub struct Server {
    shared: Arc<Shared>,
    addresses: Vec<String>,
    state: Mutex<State>,
    /// Threads do not survive a fork: a child must not wait for its parent's.
    process: u32,
}

enum State {
    Bound(Vec<Listener>),
    Running(Running),
    Ended,
}

struct Running {
    stop: signal::Sender<bool>,
    threads: Vec<JoinHandle<io::Result<bool>>>,
}

impl Server {
    pub fn bind(engine: Arc<Engine>, options: Options) -> io::Result<Server> {
        let mut listeners = Vec::new();
        if let Some(address) = &options.listen {
            listeners.push(Listener::tcp(address)?);
        }
        if let Some(path) = &options.uds {
            listeners.push(Listener::unix(path)?);
        }
        if listeners.is_empty() {
            let what = "a server needs an address to listen on or the path of a Unix socket";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        let cores = || thread::available_parallelism().map_or(1, usize::from);
        let workers = if options.threads == 0 { cores() } else { options.threads };
        Ok(Server {
            addresses: listeners.iter().map(Listener::address).collect(),
            shared: Arc::new(Shared::new(engine, options, workers)),
            state: Mutex::new(State::Bound(listeners)),
            process: std::process::id(),
        })
    }

    /// What was bound: `127.0.0.1:8080`, `unix:/run/headgate.sock`.
    pub fn addresses(&self) -> &[String] {
        &self.addresses
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
            .map(|listener| Acceptor {
                listener,
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
