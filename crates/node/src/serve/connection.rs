//! One connection: HTTP/1 in, answers out.

use super::payload::{Payload, take_buffer};
use super::problem::Problem;
use super::router::{Asked, Reply, Route, answer};
use super::shared::Shared;
use super::watch::{Phase, Watch, Watched};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use hyper::header::{ALLOW, CONNECTION, CONTENT_TYPE, EXPECT, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// The most bytes a request's line and headers may take (431). Their number is bounded by the parser, to 100.
const HEAD_BYTES_MAX: usize = 32 * 1024;
/// How much of a body that is too large is read all the same, so that the client is listening when told.
const DISCARDED_BYTES_MAX: usize = 1024 * 1024;

/// Serves a connection until it ends.
pub(crate) async fn serve<S>(stream: S, shared: Arc<Shared>, watch: Arc<Watch>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let io = TokioIo::new(Watched { stream, watch: watch.clone() });
    let service = service_fn(|request| respond(&shared, &watch, request));
    let mut http = http1::Builder::new();
    // Timeouts are the sweep's (see `worker`).
    http.header_read_timeout(None).max_header_size(HEAD_BYTES_MAX).half_close(true);
    let mut connection = http.serve_connection(io, service);
    if let Err(error) = (&mut connection).await
        && error.is_parse()
    {
        let status = if error.is_parse_too_large() { 431 } else { 400 };
        watch.worker.count_request(Route::Unknown, status);
        linger(connection.into_parts().io.into_inner()).await;
    }
}

/// Closing on unread bytes would take the answer away from a client that is still sending: its rest is read first.
/// The sweep sees to it that this ends.
async fn linger(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    let mut unread = [0; 1_024];
    let mut bytes = 0;
    if stream.shutdown().await.is_ok() {
        while let Ok(count) = stream.read(&mut unread).await
            && count > 0
            && bytes < DISCARDED_BYTES_MAX
        {
            bytes += count;
        }
    }
}

async fn respond(shared: &Shared, watch: &Watch, request: Request<Incoming>) -> Result<Response<Payload>, Infallible> {
    watch.enter(Phase::Body);
    let (head, incoming) = request.into_parts();
    let route = Route::of(head.uri.path());
    let mut out = take_buffer();
    let mut close = false;
    let body = if route.takes_body(head.method.as_str()) {
        read_body(incoming, shared.options.max_body_bytes, &head.headers).await
    } else {
        Ok(Bytes::new())
    };
    let reply = match body {
        Ok(body) => {
            let asked = Asked { route, method: head.method.as_str(), query: head.uri.query(), body: &body };
            answer(shared, &asked, &mut out)
        }
        Err(Unread::TooLarge) => {
            close = true;
            let detail = format!("the body may have at most {} bytes", shared.options.max_body_bytes);
            Reply::problem(&Problem::new(413, detail), &mut out)
        }
        Err(Unread::Broken) => {
            close = true;
            Reply::problem(&Problem::new(400, "the body: expected as many bytes as its head announced"), &mut out)
        }
    };
    watch.worker.count_request(route, reply.status);
    watch.enter(Phase::Answered);
    Ok(response(reply, out, close || shared.is_draining()))
}

#[inline]
fn response(reply: Reply, out: Vec<u8>, close: bool) -> Response<Payload> {
    let mut response = Response::new(Payload::new(out));
    if reply.status != 200 {
        *response.status_mut() = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    }
    let headers = response.headers_mut();
    if let Some(content_type) = reply.kind.content_type() {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    }
    if let Some(allow) = reply.allow {
        headers.insert(ALLOW, HeaderValue::from_static(allow));
    }
    if close {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

enum Unread {
    TooLarge,
    /// The connection ended within it, or it was not framed as announced.
    Broken,
}

/// The whole body. Most come in one piece, which is then not copied.
async fn read_body(mut incoming: Incoming, bytes_max: usize, headers: &HeaderMap) -> Result<Bytes, Unread> {
    let declared = incoming.size_hint().exact();
    if declared.is_some_and(|bytes| bytes > bytes_max as u64) {
        if !headers.contains_key(EXPECT) {
            discard(incoming).await;
        }
        return Err(Unread::TooLarge);
    }
    let mut whole: Option<Bytes> = None;
    let mut pieces: Vec<u8> = Vec::new();
    while let Some(frame) = incoming.frame().await {
        let Ok(piece) = frame.map_err(|_| Unread::Broken)?.into_data() else { continue };
        if declared == Some(piece.len() as u64) {
            return Ok(piece);
        }
        if let Some(first) = whole.take() {
            pieces.extend_from_slice(&first);
        }
        if pieces.len() + piece.len() > bytes_max {
            discard(incoming).await;
            return Err(Unread::TooLarge);
        }
        if pieces.is_empty() { whole = Some(piece) } else { pieces.extend_from_slice(&piece) }
    }
    Ok(whole.unwrap_or_else(|| pieces.into()))
}

async fn discard(mut incoming: Incoming) {
    let mut bytes = 0;
    while let Some(Ok(frame)) = incoming.frame().await {
        bytes += frame.data_ref().map_or(0, Bytes::len);
        if bytes > DISCARDED_BYTES_MAX {
            return;
        }
    }
}
