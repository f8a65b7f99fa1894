//! One gRPC call.

use super::code::Code;
use super::frames::{Frames, NoMessage, framed};
use super::{Method, health, reflection, rls};
use crate::serve::shared::{Shared, Worker};
use bytes::Bytes;
use h2::server::SendResponse;
use h2::{RecvStream, SendStream};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, header};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");
const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
/// Messages one reflection call may carry.
const REFLECTIONS_MAX: usize = 100;
/// Watches of health open at once in a node.
const WATCHES_MAX: usize = 1_000;
static WATCHES: AtomicUsize = AtomicUsize::new(0);

/// Why a call failed.
pub(crate) type Failure = (Code, &'static str);

/// Answers a call. What the client does not wait for is nobody's concern: sending then fails, and that is all.
pub(crate) async fn answer(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    shared: &Shared,
    worker: &Worker,
) {
    let (head, body) = request.into_parts();
    let is_grpc =
        head.headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"));
    if !is_grpc || head.method != http::Method::POST {
        let status = if is_grpc { StatusCode::METHOD_NOT_ALLOWED } else { StatusCode::UNSUPPORTED_MEDIA_TYPE };
        let mut response = Response::new(());
        *response.status_mut() = status;
        let _ = respond.send_response(response, true);
        return;
    }
    let method = Method::of(head.uri.path());
    let mut frames = Frames::new(body, shared.options.header_timeout);
    let code = match method {
        // Rare, and kept out of the task of the others.
        Method::HealthWatch => Box::pin(watch_health(&mut frames, &mut respond, shared)).await,
        Method::Reflection => Box::pin(reflect(&mut frames, &mut respond, shared.options.header_timeout)).await,
        _ => match unary(method, &mut frames, shared).await {
            Ok(message) => send_message(&mut respond, message),
            Err(failure) => fail(&mut respond, failure),
        },
    };
    worker.count_call(method, code);
}

#[inline]
async fn unary(method: Method, frames: &mut Frames, shared: &Shared) -> Result<Bytes, Failure> {
    if method == Method::Unknown {
        let what =
            "there is no such method; this node answers envoy.service.ratelimit.v3, grpc.health.v1, grpc.reflection";
        return Err((Code::Unimplemented, what));
    }
    let message = frames.next().await.map_err(|error| match error {
        NoMessage::End => (Code::InvalidArgument, "the call ended without a message"),
        NoMessage::Wrong(code, what) => (code, what),
    })?;
    match method {
        Method::ShouldRateLimit => rls::should_rate_limit(shared, &message).await,
        Method::HealthCheck => health::check(&message, !shared.is_draining())
            .map(|answer| framed(answer.len(), |out| out.extend_from_slice(&answer)))
            .map_err(|code| (code, "no such service here")),
        _ => Ok(framed(0, |_| {})),
    }
}

/// Tells how it is now, and once more when the node drains.
async fn watch_health(frames: &mut Frames, respond: &mut SendResponse<Bytes>, shared: &Shared) -> Code {
    let _watching = Watching::one();
    if WATCHES.load(Ordering::Relaxed) > WATCHES_MAX {
        return fail(respond, (Code::ResourceExhausted, "too many watch this node's health; ask with Check"));
    }
    let stop = shared.draining.notified();
    tokio::pin!(stop);
    stop.as_mut().enable();
    let request = match frames.next().await {
        Ok(request) => request,
        Err(NoMessage::End) => return fail(respond, (Code::InvalidArgument, "the call ended without a message")),
        Err(NoMessage::Wrong(code, what)) => return fail(respond, (code, what)),
    };
    let tell = |stream: &mut SendStream<Bytes>, is_ready| match health::watch(&request, is_ready) {
        Ok(answer) => stream.send_data(framed(answer.len(), |out| out.extend_from_slice(&answer)), false).is_ok(),
        Err(_) => false,
    };
    let Ok(mut stream) = respond.send_response(opening(), false) else { return Code::Unavailable };
    let is_ready = !shared.is_draining();
    if tell(&mut stream, is_ready) && is_ready {
        tokio::select! {
            () = stop => { tell(&mut stream, false); }
            _ = std::future::poll_fn(|task| stream.poll_reset(task)) => {}
        }
    }
    finish(&mut stream, Code::Ok)
}

/// Counts a watch out however it ends.
struct Watching;

impl Watching {
    fn one() -> Self {
        WATCHES.fetch_add(1, Ordering::Relaxed);
        Self
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        WATCHES.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn reflect(frames: &mut Frames, respond: &mut SendResponse<Bytes>, timeout: Duration) -> Code {
    let Ok(mut stream) = respond.send_response(opening(), false) else { return Code::Unavailable };
    for _ in 0..REFLECTIONS_MAX {
        let request = match frames.next().await {
            Ok(request) => request,
            Err(NoMessage::End) => return finish(&mut stream, Code::Ok),
            Err(NoMessage::Wrong(code, _)) => return finish(&mut stream, code),
        };
        let answer = framed(256, |out| reflection::answer(&request, out));
        if !has_room(&mut stream, answer.len(), timeout).await || stream.send_data(answer, false).is_err() {
            return Code::Unavailable;
        }
    }
    finish(&mut stream, Code::ResourceExhausted)
}

/// Waits until the client takes so many bytes: answers that nobody takes must not pile up.
async fn has_room(stream: &mut SendStream<Bytes>, bytes: usize, timeout: Duration) -> bool {
    stream.reserve_capacity(bytes);
    let room = async {
        while stream.capacity() < bytes {
            if !matches!(std::future::poll_fn(|task| stream.poll_capacity(task)).await, Some(Ok(_))) {
                return false;
            }
        }
        true
    };
    tokio::time::timeout(timeout, room).await.unwrap_or(false)
}

fn opening() -> Response<()> {
    let mut response = Response::new(());
    response.headers_mut().insert(header::CONTENT_TYPE, GRPC);
    response
}

#[inline]
fn send_message(respond: &mut SendResponse<Bytes>, message: Bytes) -> Code {
    let Ok(mut stream) = respond.send_response(opening(), false) else { return Code::Unavailable };
    if stream.send_data(message, false).is_err() {
        return Code::Unavailable;
    }
    finish(&mut stream, Code::Ok)
}

#[inline]
fn finish(stream: &mut SendStream<Bytes>, code: Code) -> Code {
    let mut trailers = HeaderMap::with_capacity(1);
    trailers.insert(GRPC_STATUS, HeaderValue::from_static(code.text()));
    let _ = stream.send_trailers(trailers);
    code
}

fn fail(respond: &mut SendResponse<Bytes>, (code, what): Failure) -> Code {
    let mut response = opening();
    response.headers_mut().insert(GRPC_STATUS, HeaderValue::from_static(code.text()));
    response.headers_mut().insert(GRPC_MESSAGE, HeaderValue::from_static(what));
    let _ = respond.send_response(response, true);
    code
}
