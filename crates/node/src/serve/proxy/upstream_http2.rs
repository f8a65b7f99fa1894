//! Upstreams that speak HTTP/2, as gRPC servers do.
//!
//! A request goes to them as to any other, in HTTP/1.1, and is translated behind a pipe of its own: so that there is one way
//! through the gateway, and this is beside it. Requests of a worker share a connection, as many as the upstream lets them.

use super::body::Body;
use super::http2_response::put_lines;
use super::request::put;
use super::scan::{Head, Scanned, scan_ours};
use super::upstream::Place;
use crate::serve::shared::{Shared, Worker};
use bytes::{Bytes, BytesMut};
use h2::client::SendRequest;
use h2::{RecvStream, SendStream};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, Version};
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio::task::AbortHandle;

/// What a pipe holds in each direction.
const PIPE_BYTES: usize = 64 * 1024;
/// What an upstream may send before it is read: for one request, and for all.
const STREAM_WINDOW_BYTES: u32 = 256 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 4 * 1024 * 1024;
const HEADER_BYTES_MAX: u32 = 64 * 1024;

/// The end of a pipe that one request is written to and its answer read from.
pub(super) struct Pipe {
    pub stream: DuplexStream,
    translating: AbortHandle,
}

impl Drop for Pipe {
    /// Whatever the upstream is waited for: nobody waits any more.
    fn drop(&mut self) {
        self.translating.abort();
    }
}

/// A connection that requests share.
#[derive(Clone)]
pub(super) struct Line {
    sender: SendRequest<Bytes>,
    /// Each request has one, and so has the line.
    requests: Arc<()>,
}

impl Line {
    pub fn is_idle(&self) -> bool {
        Arc::strong_count(&self.requests) == 1
    }

    fn has_room(&self) -> bool {
        Arc::strong_count(&self.requests) <= self.sender.current_max_send_streams()
    }
}

pub(super) async fn pipe(shared: &Arc<Shared>, worker: &Arc<Worker>, at: usize) -> io::Result<Pipe> {
    let line = line(shared, worker, at).await?;
    let (stream, theirs) = tokio::io::duplex(PIPE_BYTES);
    // Whatever goes wrong closes the pipe, which is how the gateway hears of it.
    let translating = tokio::spawn(async move {
        let Line { sender, requests: _requests } = line;
        drop(translate(theirs, sender).await);
    });
    Ok(Pipe { stream, translating: translating.abort_handle() })
}

/// A connection of the worker's that takes another request, or a new one.
async fn line(shared: &Arc<Shared>, worker: &Arc<Worker>, at: usize) -> io::Result<Line> {
    let lines = &worker.upstreams[at].http2;
    loop {
        let Some(known) = lines.lock().iter().find(|line| line.has_room()).cloned() else { break };
        let Line { sender, requests } = known;
        if let Ok(sender) = sender.ready().await {
            return Ok(Line { sender, requests });
        }
        lines.lock().retain(|line| !Arc::ptr_eq(&line.requests, &requests));
    }
    let Place::Tcp(host, port) = &shared.upstreams.all[at].place else {
        return Err(io::ErrorKind::Unsupported.into());
    };
    let stream = TcpStream::connect((host.as_str(), *port)).await?;
    stream.set_nodelay(true)?;
    let (sender, connection) = h2::client::Builder::new()
        .initial_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_header_list_size(HEADER_BYTES_MAX)
        .enable_push(false)
        .handshake(stream)
        .await
        .map_err(io::Error::other)?;
    // It ends when the other side closes it, or nobody sends any more.
    tokio::spawn(async move { drop(connection.await) });
    let line = Line { sender: sender.ready().await.map_err(io::Error::other)?, requests: Arc::default() };
    lines.lock().push(line.clone());
    Ok(line)
}

/// One request and its answer.
async fn translate(pipe: DuplexStream, mut sender: SendRequest<Bytes>) -> io::Result<()> {
    let (mut from, mut to) = tokio::io::split(pipe);
    let mut input = BytesMut::with_capacity(8 * 1024);
    let head = loop {
        match scan_ours(&input) {
            Scanned::Whole(head) => break head,
            Scanned::Part if from.read_buf(&mut input).await? > 0 => {}
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }
    };
    let request = request(&input, &head).ok_or(io::ErrorKind::InvalidData)?;
    let is_head = *request.method() == Method::HEAD;
    let _ = input.split_to(head.len);
    let is_end = head.body.is_done();
    // HTTP/2 has windows for it: whoever waits to be told to go on is told by us.
    if head.expects_continue && !is_end {
        to.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
    }
    let (response, stream) = sender.send_request(request, is_end).map_err(io::Error::other)?;
    let sending = async {
        if !is_end {
            send_body(stream, head.body, input, &mut from).await?;
        }
        // Whoever is at the other end of the pipe may leave it: then nothing more is to be done.
        while from.read_buf(&mut BytesMut::with_capacity(64)).await? > 0 {}
        Err::<(), io::Error>(io::ErrorKind::BrokenPipe.into())
    };
    let receiving = async {
        let (parts, body) = response.await.map_err(io::Error::other)?.into_parts();
        receive(&parts, body, &mut to, is_head).await
    };
    tokio::select! {
        biased;
        received = receiving => received,
        gone = sending => gone,
    }
}

fn request(bytes: &[u8], head: &Head) -> Option<Request<()>> {
    let host = head.host?.of(bytes);
    let uri = Uri::builder().scheme("http").authority(host).path_and_query(head.target.of(bytes)).build().ok()?;
    let mut request = Request::new(());
    *request.method_mut() = Method::from_bytes(head.method.of(bytes)).ok()?;
    *request.uri_mut() = uri;
    *request.version_mut() = Version::HTTP_2;
    for field in &head.fields {
        let (name, value) = (field.name.of(bytes), field.value.of(bytes));
        let is_http1 = [&b"host"[..], b"transfer-encoding", b"connection", b"upgrade", b"expect"];
        if !is_http1.iter().any(|known| name.eq_ignore_ascii_case(known)) {
            request.headers_mut().append(HeaderName::from_bytes(name).ok()?, HeaderValue::from_bytes(value).ok()?);
        }
    }
    Some(request)
}

async fn send_body(
    mut stream: SendStream<Bytes>,
    mut body: Body,
    mut input: BytesMut,
    from: &mut ReadHalf<DuplexStream>,
) -> io::Result<()> {
    body.keep_trailers();
    while !body.is_done() {
        if input.is_empty() {
            input.reserve(PIPE_BYTES / 4);
            if from.read_buf(&mut input).await? == 0 {
                stream.send_reset(h2::Reason::CANCEL);
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        let piece = body.next(&input).map_err(|_| io::ErrorKind::InvalidData)?;
        let mut data = input.split_to(piece.used).freeze();
        while piece.is_data && !data.is_empty() {
            stream.reserve_capacity(data.len());
            let room = match poll_fn(|task| stream.poll_capacity(task)).await {
                Some(Ok(room)) => room,
                // It takes no more, and may have answered.
                _ => return Ok(()),
            };
            if stream.send_data(data.split_to(room.min(data.len())), false).is_err() {
                return Ok(());
            }
        }
    }
    let mut trailers = HeaderMap::new();
    put_lines(&mut trailers, body.trailers());
    // The same here.
    let _ = match trailers.is_empty() {
        true => stream.send_data(Bytes::new(), true),
        false => stream.send_trailers(trailers),
    };
    Ok(())
}

async fn receive(
    parts: &http::response::Parts,
    mut body: RecvStream,
    to: &mut WriteHalf<DuplexStream>,
    is_head: bool,
) -> io::Result<()> {
    let has_length = parts.headers.contains_key(http::header::CONTENT_LENGTH);
    let has_none = is_head || matches!(parts.status.as_u16(), 204 | 304);
    let mut out = Vec::with_capacity(512);
    out.extend_from_slice(format!("HTTP/1.1 {} \r\nconnection: close\r\n", parts.status.as_u16()).as_bytes());
    let is_hop =
        |name: &HeaderName| matches!(name.as_str(), "connection" | "transfer-encoding" | "upgrade" | "keep-alive");
    for (name, value) in parts.headers.iter().filter(|(name, _)| !is_hop(name)) {
        put(&mut out, name.as_str().as_bytes(), value.as_bytes());
    }
    // An answer that ends with its head may be all trailers, as those of gRPC are that fail.
    let is_chunked = !has_length && !has_none && !body.is_end_stream();
    match is_chunked {
        true => put(&mut out, b"transfer-encoding", b"chunked"),
        false if !has_length && !has_none => put(&mut out, b"content-length", b"0"),
        false => {}
    }
    out.extend_from_slice(b"\r\n");
    to.write_all(&out).await?;
    while let Some(data) = body.data().await {
        let data = data.map_err(io::Error::other)?;
        if is_chunked && !data.is_empty() {
            to.write_all(format!("{:x}\r\n", data.len()).as_bytes()).await?;
        }
        to.write_all(&data).await?;
        if is_chunked && !data.is_empty() {
            to.write_all(b"\r\n").await?;
        }
        let _ = body.flow_control().release_capacity(data.len());
    }
    if is_chunked {
        let trailers = body.trailers().await.map_err(io::Error::other)?;
        out.clear();
        out.extend_from_slice(b"0\r\n");
        for (name, value) in trailers.iter().flatten() {
            put(&mut out, name.as_str().as_bytes(), value.as_bytes());
        }
        out.extend_from_slice(b"\r\n");
        to.write_all(&out).await?;
    }
    to.shutdown().await
}
