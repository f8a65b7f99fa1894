//! Answer bodies: one buffer each, used again for later answers.

use bytes::Buf;
use hyper::body::{Body, Frame, SizeHint};
use std::cell::RefCell;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Buffers a thread keeps for later.
const KEPT_MAX: usize = 64;
/// Larger buffers are given back: one long list must not be paid for ever.
const KEPT_BYTES_MAX: usize = 16 * 1024;

thread_local!(static KEPT: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) });

/// An empty buffer.
#[inline]
pub(crate) fn take_buffer() -> Vec<u8> {
    KEPT.with_borrow_mut(Vec::pop).unwrap_or_else(|| Vec::with_capacity(1_024))
}

fn keep_buffer(mut buffer: Vec<u8>) {
    if buffer.capacity() > KEPT_BYTES_MAX {
        return;
    }
    buffer.clear();
    // A thread that is ending has no place left to keep it.
    let _ = KEPT.try_with(|kept| {
        let mut kept = kept.borrow_mut();
        if kept.len() < KEPT_MAX {
            kept.push(buffer);
        }
    });
}

/// A body of one piece.
pub(crate) struct Payload(Option<Piece>);

impl Payload {
    #[inline]
    pub fn new(bytes: Vec<u8>) -> Self {
        if bytes.is_empty() {
            keep_buffer(bytes);
            return Self(None);
        }
        Self(Some(Piece { bytes, sent: 0 }))
    }
}

impl Body for Payload {
    type Data = Piece;
    type Error = Infallible;

    #[inline]
    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Piece>, Infallible>>> {
        Poll::Ready(self.0.take().map(|piece| Ok(Frame::data(piece))))
    }

    #[inline]
    fn is_end_stream(&self) -> bool {
        self.0.is_none()
    }

    #[inline]
    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.as_ref().map_or(0, |piece| piece.remaining() as u64))
    }
}

pub(crate) struct Piece {
    bytes: Vec<u8>,
    sent: usize,
}

impl Buf for Piece {
    #[inline]
    fn remaining(&self) -> usize {
        self.bytes.len() - self.sent
    }

    #[inline]
    fn chunk(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    #[inline]
    fn advance(&mut self, count: usize) {
        self.sent += count;
    }
}

impl Drop for Piece {
    #[inline]
    fn drop(&mut self) {
        keep_buffer(std::mem::take(&mut self.bytes));
    }
}
