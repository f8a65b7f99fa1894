//! Refused-memory: what was refused a moment ago is refused again without asking the store.
//!
//! A small table of recent refusals, each with the least cost that was refused and until when. It forgets after a
//! second at most, so that usage returned elsewhere is noticed; it reports the full wait all the same.

use crate::hash::Hash;
use crate::quota::Quota;

/// How long a refusal is believed without asking again.
pub const BELIEVED_US: u64 = 1_000_000;
/// Refusals that share one place; the oldest makes way.
const WAYS: usize = 4;

#[derive(Clone, Copy, Debug, Default)]
struct Refusal {
    key: Hash,
    cost: u64,
    ready_us: u64,
    believed_until_us: u64,
}

/// One place of the table.
#[derive(Clone, Copy, Debug, Default)]
pub struct Refusals {
    ways: [Refusal; WAYS],
}

/// The name of a refusal: the counter and the very parameters it was refused under, so that it dies with a change
/// of the rule.
#[inline]
pub fn refusal_key(key: Hash, quota: &Quota) -> Hash {
    let parameters = quota.count.rotate_left(32) ^ quota.window_us ^ quota.capacity.rotate_left(17);
    [key[0] ^ parameters, key[1].rotate_left(1 + quota.algorithm as u32)]
}

impl Refusals {
    /// When the cost would fit, if it is known to be refused until then.
    #[inline]
    pub fn ready_us(&self, key: Hash, cost: u64, now_us: u64) -> Option<u64> {
        let known = self.ways.iter().find(|refusal| refusal.key == key)?;
        (cost >= known.cost && now_us < known.believed_until_us && now_us < known.ready_us).then_some(known.ready_us)
    }

    pub fn remember(&mut self, key: Hash, cost: u64, wait_us: u64, now_us: u64) {
        let ready_us = now_us.saturating_add(wait_us);
        let refusal =
            Refusal { key, cost, ready_us, believed_until_us: now_us.saturating_add(wait_us.min(BELIEVED_US)) };
        let same = self.ways.iter().position(|known| known.key == key);
        let oldest = (0..WAYS).min_by_key(|way| self.ways[*way].believed_until_us);
        if let Some(way) = same.or(oldest) {
            self.ways[way] = refusal;
        }
    }

    pub fn forget(&mut self, key: Hash) {
        for known in self.ways.iter_mut().filter(|known| known.key == key) {
            *known = Refusal::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_believed_for_a_second_and_reported_in_full() {
        let mut refusals = Refusals::default();
        refusals.remember([1, 1], 5, 30_000_000, 1_000);
        assert_eq!(refusals.ready_us([1, 1], 5, 900_000), Some(30_001_000));
        assert_eq!(refusals.ready_us([1, 1], 9, 900_000), Some(30_001_000));
        assert_eq!(refusals.ready_us([1, 1], 4, 900_000), None, "a smaller cost may fit");
        assert_eq!(refusals.ready_us([1, 1], 5, 1_001_000), None, "after a second the store is asked again");
        assert_eq!(refusals.ready_us([2, 1], 5, 900_000), None);
    }

    #[test]
    fn it_is_never_believed_past_the_time_it_named() {
        let mut refusals = Refusals::default();
        refusals.remember([1, 1], 1, 10_000, 0);
        assert_eq!(refusals.ready_us([1, 1], 1, 9_999), Some(10_000));
        assert_eq!(refusals.ready_us([1, 1], 1, 10_000), None);
    }

    #[test]
    fn other_parameters_are_another_refusal() {
        let quota = |count| Quota::new(count, 60_000_000, None, None).unwrap();
        assert_ne!(refusal_key([1, 2], &quota(5)), refusal_key([1, 2], &quota(6)));
    }
}
