//! Counters in this process: sharded, bounded, and without a way to free a counter by flooding.
//!
//! A key's shard holds its counter, the overflow cells of its limit and the lock over both, so a check of one
//! limit takes one lock and a check of several takes theirs in shard order.

mod logs;
mod shard;
mod slots;

use super::{LimitResult, Mode};
use headgate_core::algorithm::{self, Charge, Edit, State, bucket};
use headgate_core::hash::Hash;
use headgate_core::{Algorithm, Quota};
use parking_lot::{Mutex, MutexGuard};
use shard::{Place, Shard};
use smallvec::SmallVec;

/// How many keys a full shard holds: few enough that rebuilding one is not felt.
const SHARD_KEYS: usize = 512;
const SHARDS_MAX: usize = 1 << 16;

/// Padded so that two shards' locks never share a cache line.
#[repr(align(64))]
struct Padded(Mutex<Shard>);

pub struct MemoryStore {
    shards: Box<[Padded]>,
    shard_bits: u32,
}

/// What the table holds, for `stats` and metrics.
#[derive(Clone, Copy, Debug, Default)]
pub struct Occupancy {
    pub keys: usize,
    pub cells: usize,
}

impl MemoryStore {
    /// A table for about `max_keys` live counters. `epoch_us` is now, on the clock later calls will use.
    pub fn new(max_keys: usize, epoch_us: u64) -> Self {
        let shards = (max_keys / SHARD_KEYS).next_power_of_two().clamp(1, SHARDS_MAX);
        let keys_each = max_keys.div_ceil(shards).max(1);
        let shard_bits = shards.trailing_zeros();
        let shards = (0..shards).map(|n| Padded(Mutex::new(Shard::new(keys_each, n, epoch_us)))).collect();
        Self { shards, shard_bits }
    }

    /// Decides one limit.
    #[inline]
    pub fn decide_one(&self, limit: &mut LimitResult, mode: Mode, now_us: u64) {
        let shard = &mut *self.shard(limit.key);
        let place = shard.locate(limit);
        limit.wait_us = wait_us(shard, place, &limit.quota, limit.cost, now_us);
        settle(shard, place, limit, limit.wait_us == 0, mode, now_us);
    }

    /// Decides all limits of a request together: if an enforced one refuses, nothing is spent.
    pub fn decide(&self, limits: &mut [LimitResult], mode: Mode, now_us: u64) {
        let mut places: SmallVec<[Option<Place>; 6]> = SmallVec::new();
        let Locked { mut guards, guard_of } = self.lock_all(limits);
        let mut allowed = true;
        for (limit, guard) in limits.iter_mut().zip(&guard_of) {
            let shard = &*guards[usize::from(*guard)];
            let place = shard.locate(limit);
            limit.wait_us = wait_us(shard, place, &limit.quota, limit.cost, now_us);
            allowed &= limit.wait_us == 0 || limit.shadow;
            places.push(place);
        }
        for nth in 0..limits.len() {
            let (before, rest) = limits.split_at_mut(nth);
            let limit = &mut rest[0];
            let shard = &mut *guards[usize::from(guard_of[nth])];
            let spends = allowed && limit.wait_us == 0;
            // A limit before this one may have laid the shard out anew.
            let place = places[nth].filter(|place| shard.is_own(*place, limit.key)).or_else(|| shard.locate(limit));
            // A shadow limit may share its counter with an enforced one, which stands before it: spent once is enough.
            let spent_already = limit.shadow && before.iter().any(|other| other.spent && other.key == limit.key);
            settle(shard, place, limit, spends && !spent_already && !limit.looks_only, mode, now_us);
        }
    }

    /// Returns up to `amount` of an earlier charge; gives what was really returned.
    pub fn refund(&self, limit: &LimitResult, past: &Charge, amount: u64, now_us: u64) -> u64 {
        let mut shard = self.shard(limit.key);
        let Some(place) = shard.locate(limit) else { return 0 };
        let (returned, edit) = algorithm::refund(&limit.quota, shard.state(place), past, amount, now_us);
        if let Some(edit) = edit {
            shard.apply(place, edit, is_exact(&limit.quota));
            let lifetime_us = algorithm::measure(&limit.quota, shard.state(place), now_us).reset_after_us;
            shard.keep_for(place, lifetime_us, now_us);
        }
        returned
    }

    /// Spends without asking: a cost that is already a fact.
    pub fn spend(&self, limit: &LimitResult, cost: u64, now_us: u64) {
        let mut shard = self.shard(limit.key);
        let place = shard.own_or_cell(limit, now_us);
        spend(&mut shard, place, &mut limit.clone(), cost, now_us);
    }

    /// Forgets a counter; true when there was something to forget.
    pub fn reset(&self, key: Hash) -> bool {
        self.shard(key).remove(key)
    }

    pub fn occupancy(&self) -> Occupancy {
        self.shards.iter().fold(Occupancy::default(), |sum, shard| {
            let shard = shard.0.lock();
            Occupancy { keys: sum.keys + shard.keys(), cells: sum.cells + shard.cells() }
        })
    }

    #[inline]
    fn shard_number(&self, key: Hash) -> u32 {
        // The top bits choose the shard; slots and tags use the others.
        if self.shard_bits == 0 { 0 } else { (key[0] >> (64 - self.shard_bits)) as u32 }
    }

    #[inline]
    fn shard(&self, key: Hash) -> MutexGuard<'_, Shard> {
        self.shards[self.shard_number(key) as usize].0.lock()
    }

    /// All shards of a request, each once, in ascending order: no two requests can wait for each other.
    #[inline]
    fn lock_all(&self, limits: &[LimitResult]) -> Locked<'_> {
        let mut order: SmallVec<[(u32, u16); 6]> = SmallVec::new();
        order.extend(limits.iter().enumerate().map(|(nth, limit)| (self.shard_number(limit.key), nth as u16)));
        order.sort_unstable();
        let mut locked = Locked { guards: SmallVec::new(), guard_of: SmallVec::from_elem(0, limits.len()) };
        let mut last = None;
        for (number, nth) in order {
            if last != Some(number) {
                locked.guards.push(self.shards[number as usize].0.lock());
                last = Some(number);
            }
            locked.guard_of[usize::from(nth)] = locked.guards.len() as u16 - 1;
        }
        locked
    }
}

/// The locked shards of a request, and which of them each limit needs.
struct Locked<'a> {
    guards: SmallVec<[MutexGuard<'a, Shard>; 6]>,
    guard_of: SmallVec<[u16; 8]>,
}

#[inline]
fn wait_us(shard: &Shard, place: Option<Place>, quota: &Quota, cost: u64, now_us: u64) -> u64 {
    if let (Algorithm::Gcra, Some((level, at_us, _))) = (quota.algorithm, place.and_then(|at| shard.bucket(at))) {
        return bucket::wait_us(quota, level, at_us, cost, now_us);
    }
    let state = place.map_or(State::Empty, |place| shard.state(place));
    algorithm::wait_us(quota, state, cost, now_us)
}

/// Spends if that was decided, and reports what is left. A peek reports as if it had spent.
#[inline]
fn settle(shard: &mut Shard, place: Option<Place>, limit: &mut LimitResult, spends: bool, mode: Mode, now_us: u64) {
    let cost = limit.cost;
    let spends = spends && cost > 0;
    if spends && mode == Mode::Check {
        let place = match place {
            Some(place) if shard.is_own(place, limit.key) => place,
            _ => shard.own_or_cell(limit, now_us),
        };
        limit.spent = true;
        return spend(shard, place, limit, cost, now_us);
    }
    let Some(place) = place else {
        let after = if spends { cost } else { 0 };
        limit.measure = algorithm::measure_fresh(&limit.quota, after, now_us);
        return;
    };
    limit.measure = algorithm::measure(&limit.quota, shard.state(place), now_us);
    shard.keep_at_least_for(place, limit.measure.reset_after_us, now_us);
    if spends {
        limit.measure = algorithm::spend(&limit.quota, shard.state(place), cost, now_us).1;
    }
}

#[inline]
fn spend(shard: &mut Shard, place: Place, limit: &mut LimitResult, cost: u64, now_us: u64) {
    // A bucket on its own is the commonest case by far: kept clear of what the other kinds need.
    if let (Algorithm::Gcra, Some((level, at_us, refunds))) = (limit.quota.algorithm, shard.bucket(place)) {
        let (level, at_us, measure) = bucket::fill(&limit.quota, level, at_us, cost, now_us);
        shard.set_bucket(place, level, at_us, refunds);
        shard.keep_for(place, measure.reset_after_us, now_us);
        (limit.used_after, limit.refunds, limit.measure) = (level, refunds, measure);
        return;
    }
    let (edit, measure) = algorithm::spend(&limit.quota, shard.state(place), cost, now_us);
    shard.apply(place, edit, is_exact(&limit.quota));
    shard.keep_for(place, measure.reset_after_us, now_us);
    if let Edit::Bucket { level, refunds, .. } = edit {
        (limit.used_after, limit.refunds) = (level, refunds);
    }
    limit.measure = measure;
}

fn is_exact(quota: &Quota) -> bool {
    quota.algorithm == Algorithm::SlidingLog
}

#[cfg(test)]
mod tests;
