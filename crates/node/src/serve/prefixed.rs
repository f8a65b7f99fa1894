//! A stream whose first bytes were read to see what it speaks.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

pub(crate) struct Prefixed<S> {
    read: Vec<u8>,
    at: usize,
    stream: S,
}

impl<S> Prefixed<S> {
    pub fn new(read: Vec<u8>, stream: S) -> Self {
        Self { read, at: 0, stream }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Prefixed<S> {
    fn poll_read(mut self: Pin<&mut Self>, task: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let left = &this.read[this.at..];
        if left.is_empty() {
            return Pin::new(&mut this.stream).poll_read(task, buf);
        }
        let count = left.len().min(buf.remaining());
        buf.put_slice(&left[..count]);
        this.at += count;
        if this.at == this.read.len() {
            this.read = Vec::new();
            this.at = 0;
        }
        Poll::Ready(Ok(()))
    }
}

/// Not vectored, and on purpose: to a stream that is, h2 hands every message of 256 bytes or more on its own, which makes a
/// system call of each answer; else it takes messages up to 1 KiB together with their neighbours.
impl<S: AsyncWrite + Unpin> AsyncWrite for Prefixed<S> {
    fn poll_write(mut self: Pin<&mut Self>, task: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(task, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(task)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(task)
    }
}
