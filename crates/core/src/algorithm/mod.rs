//! The algorithms, as pure functions of (quota, state, cost, now).
//!
//! Each module offers the same verbs:
//! - `wait_us`: how long until `cost` fits (0: it fits now; [`NEVER`]: it never will);
//! - `measure`: what is left, when more comes back, and when all has;
//! - `spend`: the edit that records a cost (whether or not it fits: deciding is the caller's), and what is left then;
//! - `refund`: the edit that returns part of an earlier charge;
//! - `usage`: what is used, in terms any other algorithm can take over.
//!
//! A state is only read here; an [`Edit`] says what becomes of it, and the store carries that out.
//!
//! What a check calls is inlined without asking: compiled into one piece with the store, a [`State`] never has to be laid
//! out in memory, which a sliding window's check feels most.

pub mod bucket;
pub mod fixed_window;
pub mod log;
pub mod sliding_window;
pub mod sliding_window_counter;

use crate::quota::{Algorithm, Quota};
pub use log::{Groups, GroupsIter};

/// A wait that never ends: the cost is larger than the limit's whole capacity.
pub const NEVER: u64 = u64::MAX;

/// What a store remembers for one counter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum State<'a> {
    Empty,
    /// A bucket holding `level` at `at_us`, which has been refunded to so often (modulo 4,096).
    Bucket {
        level: f64,
        at_us: u64,
        refunds: u16,
    },
    /// `used` in the aligned window that holds `at_us`.
    Window {
        at_us: u64,
        used: u64,
    },
    /// `current` in the aligned window that holds `at_us`, `previous` in the one before it.
    WindowPair {
        at_us: u64,
        current: u32,
        previous: u32,
    },
    /// Groups (or single hits) of a sliding window, oldest first.
    Log(Groups<'a>),
}

/// What becomes of a state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Edit {
    /// Nothing is left worth remembering.
    Clear,
    Bucket {
        level: f64,
        at_us: u64,
        refunds: u16,
    },
    Window {
        at_us: u64,
        used: u64,
    },
    WindowPair {
        at_us: u64,
        current: u32,
        previous: u32,
    },
    /// Forget the oldest `drop` groups, then add one.
    Push {
        drop: usize,
        at_us: u64,
        count: u64,
    },
    /// Forget the oldest `drop` groups, then set the newest one.
    SetLast {
        drop: usize,
        at_us: u64,
        count: u64,
    },
    /// Take so much from a group and, where it holds less, from those after it; a group of nothing is gone.
    Take {
        index: usize,
        amount: u64,
    },
    /// Replace whatever was there (of any kind) with a single group.
    Replace {
        at_us: u64,
        count: u64,
    },
}

/// What a counter has left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measure {
    /// The largest cost that fits now.
    pub remaining: u64,
    /// How long until `remaining` grows; 0 when it is whole.
    pub next_after_us: u64,
    /// How long until nothing is used any more.
    pub reset_after_us: u64,
}

/// One past charge, as its decision remembers it: what a refund is measured against.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Charge {
    pub at_us: u64,
    pub cost: u64,
    /// What was in use right after the charge, and how often the bucket had been refunded to: only buckets need these.
    pub used_after: f64,
    pub refunds: u16,
}

/// Usage in terms every algorithm understands: so much, last at that time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Usage {
    pub used: u64,
    pub at_us: u64,
}

/// How long until `cost` fits.
#[inline(always)]
pub fn wait_us(quota: &Quota, state: State<'_>, cost: u64, now_us: u64) -> u64 {
    if cost > quota.capacity {
        return NEVER;
    }
    match adopt(quota, state, now_us) {
        State::Empty => 0,
        State::Bucket { level, at_us, .. } => bucket::wait_us(quota, level, at_us, cost, now_us),
        State::Window { at_us, used } => fixed_window::wait_us(quota, at_us, used, cost, now_us),
        State::WindowPair { at_us, current, previous } => {
            sliding_window_counter::wait_us(quota, at_us, current, previous, cost, now_us)
        }
        State::Log(groups) => log::wait_us(quota, groups, cost, now_us),
    }
}

/// What is left, and when it comes back.
#[inline(always)]
pub fn measure(quota: &Quota, state: State<'_>, now_us: u64) -> Measure {
    match adopt(quota, state, now_us) {
        State::Empty => Measure { remaining: quota.capacity, next_after_us: 0, reset_after_us: 0 },
        State::Bucket { level, at_us, .. } => bucket::measure(quota, level, at_us, now_us),
        State::Window { at_us, used } => fixed_window::measure(quota, at_us, used, now_us),
        State::WindowPair { at_us, current, previous } => {
            sliding_window_counter::measure(quota, at_us, current, previous, now_us)
        }
        State::Log(groups) => log::measure(quota, groups, now_us),
    }
}

/// What a counter nobody has met yet has left after `cost`.
pub fn measure_fresh(quota: &Quota, cost: u64, now_us: u64) -> Measure {
    match cost {
        0 => measure(quota, State::Empty, now_us),
        _ => spend(quota, State::Empty, cost, now_us).1,
    }
}

/// The edit that records `cost`, fitting or not, and what is left after it.
#[inline(always)]
pub fn spend(quota: &Quota, state: State<'_>, cost: u64, now_us: u64) -> (Edit, Measure) {
    let adopted = adopt(quota, state, now_us);
    match quota.algorithm {
        Algorithm::Gcra => bucket::spend(quota, adopted, cost, now_us),
        Algorithm::FixedWindow => fixed_window::spend(quota, adopted, cost, now_us),
        Algorithm::SlidingWindowCounter => sliding_window_counter::spend(quota, adopted, cost, now_us),
        Algorithm::SlidingWindow => sliding_window::spend(quota, adopted, cost, now_us, is_foreign(state)),
        Algorithm::SlidingLog => log::spend_exact(quota, adopted, cost, now_us, is_foreign(state)),
    }
}

/// Whether a log was made up from another algorithm's usage.
#[inline]
fn is_foreign(state: State<'_>) -> bool {
    !matches!(state, State::Log(_) | State::Empty)
}

/// The edit that returns up to `amount` of an earlier charge, and how much of it that really returns.
pub fn refund(quota: &Quota, state: State<'_>, charge: &Charge, amount: u64, now_us: u64) -> (u64, Option<Edit>) {
    let amount = amount.min(charge.cost);
    if adopt(quota, state, now_us) != state {
        return (0, None); // The algorithm changed since: the charge can no longer be told apart.
    }
    match state {
        State::Empty => (0, None),
        State::Bucket { level, at_us, refunds } => {
            bucket::refund(quota, (level, at_us, refunds), charge, amount, now_us)
        }
        State::Window { at_us, used } => fixed_window::refund(quota, at_us, used, charge, amount, now_us),
        State::WindowPair { at_us, current, previous } => {
            sliding_window_counter::refund(quota, (at_us, current, previous), charge, amount, now_us)
        }
        State::Log(groups) => log::refund(quota, groups, charge, amount, now_us),
    }
}

/// The state as this quota's algorithm understands it: another algorithm's usage is taken over, never dropped,
/// clamped to the new capacity.
#[inline(always)]
fn adopt<'a>(quota: &Quota, state: State<'a>, now_us: u64) -> State<'a> {
    match (quota.algorithm, state) {
        (_, State::Empty)
        | (Algorithm::Gcra, State::Bucket { .. })
        | (Algorithm::FixedWindow, State::Window { .. })
        | (Algorithm::SlidingWindowCounter, State::WindowPair { .. })
        | (Algorithm::SlidingWindow | Algorithm::SlidingLog, State::Log(_)) => state,
        _ => adopt_foreign(quota, state, now_us),
    }
}

#[cold]
fn adopt_foreign<'a>(quota: &Quota, state: State<'a>, now_us: u64) -> State<'a> {
    let Usage { used, at_us } = usage(state, quota.window_us, now_us);
    let used = used.min(quota.capacity);
    if used == 0 {
        return State::Empty;
    }
    match quota.algorithm {
        Algorithm::Gcra => State::Bucket { level: used as f64, at_us, refunds: 0 },
        Algorithm::FixedWindow => State::Window { at_us, used },
        Algorithm::SlidingWindowCounter => {
            State::WindowPair { at_us, current: u32::try_from(used).unwrap_or(u32::MAX), previous: 0 }
        }
        Algorithm::SlidingWindow | Algorithm::SlidingLog => State::Log(Groups::One { at_us, count: used }),
    }
}

fn usage(state: State<'_>, window_us: u64, now_us: u64) -> Usage {
    match state {
        State::Empty => Usage { used: 0, at_us: now_us },
        State::Bucket { level, at_us, .. } => Usage { used: level.ceil() as u64, at_us },
        State::Window { at_us, used } => Usage { used, at_us },
        State::WindowPair { at_us, current, previous } => {
            Usage { used: u64::from(current) + u64::from(previous), at_us }
        }
        State::Log(groups) => log::usage(groups, window_us, now_us),
    }
}

/// Both windows and their state types share this: the end of the aligned window that holds `now_us`.
#[inline]
pub(crate) fn window_end_us(window_us: u64, now_us: u64) -> u64 {
    (now_us / window_us + 1) * window_us
}
