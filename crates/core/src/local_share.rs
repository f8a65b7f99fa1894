//! What one node may admit of a limit while the store is away: its part of one and a half times the limit, so that all
//! nodes together stay near it without knowing of each other.

use crate::algorithm;
use crate::hash::Hash;
use crate::quota::{Algorithm, COUNT_MAX, Quota, WINDOW_US_MAX};

/// A node's part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// Every node admits this much.
    Each(Quota),
    /// There is less than one for each: so many nodes, chosen by the subject, admit this much.
    Chosen { nodes: usize, quota: Quota },
}

pub fn share(quota: &Quota, nodes: usize) -> Share {
    let nodes = nodes.max(1) as u64;
    let all = quota.capacity + quota.capacity / 2;
    if all >= nodes {
        return Share::Each(part(quota, all / nodes, nodes));
    }
    // A capacity of at least 1 makes `all` at least 1.
    Share::Chosen { nodes: all as usize, quota: part(quota, 1, all) }
}

/// One of `nodes` equal parts, with room for `capacity` at once.
fn part(quota: &Quota, capacity: u64, nodes: u64) -> Quota {
    if quota.algorithm != Algorithm::Gcra {
        return Quota::new(capacity, quota.window_us, None, Some(quota.algorithm)).unwrap_or(*quota);
    }
    // count × 3 / (2 × nodes) per window, as a whole count over a longer window.
    let (count, parts) = (quota.count.saturating_mul(3), nodes.saturating_mul(2));
    let exact =
        quota.window_us.checked_mul(parts).filter(|window_us| *window_us <= WINDOW_US_MAX && count <= COUNT_MAX);
    let (count, window_us) = match exact {
        Some(window_us) => (count, window_us),
        None if count >= parts => (count / parts, quota.window_us),
        None => (1, (quota.window_us / count).saturating_mul(parts).min(WINDOW_US_MAX)),
    };
    Quota::new(count, window_us, Some(capacity), Some(Algorithm::Gcra)).unwrap_or(*quota)
}

/// How many of `all` nodes come before `me` for this subject (rendezvous hashing): the first few are its chosen ones.
pub fn rank(me: u64, all: &[u64], subject: Hash) -> usize {
    let weight = |node: u64| {
        let mixed = (node ^ subject[0]).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ subject[1];
        let mixed = (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
        (mixed ^ mixed >> 29, node)
    };
    let mine = weight(me);
    all.iter().filter(|node| **node != me && weight(**node) > mine).count()
}

/// A limit that refuses whatever comes, until the store is back: this node is not among its subject's chosen ones.
pub const NOT_CHOSEN_WAIT_US: u64 = 1_000_000;

/// What is reported of such a limit.
pub fn not_chosen() -> algorithm::Measure {
    algorithm::Measure { remaining: 0, next_after_us: NOT_CHOSEN_WAIT_US, reset_after_us: NOT_CHOSEN_WAIT_US }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_parts_together_are_at_most_one_and_a_half_times_the_limit() {
        for algorithm in Algorithm::ALL {
            for count in [1, 2, 3, 7, 100, 9_999] {
                for nodes in [1, 2, 3, 4, 7, 100, 500] {
                    let quota = Quota::new(count, 60_000_000, None, Some(algorithm)).unwrap();
                    let (capacity, rate, admitting) = match share(&quota, nodes) {
                        Share::Each(part) => (part.capacity, part.count as f64 / part.window_us as f64, nodes),
                        Share::Chosen { nodes, quota } => {
                            (quota.capacity, quota.count as f64 / quota.window_us as f64, nodes)
                        }
                    };
                    assert!(capacity * admitting as u64 <= count + count / 2, "{algorithm} {count} {nodes}");
                    assert!(capacity * admitting as u64 * 2 > count / 2, "{algorithm} {count} {nodes}: too little");
                    let whole = count as f64 / 60_000_000.0 * 1.5;
                    assert!(rate * admitting as f64 <= whole * 1.000_001, "{algorithm} {count} {nodes}");
                }
            }
        }
    }

    #[test]
    fn every_subject_has_its_own_order_of_nodes() {
        let all: Vec<u64> = (1..=50).map(|n| n * 7_919).collect();
        let mut firsts = std::collections::HashSet::new();
        for subject in 0..200_u64 {
            let hash = [subject.wrapping_mul(0x1234_5678_9abc_def1), subject];
            let mut ranks: Vec<usize> = all.iter().map(|node| rank(*node, &all, hash)).collect();
            firsts.insert(ranks.iter().position(|rank| *rank == 0));
            ranks.sort_unstable();
            assert_eq!(ranks, (0..50).collect::<Vec<_>>(), "every rank is taken once");
        }
        assert!(firsts.len() > 30, "the first is not always the same node");
    }
}
