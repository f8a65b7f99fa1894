//! One HTTP/2 request of a client to the gateway: it goes to the upstream as HTTP/1.1, and its answer comes back.

use super::admit::{self, Admitted, Asking, Deciding, Told};
use super::failure::{Failure, counted, no_upstream};
use super::http2_request::{Outgoing, send};
use super::http2_response::{Incoming, Received, put_lines};
use super::request::Forwarding;
use super::response::Asked;
use super::stream;
use super::words::{is_host, is_target, passes_for_framing, whole_number};
use crate::serve::door::Origin;
use crate::serve::head::HEADERS_MAX;
use crate::serve::identified::Identified;
use crate::serve::problem::Problem;
use crate::serve::router::{Reply, Route};
use crate::serve::shared::{Shared, Worker};
use crate::serve::worker::TICK;
use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream};
use headgate_core::answer::LastPolicies;
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

/// Why there is no answer of the upstream's.
pub(super) enum Stop {
    /// The client is told.
    Problem(Problem),
    Failed(Failure),
    /// The client is gone, or was told half of an answer.
    Broken,
}

pub(crate) async fn answer(
    request: Request<RecvStream>,
    respond: SendResponse<Bytes>,
    shared: Arc<Shared>,
    worker: Arc<Worker>,
    origin: Origin,
) {
    let (parts, body) = request.into_parts();
    let is_head = parts.method == Method::HEAD;
    let mut call = Call { respond, shared, worker, origin, limits: Vec::new() };
    let problem = match call.pass(&parts, body).await {
        Ok(()) => return,
        Err(Stop::Problem(problem)) => problem,
        Err(Stop::Failed(failure)) => failure.problem(),
        Err(Stop::Broken) => return call.respond.send_reset(Reason::INTERNAL_ERROR),
    };
    let reply = Reply::problem_after(&problem, &mut call.limits);
    call.tell(&reply, is_head);
}

struct Call {
    respond: SendResponse<Bytes>,
    shared: Arc<Shared>,
    worker: Arc<Worker>,
    origin: Origin,
    /// What the answer says of limits; the body of a refusal.
    limits: Vec<u8>,
}

impl Call {
    async fn pass(&mut self, parts: &Parts, body: RecvStream) -> Result<(), Stop> {
        let host = check(parts, body.is_end_stream()).map_err(Stop::Problem)?;
        let who = match self.admitted(parts).await.map_err(Stop::Problem)? {
            Admitted::Passes(who) => who,
            Admitted::Refused(reply) => {
                self.tell(&reply, parts.method == Method::HEAD);
                return Ok(());
            }
        };
        let at = self.shared.upstreams.find(parts.uri.path()).ok_or_else(|| Stop::Problem(no_upstream()))?;
        let outcome = self.exchange(parts, body, host, at, &who).await;
        if let Err(Stop::Failed(failure)) = outcome {
            return Err(Stop::Problem(counted(failure, &self.worker.upstreams[at])));
        }
        outcome
    }

    async fn admitted(&mut self, parts: &Parts) -> Result<Admitted, Problem> {
        let mut told = Told { lines: &mut self.limits, last: &mut LastPolicies::default() };
        let deciding = {
            let identity = self.shared.engine.identity();
            let mut asking = Asking::new(parts.method.as_str(), parts.uri.path());
            for (name, value) in &parts.headers {
                asking.look(name.as_str().as_bytes(), value.as_bytes(), &identity)?;
            }
            admit::begin(&self.shared, self.origin, &asking, &mut told)?
        };
        match deciding {
            Deciding::Done(admitted) => Ok(admitted),
            Deciding::Waiting(waiting) => Ok(waiting.finish(&self.shared, &mut told).await),
        }
    }

    async fn exchange(
        &mut self,
        parts: &Parts,
        body: RecvStream,
        host: &[u8],
        at: usize,
        who: &Identified,
    ) -> Result<(), Stop> {
        let outgoing = {
            let identity = self.shared.engine.identity();
            let mut forwarding = Forwarding::new(self.origin.peer, self.origin.is_tls, identity.trusted());
            forwarding.host = Some(host);
            Outgoing::new(parts, body, host, forwarding, who)
        };
        let mut connection = stream::connection(&self.shared, &self.worker, at).await.map_err(Stop::Failed)?;
        let motion = Motion { worker: &self.worker, since_tick: self.worker.tick().into(), is_clients: false.into() };
        let asked = Asked { is_head: parts.method == Method::HEAD, upgrades: false, keeps_trailers: true };
        let mut incoming = Incoming::new(&mut self.respond, asked, &self.limits, &motion);
        let (has_sent, received) = {
            let (mut from, mut to) = tokio::io::split(&mut connection.stream);
            let sending = send(outgoing, &mut to, &motion);
            let receiving = incoming.receive(&mut from);
            tokio::pin!(sending, receiving);
            let (mut is_sending, mut has_sent) = (true, false);
            let received = loop {
                tokio::select! {
                    biased;
                    received = &mut receiving => break received,
                    // An upstream that takes no more may have answered all the same.
                    sent = &mut sending, if is_sending => match sent {
                        Ok(()) => (is_sending, has_sent) = (false, true),
                        Err(Stop::Failed(_)) => {
                            is_sending = false;
                            motion.is_clients.store(false, Ordering::Relaxed);
                        }
                        Err(stop) => break Err(stop),
                    },
                    () = motion.stalls(self.shared.options.upstream_timeout) => {
                        let is_clients = motion.is_clients.load(Ordering::Relaxed);
                        let late = || Problem::new(408, "the rest of the request did not come in time");
                        break Err(if is_clients { Stop::Problem(late()) } else { Stop::Failed(Failure::Timeout) });
                    }
                }
            };
            (has_sent, received)
        };
        let status = incoming.status;
        if status > 0 {
            self.worker.upstreams[at].count_response(status);
            self.worker.count_request(Route::Upstream, status);
        }
        match received {
            Ok(Received { keeps_upstream }) => {
                if keeps_upstream && has_sent {
                    stream::keep(&self.worker, connection);
                }
                Ok(())
            }
            // Half an answer cannot be taken back.
            Err(_) if status > 0 => Err(Stop::Broken),
            Err(stop) => Err(stop),
        }
    }

    /// An answer of our own.
    fn tell(&mut self, reply: &Reply, is_head: bool) {
        self.worker.count_request(Route::Upstream, reply.status);
        let (lines, body) = self.limits.split_at(reply.head_len);
        let mut response = Response::new(());
        *response.status_mut() = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        put_lines(headers, lines);
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
        if let Some(kind) = reply.kind.content_type() {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        }
        if reply.status == 401 {
            let challenge = HeaderValue::from_static("Bearer error=\"invalid_token\"");
            headers.insert(header::WWW_AUTHENTICATE, challenge);
        }
        // A client that does not wait for its answer is nobody's concern.
        let is_end = is_head || body.is_empty();
        if let Ok(mut stream) = self.respond.send_response(response, is_end)
            && !is_end
        {
            let _ = stream.send_data(Bytes::copy_from_slice(body), true);
        }
    }
}

/// Whether bytes move, and whose turn it is where they do not.
pub(super) struct Motion<'w> {
    worker: &'w Worker,
    since_tick: AtomicU32,
    /// The client has the next step to make.
    pub is_clients: AtomicBool,
}

impl Motion<'_> {
    pub fn moved(&self) {
        self.since_tick.store(self.worker.tick(), Ordering::Relaxed);
    }

    async fn stalls(&self, timeout: Duration) {
        loop {
            let still = self.worker.tick().wrapping_sub(self.since_tick.load(Ordering::Relaxed));
            match timeout.checked_sub(TICK * still) {
                Some(left) if !left.is_zero() => tokio::time::sleep(left).await,
                _ => return,
            }
        }
    }
}

/// What the library lets through and HTTP/1 would not; gives the host.
fn check(parts: &Parts, is_end: bool) -> Result<&[u8], Problem> {
    if matches!(parts.method, Method::CONNECT | Method::TRACE) {
        return Err(Problem::new(405, "CONNECT and TRACE are not passed on"));
    }
    let target = parts.uri.path_and_query().map_or("", |target| target.as_str());
    if !is_target(target.as_bytes()) {
        return Err(Problem::new(400, "the target has to be a path that starts with `/`, in visible ASCII"));
    }
    if parts.headers.get_all(header::EXPECT).iter().any(|value| !value.as_bytes().eq_ignore_ascii_case(b"100-continue"))
    {
        return Err(Problem::new(417, "the only expectation known is 100-continue"));
    }
    if parts.headers.len() > HEADERS_MAX {
        return Err(Problem::new(431, "a request has at most 100 headers"));
    }
    if parts.headers.keys().any(|name| passes_for_framing(name.as_str().as_bytes())) {
        return Err(Problem::new(400, "Content-Length and Transfer-Encoding are written with a hyphen"));
    }
    let wrong_host =
        || Problem::new(400, "a request has exactly one well-formed host; `:authority` and Host may not differ");
    let mut hosts = parts.headers.get_all(header::HOST).iter();
    let named = hosts.next().map(HeaderValue::as_bytes);
    let authority = parts.uri.authority().map(|authority| authority.as_str().as_bytes());
    let host = authority.or(named).ok_or_else(wrong_host)?;
    let is_one = hosts.next().is_none() && named.is_none_or(|named| named == host);
    if !is_one || !is_host(host) {
        return Err(wrong_host());
    }
    let mut lengths = parts.headers.get_all(header::CONTENT_LENGTH).iter();
    if let Some(length) = lengths.next() {
        let length = whole_number(length.as_bytes());
        if lengths.next().is_some() || length.is_none() || is_end && length != Some(0) {
            return Err(Problem::new(400, "a request has at most one Content-Length, and a body of that length"));
        }
    }
    Ok(host)
}
