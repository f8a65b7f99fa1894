//! Bytes on their way from one side to the other, a buffer at a time.

use crate::serve::shared::Worker;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::time::{Instant, Sleep};

/// What a buffer holds at least, and what one does through which much passes.
pub(super) const SMALL_BYTES: usize = 8 * 1024;
pub(super) const LARGE_BYTES: usize = 64 * 1024;

/// A buffer that is filled, passed on whole, and filled again.
#[derive(Default)]
pub(super) struct Flow {
    pub bytes: Vec<u8>,
    /// How many of them are passed on already.
    at: usize,
    /// Whether something was written that may be held back still.
    is_held: bool,
    /// Some of them since it was last asked.
    has_moved: bool,
}

impl Flow {
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.at = 0;
        self.is_held = false;
    }

    /// Passes on what there is; ready when all of it is on its way.
    #[inline]
    pub fn poll_drain<W: AsyncWrite + Unpin>(&mut self, task: &mut Context<'_>, to: &mut W) -> Poll<io::Result<()>> {
        while self.at < self.bytes.len() {
            self.is_held = true;
            let count = ready!(Pin::new(&mut *to).poll_write(task, &self.bytes[self.at..]))?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.at += count;
            self.has_moved = true;
        }
        if self.is_held {
            ready!(Pin::new(to).poll_flush(task))?;
            self.is_held = false;
        }
        Poll::Ready(Ok(()))
    }

    /// Fills it anew, up to `bytes_max`; only after all was passed on. Nothing at the end of the other side.
    #[inline]
    pub fn poll_fill<R: AsyncRead + Unpin>(
        &mut self,
        task: &mut Context<'_>,
        from: &mut R,
        bytes_max: usize,
    ) -> Poll<io::Result<usize>> {
        self.bytes.clear();
        self.at = 0;
        self.bytes.reserve(bytes_max);
        poll_read(task, from, &mut self.bytes)
    }

    /// Whether some of it was passed on since this was last asked: slow is not silent.
    pub fn has_moved(&mut self) -> bool {
        std::mem::take(&mut self.has_moved)
    }

    pub fn is_drained(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// Gives memory back that only large bodies need.
    pub fn shrink(&mut self) {
        self.clear();
        self.bytes.shrink_to(SMALL_BYTES);
    }
}

/// Reads more behind what there is, as far as there is room.
#[inline]
pub(super) fn poll_read<R: AsyncRead + Unpin>(
    task: &mut Context<'_>,
    from: &mut R,
    into: &mut Vec<u8>,
) -> Poll<io::Result<usize>> {
    pin!(from.read_buf(into)).poll(task)
}

/// Tells when nothing has moved for too long. One timer serves a connection for all its requests: it is set anew when it
/// goes off, and not whenever something moves.
#[derive(Default)]
pub(super) struct Stall {
    timer: Option<Pin<Box<Sleep>>>,
    since_tick: u32,
}

impl Stall {
    #[inline]
    pub fn moved(&mut self, worker: &Worker) {
        self.since_tick = worker.tick();
    }

    /// Ready when nothing has moved for so long.
    #[inline]
    pub fn poll(&mut self, task: &mut Context<'_>, worker: &Worker, timeout: Duration) -> Poll<()> {
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout)));
        loop {
            ready!(timer.as_mut().poll(task));
            let still = worker.tick().wrapping_sub(self.since_tick);
            let waited = crate::serve::worker::TICK * still;
            if waited >= timeout {
                return Poll::Ready(());
            }
            timer.as_mut().reset(Instant::now() + (timeout - waited));
        }
    }
}
