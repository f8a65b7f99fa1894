//! Tokens verified a moment ago, so that a client that sends one with every request pays for its signature once.
//!
//! Two generations a shard: when the young one is full it becomes the old one and the old one is forgotten, so that what
//! is in use stays and nothing needs to be ordered. Only good tokens come here: nobody without one can push others out.

use super::Known;
use hashbrown::HashTable;
use headgate_core::hash::{Hash, reduce};
use parking_lot::Mutex;
use std::sync::Arc;

/// However long a token lives, its signature is looked at again after this.
const REMEMBERED_US_MAX: u64 = 5 * 60 * 1_000_000;
const SHARDS: usize = 16;

pub(super) struct TokenCache {
    shards: Box<[Shard]>,
    /// Of one generation of one shard.
    entries_max: usize,
}

/// On cache lines of its own, so that threads do not fight over one.
#[repr(align(128))]
#[derive(Default)]
struct Shard(Mutex<Generations>);

#[derive(Default)]
struct Generations {
    young: HashTable<Entry>,
    old: HashTable<Entry>,
}

struct Entry {
    hash: Hash,
    known: Arc<Known>,
    dies_us: u64,
}

impl TokenCache {
    /// Remembers at most about `tokens`; 0 remembers none.
    pub fn new(tokens: usize) -> TokenCache {
        let shards = SHARDS.min(tokens.div_ceil(2));
        let entries_max = tokens.checked_div(2 * shards).unwrap_or(0).max(1);
        TokenCache { shards: (0..shards).map(|_| Shard::default()).collect(), entries_max }
    }

    #[inline]
    pub fn get(&self, hash: Hash, now_us: u64) -> Option<Arc<Known>> {
        let mut generations = self.shard(hash)?.lock();
        if let Some(entry) = generations.young.find(hash[0], |entry| entry.hash == hash) {
            return (now_us < entry.dies_us).then(|| entry.known.clone());
        }
        let found = generations.old.find_entry(hash[0], |entry| entry.hash == hash).ok()?;
        let (entry, _) = found.remove();
        if now_us >= entry.dies_us {
            return None;
        }
        let known = entry.known.clone();
        generations.put(entry, self.entries_max);
        Some(known)
    }

    /// Remembers a token that was good until `good_until_us`.
    pub fn put(&self, hash: Hash, known: &Arc<Known>, good_until_us: u64, now_us: u64) {
        let Some(shard) = self.shard(hash) else { return };
        let dies_us = good_until_us.min(now_us.saturating_add(REMEMBERED_US_MAX));
        let mut generations = shard.lock();
        if let Some(entry) = generations.young.find_mut(hash[0], |entry| entry.hash == hash) {
            entry.dies_us = dies_us;
            entry.known = known.clone();
            return;
        }
        generations.put(Entry { hash, known: known.clone(), dies_us }, self.entries_max);
    }

    #[inline]
    fn shard(&self, hash: Hash) -> Option<&Mutex<Generations>> {
        if self.shards.is_empty() {
            return None;
        }
        Some(&self.shards[reduce(hash[1], self.shards.len())].0)
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        let locked = self.shards.iter().map(|shard| shard.0.lock());
        locked.map(|generations| generations.young.len() + generations.old.len()).sum()
    }
}

impl Generations {
    fn put(&mut self, entry: Entry, entries_max: usize) {
        if self.young.len() >= entries_max {
            std::mem::swap(&mut self.young, &mut self.old);
            self.young.clear();
        }
        self.young.insert_unique(entry.hash[0], entry, |entry| entry.hash[0]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headgate_core::hash::Keyed;

    fn hashes(count: usize) -> Vec<Hash> {
        let keyed = Keyed::from_words([1, 2, 3, 4, 5, 6]);
        (0..count).map(|nth| keyed.text(0, &nth.to_string())).collect()
    }

    fn known() -> Arc<Known> {
        Arc::new(Known::default())
    }

    #[test]
    fn what_was_put_is_found_until_it_dies() {
        let (cache, hash) = (TokenCache::new(100), hashes(1)[0]);
        cache.put(hash, &known(), 1_000, 0);
        assert!(cache.get(hash, 999).is_some());
        assert!(cache.get(hash, 1_000).is_none());
        assert!(cache.get(hashes(2)[1], 0).is_none());
    }

    #[test]
    fn nothing_is_remembered_for_longer_than_five_minutes() {
        let (cache, hash) = (TokenCache::new(100), hashes(1)[0]);
        cache.put(hash, &known(), u64::MAX, 7);
        assert!(cache.get(hash, 6 + REMEMBERED_US_MAX).is_some());
        assert!(cache.get(hash, 7 + REMEMBERED_US_MAX).is_none());
    }

    #[test]
    fn the_number_of_tokens_is_bounded() {
        for bound in [1, 2, 10, 100, 1_000] {
            let cache = TokenCache::new(bound);
            for hash in hashes(5_000) {
                cache.put(hash, &known(), u64::MAX, 0);
                cache.put(hash, &known(), u64::MAX, 0);
            }
            assert!(cache.len() <= bound.max(2), "{} of {bound}", cache.len());
        }
    }

    #[test]
    fn a_token_in_use_outlives_a_flood_of_others() {
        let cache = TokenCache::new(64);
        let hashes = hashes(5_000);
        cache.put(hashes[0], &known(), u64::MAX, 0);
        for hash in &hashes[1..] {
            cache.put(*hash, &known(), u64::MAX, 0);
            assert!(cache.get(hashes[0], 1).is_some());
        }
    }

    #[test]
    fn without_room_nothing_is_remembered() {
        let (cache, hash) = (TokenCache::new(0), hashes(1)[0]);
        cache.put(hash, &known(), u64::MAX, 0);
        assert!(cache.get(hash, 1).is_none());
    }
}
