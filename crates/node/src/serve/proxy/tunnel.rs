//! Both sides go on in a protocol of their own: bytes pass as they come.

use super::flow::{Flow, SMALL_BYTES, Stall};
use super::stream::Stream;
use crate::serve::shared::Worker;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};

/// How long both sides may be silent: far longer than whoever means to stay keeps silent.
const SILENCE_MAX: Duration = Duration::from_secs(3_600);

/// Passes bytes until one side has ended and the other has heard all of it. `up` and `down` hold what is owed already.
pub(super) async fn run<S>(
    client: &mut S,
    upstream: &mut Stream,
    up: &mut Flow,
    down: &mut Flow,
    worker: &Worker,
    stall: &mut Stall,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (mut upward, mut downward) = (Way::Open, Way::Open);
    stall.moved(worker);
    std::future::poll_fn(|task| {
        loop {
            let moved_up = upward.poll(task, up, client, upstream);
            let moved_down = downward.poll(task, down, upstream, client);
            if upward == Way::Broken || downward == Way::Broken || (upward, downward) == (Way::Ended, Way::Ended) {
                return Poll::Ready(());
            }
            if up.has_moved() | down.has_moved() | moved_up | moved_down {
                stall.moved(worker);
            }
            if !moved_up && !moved_down {
                return stall.poll(task, worker, SILENCE_MAX);
            }
        }
    })
    .await;
}

/// One direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Open,
    /// Its source has ended; the other side is to be told.
    Ending,
    Ended,
    Broken,
}

impl Way {
    /// One step; whether it was one.
    fn poll<R, W>(&mut self, task: &mut Context<'_>, flow: &mut Flow, from: &mut R, to: &mut W) -> bool
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        let next = match (*self, flow.poll_drain(task, to)) {
            (Way::Ended | Way::Broken, _) | (_, Poll::Pending) => return false,
            (_, Poll::Ready(Err(_))) => Way::Broken,
            (Way::Open, Poll::Ready(Ok(()))) => match flow.poll_fill(task, from, SMALL_BYTES * 2) {
                Poll::Pending => return false,
                Poll::Ready(Ok(0)) => Way::Ending,
                Poll::Ready(Ok(_)) => Way::Open,
                Poll::Ready(Err(_)) => Way::Broken,
            },
            (Way::Ending, Poll::Ready(Ok(()))) => match Pin::new(to).poll_shutdown(task) {
                Poll::Pending => return false,
                Poll::Ready(Ok(())) => Way::Ended,
                Poll::Ready(Err(_)) => Way::Broken,
            },
        };
        *self = next;
        true
    }
}
