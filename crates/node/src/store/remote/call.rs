//! One call of a script for many requests: its bytes, and what its reply means.
//!
//! The reply is what the records held before. Playing the same requests over them with our own algorithms gives every
//! figure of every answer, so the server computes none of them.

use super::resp::{Reply, put_bulk, put_head};
use super::ticket::{Limits, NO_LOG, Place, Spent, Ticket};
use crate::store::Mode;
use headgate_core::algorithm::{self, Measure, NEVER};
use headgate_core::record::{COUNT_MAX, ID_MASK, Record, kind_of, life_of};
use headgate_core::verdict::LimitResult;
use headgate_core::{Algorithm, Quota};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::Arc;

/// Requests that share one call.
pub const REQUESTS_MAX: usize = 64;
const SHADOW_FLAG: u8 = 1;
const FORCED_FLAG: u8 = 1;
const NEVER_FITS: u64 = 1 << 53;

/// One group of a request's limits, to be decided by one call.
#[derive(Clone)]
pub struct Part {
    pub ticket: Arc<Ticket>,
    pub group: usize,
    /// Spend without asking.
    pub forced: bool,
    /// How often it was sent on.
    pub hops: u8,
    /// Its slot is on its way to this server.
    pub asking: bool,
    /// Not together with others: its slot is being moved.
    pub alone: bool,
}

impl Part {
    pub fn new(ticket: Arc<Ticket>, group: usize) -> Self {
        Self { ticket, group, forced: false, hops: 0, asking: false, alone: false }
    }

    /// A cost of nothing asks for nothing.
    pub fn is_peek(&self) -> bool {
        self.ticket.question.mode == Mode::Peek || !self.ticket.spends(self.group)
    }
}

/// One limit of a shape: where its record and log are among the request's keys, and what it allows.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Line {
    key: u8,
    log: u8,
    limit: u16,
    shadow: bool,
}

/// Gathers what a call says.
#[derive(Default)]
pub struct Draft {
    keys: Vec<Box<[u8]>>,
    log_keys: Vec<Box<[u8]>>,
    limits: Vec<(u64, Quota)>,
    shapes: Vec<(SmallVec<[Line; 6]>, usize)>,
    requests: Vec<Request>,
}

struct Request {
    shape: u16,
    cost: u64,
    forced: bool,
    /// Places among the record keys, and (with the top bit set) among the log keys.
    keys: SmallVec<[u16; 3]>,
}

const LOG_KEY: u16 = 1 << 15;

impl Draft {
    fn add(&mut self, part: &Part, known: &mut HashMap<Box<[u8]>, u16>) {
        let question = &part.ticket.question;
        let group = &part.ticket.groups[part.group];
        let mut keys: SmallVec<[u16; 3]> = SmallVec::new();
        let mut lines: SmallVec<[Line; 6]> = SmallVec::new();
        for position in &group.limits {
            let limit = &question.limits[usize::from(*position)];
            let place = question.places.of[usize::from(*position)];
            let at = self.key_number(&question.places.keys[usize::from(place.key)], known);
            let key = place_of(&mut keys, at);
            let log = match place.log {
                NO_LOG => NO_LOG,
                log => {
                    let at = self.log_key_number(&question.places.keys[usize::from(log)]);
                    place_of(&mut keys, at)
                }
            };
            let limit_number = self.limit_number(place.id & ID_MASK, &limit.quota);
            lines.push(Line { key, log, limit: limit_number, shadow: limit.shadow });
        }
        let shape = match self.shapes.iter().position(|(other, count)| *other == lines && *count == keys.len()) {
            Some(shape) => shape,
            None => {
                self.shapes.push((lines, keys.len()));
                self.shapes.len() - 1
            }
        };
        let cost = part.ticket.cost(part.group);
        self.requests.push(Request { shape: shape as u16, cost, forced: part.forced, keys });
    }

    fn key_number(&mut self, key: &[u8], known: &mut HashMap<Box<[u8]>, u16>) -> u16 {
        if let Some(number) = known.get(key) {
            return *number;
        }
        let number = self.keys.len() as u16;
        known.insert(key.into(), number);
        self.keys.push(key.into());
        number
    }

    fn log_key_number(&mut self, key: &[u8]) -> u16 {
        let known = self.log_keys.iter().position(|other| **other == *key);
        let number = known.unwrap_or_else(|| {
            self.log_keys.push(key.into());
            self.log_keys.len() - 1
        });
        number as u16 | LOG_KEY
    }

    fn limit_number(&mut self, id: u64, quota: &Quota) -> u16 {
        let known = self.limits.iter().position(|(other, same)| *other == id && same == quota);
        known.unwrap_or_else(|| {
            self.limits.push((id, *quota));
            self.limits.len() - 1
        }) as u16
    }

    /// A place among KEYS, counted from 1.
    fn key_index(&self, key: u16) -> u16 {
        if key & LOG_KEY == 0 { key + 1 } else { self.keys.len() as u16 + (key & !LOG_KEY) + 1 }
    }

    fn put(&self, out: &mut Vec<u8>, sha: &[u8], now_us: u64, rest: &[&[u8]]) {
        put_head(out, 3 + self.keys.len() + self.log_keys.len() + 2 + rest.len());
        put_bulk(out, b"EVALSHA");
        put_bulk(out, sha);
        put_bulk(out, (self.keys.len() + self.log_keys.len()).to_string().as_bytes());
        self.keys.iter().chain(&self.log_keys).for_each(|key| put_bulk(out, key));
        let mut head = Vec::with_capacity(9);
        put_number(&mut head, now_us, 7);
        put_number(&mut head, self.keys.len() as u64, 2);
        put_bulk(out, &head);
        put_bulk(out, &self.packed_limits());
        rest.iter().for_each(|argument| put_bulk(out, argument));
    }

    fn packed_limits(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.limits.len() * 39);
        for (id, quota) in &self.limits {
            put_number(&mut out, *id, 5);
            out.push(kind_of(quota.algorithm));
            out.push(life_of(quota));
            let (a, b) = match quota.algorithm {
                Algorithm::Gcra => (quota.unit(), quota.rate()),
                Algorithm::SlidingWindow => (quota.group_size(), 0),
                _ => (0, 0),
            };
            for number in [quota.capacity, quota.window_us, a, b] {
                out.extend_from_slice(&(number as f64).to_le_bytes());
            }
        }
        out
    }

    fn packed_shapes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (lines, keys) in &self.shapes {
            out.extend([lines.len() as u8, *keys as u8]);
            for line in lines {
                out.extend([line.key, line.log]);
                put_number(&mut out, u64::from(line.limit), 2);
                out.push(if line.shadow { SHADOW_FLAG } else { 0 });
            }
        }
        out
    }

    fn packed_requests(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.requests.len() * 12);
        for request in &self.requests {
            put_number(&mut out, u64::from(request.shape), 2);
            put_number(&mut out, request.cost.min(COUNT_MAX), 5);
            out.push(if request.forced { FORCED_FLAG } else { 0 });
            for key in &request.keys {
                put_number(&mut out, u64::from(self.key_index(*key)), 2);
            }
        }
        out
    }
}

fn place_of(keys: &mut SmallVec<[u16; 3]>, key: u16) -> u8 {
    let known = keys.iter().position(|other| *other == key);
    known.unwrap_or_else(|| {
        keys.push(key);
        keys.len() - 1
    }) as u8
}

fn put_number(out: &mut Vec<u8>, number: u64, len: usize) {
    out.extend_from_slice(&number.to_le_bytes()[..len]);
}

/// What a reply has to be held against.
pub struct Plan {
    pub parts: Vec<Part>,
    /// For each part, for each of its limits: which record.
    records_of: Vec<SmallVec<[u16; 6]>>,
    records: usize,
}

/// Writes a check (or a peek) of all parts. `now_us` is the server's time unless given.
pub fn put_check(out: &mut Vec<u8>, sha: &[u8], parts: Vec<Part>, now_us: u64) -> Plan {
    let mut draft = Draft::default();
    let mut known = HashMap::with_capacity(parts.len());
    parts.iter().for_each(|part| draft.add(part, &mut known));
    draft.put(out, sha, now_us, &[&draft.packed_shapes(), &draft.packed_requests()]);
    let records_of = draft.requests.iter().map(|request| {
        let (lines, _) = &draft.shapes[usize::from(request.shape)];
        lines.iter().map(|line| request.keys[usize::from(line.key)]).collect()
    });
    Plan { records_of: records_of.collect(), records: draft.keys.len(), parts }
}

/// A reply that no script of ours gives.
#[derive(Debug)]
pub struct WrongReply;

/// The answers of one part, in the order of its limits.
#[derive(Default)]
pub struct Answers {
    pub limits: SmallVec<[LimitResult; 6]>,
    /// What each had left before this request, where other parts may refuse it yet.
    pub before: SmallVec<[Measure; 6]>,
}

impl Plan {
    /// Plays the requests over what the records held; hands each part's answers on, with the time on the server's clock.
    pub fn read(&self, reply: &Reply<'_>, mut each: impl FnMut(&Part, Answers, u64)) -> Result<(), WrongReply> {
        let items = reply.array().filter(|items| items.len() == self.records + 1).ok_or(WrongReply)?;
        let mut tail = Tail { bytes: items[self.records].bytes().ok_or(WrongReply)? };
        let read = |item: &Reply<'_>| item.bytes().map_or_else(Record::default, Record::read);
        let mut records: Vec<Record> = items[..self.records].iter().map(read).collect();
        let now_us = tail.number(7)?;
        let verdicts = tail.take(self.parts.len())?;
        for ((part, of), verdict) in self.parts.iter().zip(&self.records_of).zip(verdicts) {
            let mut play = Play { records: &mut records, of, now_us };
            let answers = play.request(part, *verdict != 0, &mut tail)?;
            each(part, answers, now_us);
        }
        Ok(())
    }
}

struct Tail<'a> {
    bytes: &'a [u8],
}

impl<'a> Tail<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], WrongReply> {
        let (taken, rest) = self.bytes.split_at_checked(len).ok_or(WrongReply)?;
        self.bytes = rest;
        Ok(taken)
    }

    fn number(&mut self, len: usize) -> Result<u64, WrongReply> {
        Ok(self.take(len)?.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }
}

/// What the server said of an exact log, which is too long to send.
#[derive(Clone, Copy)]
struct Log {
    used: u64,
    oldest_us: u64,
    wait_us: u64,
}

struct Play<'a> {
    records: &'a mut [Record],
    of: &'a [u16],
    now_us: u64,
}

impl Play<'_> {
    fn request(&mut self, part: &Part, verdict: bool, tail: &mut Tail<'_>) -> Result<Answers, WrongReply> {
        let question = &part.ticket.question;
        let positions = &part.ticket.groups[part.group].limits;
        let ids = positions.iter().map(|position| question.places.of[usize::from(*position)].id & ID_MASK);
        let ids: SmallVec<[u64; 6]> = ids.collect();
        let mut limits: SmallVec<[LimitResult; 6]> =
            positions.iter().map(|position| question.limits[usize::from(*position)]).collect();
        let mut logs: SmallVec<[Option<Log>; 6]> = SmallVec::new();
        for (nth, limit) in limits.iter_mut().enumerate() {
            let is_log = limit.quota.algorithm == Algorithm::SlidingLog;
            let log = if is_log { Some(read_log(tail)?) } else { None };
            limit.wait_us = match log {
                Some(log) => log.wait_us,
                None => algorithm::wait_us(&limit.quota, self.record(nth).state(ids[nth]), limit.cost, self.now_us),
            };
            logs.push(log);
        }
        // The server decided. Should its arithmetic ever differ from ours, its word stands.
        let asks = !part.is_peek() && !part.forced;
        if asks && verdict {
            limits.iter_mut().filter(|limit| !limit.shadow).for_each(|limit| limit.wait_us = 0);
        }
        if asks && !verdict && limits.iter().all(|limit| limit.shadow || limit.wait_us == 0) {
            limits.iter_mut().filter(|limit| !limit.shadow).for_each(|limit| limit.wait_us = 1);
        }
        let before = self.before(part, &limits, &ids, &logs);
        let allowed = part.forced || limits.iter().all(|limit| limit.shadow || limit.wait_us == 0);
        for nth in 0..limits.len() {
            let (before, rest) = limits.split_at_mut(nth);
            let limit = &mut rest[0];
            let spent_already = limit.shadow && before.iter().any(|other| other.spent && other.key == limit.key);
            let spends = allowed && (part.forced || limit.wait_us == 0) && !spent_already && limit.cost > 0;
            let checks = !part.is_peek();
            limit.spent = spends && checks;
            match logs[nth] {
                Some(log) => {
                    limit.measure = self.measure_log(nth, limit, ids[nth], log, if spends { limit.cost } else { 0 });
                    if limit.spent {
                        // Later requests of the same call read the time of the last hit off the record.
                        self.records[usize::from(self.of[nth])].touch(ids[nth], self.now_us);
                    }
                }
                None => self.settle(nth, limit, ids[nth], spends, checks),
            }
        }
        Ok(Answers { limits, before })
    }

    /// What the limits have left before anything is spent; asked only of requests in several parts.
    fn before(&self, part: &Part, limits: &[LimitResult], ids: &[u64], logs: &[Option<Log>]) -> SmallVec<[Measure; 6]> {
        if part.ticket.groups.len() == 1 {
            return SmallVec::new();
        }
        let measure = |(nth, limit): (usize, &LimitResult)| match logs[nth] {
            Some(log) => self.measure_log(nth, limit, ids[nth], log, 0),
            None => algorithm::measure(&limit.quota, self.record(nth).state(ids[nth]), self.now_us),
        };
        limits.iter().enumerate().map(measure).collect()
    }

    fn record(&self, nth: usize) -> &Record {
        &self.records[usize::from(self.of[nth])]
    }

    fn settle(&mut self, nth: usize, limit: &mut LimitResult, id: u64, spends: bool, checks: bool) {
        let record = &mut self.records[usize::from(self.of[nth])];
        if !spends {
            limit.measure = algorithm::measure(&limit.quota, record.state(id), self.now_us);
            return;
        }
        let (edit, measure) = algorithm::spend(&limit.quota, record.state(id), limit.cost, self.now_us);
        limit.measure = measure;
        if let algorithm::Edit::Bucket { level, refunds, .. } = edit {
            (limit.used_after, limit.refunds) = (level, refunds);
        }
        if checks {
            record.apply(id, edit);
        }
    }

    /// What an exact log has left after `cost`.
    fn measure_log(&self, nth: usize, limit: &LimitResult, id: u64, log: Log, cost: u64) -> Measure {
        let (count, window_us) = (limit.quota.count, limit.quota.window_us);
        let last_us = self.record(nth).at_us(id).unwrap_or(self.now_us);
        let now_us = self.now_us.max(last_us);
        let used = log.used + cost;
        if used == 0 {
            return Measure { remaining: count, next_after_us: 0, reset_after_us: 0 };
        }
        let oldest_us = if log.used == 0 { now_us } else { log.oldest_us };
        let newest_us = if cost > 0 { now_us } else { last_us };
        let ends_after_us = |at_us: u64| (at_us + window_us).saturating_sub(now_us);
        Measure {
            remaining: count.saturating_sub(used),
            next_after_us: ends_after_us(if used > count { newest_us } else { oldest_us }),
            reset_after_us: ends_after_us(newest_us),
        }
    }
}

fn read_log(tail: &mut Tail<'_>) -> Result<Log, WrongReply> {
    let (used, oldest_us, wait_us) = (tail.number(5)?, tail.number(7)?, tail.number(7)?);
    Ok(Log { used, oldest_us, wait_us: if wait_us >= NEVER_FITS { NEVER } else { wait_us } })
}

/// Writes a refund of up to `amount` of each charge. Gives how many records the reply begins with.
pub fn put_refund(
    out: &mut Vec<u8>,
    sha: &[u8],
    keys: &[Box<[u8]>],
    spent: &[Spent],
    amount: u64,
    now_us: u64,
) -> usize {
    let mut draft = Draft::default();
    let mut known = HashMap::new();
    let mut charges = Vec::new();
    for item in spent {
        let key = draft.key_number(&keys[usize::from(item.place.key)], &mut known);
        let log = (item.place.log != NO_LOG).then(|| draft.log_key_number(&keys[usize::from(item.place.log)]));
        let limit = draft.limit_number(item.place.id & ID_MASK, &item.limit.quota);
        charges.push((key, log, limit, item.charge));
    }
    let mut packed = Vec::new();
    for (key, log, limit, charge) in charges {
        put_number(&mut packed, u64::from(draft.key_index(key)), 2);
        put_number(&mut packed, log.map_or(0, |log| u64::from(draft.key_index(log))), 2);
        put_number(&mut packed, u64::from(limit), 2);
        put_number(&mut packed, charge.at_us, 7);
        put_number(&mut packed, charge.cost.min(COUNT_MAX), 5);
        packed.extend_from_slice(&charge.used_after.to_le_bytes());
        put_number(&mut packed, u64::from(charge.refunds), 2);
        put_number(&mut packed, amount.min(COUNT_MAX), 5);
    }
    draft.put(out, sha, now_us, &[&packed]);
    draft.keys.len()
}

/// What each charge got back.
pub fn read_refund(reply: &Reply<'_>, records: usize, charges: usize) -> Result<Vec<u64>, WrongReply> {
    let items = reply.array().filter(|items| items.len() == records + 1).ok_or(WrongReply)?;
    let mut tail = Tail { bytes: items[records].bytes().ok_or(WrongReply)? };
    tail.number(7)?;
    (0..charges).map(|_| tail.number(5)).collect()
}

/// Writes the reset of one counter.
pub fn put_reset(out: &mut Vec<u8>, sha: &[u8], keys: &[Box<[u8]>], place: Place, now_us: u64) {
    let mut draft = Draft::default();
    draft.keys.push(keys[usize::from(place.key)].clone());
    if place.log != NO_LOG {
        draft.log_keys.push(keys[usize::from(place.log)].clone());
    }
    let mut packed = Vec::new();
    put_number(&mut packed, 1, 2);
    put_number(&mut packed, if place.log == NO_LOG { 0 } else { 2 }, 2);
    put_number(&mut packed, place.id & ID_MASK, 5);
    put_head(out, 3 + draft.keys.len() + draft.log_keys.len() + 2);
    put_bulk(out, b"EVALSHA");
    put_bulk(out, sha);
    put_bulk(out, (draft.keys.len() + draft.log_keys.len()).to_string().as_bytes());
    draft.keys.iter().chain(&draft.log_keys).for_each(|key| put_bulk(out, key));
    let mut head = Vec::new();
    put_number(&mut head, now_us, 7);
    put_number(&mut head, draft.keys.len() as u64, 2);
    put_bulk(out, &head);
    put_bulk(out, &packed);
}

/// Puts one part's answers where its request keeps them.
pub fn fill(part: &Part, answers: &Answers, results: &mut Limits, before: &mut [Measure]) {
    let positions = &part.ticket.groups[part.group].limits;
    for (position, answer) in positions.iter().zip(&answers.limits) {
        results[usize::from(*position)] = *answer;
    }
    for (position, measure) in positions.iter().zip(&answers.before) {
        before[usize::from(*position)] = *measure;
    }
}
