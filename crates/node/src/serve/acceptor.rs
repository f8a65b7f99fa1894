//! Takes connections in and gives each to the worker that has fewest.

use super::door::{Door, Origin};
use super::listener::{Listener, Stream};
use super::shared::Shared;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::{mpsc, watch};

/// How long to wait when the system has no file handle or memory for another connection.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(20);
/// How long the kernel is asked for connections it took before the end was called.
const LAST_CALL: Duration = Duration::from_millis(1);
const LAST_CALLS_MAX: usize = 4_096;
/// Connections past the limit that are being told so at the same time; further ones are just closed.
const REFUSALS_MAX: usize = 64;
const REFUSAL_TIMEOUT: Duration = Duration::from_millis(200);
const REFUSAL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\n\
    content-type: application/problem+json\r\ncontent-length: 115\r\n\r\n\
    {\"type\":\"about:blank\",\"title\":\"Too many connections\",\"status\":503,\"detail\":\"this node's connections are all taken\"}";

/// Connections past the limit that the admin door takes all the same: a full node must be able to say so.
const ADMIN_SPARE: usize = 64;

/// A connection on its way to a worker.
pub(crate) struct Arrival {
    pub stream: Stream,
    pub origin: Origin,
    pub tls: Option<Arc<rustls::ServerConfig>>,
}

pub(crate) type Arrivals = mpsc::UnboundedSender<Arrival>;

pub(crate) struct Acceptor {
    pub listener: Listener,
    pub door: Door,
    pub shared: Arc<Shared>,
    /// One for each worker. Their closing is what tells a worker to drain.
    pub arrivals: Vec<Arrivals>,
    pub stop: watch::Receiver<bool>,
}

impl Acceptor {
    /// Accepts until told to stop, and then what the kernel has already accepted on our behalf.
    pub async fn run(mut self) -> io::Result<()> {
        let listener = self.listener.register()?;
        let mut desk = Desk { shared: self.shared, door: self.door, arrivals: self.arrivals, next: 0 };
        loop {
            tokio::select! {
                biased;
                _ = self.stop.changed() => break,
                accepted = listener.accept() => match accepted {
                    Ok((stream, peer)) => desk.take(stream, peer),
                    Err(error) => pause_if_exhausted(&error).await,
                },
            }
        }
        for _ in 0..LAST_CALLS_MAX {
            let Ok(Ok((stream, peer))) = tokio::time::timeout(LAST_CALL, listener.accept()).await else { break };
            desk.take(stream, peer);
        }
        Ok(())
    }
}

/// A connection that broke before it was accepted is nobody's concern; anything else will not pass in a moment.
async fn pause_if_exhausted(error: &io::Error) {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    if !matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted) {
        tokio::time::sleep(EXHAUSTED_PAUSE).await;
    }
}

struct Desk {
    shared: Arc<Shared>,
    door: Door,
    arrivals: Vec<Arrivals>,
    next: usize,
}

impl Desk {
    fn take(&mut self, stream: Stream, peer: Option<IpAddr>) {
        let tls = self.door.tls_config();
        let spare = if self.door.is_admin { ADMIN_SPARE } else { 0 };
        if self.shared.connections() >= self.shared.options.max_connections + spare {
            self.shared.refused_connections.fetch_add(1, Ordering::Relaxed);
            // Under TLS nothing can be said before a handshake, which is what there is no room for.
            if tls.is_none() {
                refuse(stream);
            }
            return;
        }
        let Door { is_admin, is_gateway, .. } = self.door;
        let origin = Origin { peer, is_admin, is_gateway, is_tls: tls.is_some() };
        let workers = &self.shared.workers;
        // Ties go round, so that the first worker is not everyone's first choice.
        self.next = (self.next + 1) % workers.len();
        let turn = (0..workers.len()).map(|n| (self.next + n) % workers.len());
        let Some(chosen) = turn.min_by_key(|n| workers[*n].connections.load(Ordering::Relaxed)) else { return };
        workers[chosen].connections.fetch_add(1, Ordering::Relaxed);
        if self.arrivals[chosen].send(Arrival { stream, origin, tls }).is_err() {
            workers[chosen].connections.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

static REFUSING: AtomicUsize = AtomicUsize::new(0);

/// Tells a connection past the limit to come back, for as long as few are being told.
fn refuse(stream: Stream) {
    if REFUSING.fetch_add(1, Ordering::Relaxed) >= REFUSALS_MAX {
        REFUSING.fetch_sub(1, Ordering::Relaxed);
        return;
    }
    tokio::spawn(async move {
        // The client may be gone already: there is nothing to do about that.
        let _ = tokio::time::timeout(REFUSAL_TIMEOUT, tell(stream)).await;
        REFUSING.fetch_sub(1, Ordering::Relaxed);
    });
}

async fn tell(stream: Stream) -> io::Result<()> {
    match stream {
        Stream::Tcp(stream) => tell_through(TcpStream::from_std(stream)?).await,
        Stream::Unix(stream) => tell_through(UnixStream::from_std(stream)?).await,
    }
}

/// Reads what the client was sending: closing on unread bytes would take the answer away from it.
async fn tell_through(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<()> {
    stream.write_all(REFUSAL).await?;
    stream.shutdown().await?;
    let mut unread = [0; 1_024];
    while stream.read(&mut unread).await? > 0 {}
    Ok(())
}
