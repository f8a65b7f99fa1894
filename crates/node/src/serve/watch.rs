//! What a connection is doing and since when, so that one sweep can end those that take too long.
//!
//! A timer for each request would cost more than the request's own decision; marking a phase costs two stores.

use super::shared::Worker;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Phase {
    /// Nothing of a next request has come.
    Idle,
    /// Part of a request's head has come.
    Head,
    /// A request's body is awaited.
    Body,
    /// An answer was made and may not be wholly sent.
    Answered,
    /// The client does not take what is sent to it.
    Stuck,
}

pub(crate) struct Watch {
    phase: AtomicU8,
    since_tick: AtomicU32,
    pub worker: Arc<Worker>,
}

impl Watch {
    pub fn new(worker: Arc<Worker>) -> Self {
        let since_tick = worker.tick();
        Self { phase: AtomicU8::new(Phase::Idle as u8), since_tick: AtomicU32::new(since_tick), worker }
    }

    #[inline]
    pub fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Relaxed);
        self.since_tick.store(self.worker.tick(), Ordering::Relaxed);
    }

    #[inline]
    pub fn is(&self, phase: Phase) -> bool {
        self.phase.load(Ordering::Relaxed) == phase as u8
    }

    /// How many ticks the present phase has lasted.
    pub fn ticks(&self) -> u32 {
        self.worker.tick().wrapping_sub(self.since_tick.load(Ordering::Relaxed))
    }
}

/// A stream that marks its connection's phases.
pub(crate) struct Watched<S> {
    pub stream: S,
    pub watch: Arc<Watch>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    #[inline]
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        let watch = &self.watch;
        match &polled {
            Poll::Ready(_) if watch.is(Phase::Idle) || watch.is(Phase::Answered) => watch.enter(Phase::Head),
            Poll::Pending if watch.is(Phase::Answered) => watch.enter(Phase::Idle),
            _ => {}
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> Watched<S> {
    #[inline]
    fn wrote(&self, polled: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match (polled.is_pending(), self.watch.is(Phase::Stuck)) {
            (true, false) => self.watch.enter(Phase::Stuck),
            (false, true) => self.watch.enter(Phase::Idle),
            _ => {}
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    #[inline]
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.wrote(polled)
    }

    #[inline]
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.wrote(polled)
    }

    #[inline]
    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    #[inline]
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
