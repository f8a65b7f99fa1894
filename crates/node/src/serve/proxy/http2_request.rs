//! An HTTP/2 request written as HTTP/1.1.

use super::body::is_kept_from_trailers;
use super::failure::Failure;
use super::http2::{Motion, Stop};
use super::request::{Forwarding, Passed, put, put_identity, wants_trailers};
use super::words::whole_number;
use crate::serve::identified::Identified;
use bytes::Bytes;
use h2::RecvStream;
use http::request::Parts;
use http::{HeaderMap, header};
use std::sync::atomic::Ordering;
use tokio::io::{AsyncWrite, AsyncWriteExt};

/// Pieces of a body smaller than this are put behind the words that announce them; others are sent as they are.
const TOGETHER_BYTES_MAX: usize = 16 * 1024;

/// A request on its way.
pub(super) struct Outgoing {
    head: Vec<u8>,
    body: RecvStream,
    framing: Framing,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Framing {
    None,
    /// So many bytes are still to come.
    Length(u64),
    Chunked,
}

impl Outgoing {
    pub fn new<'h>(
        parts: &'h Parts,
        body: RecvStream,
        host: &'h [u8],
        mut forwarding: Forwarding<'h>,
        who: &Identified,
    ) -> Outgoing {
        let length = parts.headers.get(header::CONTENT_LENGTH).and_then(|length| whole_number(length.as_bytes()));
        let framing = match length {
            _ if body.is_end_stream() => Framing::None,
            Some(length) => Framing::Length(length),
            None => Framing::Chunked,
        };
        let mut head = Vec::with_capacity(1_024);
        head.extend_from_slice(parts.method.as_str().as_bytes());
        head.push(b' ');
        head.extend_from_slice(parts.uri.path_and_query().map_or("/", |target| target.as_str()).as_bytes());
        head.extend_from_slice(b" HTTP/1.1\r\n");
        put(&mut head, b"Host", host);
        for (name, value) in &parts.headers {
            if matches!(*name, header::HOST | header::COOKIE) {
                continue;
            }
            if forwarding.look(name.as_str().as_bytes(), value.as_bytes()) == Passed::On {
                put(&mut head, name.as_str().as_bytes(), value.as_bytes());
            }
        }
        put_cookies(&mut head, &parts.headers);
        forwarding.put(&mut head);
        put_identity(&mut head, who);
        if framing == Framing::Chunked {
            put(&mut head, b"Transfer-Encoding", b"chunked");
        }
        if parts.headers.get_all(header::TE).iter().any(|te| wants_trailers(te.as_bytes())) {
            put(&mut head, b"TE", b"trailers");
        }
        head.extend_from_slice(b"\r\n");
        Outgoing { head, body, framing }
    }
}

/// HTTP/2 cuts cookies into crumbs; HTTP/1 knows one header of them.
fn put_cookies(head: &mut Vec<u8>, headers: &HeaderMap) {
    for (nth, crumb) in headers.get_all(header::COOKIE).iter().enumerate() {
        head.extend_from_slice(if nth == 0 { b"Cookie: " } else { b"; " });
        head.extend_from_slice(crumb.as_bytes());
    }
    if headers.contains_key(header::COOKIE) {
        head.extend_from_slice(b"\r\n");
    }
}

/// Sends it whole. An error of the upstream's is a failure, anything else is the client's.
pub(super) async fn send<W>(outgoing: Outgoing, to: &mut W, motion: &Motion<'_>) -> Result<(), Stop>
where
    W: AsyncWrite + Unpin,
{
    let Outgoing { head, mut body, mut framing } = outgoing;
    write(to, &head, motion).await?;
    if framing == Framing::None {
        return flush(to).await;
    }
    let mut together = Vec::new();
    loop {
        motion.is_clients.store(true, Ordering::Relaxed);
        let Some(data) = body.data().await else { break };
        motion.is_clients.store(false, Ordering::Relaxed);
        let data = data.map_err(|_| Stop::Broken)?;
        if let Framing::Length(left) = &mut framing {
            // More than was announced would be another request to the upstream.
            *left = left.checked_sub(data.len() as u64).ok_or(Stop::Broken)?;
        }
        write_data(to, &data, framing, &mut together, motion).await?;
        // The client may send as much again as was taken off its hands.
        let _ = body.flow_control().release_capacity(data.len());
    }
    if matches!(framing, Framing::Length(1..)) {
        return Err(Stop::Broken);
    }
    if framing == Framing::Chunked {
        let trailers = body.trailers().await.map_err(|_| Stop::Broken)?;
        together.clear();
        together.extend_from_slice(b"0\r\n");
        for (name, value) in trailers.iter().flatten() {
            if !is_kept_from_trailers(name.as_str().as_bytes()) {
                put(&mut together, name.as_str().as_bytes(), value.as_bytes());
            }
        }
        together.extend_from_slice(b"\r\n");
        write(to, &together, motion).await?;
    }
    motion.is_clients.store(false, Ordering::Relaxed);
    flush(to).await
}

async fn write_data<W: AsyncWrite + Unpin>(
    to: &mut W,
    data: &Bytes,
    framing: Framing,
    together: &mut Vec<u8>,
    motion: &Motion<'_>,
) -> Result<(), Stop> {
    if data.is_empty() {
        return Ok(());
    }
    if matches!(framing, Framing::Length(_)) {
        return write(to, data, motion).await;
    }
    together.clear();
    together.extend_from_slice(format!("{:x}\r\n", data.len()).as_bytes());
    if data.len() <= TOGETHER_BYTES_MAX {
        together.extend_from_slice(data);
        together.extend_from_slice(b"\r\n");
        return write(to, together, motion).await;
    }
    write(to, together, motion).await?;
    write(to, data, motion).await?;
    write(to, b"\r\n", motion).await
}

async fn write<W: AsyncWrite + Unpin>(to: &mut W, mut bytes: &[u8], motion: &Motion<'_>) -> Result<(), Stop> {
    while !bytes.is_empty() {
        let count = to.write(bytes).await.map_err(|_| Stop::Failed(Failure::Closed))?;
        if count == 0 {
            return Err(Stop::Failed(Failure::Closed));
        }
        bytes = &bytes[count..];
        motion.moved();
    }
    flush(to).await
}

async fn flush<W: AsyncWrite + Unpin>(to: &mut W) -> Result<(), Stop> {
    to.flush().await.map_err(|_| Stop::Failed(Failure::Closed))
}
