//! What was admitted without the store, to be told to it when it is back.

use headgate_core::Quota;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Counters that are remembered while the store is away.
const DEBTS_MAX: usize = 10_000;

#[derive(Clone, Debug)]
pub struct Debt {
    pub key: Box<[u8]>,
    pub log: Option<Box<[u8]>>,
    pub id: u64,
    pub quota: Quota,
    pub amount: u64,
    last: Instant,
}

/// A counter's name: its key and its limit.
type Name = (Box<[u8]>, u64);

#[derive(Default)]
pub struct Ledger {
    debts: Mutex<HashMap<Name, Debt>>,
    pub forgotten: AtomicU64,
}

impl Ledger {
    pub fn add(&self, key: &[u8], log: Option<&[u8]>, id: u64, quota: &Quota, cost: u64) {
        let now = Instant::now();
        let mut debts = self.debts.lock();
        if let Some(debt) = debts.get_mut(&(key.into(), id)) {
            debt.amount = debt.amount.saturating_add(cost);
            (debt.quota, debt.last) = (*quota, now);
            return;
        }
        if debts.len() >= DEBTS_MAX {
            self.forgotten.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let debt = Debt { key: key.into(), log: log.map(Into::into), id, quota: *quota, amount: cost, last: now };
        debts.insert((key.into(), id), debt);
    }

    /// Puts back what could not be told.
    pub fn put_back(&self, debt: Debt) {
        let mut debts = self.debts.lock();
        match debts.get_mut(&(debt.key.clone(), debt.id)) {
            Some(known) => known.amount = known.amount.saturating_add(debt.amount),
            None => {
                debts.insert((debt.key.clone(), debt.id), debt);
            }
        }
    }

    /// Takes out what some shard should be told; what no longer weighs anything is dropped.
    pub fn take(&self, of_shard: impl Fn(&[u8]) -> bool) -> Vec<Debt> {
        let mut debts = self.debts.lock();
        if debts.is_empty() {
            return Vec::new();
        }
        let mine: Vec<_> = debts.keys().filter(|(key, _)| of_shard(key)).cloned().collect();
        let taken = mine.iter().filter_map(|name| debts.remove(name));
        taken.filter(|debt| debt.last.elapsed() < Duration::from_micros(debt.quota.full_window_us())).collect()
    }

    pub fn len(&self) -> usize {
        self.debts.lock().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debts_add_up_by_counter_and_are_bounded() {
        let ledger = Ledger::default();
        let quota = Quota::new(5, 60_000_000, None, None).unwrap();
        ledger.add(b"a", None, 1, &quota, 2);
        ledger.add(b"a", None, 1, &quota, 3);
        ledger.add(b"a", None, 2, &quota, 1);
        for n in 0..DEBTS_MAX {
            ledger.add(format!("k{n}").as_bytes(), None, 1, &quota, 1);
        }
        assert_eq!(ledger.len(), DEBTS_MAX);
        assert_eq!(ledger.forgotten.load(Ordering::Relaxed), 2);
        let mut amounts: Vec<u64> = ledger.take(|key| key == b"a").iter().map(|debt| debt.amount).collect();
        amounts.sort_unstable();
        assert_eq!(amounts, [1, 5]);
    }

    #[test]
    fn what_no_longer_weighs_is_dropped() {
        let ledger = Ledger::default();
        ledger.add(b"a", None, 1, &Quota::new(5, 1_000, None, None).unwrap(), 2);
        std::thread::sleep(Duration::from_millis(2));
        assert!(ledger.take(|_| true).is_empty());
        assert_eq!(ledger.len(), 0);
    }
}
