//! What the exact log and the sliding window share: a list of (time, count) groups, oldest first, each forgotten
//! a window after its last hit.

use super::{Charge, Edit, Measure, NEVER, State};
use crate::quota::Quota;

/// Bits of a packed group that hold its count; the rest hold its time after the list's base.
pub const PACKED_COUNT_BITS: u32 = 19;
const PACKED_COUNT_MASK: u64 = (1 << PACKED_COUNT_BITS) - 1;
/// The latest time after the base that a packed group can hold: 407 days, more than any window.
pub const PACKED_OFFSET_US_MAX: u64 = u64::MAX >> PACKED_COUNT_BITS;

/// Groups as a store keeps them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Groups<'a> {
    One {
        at_us: u64,
        count: u64,
    },
    /// One word a group: its time after `base_us` and its count.
    Packed {
        base_us: u64,
        words: &'a [u64],
    },
    /// Two words a group, for counts that do not fit the packed form.
    Wide {
        words: &'a [u64],
    },
    /// Hits of an exact log: times and costs side by side.
    Split {
        times_us: &'a [u64],
        counts: &'a [u32],
    },
}

/// A group as one word, if it fits.
#[inline]
pub fn pack(base_us: u64, at_us: u64, count: u64) -> Option<u64> {
    let offset_us = at_us.checked_sub(base_us)?;
    (offset_us <= PACKED_OFFSET_US_MAX && count <= PACKED_COUNT_MASK).then_some(offset_us << PACKED_COUNT_BITS | count)
}

#[inline]
pub fn unpack(base_us: u64, word: u64) -> (u64, u64) {
    (base_us + (word >> PACKED_COUNT_BITS), word & PACKED_COUNT_MASK)
}

impl<'a> Groups<'a> {
    #[inline]
    pub fn len(&self) -> usize {
        match self {
            Groups::One { .. } => 1,
            Groups::Packed { words, .. } => words.len(),
            Groups::Wide { words } => words.len() / 2,
            Groups::Split { times_us, .. } => times_us.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The time of the last hit and the count of group `index`.
    #[inline(always)]
    pub fn get(&self, index: usize) -> (u64, u64) {
        match *self {
            Groups::One { at_us, count } => (at_us, count),
            Groups::Packed { base_us, words } => unpack(base_us, words[index]),
            Groups::Wide { words } => (words[index * 2], words[index * 2 + 1]),
            Groups::Split { times_us, counts } => (times_us[index], u64::from(counts[index])),
        }
    }

    #[inline]
    pub fn last(&self) -> Option<(u64, u64)> {
        self.len().checked_sub(1).map(|index| self.get(index))
    }

    #[inline]
    pub fn iter(self) -> GroupsIter<'a> {
        GroupsIter { groups: self, index: 0, len: self.len() }
    }
}

pub struct GroupsIter<'a> {
    groups: Groups<'a>,
    index: usize,
    len: usize,
}

impl Iterator for GroupsIter<'_> {
    type Item = (u64, u64);

    #[inline]
    fn next(&mut self) -> Option<(u64, u64)> {
        if self.index == self.len {
            return None;
        }
        self.index += 1;
        Some(self.groups.get(self.index - 1))
    }
}

/// What the living groups hold together, and how many dead ones precede them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sum {
    pub dead: usize,
    pub used: u64,
}

/// Time never runs backwards for a counter: a hit already recorded is not in the future.
#[inline(always)]
pub(super) fn now_for(groups: Groups<'_>, now_us: u64) -> u64 {
    groups.last().map_or(now_us, |(at_us, _)| now_us.max(at_us))
}

#[inline(always)]
pub(super) fn sum(quota: &Quota, groups: Groups<'_>, now_us: u64) -> Sum {
    // The usual form by itself: this is what a check of a busy key costs. Times never fall along a list, so the dead come
    // first, and adding up the rest is a plain loop over words.
    if let Groups::Packed { base_us, words } = groups {
        let dead = match now_us.checked_sub(quota.window_us + base_us) {
            Some(offset_us) => words.partition_point(|word| word >> PACKED_COUNT_BITS <= offset_us),
            None => 0,
        };
        return Sum { dead, used: words[dead..].iter().map(|word| word & PACKED_COUNT_MASK).sum() };
    }
    let mut sum = Sum { dead: 0, used: 0 };
    for (at_us, count) in groups.iter() {
        if at_us + quota.window_us <= now_us {
            sum.dead += 1;
        } else {
            sum.used += count;
        }
    }
    sum
}

#[inline(always)]
pub fn wait_us(quota: &Quota, groups: Groups<'_>, cost: u64, now_us: u64) -> u64 {
    if cost > quota.count {
        return NEVER;
    }
    if let Groups::One { at_us, count } = groups {
        let ends_us = at_us + quota.window_us;
        let fits = ends_us <= now_us || count + cost <= quota.count;
        return if fits { 0 } else { ends_us - now_us.max(at_us) };
    }
    let now_us = now_for(groups, now_us);
    let Sum { dead, mut used } = sum(quota, groups, now_us);
    if used + cost <= quota.count {
        return 0;
    }
    for (at_us, count) in groups.iter().skip(dead) {
        used -= count;
        if used + cost <= quota.count {
            return at_us + quota.window_us - now_us;
        }
    }
    unreachable!("with nothing in use, a cost within the limit fits")
}

#[inline(always)]
pub fn measure(quota: &Quota, groups: Groups<'_>, now_us: u64) -> Measure {
    if let Groups::One { at_us, count } = groups {
        let ends_us = at_us + quota.window_us;
        let (used, after_us) = if ends_us <= now_us { (0, 0) } else { (count, ends_us - now_us.max(at_us)) };
        let remaining = quota.count.saturating_sub(used);
        return Measure { remaining, next_after_us: after_us, reset_after_us: after_us };
    }
    let now_us = now_for(groups, now_us);
    let Sum { dead, used } = sum(quota, groups, now_us);
    let (Some((last_us, _)), true) = (groups.last(), used > 0) else {
        return Measure { remaining: quota.count, next_after_us: 0, reset_after_us: 0 };
    };
    let remaining = quota.count.saturating_sub(used);
    // Normally the oldest group; after a limit was lowered, as many as it takes.
    let mut left = used;
    let mut next_after_us = 0;
    for (at_us, count) in groups.iter().skip(dead) {
        left -= count;
        next_after_us = at_us + quota.window_us - now_us;
        if quota.count.saturating_sub(left) > remaining {
            break;
        }
    }
    Measure { remaining, next_after_us, reset_after_us: last_us + quota.window_us - now_us }
}

/// The exact log: every hit its own entry, hits of the same microsecond together.
pub(super) fn spend_exact(quota: &Quota, state: State<'_>, cost: u64, now_us: u64, foreign: bool) -> (Edit, Measure) {
    spend(quota, state, cost, now_us, foreign, |_, at_us, _| at_us == now_us)
}

/// Records a cost: in the newest group if that `joins` (given the living groups' number, its time and its count), else
/// in a new one.
#[inline(always)]
pub(super) fn spend(
    quota: &Quota,
    state: State<'_>,
    cost: u64,
    now_us: u64,
    foreign: bool,
    joins: impl Fn(usize, u64, u64) -> bool,
) -> (Edit, Measure) {
    let State::Log(groups) = state else {
        let measure = Measure {
            remaining: quota.count.saturating_sub(cost),
            next_after_us: quota.window_us,
            reset_after_us: quota.window_us,
        };
        return (Edit::Replace { at_us: now_us, count: cost }, measure);
    };
    if let (Groups::One { at_us, count }, false) = (groups, foreign) {
        return spend_on_one(quota, at_us, count, cost, now_us.max(at_us), joins);
    }
    let now_us = now_for(groups, now_us);
    let Sum { dead, used } = sum(quota, groups, now_us);
    let living = groups.len() - dead;
    let edit = join_or_push(groups, dead, cost, now_us, foreign, |at_us, count| joins(living, at_us, count));
    (edit, measure_spent(quota, groups, dead, used + cost, &edit, now_us))
}

/// A list of one group, as most lists of large limits are.
#[inline]
fn spend_on_one(
    quota: &Quota,
    at_us: u64,
    count: u64,
    cost: u64,
    now_us: u64,
    joins: impl Fn(usize, u64, u64) -> bool,
) -> (Edit, Measure) {
    let (edit, used, oldest_us) = if at_us + quota.window_us <= now_us {
        (Edit::Replace { at_us: now_us, count: cost }, cost, now_us)
    } else if joins(1, at_us, count) {
        (Edit::SetLast { drop: 0, at_us: now_us, count: count + cost }, count + cost, now_us)
    } else {
        (Edit::Push { drop: 0, at_us: now_us, count: cost }, count + cost, at_us)
    };
    let next_after_us = if used > quota.count { quota.window_us } else { oldest_us + quota.window_us - now_us };
    let remaining = quota.count.saturating_sub(used);
    (edit, Measure { remaining, next_after_us, reset_after_us: quota.window_us })
}

/// What is left after an edit, without reading the list again.
#[inline(always)]
fn measure_spent(quota: &Quota, groups: Groups<'_>, dead: usize, used: u64, edit: &Edit, now_us: u64) -> Measure {
    // The oldest group is still the first to go, unless it is the one that was just hit.
    let oldest_is_newest = match edit {
        Edit::Push { .. } => groups.len() == dead,
        Edit::SetLast { .. } => groups.len() - dead == 1,
        _ => true,
    };
    let oldest_us = if oldest_is_newest { now_us } else { groups.get(dead).0 };
    let over = used > quota.count;
    Measure {
        remaining: quota.count.saturating_sub(used),
        // Past the limit (a forced spend), when more comes back is not worth a walk: when all does.
        next_after_us: if over { quota.window_us } else { oldest_us + quota.window_us - now_us },
        reset_after_us: quota.window_us,
    }
}

#[inline(always)]
fn join_or_push(
    groups: Groups<'_>,
    dead: usize,
    cost: u64,
    now_us: u64,
    foreign: bool,
    joins: impl Fn(u64, u64) -> bool,
) -> Edit {
    if dead == groups.len() {
        return Edit::Replace { at_us: now_us, count: cost };
    }
    let (last_us, last_count) = groups.get(groups.len() - 1);
    // Usage taken over from another algorithm exists only in this view: the first spend makes it one group.
    if foreign {
        return Edit::Replace { at_us: now_us, count: last_count + cost };
    }
    if joins(last_us, last_count) {
        return Edit::SetLast { drop: dead, at_us: now_us, count: last_count + cost };
    }
    Edit::Push { drop: dead, at_us: now_us, count: cost }
}

/// A charge lies in the first group whose last hit is not before it; charges of one instant may lie in several.
pub fn refund(quota: &Quota, groups: Groups<'_>, charge: &Charge, amount: u64, now_us: u64) -> (u64, Option<Edit>) {
    let now_us = now_for(groups, now_us);
    if charge.at_us + quota.window_us <= now_us {
        return (0, None);
    }
    let Some(index) = groups.iter().position(|(at_us, _)| at_us >= charge.at_us) else { return (0, None) };
    let mut there = 0;
    for (at_us, count) in groups.iter().skip(index) {
        there += count;
        if at_us > charge.at_us {
            break;
        }
    }
    let returned = amount.min(there);
    if returned == 0 {
        return (0, None);
    }
    let all: u64 = groups.iter().map(|(_, count)| count).sum();
    let edit = if returned == all { Edit::Clear } else { Edit::Take { index, amount: returned } };
    (returned, Some(edit))
}

pub fn usage(groups: Groups<'_>, window_us: u64, now_us: u64) -> super::Usage {
    let alive = groups.iter().filter(|(at_us, _)| at_us + window_us > now_us);
    let used = alive.map(|(_, count)| count).sum();
    super::Usage { used, at_us: groups.last().map_or(now_us, |(at_us, _)| at_us) }
}
