//! GCRA as a bucket: a level that drains at `count` per `window_us` and may never pass `capacity`.
//!
//! The level is kept in tokens but computed in whole units of `1/unit` token, in which both a cost and a
//! microsecond's drain are integers. So no rate is rounded (30,000 a second stays 30,000), a change of the limit
//! can reread the level under new units, and a Lua script gets the same answer from the same doubles. Integers
//! are exact here while `capacity × unit` is below 2^51, which the reduced fraction in [`Quota`] makes the rule.
//!
//! Promise: at most `capacity + count × t / window_us` in any time t.

use super::{Charge, Edit, Measure, NEVER, State};
use crate::quota::Quota;

/// All whole numbers here are far below 2^63, where the signed conversions are single instructions.
#[inline]
fn double(number: u64) -> f64 {
    number as i64 as f64
}

#[inline]
fn whole_up(number: f64) -> u64 {
    number.ceil() as i64 as u64
}

/// The longest wait that is told apart from longer ones: some hundred thousand years.
const WAIT_US_MAX: u64 = i64::MAX as u64 / 2;

/// The level in units at `now_us`, drained and clamped to the capacity.
#[inline]
fn units_at(quota: &Quota, level: f64, at_us: u64, now_us: u64) -> f64 {
    let unit = double(quota.unit);
    let filled = (level * unit).round_ties_even().min(double(quota.capacity) * unit);
    let drained = double(now_us.saturating_sub(at_us)) * double(quota.rate);
    (filled - drained).max(0.0)
}

#[inline]
pub fn wait_us(quota: &Quota, level: f64, at_us: u64, cost: u64, now_us: u64) -> u64 {
    if cost > quota.capacity {
        return NEVER;
    }
    let room = double(quota.capacity - cost) * double(quota.unit);
    let now_us = now_us.max(at_us);
    let excess = units_at(quota, level, at_us, now_us) - room;
    if excess <= 0.0 {
        return 0;
    }
    // The division may be off by one in its last place: settle it with the very test a later check will make.
    let fits = |wait: u64| units_at(quota, level, at_us, now_us + wait) <= room;
    // Where doubles are coarser than a microsecond's drain it can be off by more, and only enough is promised.
    let mut wait = whole_up(excess / double(quota.rate));
    if wait >= WAIT_US_MAX {
        return WAIT_US_MAX;
    }
    for _ in 0..2 {
        wait -= u64::from(wait > 0 && fits(wait - 1));
    }
    let mut step = 1;
    while !fits(wait) {
        wait += step;
        step *= 2;
    }
    wait
}

#[inline]
pub fn measure(quota: &Quota, level: f64, at_us: u64, now_us: u64) -> Measure {
    measure_units(quota, units_at(quota, level, at_us, now_us.max(at_us)))
}

#[inline]
fn measure_units(quota: &Quota, units: f64) -> Measure {
    if units == 0.0 {
        return Measure { remaining: quota.capacity, next_after_us: 0, reset_after_us: 0 };
    }
    let free = double(quota.capacity) * double(quota.unit) - units;
    // Something is in use, even where a double cannot tell it from the whole capacity.
    let remaining = whole(free, quota.unit).min(quota.capacity - 1);
    let rate = double(quota.rate);
    // The level at which one more token fits.
    let next_level = double(quota.capacity - remaining - 1) * double(quota.unit);
    Measure { remaining, next_after_us: whole_up((units - next_level) / rate), reset_after_us: whole_up(units / rate) }
}

/// `free / unit`, rounded down without a double's help where it could round up.
#[inline]
fn whole(free: f64, unit: u64) -> u64 {
    if free < 9.0e15 { free as i64 as u64 / unit } else { (free / double(unit)).floor() as u64 }
}

#[inline]
pub fn spend(quota: &Quota, state: State<'_>, cost: u64, now_us: u64) -> (Edit, Measure) {
    // A new bucket starts its count of refunds somewhere else, so that charges of a forgotten one do not fit it.
    let (level, at_us, refunds) = match state {
        State::Bucket { level, at_us, refunds } => (level, at_us, refunds),
        _ => (0.0, 0, (now_us % u64::from(REFUNDS_MODULUS)) as u16),
    };
    let (level, at_us, measure) = fill(quota, level, at_us, cost, now_us);
    (Edit::Bucket { level, at_us, refunds }, measure)
}

/// The level and its time after a cost, and what is left then.
#[inline]
pub fn fill(quota: &Quota, level: f64, at_us: u64, cost: u64, now_us: u64) -> (f64, u64, Measure) {
    let now_us = now_us.max(at_us);
    let units = units_at(quota, level, at_us, now_us);
    let unit = double(quota.unit);
    // A bucket never owes more than its capacity.
    let filled = (units + double(cost) * unit).min(double(quota.capacity) * unit);
    (filled / unit, now_us, measure_units(quota, filled))
}

/// Refunds are counted modulo this.
pub const REFUNDS_MODULUS: u16 = 1 << 12;

/// A charge still weighs what would be left of the level right after it, had nothing been spent since: the oldest drains
/// first, so that is never more than the level would lack today without it. Once another charge was returned in between,
/// that level is no guide any more, and the charge counts as if it had drained from its own first moment.
pub fn refund(
    quota: &Quota,
    (level, at_us, refunds): (f64, u64, u16),
    charge: &Charge,
    amount: u64,
    now_us: u64,
) -> (u64, Option<Edit>) {
    let now_us = now_us.max(at_us);
    let unit = double(quota.unit);
    let whole_charge = double(charge.cost);
    let before = if refunds == charge.refunds { charge.used_after } else { whole_charge };
    let weight = units_at(quota, before, charge.at_us, now_us).min(whole_charge * unit);
    let returned = weight.min(double(amount) * unit);
    if returned <= 0.0 {
        return (0, None);
    }
    let level = (units_at(quota, level, at_us, now_us) - returned).max(0.0) / unit;
    let refunds = (refunds + 1) % REFUNDS_MODULUS;
    let edit = Edit::Bucket { level, at_us: now_us, refunds };
    (whole(returned, quota.unit), Some(edit))
}
