//! The sliding window: never more than N in any window, in at most 65 groups whatever N is.
//!
//! Hits are gathered into groups of `ceil(N / 32)`; a group is forgotten a window after its *last* hit, so its
//! earlier hits count a little too long and never too short. Up to N = 32 every hit is its own group and the
//! count is exact; above, usage is over-counted by less than one group.

use super::{Edit, Measure, State, log};
use crate::quota::Quota;

/// Two neighbouring groups hold more than one group's worth together, which bounds a list of mixed costs.
/// A list that reached the bound under an earlier limit grows by widening its newest group.
pub const GROUPS_MAX: usize = 65;

#[inline(always)]
pub fn spend(quota: &Quota, state: State<'_>, cost: u64, now_us: u64, foreign: bool) -> (Edit, Measure) {
    log::spend(quota, state, cost, now_us, foreign, |living, _, count| {
        living >= GROUPS_MAX || count + cost <= quota.group_size()
    })
}
