//! A hash table in copy-on-write segments: a new version shares all segments but the few it changed.

use crate::hash::{Hash, reduce};
use std::sync::Arc;

/// Entries a segment holds on average before the table is cut finer.
const SEGMENT_ENTRIES: usize = 1024;
const SEGMENTS_MAX: usize = 1 << 14;
const VACANT: u32 = u32::MAX;

/// One entry: 32 bytes. Several may have the same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub key: Hash,
    /// What rules compete with, kept here so that losing costs no look at the rule.
    pub strength: Strength,
    pub value: u32,
    pub by: u16,
    pub flags: u16,
}

const NONE: Entry = Entry { key: [0, 0], strength: Strength(0), value: VACANT, by: 0, flags: 0 };

/// A rule's priority, then how specific it is when found by this key, as one comparable number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Strength(u64);

impl Strength {
    /// More than any rank takes.
    const RANK_BITS: u32 = 40;
    /// Priorities lie within a million of 0, but for an operator's block, which is above them all.
    const PRIORITY_MAX: i32 = 1 << 20;

    pub fn new(priority: i32, rank: u64) -> Self {
        let above_least = priority.clamp(-Self::PRIORITY_MAX, Self::PRIORITY_MAX) + Self::PRIORITY_MAX;
        Self((above_least as u64) << Self::RANK_BITS | rank)
    }

    #[inline]
    pub fn priority_and_rank(self) -> (u64, u64) {
        (self.0 >> Self::RANK_BITS, self.0 & ((1 << Self::RANK_BITS) - 1))
    }
}

/// A segment's slots are one hop away: a look-up among millions is one cache miss, not two.
#[derive(Clone, Debug)]
struct Segment {
    slots: Arc<[Entry]>,
    len: usize,
}

impl Default for Segment {
    fn default() -> Self {
        Self { slots: Arc::new([]), len: 0 }
    }
}

#[derive(Clone, Debug)]
pub struct Table {
    segments: Vec<Segment>,
    bits: u32,
    len: usize,
}

impl Default for Table {
    fn default() -> Self {
        Self { segments: vec![Segment::default()], bits: 0, len: 0 }
    }
}

impl Table {
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Every entry under a key.
    #[inline]
    pub fn get(&self, key: Hash) -> Matches<'_> {
        let slots = &self.segments[self.segment_of(key)].slots;
        let at = if slots.is_empty() { 0 } else { reduce(key[1], slots.len()) };
        Matches { slots, at, key }
    }

    /// Whether it is too large for a processor's near caches.
    #[inline]
    pub fn is_large(&self) -> bool {
        self.len > 10_000
    }

    /// Reads the place where a search for `key` will start, so that it is near when the search comes.
    #[inline]
    pub fn touch(&self, key: Hash) -> u64 {
        let slots = &self.segments[self.segment_of(key)].slots;
        slots.get(reduce(key[1], slots.len())).map_or(0, |entry| entry.key[0])
    }

    pub fn insert(&mut self, entry: Entry) {
        if self.len >= self.segments.len() * SEGMENT_ENTRIES * 2 && self.segments.len() < SEGMENTS_MAX {
            self.cut_finer();
        }
        let segment = self.segment_of(entry.key);
        self.segments[segment].insert(entry);
        self.len += 1;
    }

    /// Removes the entry with this key and value, if it is there.
    pub fn remove(&mut self, key: Hash, value: u32) -> bool {
        let segment = self.segment_of(key);
        if !self.get(key).any(|entry| entry.value == value) {
            return false;
        }
        self.segments[segment].remove(key, value);
        self.len -= 1;
        true
    }

    /// Turns flags of the entry with this key and value over.
    pub fn flip(&mut self, key: Hash, value: u32, flags: u16) {
        let segment = self.segment_of(key);
        let slots = Arc::make_mut(&mut self.segments[segment].slots);
        if let Some(entry) = slots.iter_mut().find(|entry| entry.key == key && entry.value == value) {
            entry.flags ^= flags;
        }
    }

    #[inline]
    fn segment_of(&self, key: Hash) -> usize {
        if self.bits == 0 { 0 } else { (key[0] >> (64 - self.bits)) as usize }
    }

    /// Four times as many segments. Rare, and only ever done by the writer.
    fn cut_finer(&mut self) {
        let old = std::mem::take(&mut self.segments);
        self.bits += 2;
        self.segments = vec![Segment::default(); 1 << self.bits];
        for segment in old {
            for entry in segment.slots.iter().filter(|entry| entry.value != VACANT) {
                let target = self.segment_of(entry.key);
                self.segments[target].insert(*entry);
            }
        }
    }
}

impl Segment {
    fn insert(&mut self, entry: Entry) {
        if (self.len + 1) * 5 > self.slots.len() * 4 {
            self.resize((self.slots.len() + self.slots.len() / 4 + 4).max(8));
        }
        place(Arc::make_mut(&mut self.slots), entry);
        self.len += 1;
    }

    /// Closes the gap by moving back whatever was pushed past it, so that every walk still ends where it should.
    fn remove(&mut self, key: Hash, value: u32) {
        let slots = Arc::make_mut(&mut self.slots);
        let after = |at: usize| if at + 1 == slots.len() { 0 } else { at + 1 };
        let mut gap = reduce(key[1], slots.len());
        while !(slots[gap].key == key && slots[gap].value == value) {
            gap = after(gap);
        }
        let mut at = after(gap);
        while slots[at].value != VACANT {
            let home = reduce(slots[at].key[1], slots.len());
            // It may stand in the gap unless its own place lies between the gap and where it is.
            let is_between = if gap < at { gap < home && home <= at } else { home <= at || gap < home };
            if !is_between {
                slots[gap] = slots[at];
                gap = at;
            }
            at = if at + 1 == slots.len() { 0 } else { at + 1 };
        }
        slots[gap] = NONE;
        self.len -= 1;
    }

    fn resize(&mut self, slots: usize) {
        let mut fresh = vec![NONE; slots];
        self.slots.iter().filter(|entry| entry.value != VACANT).for_each(|entry| place(&mut fresh, *entry));
        self.slots = fresh.into();
    }
}

fn place(slots: &mut [Entry], entry: Entry) {
    let mut at = reduce(entry.key[1], slots.len());
    while slots[at].value != VACANT {
        at = if at + 1 == slots.len() { 0 } else { at + 1 };
    }
    slots[at] = entry;
}

/// The entries under one key. A segment is never full, so the walk always ends.
pub struct Matches<'a> {
    slots: &'a [Entry],
    at: usize,
    key: Hash,
}

impl<'a> Iterator for Matches<'a> {
    type Item = &'a Entry;

    #[inline]
    fn next(&mut self) -> Option<&'a Entry> {
        if self.slots.is_empty() {
            return None;
        }
        loop {
            let entry = &self.slots[self.at];
            if entry.value == VACANT {
                return None;
            }
            self.at = if self.at + 1 == self.slots.len() { 0 } else { self.at + 1 };
            if entry.key == self.key {
                return Some(entry);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::Keyed;

    #[test]
    fn an_old_version_does_not_see_what_came_later() {
        let keyed = Keyed::random();
        let key = |n: u32| keyed.bytes(0, &n.to_le_bytes());
        let mut table = Table::default();
        for n in 0..10_000 {
            table.insert(Entry { key: key(n), strength: Strength(0), value: n, by: 0, flags: 0 });
        }
        let old = table.clone();
        for n in 0..5_000 {
            assert!(table.remove(key(n), n));
        }
        table.insert(Entry { key: key(7), strength: Strength(0), value: 70_000, by: 0, flags: 0 });
        assert!(old.get(key(7)).map(|entry| entry.value).eq([7]));
        assert!(table.get(key(7)).map(|entry| entry.value).eq([70_000]));
        assert!((5_000..10_000).all(|n| table.get(key(n)).count() == 1));
        assert_eq!(table.len(), 5_001);
    }

    #[test]
    fn whatever_is_removed_the_rest_is_found() {
        let mut table = Table::default();
        let mut seed = 7_u64;
        let mut there: Vec<Hash> = Vec::new();
        for step in 0..20_000_u64 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            if seed >> 60 < 7 || there.is_empty() {
                // Few different places, so that walks are long and wrap around.
                let key = [step, (seed >> 33) << 56];
                table.insert(Entry { key, strength: Strength(0), value: step as u32, by: 0, flags: 0 });
                there.push(key);
            } else {
                let key = there.swap_remove((seed >> 20) as usize % there.len());
                assert!(table.remove(key, key[0] as u32));
            }
            if step % 500 == 0 {
                assert!(there.iter().all(|key| table.get(*key).count() == 1));
            }
        }
        assert_eq!(table.len(), there.len());
    }

    #[test]
    fn equal_keys_are_all_found() {
        let mut table = Table::default();
        for value in 0..100 {
            table.insert(Entry { key: [1, 1], strength: Strength(0), value, by: 0, flags: 0 });
        }
        assert!(table.remove([1, 1], 50));
        assert!(!table.remove([1, 1], 50));
        assert_eq!(table.get([1, 1]).count(), 99);
        assert_eq!(table.get([1, 2]).count(), 0);
    }
}
