//! One connection of a line: what is sent, what is awaited, and what replies mean.

use super::call::{Part, Plan, REQUESTS_MAX, put_check};
use super::connect::TaskStream;
use super::greeting::{ConnectError, Greeting};
use super::line::Line;
use super::resp::{Reply, put_command, read_reply};
use super::scripts::{VERBS, Verb, texts};
use super::shard::{Deliveries, Errand, Job};
use crate::events::Kind;
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::Instant;
use tokio::io::{ReadHalf, WriteHalf};

/// Calls under way that make what comes next wait for company, on a line whose round trip takes next to no time ...
const CALLS_MIN: usize = 2;
/// ... and one more for each of so many microseconds of its round trip, so that a long way is not walked twice.
const ROUND_TRIP_US_PER_CALL: usize = 125;
const CALLS_MAX: usize = 256;
/// How often a request may be sent on: another node, another slot's owner, scripts to load first.
const HOPS_MAX: u8 = 4;

/// What a reply is awaited for.
pub enum Awaited {
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

/// One connection's state.
pub struct Session {
    pub reader: ReadHalf<Box<dyn TaskStream>>,
    pub writer: WriteHalf<Box<dyn TaskStream>>,
    greeting: Greeting,
    pub input: Vec<u8>,
    start: usize,
    pub out: Vec<u8>,
    pub written: usize,
    /// TLS keeps back what was written until it is told that this is all.
    unflushed: bool,
    pub awaited: VecDeque<Awaited>,
    /// Checks under way.
    calls: usize,
    round_trip_us: usize,
    /// Scripts being loaded anew.
    loading: usize,
    pub why: Option<ConnectError>,
}

impl Session {
    pub fn new(stream: Box<dyn TaskStream>, greeting: Greeting) -> Self {
        let (reader, writer) = tokio::io::split(stream);
        Self {
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
        }
    }

    fn calls_max(&self) -> usize {
        (self.round_trip_us / ROUND_TRIP_US_PER_CALL).clamp(CALLS_MIN, CALLS_MAX)
    }

    /// The way's own length: what is added by standing in line must not let more calls out.
    fn learn_round_trip(&mut self, us: usize) {
        let known = self.round_trip_us;
        self.round_trip_us = if known == 0 || us < known { us } else { known + (us - known) / 256 };
    }

    pub fn owes(&self) -> bool {
        self.written < self.out.len() || self.unflushed
    }

    pub fn wrote(&mut self, count: usize) {
        self.written += count;
        self.unflushed = count > 0;
        if self.written == self.out.len() {
            self.out.clear();
            self.written = 0;
        }
    }

    /// Puts what waits into as few calls as can be, unless enough are under way already.
    pub fn send_waiting(&mut self, line: &mut Line) {
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
        if errand.asking {
            put_command(&mut self.out, &[b"ASKING"]);
            self.awaited.push_back(Awaited::Nothing);
        }
        (errand.write)(&mut self.out, &self.greeting);
        self.awaited.push_back(Awaited::Errand(errand));
    }

    pub fn read_replies(&mut self, line: &mut Line) {
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
                Reply::Error(error)
                    if errand.hops < HOPS_MAX && (error.starts_with(b"MOVED ") || error.starts_with(b"ASK ")) =>
                {
                    let asking = error.starts_with(b"ASK ");
                    let text = String::from_utf8_lossy(error);
                    let mut words = text.split(' ').skip(1);
                    let slot = words.next().and_then(|slot| slot.parse().ok()).unwrap_or(0);
                    let owner = words.next().unwrap_or_default();
                    let sent_on = Job::Errand(Errand { asking, hops: errand.hops + 1, ..errand });
                    if let Err(Job::Errand(errand)) = line.context.send_on(slot, owner, asking, sent_on) {
                        (errand.read)(None);
                    }
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
                    if let Err(Job::Check(part)) = line.context.send_on(slot, &owner, asking, Job::Check(part)) {
                        line.shard.record(1, 1);
                        deliveries.fail(&part);
                    }
                }
            }
            // Some keys of the slot are here and some have gone: one by one they can be found.
            "TRYAGAIN" => {
                for mut part in self.hopping(plan, deliveries, line) {
                    part.alone = true;
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
    if part.is_peek() { Verb::Peek } else { Verb::Check }
}
