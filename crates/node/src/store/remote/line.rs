//! A line to one shard: what waits goes together, answers come back in order, and nothing is waited for beyond its
//! deadline.

use super::call::{Part, Plan, REQUESTS_MAX, put_check};
use super::connect::{TaskStream, closed, connect, connect_error};
use super::context::Context;
use super::greeting::{ConnectError, Greeting};
use super::resp::{Reply, put_command, read_reply};
use super::scripts::{VERBS, Verb, texts};
use super::shard::{Deliveries, Errand, Job, Shard};
use super::ticket::Ticket;
use crate::breaker::State;
use crate::events::Kind;
use crate::store::Mode;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::time::sleep_until;

/// Calls under way that make what comes next wait for company, on a line whose round trip takes next to no time ...
const CALLS_MIN: usize = 2;
/// ... and one more for each of so many microseconds of its round trip, so that a long way is not walked twice.
const ROUND_TRIP_US_PER_CALL: usize = 125;
const CALLS_MAX: usize = 256;
/// How often a request may be sent on: another node, another slot's owner, scripts to load first.
const HOPS_MAX: u8 = 4;
/// Room there is always for what is read next.
const READ_BYTES_MIN: usize = 16 * 1024;
const FAR_AWAY: Duration = Duration::from_secs(3_600);

/// What a reply is awaited for.
enum Awaited {
    Check {
        plan: Plan,
        verb: Verb,
        slot: u16,
        sent: Instant,
    },
    Errand(Errand),
    /// A reply that says nothing: `ASKING`.
    Nothing,
    /// A script's hash, after a reload.
    Script,
}

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

struct Line {
    shard: Arc<Shard>,
    context: Arc<Context>,
    /// Taken from the queue, not sent.
    waiting: VecDeque<Job>,
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
                self.context.unreachable(&why);
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
        let (reader, writer) = tokio::io::split(stream);
        let mut session = Session {
            reader,
            writer,
            greeting,
            input: Vec::with_capacity(64 * 1024),
            start: 0,
            out: Vec::with_capacity(64 * 1024),
            written: 0,
            unflushed: false,
            awaited: VecDeque::new(),
            calls: 0,
            round_trip_us: 0,
            loading: 0,
            why: None,
        };
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

/// One connection's state.
struct Session {
    reader: ReadHalf<Box<dyn TaskStream>>,
    writer: WriteHalf<Box<dyn TaskStream>>,
    greeting: Greeting,
    input: Vec<u8>,
    start: usize,
    out: Vec<u8>,
    written: usize,
    /// TLS keeps back what was written until it is told that this is all.
    unflushed: bool,
    awaited: VecDeque<Awaited>,
    /// Checks under way.
    calls: usize,
    round_trip_us: usize,
    /// Scripts being loaded anew.
    loading: usize,
    why: Option<ConnectError>,
}

impl Session {
    fn calls_max(&self) -> usize {
        (self.round_trip_us / ROUND_TRIP_US_PER_CALL).clamp(CALLS_MIN, CALLS_MAX)
    }

    /// The way's own length: what is added by standing in line must not let more calls out.
    fn learn_round_trip(&mut self, us: usize) {
        let known = self.round_trip_us;
        self.round_trip_us = if known == 0 || us < known { us } else { known + (us - known) / 256 };
    }

    fn owes(&self) -> bool {
        self.written < self.out.len() || self.unflushed
    }

    fn wrote(&mut self, count: usize) {
        self.written += count;
        self.unflushed = count > 0;
        if self.written == self.out.len() {
            self.out.clear();
            self.written = 0;
        }
    }

    /// Puts what waits into as few calls as can be, unless enough are under way already.
    fn send_waiting(&mut self, line: &mut Line) {
        if line.waiting.is_empty() || self.calls >= self.calls_max() {
            return;
        }
        // By script and slot: few of them on one server, as many as there are subjects on a cluster.
        let mut batches: Vec<(Verb, u16, Vec<Part>)> = Vec::new();
        for job in std::mem::take(&mut line.waiting) {
            match job {
                Job::Errand(errand) => self.send_errand(errand),
                Job::Check(part) if part.ticket.is_closed() => {}
                Job::Check(part) if part.asking => self.send_asking(part, line),
                Job::Check(part) => {
                    let verb = verb_of(&part);
                    let slot = part.ticket.groups[part.group].slot;
                    let fits = |batch: &&mut (Verb, u16, Vec<Part>)| {
                        batch.0 == verb && batch.1 == slot && batch.2.len() < REQUESTS_MAX && !part.alone
                    };
                    match batches.iter_mut().rev().find(fits) {
                        Some((_, _, parts)) => parts.push(part),
                        None => batches.push((verb, slot, vec![part])),
                    }
                }
            }
        }
        for (verb, slot, parts) in batches {
            self.send_check(verb, slot, parts, line);
        }
    }

    fn send_check(&mut self, verb: Verb, slot: u16, parts: Vec<Part>, line: &Line) {
        let sha = &self.greeting.shas[verb as usize];
        parts.iter().for_each(|part| part.ticket.mark_sent(part.group));
        line.shard.stats.calls.fetch_add(1, Ordering::Relaxed);
        line.shard.stats.requests.fetch_add(parts.len() as u64, Ordering::Relaxed);
        let plan = put_check(&mut self.out, sha, parts, line.context.given_now_us());
        self.awaited.push_back(Awaited::Check { plan, verb, slot, sent: Instant::now() });
        self.calls += 1;
    }

    fn send_asking(&mut self, part: Part, line: &Line) {
        put_command(&mut self.out, &[b"ASKING"]);
        self.awaited.push_back(Awaited::Nothing);
        let (verb, slot) = (verb_of(&part), part.ticket.groups[part.group].slot);
        self.send_check(verb, slot, vec![part], line);
    }

    fn send_errand(&mut self, errand: Errand) {
        (errand.write)(&mut self.out, &self.greeting);
        self.awaited.push_back(Awaited::Errand(errand));
    }

    fn read_replies(&mut self, line: &mut Line) {
        let mut deliveries = Deliveries::default();
        let input = std::mem::take(&mut self.input);
        while !self.awaited.is_empty() {
            match read_reply(&input[self.start..]) {
                Ok(Some((reply, len))) => {
                    self.start += len;
                    if let Some(awaited) = self.awaited.pop_front() {
                        self.take_reply(awaited, &reply, line, &mut deliveries);
                    }
                }
                Ok(None) => break,
                Err(error) => {
                    self.why = Some(ConnectError::Unreachable(error.to_string()));
                    break;
                }
            }
        }
        self.input = input;
        self.input.drain(..self.start);
        self.start = 0;
        deliveries.send();
    }

    fn take_reply(&mut self, awaited: Awaited, reply: &Reply<'_>, line: &mut Line, deliveries: &mut Deliveries) {
        match awaited {
            Awaited::Nothing => {}
            Awaited::Script => self.loading -= 1,
            Awaited::Errand(errand) => match reply {
                Reply::Error(error) if error.starts_with(b"NOSCRIPT") && Instant::now() < errand.deadline => {
                    self.reload(line);
                    self.send_errand(errand);
                }
                _ => (errand.read)(Some(reply)),
            },
            Awaited::Check { plan, verb, slot, sent } => {
                self.calls -= 1;
                if let Reply::Error(error) = reply {
                    return self.take_error(error, plan, verb, slot, line, deliveries);
                }
                self.learn_round_trip(sent.elapsed().as_micros() as usize);
                match plan.read(reply, |part, answers, at_us| deliveries.answer(part, &answers, at_us)) {
                    Ok(()) => line.shard.record(plan.parts.len() as u64, 0),
                    Err(_) => {
                        self.why = Some(ConnectError::Unreachable("a reply that no script of ours gives".into()));
                        let count = plan.parts.len() as u64;
                        line.shard.record(count, count);
                        plan.parts.iter().for_each(|part| deliveries.fail(part));
                    }
                }
            }
        }
    }

    fn take_error(
        &mut self,
        error: &[u8],
        plan: Plan,
        verb: Verb,
        slot: u16,
        line: &mut Line,
        deliveries: &mut Deliveries,
    ) {
        let text = String::from_utf8_lossy(error);
        let mut words = text.split(' ');
        match words.next().unwrap_or_default() {
            "NOSCRIPT" => {
                self.reload(line);
                let parts = self.hopping(plan, deliveries, line);
                if !parts.is_empty() {
                    self.send_check(verb, slot, parts, line);
                }
            }
            redirect @ ("MOVED" | "ASK") => {
                let owner = words.nth(1).unwrap_or_default().to_owned();
                let asking = redirect == "ASK";
                for mut part in self.hopping(plan, deliveries, line) {
                    part.asking = asking;
                    part.alone |= asking;
                    if let Err(part) = line.context.send_on(slot, &owner, asking, part) {
                        line.shard.record(1, 1);
                        deliveries.fail(&part);
                    }
                }
            }
            // Some keys of the slot are here and some have gone: one by one they can be found.
            "TRYAGAIN" => {
                for mut part in self.hopping(plan, deliveries, line) {
                    let was_asking = std::mem::replace(&mut part.asking, false);
                    part.alone = true;
                    if was_asking {
                        part.asking = true;
                    }
                    line.waiting.push_back(Job::Check(part));
                }
            }
            code @ ("READONLY" | "LOADING" | "MASTERDOWN" | "CLUSTERDOWN") => {
                line.context.refresh.notify_one();
                if code != "CLUSTERDOWN" {
                    self.why = Some(ConnectError::NotReady(text.to_string()));
                }
                self.fail(&plan, &text, line, deliveries);
            }
            _ => self.fail(&plan, &text, line, deliveries),
        }
    }

    /// The parts of a call that may be sent once more.
    fn hopping(&mut self, plan: Plan, deliveries: &mut Deliveries, line: &Line) -> Vec<Part> {
        let mut parts = Vec::with_capacity(plan.parts.len());
        for mut part in plan.parts {
            part.hops += 1;
            if part.ticket.is_closed() {
                continue;
            }
            if part.hops > HOPS_MAX {
                line.shard.record(1, 1);
                deliveries.fail(&part);
            } else {
                parts.push(part);
            }
        }
        parts
    }

    /// The server answered that it will not: nothing was spent.
    fn fail(&mut self, plan: &Plan, why: &str, line: &Line, deliveries: &mut Deliveries) {
        let count = plan.parts.len() as u64;
        plan.parts.iter().for_each(|part| part.ticket.mark_unspent(part.group));
        line.context.note_error(&line.shard, why);
        line.shard.record(count, count);
        plan.parts.iter().for_each(|part| deliveries.fail(part));
    }

    /// A flushed or restarted server is told the scripts again, once.
    fn reload(&mut self, line: &Line) {
        if self.loading > 0 {
            return;
        }
        for text in texts() {
            put_command(&mut self.out, &[b"SCRIPT", b"LOAD", text.as_bytes()]);
            self.awaited.push_back(Awaited::Script);
        }
        self.loading = VERBS;
        line.shard.events.add(Kind::ScriptReloaded, &line.shard.name, "the server had lost its scripts");
    }
}

fn verb_of(part: &Part) -> Verb {
    if part.ticket.question.mode == Mode::Peek { Verb::Peek } else { Verb::Check }
}
