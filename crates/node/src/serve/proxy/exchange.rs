//! One request to an upstream and its answer, both passing through at the same time: an upstream may answer before it has
//! heard all, and whoever waits for the other must not be waited for.

use super::body::{Body, Malformed};
use super::buffers::Buffers;
use super::failure::Failure;
use super::flow::{LARGE_BYTES, SMALL_BYTES, Stall, poll_read};
use super::response::{self, Asked};
use super::stream::Stream;
use crate::serve::shared::{Shared, Worker};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite};

/// Answers of the 100s that may come before the one that counts.
const INTERIMS_MAX: usize = 32;
/// How much of the next request is read while this one is answered: enough to see that the client is there.
const AHEAD_BYTES_MAX: usize = 16 * 1024;

/// How an exchange ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The client has its answer. Whether each side can be used again.
    Answered {
        keeps_client: bool,
        keeps_upstream: bool,
    },
    /// Both sides agreed to go on in another protocol.
    Upgraded,
    /// Nothing was told to the client yet.
    Failed(Failure),
    /// The same, and the client is to blame: its body is no body, or has stopped coming.
    BadBody,
    Stopped,
    /// The client is gone, or has half an answer of which there is no more: all there is left is to close.
    Broken,
}

pub(super) struct Exchange<'e, S> {
    pub client: &'e mut S,
    pub upstream: &'e mut Stream,
    pub buffers: &'e mut Buffers,
    pub shared: &'e Shared,
    pub worker: &'e Worker,
    pub stall: &'e mut Stall,
    pub asked: Asked,
    /// HTTP/1.0: knows no chunks and no answers of the 100s.
    pub is_old: bool,
    /// Whether the client wants to stay, and may.
    pub stays: bool,
    /// What is to be told of limits.
    pub limits: &'e [u8],
    pub sending: Sending,
    pub receiving: Receiving,
    /// The status the upstream answered with.
    pub status: u16,
}

/// The request's side.
pub(super) struct Sending {
    pub body: Body,
    pub state: SendState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SendState {
    Under,
    Done,
    /// The upstream takes no more; it may have answered all the same.
    Refused,
}

/// The answer's side.
pub(super) enum Receiving {
    Head { interims: usize },
    Body { body: Body, closes: bool, decodes: bool },
    Switching,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Exchange<'_, S> {
    pub async fn run(&mut self) -> End {
        self.stall.moved(self.worker);
        std::future::poll_fn(|task| self.poll(task)).await
    }

    fn poll(&mut self, task: &mut Context<'_>) -> Poll<End> {
        loop {
            let mut has_moved = false;
            if self.sending.state == SendState::Under {
                match self.poll_send(task) {
                    Poll::Ready(Ok(())) => has_moved = true,
                    Poll::Ready(Err(end)) => return Poll::Ready(end),
                    Poll::Pending => {}
                }
            }
            match self.poll_receive(task) {
                Poll::Ready(Ok(())) => has_moved = true,
                Poll::Ready(Err(end)) => return Poll::Ready(end),
                Poll::Pending => {}
            }
            // Also what passed only in part.
            if self.buffers.up.has_moved() | self.buffers.down.has_moved() | has_moved {
                self.stall.moved(self.worker);
            }
            if !has_moved {
                return self.poll_rest(task);
            }
        }
    }

    /// One step of the request's way.
    fn poll_send(&mut self, task: &mut Context<'_>) -> Poll<Result<(), End>> {
        let up = &mut self.buffers.up;
        if ready!(up.poll_drain(task, self.upstream)).is_err() {
            self.sending.state = SendState::Refused;
            return Poll::Ready(Ok(()));
        }
        if self.sending.body.is_done() {
            self.sending.state = SendState::Done;
            return Poll::Ready(Ok(()));
        }
        let bytes_max = if matches!(self.sending.body, Body::Length(0..=8192)) { SMALL_BYTES } else { LARGE_BYTES };
        let count = ready!(up.poll_fill(task, self.client, bytes_max)).unwrap_or(0);
        if count == 0 {
            return Poll::Ready(Err(End::Broken));
        }
        let Ok(used) = self.sending.body.take(&up.bytes) else {
            up.clear();
            return Poll::Ready(Err(self.untold(End::BadBody)));
        };
        self.buffers.input.extend_from_slice(&up.bytes[used..]);
        up.bytes.truncate(used);
        Poll::Ready(Ok(()))
    }

    /// One step of the answer's way.
    fn poll_receive(&mut self, task: &mut Context<'_>) -> Poll<Result<(), End>> {
        if ready!(self.buffers.down.poll_drain(task, self.client)).is_err() {
            return Poll::Ready(Err(End::Broken));
        }
        match &mut self.receiving {
            Receiving::Switching => Poll::Ready(Err(End::Upgraded)),
            Receiving::Head { .. } => {
                self.buffers.said.reserve(SMALL_BYTES);
                let count = ready!(poll_read(task, self.upstream, &mut self.buffers.said)).unwrap_or(0);
                if count == 0 {
                    return Poll::Ready(Err(self.untold(End::Failed(Failure::Closed))));
                }
                Poll::Ready(self.read_heads())
            }
            Receiving::Body { body, closes, decodes } => {
                if body.is_done() {
                    let is_sent = self.sending.state == SendState::Done;
                    let keeps_upstream = is_sent && !*closes;
                    return Poll::Ready(Err(End::Answered { keeps_client: is_sent && self.stays, keeps_upstream }));
                }
                let bytes_max = if matches!(body, Body::Length(0..=8192)) { SMALL_BYTES } else { LARGE_BYTES };
                let down = &mut self.buffers.down;
                // A connection that breaks is not one that ends.
                match ready!(down.poll_fill(task, self.upstream, bytes_max)) {
                    Ok(0) if *body == Body::UntilClose => {
                        self.stays = false;
                        *body = Body::Length(0);
                        Poll::Ready(Ok(()))
                    }
                    Ok(0) | Err(_) => Poll::Ready(Err(End::Broken)),
                    Ok(_) => Poll::Ready(match pass(body, &mut down.bytes, 0, *decodes) {
                        Ok(is_too_much) => {
                            *closes |= is_too_much;
                            Ok(())
                        }
                        Err(Malformed) => Err(End::Broken),
                    }),
                }
            }
        }
    }

    /// Reads what has come of heads: one, maybe after some of the 100s.
    fn read_heads(&mut self) -> Result<(), End> {
        while let Receiving::Head { interims } = self.receiving {
            self.stays &= !self.shared.is_draining();
            let (is_old, stays, asked, limits) = (self.is_old, self.stays, self.asked, self.limits);
            let out = &mut self.buffers.down.bytes;
            let read = response::read(&self.buffers.said, asked, |said| {
                let is_interim = said.status < 200 && said.status != 101;
                if is_interim {
                    if !is_old {
                        said.put_head(out, b"", b"");
                    }
                    return (said.status, said.len, None, said.closes);
                }
                let is_chunked = matches!(said.body, Body::Chunked(_));
                let is_open = said.body == Body::UntilClose || is_chunked && is_old;
                let ending: &[u8] = match (stays && !is_open, is_old, is_chunked) {
                    _ if said.status == 101 => b"",
                    (true, false, true) => b"transfer-encoding: chunked\r\n",
                    (true, false, false) => b"",
                    (true, true, _) => b"connection: keep-alive\r\n",
                    (false, false, true) => b"transfer-encoding: chunked\r\nconnection: close\r\n",
                    (false, _, _) => b"connection: close\r\n",
                };
                said.put_head(out, limits, ending);
                (said.status, said.len, Some((said.body.clone(), is_open)), said.closes)
            });
            let (status, len, body, closes) = match read {
                Ok(Some(read)) => read,
                Ok(None) => return Ok(()),
                Err(Malformed) => return Err(self.untold(End::Failed(Failure::BadResponse))),
            };
            let Some((mut body, is_open)) = body else {
                if interims == INTERIMS_MAX {
                    return Err(self.untold(End::Failed(Failure::BadResponse)));
                }
                self.buffers.said.drain(..len);
                self.receiving = Receiving::Head { interims: interims + 1 };
                continue;
            };
            self.status = status;
            if status == 101 {
                self.buffers.down.bytes.extend_from_slice(&self.buffers.said[len..]);
                self.buffers.said.clear();
                self.receiving = Receiving::Switching;
                return Ok(());
            }
            self.stays &= !is_open;
            let decodes = self.is_old && matches!(body, Body::Chunked(_));
            let down = &mut self.buffers.down.bytes;
            let from = down.len();
            down.extend_from_slice(&self.buffers.said[len..]);
            self.buffers.said.clear();
            let is_too_much = pass(&mut body, down, from, decodes).map_err(|Malformed| End::Broken)?;
            self.receiving = Receiving::Body { body, closes: closes || is_too_much, decodes };
        }
        Ok(())
    }

    /// Whether the client knows the end of its answer by the end of the connection alone.
    pub fn lasts_until_close(&self) -> bool {
        matches!(&self.receiving, Receiving::Body { body, decodes, .. } if *decodes || *body == Body::UntilClose)
    }

    /// An end that the client can be told of, if nothing of an answer was told before.
    fn untold(&self, end: End) -> End {
        let is_untold = matches!(self.receiving, Receiving::Head { .. });
        if is_untold { end } else { End::Broken }
    }

    /// Nothing moves: whether the client is still there, and whether it has been too long.
    fn poll_rest(&mut self, task: &mut Context<'_>) -> Poll<End> {
        let input = &mut self.buffers.input;
        if self.sending.state != SendState::Under && input.len() < AHEAD_BYTES_MAX {
            input.reserve(SMALL_BYTES);
            if let Poll::Ready(came) = poll_read(task, self.client, input) {
                if came.unwrap_or(0) == 0 {
                    return Poll::Ready(End::Broken);
                }
                task.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
        ready!(self.stall.poll(task, self.worker, self.shared.options.upstream_timeout));
        // Whoever had the next step to make is to blame.
        let is_clients = self.sending.state == SendState::Under && self.buffers.up.is_drained();
        Poll::Ready(self.untold(if is_clients { End::Stopped } else { End::Failed(Failure::Timeout) }))
    }
}

/// Keeps of the bytes from `from` on what belongs to the body; true when there was more than that.
#[inline]
fn pass(body: &mut Body, bytes: &mut Vec<u8>, from: usize, decodes: bool) -> Result<bool, Malformed> {
    let came = bytes.len();
    if !decodes {
        let end = from + body.take(&bytes[from..])?;
        bytes.truncate(end);
        return Ok(end < came);
    }
    let (mut at, mut kept) = (from, from);
    while at < came && !body.is_done() {
        let piece = body.next(&bytes[at..])?;
        if piece.is_data {
            bytes.copy_within(at..at + piece.used, kept);
            kept += piece.used;
        }
        at += piece.used;
    }
    bytes.truncate(kept);
    Ok(at < came)
}
