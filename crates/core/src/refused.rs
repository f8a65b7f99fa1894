//! Refused-memory: what was refused a moment ago is refused again without asking the store.
//!
//! A small table of recent refusals, each with the least cost that was refused and until when. It forgets after a
//! second at most, so that usage returned elsewhere is noticed; it reports the full wait all the same.

use crate::hash::Hash;
use crate::quota::Quota;

/// How long a refusal is believed without asking again ...
pub const BELIEVED_US: u64 = 980_000;
/// ... and how much longer by all but the first who asks then: many who wait for the same answer need it once.
const ASKED_US: u64 = 20_000;
/// Refusals that share one place; the oldest makes way.
const WAYS: usize = 4;

#[derive(Clone, Copy, Debug, Default)]
struct Refusal {
    key: Hash,
    /// The parameters it was refused under, so that it dies with a change of the rule.
    parameters: u64,
    cost: u64,
    ready_us: u64,
    believed_until_us: u64,
    /// Somebody is finding out whether it still holds.
    is_asked: bool,
}

/// One place of the table.
#[derive(Clone, Copy, Debug, Default)]
pub struct Refusals {
    ways: [Refusal; WAYS],
}

#[inline]
fn parameters_of(quota: &Quota) -> u64 {
    let counts = quota.count.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ quota.capacity.wrapping_mul(0xd6e8_feb8_6659_fd93);
    counts ^ quota.window_us.rotate_left(8) ^ quota.algorithm as u64
}

impl Refusals {
    /// When the cost would fit, if it is known to be refused until then. The first to ask when that is no longer believed
    /// is told nothing, and should find out.
    #[inline]
    pub fn ready_us(&mut self, key: Hash, quota: &Quota, cost: u64, now_us: u64) -> Option<u64> {
        let known = self.ways.iter_mut().find(|refusal| refusal.key == key)?;
        if cost < known.cost || now_us >= known.ready_us || known.parameters != parameters_of(quota) {
            return None;
        }
        if now_us >= known.believed_until_us {
            if !known.is_asked {
                known.is_asked = true;
                known.believed_until_us += ASKED_US;
            }
            return None;
        }
        Some(known.ready_us)
    }

    pub fn remember(&mut self, key: Hash, quota: &Quota, cost: u64, wait_us: u64, now_us: u64) {
        let refusal = Refusal {
            key,
            parameters: parameters_of(quota),
            cost,
            ready_us: now_us.saturating_add(wait_us),
            believed_until_us: now_us.saturating_add(wait_us.min(BELIEVED_US)),
            is_asked: false,
        };
        let same = self.ways.iter().position(|known| known.key == key);
        let oldest = (0..WAYS).min_by_key(|way| self.ways[*way].believed_until_us);
        if let Some(way) = same.or(oldest) {
            self.ways[way] = refusal;
        }
    }

    /// Usage was returned: whatever was refused may fit now, under any parameters.
    pub fn forget(&mut self, key: Hash) {
        for known in self.ways.iter_mut().filter(|known| known.key == key) {
            *known = Refusal::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quota(count: u64) -> Quota {
        Quota::new(count, 60_000_000, None, None).unwrap()
    }

    #[test]
    fn a_refusal_is_believed_for_a_second_and_reported_in_full() {
        let (mut refusals, quota) = (Refusals::default(), quota(5));
        refusals.remember([1, 1], &quota, 5, 30_000_000, 1_000);
        assert_eq!(refusals.ready_us([1, 1], &quota, 5, 900_000), Some(30_001_000));
        assert_eq!(refusals.ready_us([1, 1], &quota, 9, 900_000), Some(30_001_000));
        assert_eq!(refusals.ready_us([1, 1], &quota, 4, 900_000), None, "a smaller cost may fit");
        assert_eq!(
            refusals.ready_us([1, 1], &quota, 5, 985_000),
            None,
            "before a second is over the store is asked again"
        );
        assert_eq!(refusals.ready_us([1, 1], &quota, 5, 985_001), Some(30_001_000), "by one who asks for all");
        assert_eq!(refusals.ready_us([1, 1], &quota, 5, 1_001_000), None, "and whose answer is not waited for long");
        assert_eq!(refusals.ready_us([2, 1], &quota, 5, 900_000), None);
    }

    #[test]
    fn it_is_never_believed_past_the_time_it_named() {
        let (mut refusals, quota) = (Refusals::default(), quota(5));
        refusals.remember([1, 1], &quota, 1, 10_000, 0);
        assert_eq!(refusals.ready_us([1, 1], &quota, 1, 9_999), Some(10_000));
        assert_eq!(refusals.ready_us([1, 1], &quota, 1, 10_000), None);
    }

    #[test]
    fn a_changed_limit_or_a_refund_ends_it() {
        let mut refusals = Refusals::default();
        refusals.remember([1, 1], &quota(5), 1, 10_000, 0);
        assert_eq!(refusals.ready_us([1, 1], &quota(6), 1, 1), None);
        refusals.forget([1, 1]);
        assert_eq!(refusals.ready_us([1, 1], &quota(5), 1, 1), None);
    }
}
