//! A line to one shard: what waits goes together, answers come back in order, and nothing is waited for beyond its
//! deadline.

use super::connect::{TaskStream, closed, connect, connect_error};
use super::context::Context;
use super::greeting::{ConnectError, Greeting};
use super::resp::put_command;
use super::session::{Awaited, Session};
use super::shard::{Deliveries, Job, Shard};
use super::ticket::Ticket;
use crate::breaker::State;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt, WriteHalf};
use tokio::time::sleep_until;

/// Room there is always for what is read next.
const READ_BYTES_MIN: usize = 16 * 1024;
const FAR_AWAY: Duration = Duration::from_secs(3_600);

/// Keeps a line to a shard until the shard is retired.
pub async fn run(shard: Arc<Shard>, context: Arc<Context>) {
    let mut line = Line { shard, context, waiting: VecDeque::new(), watched: VecDeque::new() };
    while !line.shard.retired.load(Ordering::Relaxed) {
        if let Some((stream, greeting)) = line.connected().await {
            let why = line.serve(stream, greeting).await;
            line.shard.lost(&why);
        }
    }
    line.fail_waiting();
}

pub struct Line {
    pub shard: Arc<Shard>,
    pub context: Arc<Context>,
    /// Taken from the queue, not sent.
    pub waiting: VecDeque<Job>,
    /// Requests in the order in which their deadlines pass.
    watched: VecDeque<Arc<Ticket>>,
}

impl Line {
    /// Tries once to connect, after waiting for as long as the breaker says.
    async fn connected(&mut self) -> Option<(Box<dyn TaskStream>, Greeting)> {
        let is_probe = !self.shard.is_asked();
        if let State::Open { probe_at, .. } = self.shard.breaker_state() {
            self.until(sleep_until(probe_at.into())).await;
        }
        let (context, shard) = (self.context.clone(), self.shard.clone());
        let attempt = async move {
            let limit = context.options.connect_timeout;
            let (stream, greeting) =
                tokio::time::timeout(limit, async { connect(&context.target(&shard).await?).await })
                    .await
                    .map_err(|_| ConnectError::Unreachable("it did not answer in time".into()))??;
            if greeting.is_replica && !greeting.is_cluster {
                return Err(ConnectError::NotReady("it is a replica and takes no writes".into()));
            }
            let (stream, rtt) = probe(stream, context.probe_key(&shard), context.options.deadline).await?;
            Ok((stream, greeting, rtt))
        };
        match self.until(attempt).await {
            Ok((stream, greeting, rtt)) => {
                self.context.met(&self.shard, &greeting, rtt);
                if self.shard.close_breaker() || is_probe {
                    self.context.reconcile.notify_one();
                }
                Some((stream, greeting))
            }
            Err(why) => {
                self.shard.lost(&why);
                self.context.refresh.notify_one();
                if self.shard.is_asked() {
                    self.shard.open(&why.to_string());
                } else {
                    self.shard.probe_failed();
                }
                None
            }
        }
    }

    /// Waits for something that is no request, letting no request wait too long meanwhile.
    async fn until<T>(&mut self, other: impl Future<Output = T>) -> T {
        let mut other = std::pin::pin!(other);
        loop {
            if !self.shard.is_asked() {
                self.fail_waiting();
            }
            let shard = self.shard.clone();
            let next = self.next_deadline();
            tokio::select! {
                done = &mut other => return done,
                () = shard.arrived.notified() => self.take(),
                () = sleep_until(next.into()) => self.expire(),
            }
        }
    }

    fn take(&mut self) {
        let before = self.waiting.len();
        self.shard.take(&mut self.waiting);
        for job in self.waiting.iter().skip(before) {
            if let Job::Check(part) = job {
                self.watched.push_back(part.ticket.clone());
            }
        }
    }

    /// Nobody is asked any more: what waits is decided without the store.
    fn fail_waiting(&mut self) {
        self.take();
        let mut deliveries = Deliveries::default();
        for job in self.waiting.drain(..) {
            match job {
                Job::Check(part) => deliveries.fail(&part),
                Job::Errand(errand) => (errand.read)(None),
            }
        }
        deliveries.send();
    }

    fn next_deadline(&mut self) -> Instant {
        while self.watched.front().is_some_and(|ticket| ticket.is_closed()) {
            self.watched.pop_front();
        }
        self.watched.front().map_or_else(|| Instant::now() + FAR_AWAY, |ticket| ticket.deadline)
    }

    /// Fails what has waited too long.
    fn expire(&mut self) {
        let now = Instant::now();
        let mut deliveries = Deliveries::default();
        while let Some(ticket) = self.watched.front() {
            if !ticket.is_closed() && ticket.deadline > now {
                break;
            }
            let failed = ticket.expire();
            if !failed.is_empty() {
                failed.iter().for_each(|group| ticket.groups[*group].shard.record_timeout());
                deliveries.expired(ticket);
            }
            self.watched.pop_front();
        }
        deliveries.send();
    }

    /// Sends and receives until the connection is of no more use; gives why.
    async fn serve(&mut self, stream: Box<dyn TaskStream>, greeting: Greeting) -> ConnectError {
        let mut session = Session::new(stream, greeting);
        let why = self.exchange(&mut session).await;
        // What was sent and not answered may have been spent: it is decided without the store, and never returned.
        let mut deliveries = Deliveries::default();
        let mut lost = 0;
        for awaited in session.awaited.drain(..) {
            match awaited {
                Awaited::Check { plan, .. } => {
                    lost += plan.parts.iter().filter(|part| !part.ticket.is_closed()).count() as u64;
                    plan.parts.iter().for_each(|part| deliveries.fail(part));
                }
                Awaited::Errand(errand) => (errand.read)(None),
                Awaited::Nothing | Awaited::Script => {}
            }
        }
        self.shard.record(lost, lost);
        deliveries.send();
        why
    }

    async fn exchange(&mut self, session: &mut Session) -> ConnectError {
        self.take();
        loop {
            session.send_waiting(self);
            if let Some(why) = session.why.take() {
                return why;
            }
            if self.shard.retired.load(Ordering::Relaxed) && session.awaited.is_empty() && self.waiting.is_empty() {
                return ConnectError::Unreachable("it is no longer part of the store".into());
            }
            if !self.shard.is_asked() {
                return ConnectError::Unreachable("the breaker opened".into());
            }
            let (shard, next) = (self.shard.clone(), self.next_deadline());
            session.input.reserve(READ_BYTES_MIN);
            // Answers first: what has arrived is not late because this thread was kept waiting.
            tokio::select! {
                biased;
                count = session.reader.read_buf(&mut session.input) => match count {
                    Ok(0) => return connect_error(closed()),
                    Ok(_) => session.read_replies(self),
                    Err(error) => return connect_error(error),
                },
                () = sleep_until(next.into()) => self.expire(),
                () = shard.arrived.notified() => self.take(),
                wrote = write_some(&mut session.writer, &session.out[session.written..]), if session.owes() => match wrote {
                    Ok(count) => session.wrote(count),
                    Err(error) => return connect_error(error),
                },
            }
        }
    }
}

/// Writes what there is; with nothing left, sees to it that all of it is on its way, which TLS wants to be told.
async fn write_some(writer: &mut WriteHalf<Box<dyn TaskStream>>, bytes: &[u8]) -> std::io::Result<usize> {
    if bytes.is_empty() {
        writer.flush().await?;
        return Ok(0);
    }
    match writer.write(bytes).await? {
        0 => Err(closed()),
        count => Ok(count),
    }
}

/// The round trip of a small write, which must come back in time: a server that answers and takes no writes is of no use.
async fn probe(
    mut stream: Box<dyn TaskStream>,
    key: Option<String>,
    deadline: Duration,
) -> Result<(Box<dyn TaskStream>, Duration), ConnectError> {
    let start = Instant::now();
    let mut out = Vec::new();
    match &key {
        Some(key) => put_command(&mut out, &[b"SET", key.as_bytes(), b"1", b"PX", b"1000"]),
        None => put_command(&mut out, &[b"PING"]),
    }
    let answered = tokio::time::timeout(deadline, async {
        stream.write_all(&out).await?;
        stream.flush().await?;
        let mut input = Vec::with_capacity(64);
        while !input.ends_with(b"\r\n") {
            if stream.read_buf(&mut input).await? == 0 {
                return Err(closed());
            }
        }
        Ok(input)
    });
    let reply = match answered.await {
        Ok(Ok(reply)) => reply,
        Ok(Err(error)) => return Err(connect_error(error)),
        Err(_) => return Err(ConnectError::Unreachable("it answers, but not within the deadline".into())),
    };
    match reply.strip_prefix(b"-") {
        // The slot has gone elsewhere; this server has others.
        Some(error) if !error.starts_with(b"MOVED") && !error.starts_with(b"ASK") => {
            Err(ConnectError::NotReady(String::from_utf8_lossy(error).trim().to_owned()))
        }
        _ => Ok((stream, start.elapsed())),
    }
}
