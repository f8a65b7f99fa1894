//! The two-bucket estimate: the previous window, weighted by how much of it still overlaps, plus the current one.
//!
//! Promise: the estimate never passes N, which lets up to 2N through in the worst case. All comparisons are in
//! whole numbers (both sides multiplied by the window), so no estimate is rounded.

use super::{Charge, Edit, Measure, State};
use crate::quota::Quota;

/// Both counts as seen from `now_us`, and how far the current window has run.
#[derive(Clone, Copy)]
struct Seen {
    current: u64,
    previous: u64,
    elapsed_us: u64,
}

#[inline]
fn seen(quota: &Quota, at_us: u64, current: u32, previous: u32, now_us: u64) -> Seen {
    let (now_window, at_window) = (now_us / quota.window_us, at_us / quota.window_us);
    let elapsed_us = now_us % quota.window_us;
    let (current, previous) = match now_window - at_window {
        0 => (u64::from(current), u64::from(previous)),
        1 => (0, u64::from(current)),
        _ => (0, 0),
    };
    Seen { current, previous, elapsed_us }
}

/// The shortest time into the current window at which `previous` weighs no more than `room`.
fn weighs_at_most_from_us(window_us: u64, previous: u64, room: u64) -> u64 {
    if previous <= room {
        return 0;
    }
    let overlap_us = u128::from(room) * u128::from(window_us) / u128::from(previous);
    window_us - overlap_us as u64
}

#[inline]
fn fits(quota: &Quota, seen: Seen, cost: u64) -> bool {
    let overlap_us = quota.window_us - seen.elapsed_us;
    let weighted = u128::from(seen.previous) * u128::from(overlap_us);
    weighted + u128::from(seen.current + cost) * u128::from(quota.window_us)
        <= u128::from(quota.count) * u128::from(quota.window_us)
}

#[inline]
fn wait_seen_us(quota: &Quota, seen: Seen, cost: u64) -> u64 {
    if fits(quota, seen, cost) {
        return 0;
    }
    let Seen { current, previous, elapsed_us } = seen;
    if current + cost <= quota.count {
        return weighs_at_most_from_us(quota.window_us, previous, quota.count - current - cost) - elapsed_us;
    }
    let next_window_us = quota.window_us - elapsed_us;
    next_window_us + weighs_at_most_from_us(quota.window_us, current, quota.count - cost)
}

#[inline]
pub fn wait_us(quota: &Quota, at_us: u64, current: u32, previous: u32, cost: u64, now_us: u64) -> u64 {
    wait_seen_us(quota, seen(quota, at_us, current, previous, now_us.max(at_us)), cost)
}

#[inline]
pub fn measure(quota: &Quota, at_us: u64, current: u32, previous: u32, now_us: u64) -> Measure {
    let seen = seen(quota, at_us, current, previous, now_us.max(at_us));
    let overlap_us = quota.window_us - seen.elapsed_us;
    let weighted = (u128::from(seen.previous) * u128::from(overlap_us)).div_ceil(u128::from(quota.window_us));
    let used = seen.current + weighted as u64;
    let remaining = quota.count.saturating_sub(used);
    let reset_after_us = match (seen.current, seen.previous) {
        (0, 0) => 0,
        (0, _) => overlap_us,
        _ => overlap_us + quota.window_us,
    };
    let next_after_us = if remaining == quota.count { 0 } else { wait_seen_us(quota, seen, remaining + 1) };
    Measure { remaining, next_after_us, reset_after_us }
}

#[inline]
pub fn spend(quota: &Quota, state: State<'_>, cost: u64, now_us: u64) -> (Edit, Measure) {
    let (seen, at_us) = match state {
        State::WindowPair { at_us, current, previous } => {
            let now_us = now_us.max(at_us);
            (seen(quota, at_us, current, previous, now_us), now_us)
        }
        _ => (Seen { current: 0, previous: 0, elapsed_us: 0 }, now_us),
    };
    let narrow = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
    let current = narrow(seen.current.saturating_add(cost));
    let previous = narrow(seen.previous);
    (Edit::WindowPair { at_us, current, previous }, measure(quota, at_us, current, previous, at_us))
}

pub fn refund(
    quota: &Quota,
    (at_us, current, previous): (u64, u32, u32),
    charge: &Charge,
    amount: u64,
    now_us: u64,
) -> (u64, Option<Edit>) {
    let now_us = now_us.max(at_us);
    let narrow = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
    let charged_window = charge.at_us / quota.window_us;
    if now_us / quota.window_us > charged_window + 1 {
        return (0, None); // It no longer weighs anything.
    }
    let (current, previous, returned) = match (at_us / quota.window_us).checked_sub(charged_window) {
        Some(0) => {
            let returned = narrow(amount).min(current);
            (current - returned, previous, returned)
        }
        Some(1) => {
            let returned = narrow(amount).min(previous);
            (current, previous - returned, returned)
        }
        _ => return (0, None),
    };
    if returned == 0 {
        return (0, None);
    }
    let edit = if current == 0 && previous == 0 { Edit::Clear } else { Edit::WindowPair { at_us, current, previous } };
    (u64::from(returned), Some(edit))
}
