//! N per aligned window. Promise: at most N in each window, so up to 2N across a boundary.
//!
//! The state keeps the time of the last hit rather than the window's start, so that a changed window length can
//! tell whether what was used still counts.

use super::{Charge, Edit, Measure, State, window_end_us};
use crate::quota::Quota;

#[inline]
fn used_at(quota: &Quota, at_us: u64, used: u64, now_us: u64) -> u64 {
    if now_us / quota.window_us == at_us / quota.window_us { used } else { 0 }
}

#[inline]
pub fn wait_us(quota: &Quota, at_us: u64, used: u64, cost: u64, now_us: u64) -> u64 {
    let now_us = now_us.max(at_us);
    if used_at(quota, at_us, used, now_us) + cost <= quota.count {
        return 0;
    }
    window_end_us(quota.window_us, now_us) - now_us
}

#[inline]
pub fn measure(quota: &Quota, at_us: u64, used: u64, now_us: u64) -> Measure {
    let now_us = now_us.max(at_us);
    let used = used_at(quota, at_us, used, now_us);
    let end_after_us = if used == 0 { 0 } else { window_end_us(quota.window_us, now_us) - now_us };
    Measure { remaining: quota.count.saturating_sub(used), next_after_us: end_after_us, reset_after_us: end_after_us }
}

#[inline]
pub fn spend(quota: &Quota, state: State<'_>, cost: u64, now_us: u64) -> (Edit, Measure) {
    let (used, at_us) = match state {
        State::Window { at_us, used } => {
            let now_us = now_us.max(at_us);
            (used_at(quota, at_us, used, now_us), now_us)
        }
        _ => (0, now_us),
    };
    let used = used.saturating_add(cost);
    (Edit::Window { at_us, used }, measure(quota, at_us, used, at_us))
}

pub fn refund(quota: &Quota, at_us: u64, used: u64, charge: &Charge, amount: u64, now_us: u64) -> (u64, Option<Edit>) {
    let now_us = now_us.max(at_us);
    let same_window = now_us / quota.window_us == charge.at_us / quota.window_us;
    let returned = if same_window { amount.min(used_at(quota, at_us, used, now_us)) } else { 0 };
    if returned == 0 {
        return (0, None);
    }
    let edit = if returned == used { Edit::Clear } else { Edit::Window { at_us, used: used - returned } };
    (returned, Some(edit))
}
