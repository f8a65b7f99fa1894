//! What was decided: a rich frozen value from which every door makes its answer.

use crate::algorithm::{Charge, Measure};
use crate::hash::Hash;
use crate::quota::Quota;
use smallvec::SmallVec;

/// Which step of the ladder decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Path {
    Exempt,
    Blocked,
    RefusedMemory,
    Lease,
    Store,
    FallbackOpen,
    FallbackClosed,
    FallbackLocal,
    NoRule,
}

impl Path {
    pub const ALL: [Path; 9] = [
        Path::Exempt,
        Path::Blocked,
        Path::RefusedMemory,
        Path::Lease,
        Path::Store,
        Path::FallbackOpen,
        Path::FallbackClosed,
        Path::FallbackLocal,
        Path::NoRule,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Path::Exempt => "exempt",
            Path::Blocked => "blocked",
            Path::RefusedMemory => "refused_memory",
            Path::Lease => "lease",
            Path::Store => "store",
            Path::FallbackOpen => "fallback_open",
            Path::FallbackClosed => "fallback_closed",
            Path::FallbackLocal => "fallback_local",
            Path::NoRule => "no_rule",
        }
    }
}

/// One limit a request meets: first the question, then what the store said.
#[derive(Clone, Copy, Debug)]
pub struct LimitResult {
    /// The rule's number in its version of the rules; none for a limit given with the call.
    pub rule: Option<u32>,
    /// Which of the rule's limits.
    pub nth: u8,
    pub shadow: bool,
    pub quota: Quota,
    /// What is asked of this limit; 0 only looks.
    pub cost: u64,
    /// Another limit of the request spends on the same counter: this one has to fit, and spends nothing.
    pub looks_only: bool,
    /// The counter: limit × subject.
    pub key: Hash,
    /// The limit alone, for what its subjects share (overflow cells, table shares).
    pub limit: Hash,
    /// 0 when the cost fitted.
    pub wait_us: u64,
    pub measure: Measure,
    /// Whether the cost was spent on this limit.
    pub spent: bool,
    /// What a bucket held right after that.
    pub used_after: f64,
    /// How often that bucket had been refunded to.
    pub refunds: u16,
}

impl LimitResult {
    /// The question: nothing answered yet.
    #[inline]
    pub fn ask(rule: Option<u32>, nth: usize, shadow: bool, quota: Quota, cost: u64, key: Hash, limit: Hash) -> Self {
        let measure = Measure { remaining: 0, next_after_us: 0, reset_after_us: 0 };
        let nth = nth as u8;
        let (looks_only, wait_us, spent, used_after, refunds) = (false, 0, false, 0.0, 0);
        Self { rule, nth, shadow, quota, cost, looks_only, key, limit, wait_us, measure, spent, used_after, refunds }
    }

    #[inline]
    pub fn allowed(&self) -> bool {
        self.wait_us == 0
    }
}

/// The answer to one check.
#[derive(Clone, Debug)]
pub struct Verdict {
    pub allowed: bool,
    pub path: Path,
    pub degraded: bool,
    /// 200 when allowed, else what the rule asks for.
    pub status: u16,
    /// The rule that decided.
    pub rule: Option<u32>,
    /// 0 when allowed; [`crate::algorithm::NEVER`] when waiting does not help.
    pub retry_after_us: u64,
    /// Which of the results binds.
    pub binding: Option<u16>,
    pub results: SmallVec<[LimitResult; 1]>,
    /// Rules that matched and could not apply, with the fact that was missing.
    pub skipped: Skipped,
    /// When this was decided, on the clock of what decided it.
    pub at_us: u64,
    /// What the request asked for; the most, where its limits were asked for different costs.
    pub cost: u64,
    /// Where a shared store keeps what was counted; what that is, only the store knows.
    pub kept: Option<Box<Kept>>,
}

/// What a decision of a shared store remembers for its refund.
#[derive(Clone, Debug)]
pub struct Kept {
    pub places: std::sync::Arc<Places>,
    /// When each limit was charged, on the clock of the server that did.
    pub at_us: SmallVec<[u64; 5]>,
}

/// Where one limit's counter is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The limit, as shared stores know it.
    pub id: u64,
    /// Which of the request's keys holds its record, and which its log.
    pub key: u8,
    pub log: u8,
}

/// The keys of a request and where each of its limits is among them.
#[derive(Clone, Debug, Default)]
pub struct Places {
    pub keys: SmallVec<[Box<[u8]>; 2]>,
    pub of: SmallVec<[Place; 5]>,
}

impl Places {
    /// The number of a key, which is added if it is not there yet.
    pub fn key(&mut self, key: &[u8]) -> u8 {
        let known = self.keys.iter().position(|other| **other == *key);
        known.unwrap_or_else(|| {
            self.keys.push(key.into());
            self.keys.len() - 1
        }) as u8
    }
}

/// Usually nothing, so it takes one word.
pub type Skipped = Option<Box<Vec<(u32, Box<str>)>>>;

impl Verdict {
    #[inline]
    pub fn binding(&self) -> Option<&LimitResult> {
        self.binding.map(|nth| &self.results[usize::from(nth)])
    }

    /// What one limit was charged by this decision, if it was.
    pub fn charge(&self, position: usize) -> Option<Charge> {
        let result = &self.results[position];
        let at_us = self.kept.as_ref().map_or(self.at_us, |kept| kept.at_us[position]);
        result.spent.then_some(Charge {
            at_us,
            cost: result.cost,
            used_after: result.used_after,
            refunds: result.refunds,
        })
    }

    pub fn skipped(&self) -> &[(u32, Box<str>)] {
        self.skipped.as_deref().map_or(&[], Vec::as_slice)
    }

    /// Different for every decision, the same for one: makes its jitter one number, however often it is asked for.
    pub fn seed(&self) -> u64 {
        let key = self.binding().map_or([u64::from(self.rule.unwrap_or(0)), 0], |result| result.key);
        let mixed = (key[0] ^ self.at_us).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ key[1];
        (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93)
    }
}

/// The limit that binds. Refused: the longest wait, a cost that never fits before all. Allowed: the smallest part
/// left. Shadow limits never bind.
#[inline]
pub fn binding(results: &[LimitResult], allowed: bool) -> Option<u16> {
    let enforced = results.iter().enumerate().filter(|(_, result)| !result.shadow);
    let chosen = if allowed {
        enforced.min_by(|(_, a), (_, b)| {
            let cross =
                |x: &LimitResult, y: &LimitResult| u128::from(x.measure.remaining) * u128::from(y.quota.capacity);
            cross(a, b).cmp(&cross(b, a))
        })
    } else {
        // `max_by_key` keeps the last of equals; the first limit named is the one to tell of.
        enforced.rev().max_by_key(|(_, result)| result.wait_us)
    };
    chosen.map(|(nth, _)| nth as u16)
}
