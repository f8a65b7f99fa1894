//! An upstream's HTTP/1.1 answer, told to an HTTP/2 client.

use super::body::Body;
use super::failure::Failure;
use super::http2::{Motion, Stop};
use super::response::{self, Asked};
use bytes::{Bytes, BytesMut};
use h2::SendStream;
use h2::server::SendResponse;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use std::future::poll_fn;
use std::task::Poll;
use tokio::io::{AsyncRead, AsyncReadExt};

const READ_BYTES: usize = 16 * 1024;
/// Answers of the 100s that may come before the one that counts.
const INTERIMS_MAX: usize = 32;

pub(super) struct Incoming<'c> {
    respond: &'c mut SendResponse<Bytes>,
    asked: Asked,
    limits: &'c [u8],
    motion: &'c Motion<'c>,
    /// Of the answer, once the client was told.
    pub status: u16,
}

/// An answer that was told whole.
pub(super) struct Received {
    pub keeps_upstream: bool,
}

/// What a head comes to.
struct Told {
    response: Response<()>,
    body: Body,
    closes: bool,
    len: usize,
}

impl<'c> Incoming<'c> {
    pub fn new(respond: &'c mut SendResponse<Bytes>, asked: Asked, limits: &'c [u8], motion: &'c Motion<'c>) -> Self {
        Self { respond, asked, limits, motion, status: 0 }
    }

    pub async fn receive<R: AsyncRead + Unpin>(&mut self, from: &mut R) -> Result<Received, Stop> {
        let mut input = BytesMut::with_capacity(READ_BYTES);
        let Told { response, mut body, mut closes, .. } = self.head(from, &mut input).await?;
        let status = response.status().as_u16();
        let is_end = body.is_done();
        let mut stream = self.respond.send_response(response, is_end).map_err(|_| Stop::Broken)?;
        self.status = status;
        while !body.is_done() {
            if input.is_empty() {
                input.reserve(READ_BYTES);
                // A connection that breaks is not one that ends.
                match unless_reset(&mut stream, from.read_buf(&mut input)).await? {
                    Ok(0) if body == Body::UntilClose => break,
                    Ok(0) | Err(_) => return Err(Stop::Broken),
                    Ok(_) => self.motion.moved(),
                }
            }
            let piece = body.next(&input).map_err(|_| Stop::Broken)?;
            let bytes = input.split_to(piece.used);
            if piece.is_data {
                let is_last = body.is_done();
                send_data(&mut stream, bytes.freeze(), is_last, self.motion).await?;
                if is_last {
                    return Ok(Received { keeps_upstream: !closes && input.is_empty() });
                }
            }
        }
        closes |= !input.is_empty();
        if !is_end {
            let mut trailers = HeaderMap::new();
            put_lines(&mut trailers, body.trailers());
            let sent = match trailers.is_empty() {
                true => stream.send_data(Bytes::new(), true),
                false => stream.send_trailers(trailers),
            };
            sent.map_err(|_| Stop::Broken)?;
        }
        Ok(Received { keeps_upstream: !closes })
    }

    /// The head that counts; those of the 100s are passed on before it.
    async fn head<R: AsyncRead + Unpin>(&mut self, from: &mut R, input: &mut BytesMut) -> Result<Told, Stop> {
        let mut interims = 0;
        loop {
            let read = response::read(input, self.asked, |said| told(said, self.limits));
            match read.map_err(|_| Stop::Failed(Failure::BadResponse))? {
                Some(None) => return Err(Stop::Failed(Failure::BadResponse)),
                Some(Some(told)) if told.response.status().is_informational() => {
                    interims += 1;
                    if interims > INTERIMS_MAX {
                        return Err(Stop::Failed(Failure::BadResponse));
                    }
                    let _ = input.split_to(told.len);
                    self.respond.send_informational(told.response).map_err(|_| Stop::Broken)?;
                    continue;
                }
                Some(Some(told)) => {
                    let _ = input.split_to(told.len);
                    return Ok(told);
                }
                None => {}
            }
            input.reserve(READ_BYTES / 2);
            let reset = poll_fn(|task| self.respond.poll_reset(task));
            let count = tokio::select! {
                biased;
                count = from.read_buf(input) => count.unwrap_or(0),
                _ = reset => return Err(Stop::Broken),
            };
            if count == 0 {
                return Err(Stop::Failed(Failure::Closed));
            }
            self.motion.moved();
        }
    }
}

/// The head for an HTTP/2 client; none when HTTP/2 has no words for it.
fn told(said: &response::Said<'_>, limits: &[u8]) -> Option<Told> {
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::from_u16(said.status).ok()?;
    let headers = response.headers_mut();
    let is_final = said.status >= 200;
    let limits = if is_final { limits } else { b"" };
    let mut is_well = true;
    said.each_header(!limits.is_empty(), |name, value| {
        match (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_bytes(value)) {
            (Ok(name), Ok(value)) => drop(headers.append(name, value)),
            _ => is_well = false,
        }
    });
    if let Some(length) = said.length {
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    }
    put_lines(headers, limits);
    is_well.then(|| Told { response, body: said.body.clone(), closes: said.closes, len: said.len })
}

/// Header lines as HTTP/1 writes them.
pub(super) fn put_lines(headers: &mut HeaderMap, lines: &[u8]) {
    for line in lines.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end) {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let (name, value) =
            (HeaderName::from_bytes(&line[..colon]), HeaderValue::from_bytes(line[colon + 1..].trim_ascii()));
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.append(name, value);
        }
    }
}

/// Sends as the client takes it.
async fn send_data(
    stream: &mut SendStream<Bytes>,
    mut data: Bytes,
    is_last: bool,
    motion: &Motion<'_>,
) -> Result<(), Stop> {
    while !data.is_empty() {
        stream.reserve_capacity(data.len());
        let mut room = stream.capacity();
        if room == 0 {
            room = match poll_fn(|task| stream.poll_capacity(task)).await {
                Some(Ok(room)) => room,
                _ => return Err(Stop::Broken),
            };
        }
        let chunk = data.split_to(room.min(data.len()));
        stream.send_data(chunk, is_last && data.is_empty()).map_err(|_| Stop::Broken)?;
        motion.moved();
    }
    Ok(())
}

/// Waits for something, as long as the client does.
async fn unless_reset<T>(stream: &mut SendStream<Bytes>, wait: impl Future<Output = T>) -> Result<T, Stop> {
    tokio::pin!(wait);
    poll_fn(|task| {
        if let Poll::Ready(done) = wait.as_mut().poll(task) {
            return Poll::Ready(Ok(done));
        }
        match stream.poll_reset(task) {
            Poll::Ready(_) => Poll::Ready(Err(Stop::Broken)),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}
