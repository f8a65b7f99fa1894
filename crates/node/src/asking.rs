//! The ladder's middle step where counters are shared: what is asked of the store, and what its answer means.
//!
//! [`Engine::begin`] climbs as far as it can go without the store. What is left is a [`Question`] that a door hands over
//! and waits for in its own way; [`Engine::finish`] climbs the rest.

use crate::engine::Engine;
use crate::fallback::Fallen;
use crate::ladder::{Call, Limits, alone, refused_or_allowed};
use crate::store::Mode;
use crate::store::remote::{Fate, Mailbox, NO_LOG, Place, Places, Question, RemoteStore, Spent, Ticket, Waiter};
use headgate_core::algorithm::Measure;
use headgate_core::hash::shared_id;
use headgate_core::record::ID_MASK;
use headgate_core::rule_index::{BuiltLimit, Looked, Record, RuleSet, Selection};
use headgate_core::subject::{log_key, put_principal};
use headgate_core::verdict::{Kept, LimitResult, Path, Skipped, Verdict};
use headgate_core::{Algorithm, Facts, Quota};
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

/// What is left of a check when everything local has been looked at.
pub struct Asked {
    skipped: Skipped,
    call: Call,
}

impl Asked {
    pub(crate) fn new(call: Call) -> Self {
        Self { skipped: None, call }
    }
}

/// How far a check came without the store.
pub enum Step {
    Done(Verdict),
    Ask(Question, Asked),
}

/// A check on its way.
pub enum Sent {
    Done(Verdict),
    Asked(Arc<Ticket>, Asked, InFlight),
}

/// Counts a request that waits for the store, however the wait ends.
pub struct InFlight(Arc<AtomicUsize>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Sent {
    pub async fn verdict(self, engine: &Engine, rules: Option<&RuleSet>) -> Verdict {
        match self {
            Sent::Done(verdict) => verdict,
            Sent::Asked(ticket, asked, _in_flight) => {
                let closed =
                    |task: &mut Context<'_>| if ticket.poll(task.waker()) { Poll::Ready(()) } else { Poll::Pending };
                std::future::poll_fn(closed).await;
                engine.finish(rules, asked, &ticket)
            }
        }
    }
}

impl Engine {
    /// Climbs up to the store.
    pub fn begin(&self, rules: &RuleSet, facts: Facts<'_>, cost: u64, mode: Mode) -> Step {
        let call = Call { cost, mode: asked_mode(cost, mode), now_us: self.clock.now_us() };
        let looked = self.look(rules, facts);
        let selection = rules.select(&looked, call.now_us);
        if let Some(rule) = selection.alone {
            return self.done(Some(rules), alone(rules, rule, &call), &call);
        }
        let mut skipped = None;
        let limits = self.limits(rules, &looked, &selection, cost, &mut skipped);
        if limits.is_empty() {
            return self.done(Some(rules), self.without_rule(skipped, &call), &call);
        }
        if let Some(refused) = self.remembered_refusal(Some(rules), &limits, &call) {
            let results = SmallVec::from_buf([refused]);
            let verdict = refused_or_allowed(Some(rules), results, Path::RefusedMemory, skipped, &call);
            return self.done(Some(rules), verdict, &call);
        }
        let places = Arc::new(self.places(rules, &looked, &selection));
        Step::Ask(Question { limits, places, mode: call.mode }, Asked { skipped, call })
    }

    /// The same for limits given with the call.
    pub fn begin_limits(&self, key: &str, quotas: &[Quota], cost: u64, mode: Mode) -> Step {
        let call = Call { cost, mode: asked_mode(cost, mode), now_us: self.clock.now_us() };
        let limits = self.plain_limits(key, quotas, cost);
        if let Some(refused) = self.remembered_refusal(None, &limits, &call) {
            let verdict = refused_or_allowed(None, SmallVec::from_buf([refused]), Path::RefusedMemory, None, &call);
            return self.done(None, verdict, &call);
        }
        let places = Arc::new(plain_places(key, quotas));
        Step::Ask(Question { limits, places, mode: call.mode }, Asked { skipped: None, call })
    }

    pub(crate) fn done(&self, rules: Option<&RuleSet>, verdict: Verdict, call: &Call) -> Step {
        self.count_shared(rules, &verdict, call);
        Step::Done(verdict)
    }

    fn count_shared(&self, rules: Option<&RuleSet>, verdict: &Verdict, call: &Call) {
        match (call.mode, rules) {
            (Mode::Peek, _) => {}
            (Mode::Check, Some(rules)) => self.count(rules, verdict),
            (Mode::Check, None) => self.counters.count(verdict, None),
        }
    }

    /// Waits for the store on this thread.
    pub fn wait(&self, rules: Option<&RuleSet>, step: Step) -> Verdict {
        match step {
            Step::Done(verdict) => verdict,
            Step::Ask(question, asked) => self.finish(rules, asked, &self.ask_blocking(question)),
        }
    }

    /// The store's answer, waited for on this thread.
    pub fn ask_blocking(&self, question: Question) -> Arc<Ticket> {
        self.shared().ask_blocking(question)
    }

    /// Questions are made only for a shared store.
    fn shared(&self) -> &RemoteStore {
        self.remote.as_ref().expect("only a shared store is asked")
    }

    /// Hands a question over; [`Sent::verdict`] waits for the answer as a task.
    pub fn send(&self, step: Step) -> Sent {
        match step {
            Step::Done(verdict) => Sent::Done(verdict),
            Step::Ask(question, asked) => {
                let waiting = self.in_flight.fetch_add(1, Ordering::Relaxed);
                let in_flight = InFlight(self.in_flight.clone());
                // Queueing would only make everyone late: past the bound each limit's policy decides at once.
                let ticket = match waiting < self.options.max_in_flight {
                    true => self.shared().submit(question, Waiter::Task, 0),
                    false => {
                        self.overloads.fetch_add(1, Ordering::Relaxed);
                        self.shared().not_asked(question)
                    }
                };
                Sent::Asked(ticket, asked, in_flight)
            }
        }
    }

    /// Hands questions over together; the answers come to a mailbox.
    pub fn hand_over(&self, questions: impl Iterator<Item = (Question, u64)>, mailbox: &Arc<dyn Mailbox>) {
        self.shared().submit_all(questions, mailbox);
    }

    /// Climbs the rest: what the store said, or what each limit says without it.
    pub fn finish(&self, rules: Option<&RuleSet>, asked: Asked, ticket: &Ticket) -> Verdict {
        let Asked { skipped, call } = asked;
        let mut results: Limits;
        let mut at_us: SmallVec<[u64; 5]>;
        let before;
        let mut fallen = Fallen::default();
        {
            let state = ticket.state.lock();
            results = state.results.clone();
            before = state.before.clone();
            at_us = SmallVec::from_elem(0, results.len());
            for (group, part) in ticket.groups.iter().enumerate() {
                for position in part.limits.iter().map(|position| usize::from(*position)) {
                    at_us[position] = state.at_us[group];
                    if state.fates[group] != Fate::Answered {
                        fallen.add(position, ticket.was_sent(group));
                    }
                }
            }
        }
        if ticket.groups.is_empty() {
            (0..results.len()).for_each(|position| fallen.add(position, false));
        }
        self.remember_refusals(&results, &call);
        let mut path = Path::Store;
        if !fallen.is_empty() {
            path = self.fall_back(rules, &mut results, &fallen, &ticket.question, &call);
        } else if let Some(key) = ticket.question.places.keys.first() {
            self.sample_key(key);
        }
        let places = ticket.question.places.clone();
        let mut verdict = refused_or_allowed(rules, results, path, skipped, &call);
        verdict.kept = Some(Box::new(Kept { places, at_us }));
        if !fallen.is_empty() {
            self.degrade(rules, &mut verdict, &fallen, &ticket.question, &call);
        }
        if !verdict.allowed && !before.is_empty() {
            self.compensate(&mut verdict, &before, &fallen);
        }
        self.count_shared(rules, &verdict, &call);
        verdict
    }

    /// A refused request spends nothing: what other shards spent on it goes back, sent and not awaited, and is not
    /// reported as spent.
    fn compensate(&self, verdict: &mut Verdict, before: &[Measure], fallen: &Fallen) {
        self.refund_later(verdict, verdict.cost);
        for (position, result) in verdict.results.iter_mut().enumerate() {
            result.spent = false;
            if result.allowed() && !fallen.contains(position) {
                result.measure = before[position];
            }
        }
    }

    /// Returns part of a decision's charges, sent and not awaited.
    pub fn refund_later(&self, verdict: &Verdict, amount: u64) {
        if let Some((remote, kept)) = self.remote.as_ref().zip(verdict.kept.as_deref()) {
            let spent = self.spent(verdict);
            if !spent.is_empty() {
                remote.refund_later(&kept.places, spent, amount);
            }
        }
    }

    /// What a decision spent, as the store is told of it.
    pub(crate) fn spent(&self, verdict: &Verdict) -> Vec<Spent> {
        let Some(kept) = verdict.kept.as_deref() else { return Vec::new() };
        let spent = verdict.results.iter().enumerate().filter_map(|(position, limit)| {
            let charge = verdict.charge(position)?;
            self.forget_refusal(limit);
            Some(Spent { limit: *limit, place: kept.places.of[position], charge })
        });
        spent.collect()
    }

    pub(crate) fn spend_extra_shared(&self, verdict: &Verdict, extra: u64, wait: bool) {
        let Some((remote, kept)) = self.remote.as_ref().zip(verdict.kept.as_deref()) else { return };
        let mut places = Places { keys: kept.places.keys.clone(), of: SmallVec::new() };
        let mut limits = Limits::new();
        for (position, result) in verdict.results.iter().enumerate().filter(|(_, result)| result.spent) {
            limits.push(LimitResult { cost: extra, ..*result });
            places.of.push(kept.places.of[position]);
        }
        remote.spend(Question { limits, places: Arc::new(places), mode: Mode::Check }, wait);
    }

    /// Where the limits of the winners are kept: in the same order as [`Engine::limits`] gives them.
    pub(crate) fn places(&self, rules: &RuleSet, looked: &Looked<'_>, selection: &Selection) -> Places {
        let mut places = Places::default();
        for winner in &selection.winners {
            let by = rules.by(winner.by);
            if rules.subject(looked, by).is_err() {
                continue;
            }
            let key = rules.subject_key(looked, by);
            let record = rules.record(winner.rule);
            for limit in record.limits.iter() {
                put_place(&mut places, &key, place_id(record, limit), &limit.quota);
            }
        }
        places
    }

    fn sample_key(&self, key: &[u8]) {
        if let Some(remote) = &self.remote {
            remote.sample(key);
        }
    }
}

/// A cost of nothing asks for nothing.
pub(crate) fn asked_mode(cost: u64, mode: Mode) -> Mode {
    if cost == 0 { Mode::Peek } else { mode }
}

/// What shared stores know a limit of a rule by.
pub(crate) fn place_id(record: &Record, limit: &BuiltLimit) -> u64 {
    record.counter_id.rotate_left(17).wrapping_add(limit.label_id) & ID_MASK
}

pub(crate) fn put_place(places: &mut Places, key: &[u8], id: u64, quota: &Quota) {
    let log = match quota.algorithm {
        Algorithm::SlidingLog => places.key(&log_key(key, id)),
        _ => NO_LOG,
    };
    let key = places.key(key);
    places.of.push(Place { id, key, log });
}

/// A plain counter is (key, algorithm, window), as in memory.
pub(crate) fn plain_places(key: &str, quotas: &[Quota]) -> Places {
    let mut places = Places::default();
    quotas.iter().for_each(|quota| put_plain_place(&mut places, key, quota));
    places
}

pub(crate) fn put_plain_place(places: &mut Places, key: &str, quota: &Quota) {
    let mut text = Vec::with_capacity(32);
    put_principal(&mut text, "key", Some(key));
    let window = quota.window_us.to_string();
    let id = shared_id(&["plain", quota.algorithm.name(), &window]) & ID_MASK;
    put_place(places, &text, id, quota);
}
