//! What each limit says when the store cannot: open, closed, or a local share.

use crate::engine::Engine;
use crate::ladder::{Call, Limits};
use crate::store::Mode;
use crate::store::remote::Question;
use headgate_core::algorithm::Measure;
use headgate_core::hash::shared_id;
use headgate_core::local_share::{NOT_CHOSEN_WAIT_US, Share, not_chosen, rank, share};
use headgate_core::rule::OnStoreFailure;
use headgate_core::rule_index::RuleSet;
use headgate_core::verdict::{LimitResult, Path, Verdict};
use smallvec::SmallVec;

/// The status of a refusal for want of a store.
const CLOSED_STATUS: u16 = 503;
/// When to try again then.
const CLOSED_RETRY_US: u64 = 1_000_000;

/// The limits the store did not answer for.
#[derive(Default)]
pub(crate) struct Fallen {
    positions: SmallVec<[(usize, bool); 6]>,
}

impl Fallen {
    /// `was_sent`: the store may have spent it all the same.
    pub fn add(&mut self, position: usize, was_sent: bool) {
        self.positions.push((position, was_sent));
    }

    pub fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    pub fn contains(&self, position: usize) -> bool {
        self.positions.iter().any(|(other, _)| *other == position)
    }
}

impl Engine {
    fn policy(&self, rules: Option<&RuleSet>, limit: &LimitResult) -> OnStoreFailure {
        match rules.zip(limit.rule) {
            Some((rules, rule)) => rules.record(rule).template.on_store_failure,
            None => self.options.on_store_failure,
        }
    }

    /// Answers for the limits that have no answer; gives which policy that was.
    pub(crate) fn fall_back(
        &self,
        rules: Option<&RuleSet>,
        results: &mut Limits,
        fallen: &Fallen,
        question: &Question,
        call: &Call,
    ) -> Path {
        let mut path = Path::FallbackOpen;
        let mut locals: SmallVec<[usize; 6]> = SmallVec::new();
        for (position, _) in &fallen.positions {
            let result = &mut results[*position];
            result.spent = false;
            result.wait_us = 0;
            result.measure = Measure { remaining: result.quota.capacity, next_after_us: 0, reset_after_us: 0 };
            if result.shadow {
                continue;
            }
            match self.policy(rules, result) {
                OnStoreFailure::Open => {}
                OnStoreFailure::Closed => {
                    path = Path::FallbackClosed;
                    result.wait_us = CLOSED_RETRY_US;
                    let after_us = CLOSED_RETRY_US;
                    result.measure = Measure { remaining: 0, next_after_us: after_us, reset_after_us: after_us };
                }
                OnStoreFailure::Local => locals.push(*position),
            }
        }
        if !locals.is_empty() {
            self.decide_locally(results, &locals, question, call);
            if path == Path::FallbackOpen {
                path = Path::FallbackLocal;
            }
        }
        path
    }

    /// A local limiter with this node's share of each limit. All or nothing, as ever.
    fn decide_locally(&self, results: &mut Limits, locals: &[usize], question: &Question, call: &Call) {
        let Some(remote) = &self.remote else { return };
        let nodes = remote.nodes();
        let mut asked: SmallVec<[LimitResult; 6]> = SmallVec::new();
        let mut positions: SmallVec<[usize; 6]> = SmallVec::new();
        for position in locals {
            let limit = &mut results[*position];
            let quota = match share(&limit.quota, nodes.all.len()) {
                Share::Each(quota) => quota,
                // Nodes hash with secrets of their own; what they must agree on is the key in the store.
                Share::Chosen { nodes: chosen, quota } => {
                    let place = question.places.of[*position];
                    let key = String::from_utf8_lossy(&question.places.keys[usize::from(place.key)]);
                    if rank(nodes.me, &nodes.all, [shared_id(&[&key]), place.id]) >= chosen {
                        (limit.wait_us, limit.measure) = (NOT_CHOSEN_WAIT_US, not_chosen());
                        continue;
                    }
                    quota
                }
            };
            asked.push(LimitResult { quota, ..*limit });
            positions.push(*position);
        }
        let refused = results.iter().any(|result| !result.shadow && result.wait_us > 0);
        let mode = if refused { Mode::Peek } else { call.mode };
        self.store.decide(&mut asked, mode, call.now_us);
        for (position, answer) in positions.into_iter().zip(asked) {
            let result = &mut results[position];
            (result.wait_us, result.measure) = (answer.wait_us, answer.measure);
            // A node's share may be more than the limit; nobody is told of more than that.
            result.measure.remaining = result.measure.remaining.min(result.quota.capacity);
        }
    }

    /// Says of a verdict that it was reached without the store, and remembers what to tell it later.
    pub(crate) fn degrade(
        &self,
        rules: Option<&RuleSet>,
        verdict: &mut Verdict,
        fallen: &Fallen,
        question: &Question,
        call: &Call,
    ) {
        verdict.degraded = true;
        let bound = verdict.binding.map(usize::from);
        if !verdict.allowed {
            match bound.filter(|position| fallen.contains(*position)) {
                Some(position) if self.policy(rules, &verdict.results[position]) == OnStoreFailure::Closed => {
                    verdict.path = Path::FallbackClosed;
                    verdict.status = CLOSED_STATUS;
                }
                Some(_) => verdict.path = Path::FallbackLocal,
                None => verdict.path = Path::Store,
            }
            return;
        }
        let Some(remote) = self.remote.as_ref().filter(|_| call.mode == Mode::Check) else { return };
        for (position, was_sent) in &fallen.positions {
            let result = &verdict.results[*position];
            // What was sent may have been spent; telling it again could count it twice.
            if !was_sent && !result.shadow {
                remote.owe(&question.places, *position, &result.quota, result.cost);
            }
        }
    }
}
