//! One connection: HTTP/1 in, answers out; or HTTP/2, which is handed on.

use super::chunked::{Chunks, Progress};
use super::control;
use super::door::Origin;
use super::grpc;
use super::head::{Framing, HEAD_BYTES_MAX, Head, Parsed, parse};
use super::peer::Peer;
use super::prefixed::Prefixed;
use super::problem::Problem;
use super::proxy;
use super::reply_text::put_answer;
use super::router::{Asked, Reply, Route, answer, begin, is_for_control};
use super::shared::Shared;
use super::watch::{Phase, Watch};
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// What a connection's buffers are given back to when it waits.
const BUFFER_BYTES: usize = 4 * 1024;
/// Answers to requests sent ahead are gathered up to here before they are sent.
const GATHERED_BYTES_MAX: usize = 64 * 1024;
/// How much is read of a client that was told to stop, so that it is listening when told.
const DISCARDED_BYTES_MAX: usize = 1024 * 1024;

/// What an HTTP/2 client says first.
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Serves a connection until it ends.
pub(crate) async fn serve<S>(stream: S, shared: Arc<Shared>, watch: Arc<Watch>, origin: Origin)
where
    S: Peer,
{
    // The gateway has buffers of its own.
    let answer_bytes = if origin.is_gateway { 0 } else { BUFFER_BYTES };
    let mut connection = Connection {
        stream,
        shared,
        watch,
        origin,
        input: Vec::with_capacity(BUFFER_BYTES),
        start: 0,
        out: Vec::with_capacity(answer_bytes),
        body: Vec::with_capacity(answer_bytes),
    };
    if connection.speaks_http2().await {
        let Connection { stream, shared, watch, input, .. } = connection;
        return Box::pin(grpc::serve(Prefixed::new(input, stream), shared, watch, origin)).await;
    }
    if origin.is_gateway {
        let Connection { stream, shared, watch, input, .. } = connection;
        return Box::pin(proxy::serve(stream, input, shared, watch, origin)).await;
    }
    if connection.answer_all().await == End::WhileSending {
        connection.linger().await;
    }
}

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The client is gone or served.
    Plain,
    /// It was told to stop in the middle of something.
    WhileSending,
}

struct Connection<S> {
    stream: S,
    shared: Arc<Shared>,
    watch: Arc<Watch>,
    origin: Origin,
    /// What came, of which all before `start` is dealt with.
    input: Vec<u8>,
    start: usize,
    /// Answers not yet sent.
    out: Vec<u8>,
    /// The body of the answer being made.
    body: Vec<u8>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    /// Whether the first bytes are those that begin HTTP/2.
    async fn speaks_http2(&mut self) -> bool {
        if self.origin.is_admin {
            return false;
        }
        loop {
            let known = self.input.len().min(HTTP2_PREFACE.len());
            if self.input[..known] != HTTP2_PREFACE[..known] {
                return false;
            }
            if known == HTTP2_PREFACE.len() {
                return true;
            }
            if !self.fill(known + 1).await {
                return false;
            }
        }
    }

    async fn answer_all(&mut self) -> End {
        loop {
            let head = match self.next_head().await {
                Ok(Some(head)) => head,
                Ok(None) => return End::Plain,
                Err(status) => {
                    return self.refuse(Route::Unknown, status, "this is not a request as HTTP/1.1 has it").await;
                }
            };
            if is_for_control(&self.shared, head.route, self.origin) {
                return Box::pin(self.hand_over(&head)).await;
            }
            let whole = match head.framing {
                Framing::Length(0) => Ok(Some(None)),
                Framing::Length(len) => self.body_of(&head, len).await.map(|came| came.then_some(None)),
                Framing::Chunked => self.chunked_body_of(&head).await.map(|body| body.map(Some)),
            };
            let chunks = match whole {
                Ok(Some(chunks)) => chunks,
                Ok(None) => return End::Plain,
                Err(413) => {
                    let what = format!("the body may have at most {} bytes", self.shared.options.max_body_bytes);
                    return self.refuse(head.route, 413, &what).await;
                }
                Err(status) => return self.refuse(head.route, status, "the body: expected well-formed chunks").await,
            };
            let waits = head.route.decides() && self.shared.engine.is_shared();
            let keeps = match waits {
                true => self.answer_shared(&head, chunks.as_deref()).await,
                false => self.answer(&head, chunks.as_deref()),
            };
            if !keeps || self.out.len() >= GATHERED_BYTES_MAX {
                let is_sent = self.flush().await;
                if !keeps || !is_sent {
                    return End::Plain;
                }
            }
        }
    }

    /// The next head, answers owed being sent before more is awaited; none when the client is gone, a status when what it sends is no head.
    async fn next_head(&mut self) -> Result<Option<Head>, u16> {
        let mut looked_at = 0;
        loop {
            // A head that drips in must not be read anew for each byte.
            let unread = &self.input[self.start..];
            if looked_at == 0 || ends_a_head(unread, looked_at) || unread.len() > HEAD_BYTES_MAX {
                match parse(unread) {
                    Parsed::Whole(head) => return Ok(Some(head)),
                    Parsed::Wrong(status) => return Err(status),
                    Parsed::Part => {}
                }
            }
            looked_at = unread.len();
            if !self.flush().await || !self.fill(looked_at + 1).await {
                return Ok(None);
            }
        }
    }

    /// Waits for a body of known length; false when the client is gone.
    #[inline]
    async fn body_of(&mut self, head: &Head, len: u64) -> Result<bool, u16> {
        if len > self.shared.options.max_body_bytes as u64 {
            return Err(413);
        }
        let wanted = head.len + len as usize;
        if self.input.len() - self.start < wanted && !self.ask_for_body(head).await {
            return Ok(false);
        }
        while self.input.len() - self.start < wanted {
            if !self.fill(wanted).await {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Gathers a chunked body. Its bytes are taken out of the input, and the head is left there.
    async fn chunked_body_of(&mut self, head: &Head) -> Result<Option<Vec<u8>>, u16> {
        if !self.ask_for_body(head).await {
            return Ok(None);
        }
        let mut chunks = Chunks::default();
        let body_at = head.len;
        loop {
            let from = self.start + body_at;
            match chunks.take(&self.input[from..], self.shared.options.max_body_bytes) {
                Progress::Whole(used) => {
                    self.input.drain(from..from + used);
                    return Ok(Some(chunks.body));
                }
                Progress::Part(used) => {
                    self.input.drain(from..from + used);
                }
                Progress::TooLarge => return Err(413),
                Progress::Wrong => return Err(400),
            }
            let wanted = self.input.len() - self.start + 1;
            if !self.fill(wanted).await {
                return Ok(None);
            }
        }
    }

    /// Sends what is owed and, to a client that waits for it, the word to go on.
    async fn ask_for_body(&mut self, head: &Head) -> bool {
        if head.expects_continue {
            self.out.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
        }
        let is_sent = self.flush().await;
        self.watch.enter(Phase::Body);
        is_sent
    }

    /// Makes the answer; false when it is the last.
    #[inline]
    fn answer(&mut self, head: &Head, chunks: Option<&[u8]>) -> bool {
        self.body.clear();
        let asked = asked(&self.input[self.start..], head, chunks, self.origin);
        let reply = answer(&self.shared, &asked, &mut self.body);
        let shows_body = asked.method != "HEAD";
        self.put(head, chunks, &reply, shows_body)
    }

    /// The same for an answer that a shared store is waited for.
    async fn answer_shared(&mut self, head: &Head, chunks: Option<&[u8]>) -> bool {
        self.body.clear();
        let begun = begin(&self.shared, &asked(&self.input[self.start..], head, chunks, self.origin), &mut self.body);
        self.watch.enter(Phase::Answering);
        let reply = match begun {
            Ok(begun) => begun.finish(&self.shared, &mut self.body).await,
            Err(reply) => reply,
        };
        let shows_body = !self.input[self.start..].starts_with(b"HEAD ");
        self.put(head, chunks, &reply, shows_body)
    }

    /// Puts an answer among those to be sent; false when it is the last.
    #[inline]
    fn put(&mut self, head: &Head, chunks: Option<&[u8]>, reply: &Reply, shows_body: bool) -> bool {
        let len = body_len(head, chunks);
        let keeps = head.keep_alive && !self.shared.is_draining();
        let stays = match (keeps, head.is_old) {
            (false, _) => "connection: close\r\n",
            (true, true) => "connection: keep-alive\r\n",
            (true, false) => "",
        };
        put_answer(&mut self.out, reply, stays, &self.body, shows_body);
        self.watch.worker.count_request(head.route, reply.status);
        self.start += head.len + len;
        if self.start == self.input.len() {
            self.input.clear();
            self.start = 0;
        }
        keeps
    }

    /// Gives the rest of the connection to the control plane.
    async fn hand_over(&mut self, head: &Head) -> End {
        let Some(path) = self.shared.options.control.clone() else { return End::Plain };
        if !self.flush().await {
            return End::Plain;
        }
        self.watch.enter(Phase::Calls);
        let Ok(stream) = control::connect(&path).await else {
            return self.refuse(head.route, 503, "the control plane is not there yet, or no more").await;
        };
        self.watch.worker.count_request(head.route, 200);
        let request = self.input.split_off(self.start);
        control::hand_over(&mut self.stream, stream, &request, head.len, self.origin, &self.shared).await;
        End::Plain
    }

    /// Tells a client what was wrong before it has sent all of it.
    async fn refuse(&mut self, route: Route, status: u16, what: &str) -> End {
        self.body.clear();
        let reply = Reply::problem(&Problem::new(status, what), &mut self.body);
        put_answer(&mut self.out, &reply, "connection: close\r\n", &self.body, true);
        self.watch.worker.count_request(route, status);
        if self.flush().await { End::WhileSending } else { End::Plain }
    }

    /// Reads more, knowing that so many bytes from `start` are wanted; false at the end of the connection.
    #[inline]
    async fn fill(&mut self, wanted: usize) -> bool {
        let is_between = self.input.is_empty();
        if is_between {
            self.watch.enter(Phase::Idle);
            self.input.shrink_to(BUFFER_BYTES);
            self.out.shrink_to(BUFFER_BYTES);
            self.body.shrink_to(BUFFER_BYTES);
        } else if self.start > 0 {
            self.input.drain(..self.start);
            self.start = 0;
        }
        if self.input.capacity() < wanted || self.input.len() == self.input.capacity() {
            self.input.reserve(BUFFER_BYTES.max(wanted - self.input.len()));
        }
        let came = matches!(self.stream.read_buf(&mut self.input).await, Ok(count) if count > 0);
        if is_between {
            self.watch.enter(Phase::Head);
        }
        came
    }

    /// Sends what is owed; false when the client is gone.
    #[inline]
    async fn flush(&mut self) -> bool {
        if self.out.is_empty() {
            return true;
        }
        self.watch.enter(Phase::Answering);
        let is_sent = self.stream.write_all(&self.out).await.is_ok();
        self.out.clear();
        is_sent
    }

    /// Closing on unread bytes would take the answer away from a client that is still sending: its rest is read
    /// first. The sweep sees to it that this ends.
    async fn linger(&mut self) {
        if self.stream.shutdown().await.is_err() {
            return;
        }
        let mut bytes = 0;
        while bytes < DISCARDED_BYTES_MAX {
            self.input.clear();
            match self.stream.read_buf(&mut self.input).await {
                Ok(count) if count > 0 => bytes += count,
                _ => return,
            }
        }
    }
}

#[inline]
fn body_len(head: &Head, chunks: Option<&[u8]>) -> usize {
    if let (Framing::Length(len), None) = (head.framing, chunks) { len as usize } else { 0 }
}

/// A request as the routes see it.
#[inline]
fn asked<'a>(request: &'a [u8], head: &Head, chunks: Option<&'a [u8]>, origin: Origin) -> Asked<'a> {
    let len = body_len(head, chunks);
    let text = |range: &std::ops::Range<usize>| str::from_utf8(&request[range.clone()]).unwrap_or_default();
    Asked {
        route: head.route,
        method: text(&head.method),
        query: head.query.as_ref().map(text),
        head: &request[..head.len],
        origin,
        body: chunks.unwrap_or(&request[head.len..head.len + len]),
    }
}

/// Whether the end of a head is in what came after the first `looked_at` bytes.
fn ends_a_head(unread: &[u8], looked_at: usize) -> bool {
    unread[looked_at.saturating_sub(3)..].windows(4).any(|four| four == b"\r\n\r\n")
}
