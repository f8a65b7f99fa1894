//! A connection to an upstream: made, kept between requests, and counted.

use super::failure::Failure;
use super::upstream::{Place, Speaks, Upstream};
use super::upstream_http2::{self, Line, Pipe};
use crate::serve::shared::{Shared, Worker};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Connections that wait for their next request, of one worker to one upstream.
const IDLE_MAX: usize = 256;

pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsStream<TcpStream>>),
    /// To what turns it into HTTP/2.
    Translated(Pipe),
}

/// A connection, with what it is counted in.
pub(super) struct Connection {
    pub stream: Stream,
    open: Arc<Worker>,
    upstream: usize,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.open.upstreams[self.upstream].open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// One worker's dealings with one upstream.
#[derive(Default)]
pub(crate) struct Dealings {
    /// Connections there are, busy and idle.
    pub open: AtomicUsize,
    idle: Mutex<VecDeque<Idle>>,
    /// Connections to an upstream that speaks HTTP/2; mostly one.
    pub(super) http2: Mutex<Vec<Line>>,
    /// By the first digit of their status.
    pub responses: [AtomicU64; 6],
    pub failures: [AtomicU64; Failure::REASONS.len()],
}

struct Idle {
    connection: Connection,
    since_tick: u32,
}

impl Dealings {
    pub fn idle(&self) -> usize {
        self.idle.lock().len()
    }

    #[inline]
    pub fn count_response(&self, status: u16) {
        self.responses[usize::from(status / 100).min(5)].fetch_add(1, Ordering::Relaxed);
    }

    /// Makes the next request go by a new connection: those there are may lead nowhere.
    pub fn forget_http2(&self) {
        self.http2.lock().clear();
    }

    /// Closes connections that have waited longer than this; all of them at 0.
    pub fn sweep(&self, tick: u32, ticks_max: u32) {
        if ticks_max == 0 {
            self.forget_http2();
        }
        // Of those that were needed for a while, one stays.
        let mut lines = self.http2.lock();
        if lines.len() > 1 {
            let first = lines.remove(0);
            lines.retain(|line| !line.is_idle());
            lines.insert(0, first);
        }
        drop(lines);
        let mut idle = self.idle.lock();
        while idle.front().is_some_and(|oldest| ticks_max == 0 || tick.wrapping_sub(oldest.since_tick) > ticks_max) {
            idle.pop_front();
        }
    }

    /// A connection that waits and is still there.
    #[inline]
    fn take(&self, tick: u32) -> Option<Connection> {
        loop {
            // In two steps: what is dropped is not dropped under the lock.
            let idle = self.idle.lock().pop_back()?;
            // What happened in this very moment the runtime may know; what happened before is found out by asking.
            let stream = &idle.connection.stream;
            if stream.seems_quiet() && (idle.since_tick == tick || stream.is_quiet()) {
                return Some(idle.connection);
            }
        }
    }

    #[inline]
    fn keep(&self, connection: Connection, since_tick: u32) {
        let mut idle = self.idle.lock();
        if idle.len() < IDLE_MAX {
            idle.push_back(Idle { connection, since_tick });
        }
    }
}

/// A connection for one request, from those that wait or a new one.
#[inline]
pub(super) async fn connection(shared: &Arc<Shared>, worker: &Arc<Worker>, at: usize) -> Result<Connection, Failure> {
    if let Some(connection) = worker.upstreams[at].take(worker.tick()) {
        return Ok(connection);
    }
    Box::pin(connect(shared, worker, at)).await
}

/// Keeps a connection for the next request.
#[inline]
pub(super) fn keep(worker: &Worker, connection: Connection) {
    let tick = worker.tick();
    if !matches!(connection.stream, Stream::Translated(_)) {
        worker.upstreams[connection.upstream].keep(connection, tick);
    }
}

async fn connect(shared: &Arc<Shared>, worker: &Arc<Worker>, at: usize) -> Result<Connection, Failure> {
    let open: usize = shared.workers.iter().map(|each| each.upstreams[at].open.load(Ordering::Relaxed)).sum();
    let idle = |each: &Arc<Worker>| each.upstreams[at].idle();
    if open >= shared.options.upstream_connections {
        // Those that wait at other workers are no use here; they make room.
        match shared.workers.iter().find(|each| idle(each) > 0) {
            Some(rich) => drop(rich.upstreams[at].idle.lock().pop_front()),
            None => return Err(Failure::Busy),
        }
    }
    worker.upstreams[at].open.fetch_add(1, Ordering::Relaxed);
    let counted = |stream| Connection { stream, open: worker.clone(), upstream: at };
    let uncounted = |failure| {
        worker.upstreams[at].open.fetch_sub(1, Ordering::Relaxed);
        failure
    };
    let upstream = &shared.upstreams.all[at];
    match tokio::time::timeout(shared.options.upstream_connect_timeout, dial(shared, worker, at, upstream)).await {
        Ok(Ok(stream)) => Ok(counted(stream)),
        Ok(Err(_)) => Err(uncounted(Failure::Connect)),
        Err(_) => Err(uncounted(Failure::ConnectTimeout)),
    }
}

async fn dial(shared: &Arc<Shared>, worker: &Arc<Worker>, at: usize, upstream: &Upstream) -> io::Result<Stream> {
    let tcp = match &upstream.place {
        Place::Unix(path) => return Ok(Stream::Unix(UnixStream::connect(path).await?)),
        Place::Tcp(..) if matches!(upstream.speaks, Speaks::Http2) => {
            return upstream_http2::pipe(shared, worker, at).await.map(Stream::Translated);
        }
        Place::Tcp(host, port) => TcpStream::connect((host.as_str(), *port)).await?,
    };
    tcp.set_nodelay(true)?;
    match &upstream.speaks {
        Speaks::Tls(name, config) => {
            let connected = TlsConnector::from(config.clone()).connect(name.clone(), tcp).await?;
            Ok(Stream::Tls(Box::new(connected)))
        }
        _ => Ok(Stream::Tcp(tcp)),
    }
}

impl Stream {
    /// The same as [`Stream::is_quiet`] as far as the runtime has heard, which costs nothing where there is no TLS.
    #[inline]
    fn seems_quiet(&self) -> bool {
        let mut byte = [0];
        let read = match self {
            Stream::Tcp(stream) => stream.try_read(&mut byte),
            Stream::Unix(stream) => stream.try_read(&mut byte),
            // What came may be of TLS alone, and is not taken out of its hands: it has to be asked.
            Stream::Tls(_) => return self.is_quiet(),
            Stream::Translated(_) => return false,
        };
        matches!(read, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Whether nothing came on a connection where nothing was asked: neither its end nor words out of turn.
    fn is_quiet(&self) -> bool {
        let is_quiet = |socket: socket2::SockRef<'_>| {
            let mut byte = [std::mem::MaybeUninit::uninit()];
            matches!(socket.peek(&mut byte), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
        };
        match self {
            Stream::Tcp(stream) => is_quiet((&stream.as_fd()).into()),
            Stream::Unix(stream) => is_quiet((&stream.as_fd()).into()),
            // What is decrypted already is seen by nobody but TLS.
            Stream::Tls(stream) => {
                let (tcp, tls) = stream.get_ref();
                is_quiet((&tcp.as_fd()).into()) && tls.wants_read()
            }
            Stream::Translated(_) => false,
        }
    }
}

impl AsyncRead for Stream {
    #[inline]
    fn poll_read(self: Pin<&mut Self>, task: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_read(task, buf),
            Stream::Unix(stream) => Pin::new(stream).poll_read(task, buf),
            Stream::Tls(stream) => Pin::new(stream).poll_read(task, buf),
            Stream::Translated(pipe) => Pin::new(&mut pipe.stream).poll_read(task, buf),
        }
    }
}

impl AsyncWrite for Stream {
    #[inline]
    fn poll_write(self: Pin<&mut Self>, task: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_write(task, bytes),
            Stream::Unix(stream) => Pin::new(stream).poll_write(task, bytes),
            Stream::Tls(stream) => Pin::new(stream).poll_write(task, bytes),
            Stream::Translated(pipe) => Pin::new(&mut pipe.stream).poll_write(task, bytes),
        }
    }

    #[inline]
    fn poll_flush(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Tls(stream) => Pin::new(stream).poll_flush(task),
            // Nothing is held back by the others.
            _ => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_shutdown(task),
            Stream::Unix(stream) => Pin::new(stream).poll_shutdown(task),
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(task),
            Stream::Translated(pipe) => Pin::new(&mut pipe.stream).poll_shutdown(task),
        }
    }
}
