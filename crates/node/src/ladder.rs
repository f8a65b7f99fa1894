//! The ladder: what a request meets, step by step, in one visible function.

use crate::asking::plain_places;
use crate::engine::Engine;
use crate::store::Mode;
use headgate_core::algorithm::{Measure, NEVER};
use headgate_core::hash::{Hash, Keyed};
use headgate_core::rule::{Action, BLOCKED_STATUS, REFUSED_STATUS};
use headgate_core::rule_index::{BuiltLimit, Looked, Record, RuleSet, Selection, Winner};
use headgate_core::verdict::{LimitResult, Path, Skipped, Verdict, binding};
use headgate_core::{Facts, Quota};
use smallvec::SmallVec;

pub(crate) type Limits = SmallVec<[LimitResult; 1]>;

/// What every step of one check knows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub cost: u64,
    pub mode: Mode,
    pub now_us: u64,
}

impl Engine {
    /// Decides one request by the rules.
    ///
    /// With a shared store this waits for it; doors that must not wait use [`Engine::begin`].
    pub fn check(&self, rules: &RuleSet, facts: Facts<'_>, cost: u64, mode: Mode) -> Verdict {
        if self.remote.is_some() {
            return self.wait(Some(rules), self.begin(rules, facts, cost, mode));
        }
        let call = Call { cost, mode, now_us: self.clock.now_us() };
        let looked = self.look(rules, facts);
        let verdict = self.climb(rules, &looked, &call);
        if mode == Mode::Check {
            self.count(rules, &verdict);
        }
        verdict
    }

    fn climb(&self, rules: &RuleSet, looked: &Looked<'_>, call: &Call) -> Verdict {
        let selection = rules.select(looked, call.now_us);
        if let Some(rule) = selection.alone {
            return alone(rules, rule, call);
        }
        let mut skipped = None;
        let mut limits = self.limits(rules, looked, &selection, call.cost, &mut skipped);
        if limits.is_empty() {
            return self.without_rule(skipped, call);
        }
        if let Some(refused) = self.remembered_refusal(Some(rules), &limits, call) {
            return refused_or_allowed(Some(rules), SmallVec::from_buf([refused]), Path::RefusedMemory, skipped, call);
        }
        self.store.decide(&mut limits, call.mode, call.now_us);
        self.remember_refusals(&limits, call);
        refused_or_allowed(Some(rules), limits, Path::Store, skipped, call)
    }

    /// Decides one limit given with the call: the plain check, without rules.
    #[inline]
    pub fn check_limit(&self, key: &str, quota: &Quota, cost: u64, mode: Mode) -> Verdict {
        if self.remote.is_some() {
            return self.wait(None, self.begin_limits(key, std::slice::from_ref(quota), cost, mode));
        }
        let now_us = self.clock.now_us();
        let mut limit = plain_limit(&self.keyed, self.plain_subject(key), 0, quota, cost);
        self.store.decide_one(&mut limit, mode, now_us);
        let allowed = limit.allowed();
        let verdict = Verdict {
            allowed,
            path: Path::Store,
            degraded: false,
            status: if allowed { 200 } else { REFUSED_STATUS },
            rule: None,
            retry_after_us: limit.wait_us,
            binding: Some(0),
            results: SmallVec::from_buf([limit]),
            skipped: None,
            at_us: now_us,
            cost,
            kept: None,
        };
        if mode == Mode::Check {
            self.counters.count(&verdict, None);
        }
        verdict
    }

    /// Decides limits given with the call, together.
    pub fn check_limits(&self, key: &str, quotas: &[Quota], cost: u64, mode: Mode) -> Verdict {
        if let [quota] = quotas {
            return self.check_limit(key, quota, cost, mode);
        }
        if self.remote.is_some() {
            return self.wait(None, self.begin_limits(key, quotas, cost, mode));
        }
        let call = Call { cost, mode, now_us: self.clock.now_us() };
        let mut limits = self.plain_limits(key, quotas, cost);
        self.store.decide(&mut limits, mode, call.now_us);
        let verdict = refused_or_allowed(None, limits, Path::Store, None, &call);
        if mode == Mode::Check {
            self.counters.count(&verdict, None);
        }
        verdict
    }

    /// Forgets the usage behind every limit these facts meet; gives how many counters were cleared.
    pub fn reset(&self, rules: &RuleSet, facts: Facts<'_>) -> usize {
        let looked = self.look(rules, facts);
        let selection = rules.select(&looked, self.clock.now_us());
        let limits = self.limits(rules, &looked, &selection, 0, &mut None);
        if let Some(remote) = &self.remote {
            limits.iter().for_each(|limit| self.forget_refusal(limit));
            return remote.reset_blocking(&self.places(rules, &looked, &selection));
        }
        limits.iter().filter(|limit| self.reset_one(limit)).count()
    }

    pub fn reset_limits(&self, key: &str, quotas: &[Quota]) -> usize {
        if let Some(remote) = &self.remote {
            self.plain_limits(key, quotas, 0).iter().for_each(|limit| self.forget_refusal(limit));
            return remote.reset_blocking(&plain_places(key, quotas));
        }
        self.plain_limits(key, quotas, 0).iter().filter(|limit| self.reset_one(limit)).count()
    }

    fn reset_one(&self, limit: &LimitResult) -> bool {
        self.forget_refusal(limit);
        self.store.reset(limit.key)
    }

    pub(crate) fn forget_refusal(&self, limit: &LimitResult) {
        if let Some(refused) = &self.refused {
            refused.forget(limit.key);
        }
    }

    /// Returns up to `amount` of what each limit of a decision was charged; gives the most returned to any one.
    pub fn refund(&self, verdict: &Verdict, amount: u64) -> u64 {
        if let Some((remote, kept)) = self.remote.as_ref().zip(verdict.kept.as_deref()) {
            let returned = remote.refund_blocking(&kept.places, self.spent(verdict), amount);
            return returned.iter().map(|(_, amount)| *amount).max().unwrap_or(0);
        }
        let now_us = self.clock.now_us();
        let returned = verdict.results.iter().enumerate().filter_map(|(position, result)| {
            let charge = verdict.charge(position)?;
            self.forget_refusal(result);
            Some(self.store.refund(result, &charge, amount, now_us))
        });
        returned.max().unwrap_or(0)
    }

    /// Spends `extra` beyond what a decision was charged, unconditionally; a shared store is waited for if wanted.
    pub fn spend_extra(&self, verdict: &Verdict, extra: u64, wait: bool) {
        if self.remote.is_some() {
            return self.spend_extra_shared(verdict, extra, wait);
        }
        let now_us = self.clock.now_us();
        for result in verdict.results.iter().filter(|result| result.spent) {
            self.store.spend(result, extra, now_us);
        }
    }

    pub(crate) fn without_rule(&self, skipped: Skipped, call: &Call) -> Verdict {
        let allowed = !self.options.deny_without_rule;
        let (status, retry_after_us) = if allowed { (200, 0) } else { (BLOCKED_STATUS, NEVER) };
        Verdict { allowed, skipped, ..without_limits(Path::NoRule, status, None, retry_after_us, call) }
    }

    /// The limits of the winners, as questions.
    #[inline]
    pub(crate) fn limits(
        &self,
        rules: &RuleSet,
        looked: &Looked<'_>,
        selection: &Selection,
        cost: u64,
        skipped: &mut Skipped,
    ) -> Limits {
        let mut limits = Limits::with_capacity(selection.winners.len());
        for winner in &selection.winners {
            let subject = match rules.subject(looked, rules.by(winner.by)) {
                Ok(subject) => subject,
                Err(missing) => {
                    skipped.get_or_insert_default().push((winner.rule, missing.into()));
                    continue;
                }
            };
            let record = rules.record(winner.rule);
            for (nth, limit) in record.limits.iter().enumerate() {
                limits.push(self.question(winner, record, nth, limit, subject, cost));
            }
        }
        limits
    }

    /// One limit of a winner, asked about one subject. Every door names counters here.
    #[inline]
    pub(crate) fn question(
        &self,
        winner: &Winner,
        record: &Record,
        nth: usize,
        limit: &BuiltLimit,
        subject: Hash,
        cost: u64,
    ) -> LimitResult {
        let limit_hash = self.keyed.mix(record.counter, limit.label_hash);
        let key = self.keyed.mix(limit_hash, subject);
        LimitResult::ask(Some(winner.rule), nth, winner.shadow, limit.quota, cost, key, limit_hash)
    }

    #[inline]
    fn plain_subject(&self, key: &str) -> Hash {
        const PLAIN_KEY_DOMAIN: u8 = 64;
        self.keyed.text(PLAIN_KEY_DOMAIN, key)
    }

    pub(crate) fn plain_limits(&self, key: &str, quotas: &[Quota], cost: u64) -> Limits {
        let subject = self.plain_subject(key);
        quotas.iter().enumerate().map(|(nth, quota)| plain_limit(&self.keyed, subject, nth, quota, cost)).collect()
    }

    /// A limit known to refuse this request. Those that refuse most are looked at first.
    pub(crate) fn remembered_refusal(
        &self,
        rules: Option<&RuleSet>,
        limits: &Limits,
        call: &Call,
    ) -> Option<LimitResult> {
        let refused = self.refused.as_ref()?;
        // A cost that can never fit is told so, whatever else is remembered.
        if call.cost == 0 || limits.iter().any(|limit| !limit.shadow && limit.cost > limit.quota.capacity) {
            return None;
        }
        let mut order: SmallVec<[(u64, usize); 6]> = SmallVec::new();
        for (position, limit) in limits.iter().enumerate().filter(|(_, limit)| !limit.shadow && limit.cost > 0) {
            let group = rules.zip(limit.rule).map_or(0, |(rules, rule)| rules.record(rule).group);
            order.push((u64::MAX - self.counters.group(group).refused, position));
        }
        order.sort_unstable();
        order.iter().find_map(|(_, position)| {
            let limit = &limits[*position];
            let ready_us = refused.ready_us(limit.key, &limit.quota, limit.cost, call.now_us)?;
            let wait_us = ready_us - call.now_us;
            let measure = Measure { remaining: 0, next_after_us: wait_us, reset_after_us: wait_us };
            Some(LimitResult { wait_us, measure, ..*limit })
        })
    }

    pub(crate) fn remember_refusals(&self, limits: &Limits, call: &Call) {
        let Some(refused) = &self.refused else { return };
        for limit in limits.iter().filter(|limit| !limit.shadow && !limit.allowed() && limit.wait_us != NEVER) {
            refused.remember(limit.key, &limit.quota, limit.cost, limit.wait_us, call.now_us);
        }
    }

    #[inline]
    pub(crate) fn count(&self, rules: &RuleSet, verdict: &Verdict) {
        self.counters.count(verdict, verdict.rule.map(|rule| rules.record(rule).group));
        for result in verdict.results.iter().filter(|result| result.shadow && !result.allowed()) {
            if let Some(rule) = result.rule {
                self.counters.count_shadow_refusal(rules.record(rule).group);
            }
        }
    }
}

/// A plain counter is (key, algorithm, window): another limit on it keeps what was used.
#[inline]
fn plain_limit(keyed: &Keyed, subject: Hash, nth: usize, quota: &Quota, cost: u64) -> LimitResult {
    let parameters = [quota.window_us, 1 + quota.algorithm as u64];
    let limit = keyed.mix(parameters, parameters);
    LimitResult::ask(None, nth, false, *quota, cost, keyed.mix(subject, limit), limit)
}

pub(crate) fn alone(rules: &RuleSet, rule: u32, call: &Call) -> Verdict {
    let template = &rules.record(rule).template;
    let allowed = template.action == Action::Allow;
    if allowed {
        return Verdict { allowed, ..without_limits(Path::Exempt, 200, Some(rule), 0, call) };
    }
    let wait_us = template.until_us.map_or(NEVER, |until_us| until_us.saturating_sub(call.now_us));
    let status = template.response.status.unwrap_or(BLOCKED_STATUS);
    without_limits(Path::Blocked, status, Some(rule), wait_us, call)
}

/// A refusal that no limit has a part in.
pub(crate) fn without_limits(path: Path, status: u16, rule: Option<u32>, retry_after_us: u64, call: &Call) -> Verdict {
    Verdict {
        allowed: false,
        path,
        degraded: false,
        status,
        rule,
        retry_after_us,
        binding: None,
        results: SmallVec::new(),
        skipped: None,
        at_us: call.now_us,
        cost: call.cost,
        kept: None,
    }
}

#[inline]
pub(crate) fn refused_or_allowed(
    rules: Option<&RuleSet>,
    results: SmallVec<[LimitResult; 1]>,
    path: Path,
    skipped: Skipped,
    call: &Call,
) -> Verdict {
    let allowed = results.iter().all(|result| result.shadow || result.allowed());
    let binding = binding(&results, allowed);
    let bound = binding.map(|nth| &results[usize::from(nth)]);
    let rule = bound.and_then(|result| result.rule);
    let asked_status = rules.zip(rule).and_then(|(rules, rule)| rules.record(rule).template.response.status);
    Verdict {
        allowed,
        path,
        degraded: false,
        status: if allowed { 200 } else { asked_status.unwrap_or(REFUSED_STATUS) },
        rule,
        retry_after_us: if allowed { 0 } else { bound.map_or(0, |result| result.wait_us) },
        binding,
        results,
        skipped,
        at_us: call.now_us,
        cost: call.cost,
        kept: None,
    }
}
