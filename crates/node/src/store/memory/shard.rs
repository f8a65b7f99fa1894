//! One shard of the table: where a key's counter is, and what happens when there is no room for it.
//!
//! Dead counters give way first. When all are alive and the shard is full, new keys of a limit share its overflow
//! cell: that can only over-count, and nothing that is refusing someone is ever freed.

use super::logs::{Hits, Logs, PackedAt};
use super::slots::{BUCKET_SLOTS, Bucket, CELL, Class, Kind, Slot, class_of, tag_of};
use crate::store::LimitResult;
use headgate_core::Algorithm;
use headgate_core::algorithm::log::pack;
use headgate_core::algorithm::sliding_window::GROUPS_MAX;
use headgate_core::algorithm::{Edit, Groups, State};
use headgate_core::hash::{Hash, reduce};

/// Overflow cells of different limits in one shard; past that, limits of one algorithm share one.
const CELLS_MAX: usize = 256;
/// A bucket's second word: its time (good until 2112), then how often it was refunded to.
const AT_BITS: u32 = 52;
const AT_MASK: u64 = (1 << AT_BITS) - 1;
/// How often a full shard looks for dead counters.
const PURGE_EVERY_S: u32 = 1;

/// Where a counter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    bucket: usize,
    slot: usize,
}

pub struct Shard {
    buckets: Vec<Bucket>,
    /// Slots in use, dead ones included.
    len: usize,
    cells: usize,
    max_keys: usize,
    epoch_us: u64,
    purged_s: u32,
    growth_phase: usize,
    /// A limit known to hold more than its share of a full shard.
    heavy: Option<Class>,
    logs: Option<Box<Logs>>,
}

impl Shard {
    pub fn new(max_keys: usize, number: usize, epoch_us: u64) -> Self {
        Self {
            buckets: Vec::new(),
            len: 0,
            cells: 0,
            max_keys,
            epoch_us,
            purged_s: 0,
            growth_phase: number % 3,
            heavy: None,
            logs: None,
        }
    }

    pub fn keys(&self) -> usize {
        self.len - self.cells
    }

    pub fn cells(&self) -> usize {
        self.cells
    }

    /// The counter of this limit and subject: its own, else its limit's overflow cell, else none yet.
    #[inline]
    pub fn locate(&self, limit: &LimitResult) -> Option<Place> {
        self.find(limit.key).or_else(|| if self.cells == 0 { None } else { self.find_cell(limit) })
    }

    /// Whether this is the key's own counter rather than a cell.
    #[inline]
    pub fn is_own(&self, place: Place, key: Hash) -> bool {
        self.buckets.get(place.bucket).is_some_and(|bucket| bucket.slots[place.slot].key == key)
    }

    #[inline]
    pub fn state(&self, place: Place) -> State<'_> {
        let slot = self.slot(place);
        let [first, second] = slot.words;
        match slot.kind {
            Kind::Empty => State::Empty,
            Kind::Bucket => State::Bucket {
                level: f64::from_bits(first),
                at_us: second & AT_MASK,
                refunds: (second >> AT_BITS) as u16,
            },
            Kind::Window => State::Window { at_us: first, used: second },
            Kind::WindowPair => {
                State::WindowPair { at_us: first, current: (second >> 32) as u32, previous: second as u32 }
            }
            Kind::One => State::Log(Groups::One { at_us: first, count: second }),
            Kind::Packed => {
                let words = self.logs().packed(PackedAt::from_word(second));
                State::Log(Groups::Packed { base_us: first, words })
            }
            Kind::Wide => State::Log(Groups::Wide { words: self.logs().wide(first as usize) }),
            Kind::Hits => State::Log(self.logs().hits(first as usize).groups()),
        }
    }

    /// A bucket's level, time and refunds, if that is what is there.
    #[inline]
    pub fn bucket(&self, place: Place) -> Option<(f64, u64, u16)> {
        let slot = self.slot(place);
        let [level, stamp] = slot.words;
        (slot.kind == Kind::Bucket).then(|| (f64::from_bits(level), stamp & AT_MASK, (stamp >> AT_BITS) as u16))
    }

    #[inline]
    pub fn set_bucket(&mut self, place: Place, level: f64, at_us: u64, refunds: u16) {
        self.slot_mut(place).words = [level.to_bits(), at_us | u64::from(refunds) << AT_BITS];
    }

    /// Carries out an edit. `exact` keeps every hit apart, as the exact log needs.
    #[inline]
    pub fn apply(&mut self, place: Place, edit: Edit, exact: bool) {
        match edit {
            Edit::Clear => self.set(place, Kind::Empty, [0, 0]),
            Edit::Bucket { level, at_us, refunds } => {
                self.set(place, Kind::Bucket, [level.to_bits(), at_us | u64::from(refunds) << AT_BITS]);
            }
            Edit::Window { at_us, used } => self.set(place, Kind::Window, [at_us, used]),
            Edit::WindowPair { at_us, current, previous } => {
                self.set(place, Kind::WindowPair, [at_us, u64::from(current) << 32 | u64::from(previous)]);
            }
            Edit::Replace { at_us, count } => self.set(place, Kind::One, [at_us, count]),
            _ if self.apply_in_place(place, edit, exact) => {}
            Edit::Push { drop, at_us, count } => {
                self.edit_log(place, drop, exact, |groups| groups.push((at_us, count)))
            }
            Edit::SetLast { drop, at_us, count } => self.edit_log(place, drop, exact, |groups| {
                if let Some(last) = groups.last_mut() {
                    *last = (at_us, count);
                }
            }),
            Edit::Take { index, mut amount } => self.edit_log(place, 0, exact, |groups| {
                for (_, count) in &mut groups[index..] {
                    let taken = amount.min(*count);
                    *count -= taken;
                    amount -= taken;
                }
                groups.retain(|(_, count)| *count > 0);
            }),
        }
    }

    /// The usual edits of a list, without moving it.
    #[inline]
    fn apply_in_place(&mut self, place: Place, edit: Edit, exact: bool) -> bool {
        let slot = *self.slot(place);
        match (slot.kind, edit) {
            (Kind::Packed, Edit::Push { drop, at_us, count }) if !exact => {
                let at = PackedAt::from_word(slot.words[1]);
                let Some(word) = pack(slot.words[0], at_us, count) else { return false };
                let kept = PackedAt { len: at.len - drop, ..at };
                if !kept.has_room() {
                    return false;
                }
                let grown = PackedAt { len: kept.len + 1, ..at };
                let logs = self.logs_mut();
                logs.packed_mut(at).copy_within(drop.., 0);
                logs.packed_mut(grown)[kept.len] = word;
                self.slot_mut(place).words[1] = grown.to_word();
                true
            }
            (Kind::One, Edit::SetLast { drop: 0, at_us, count }) if !exact => {
                self.slot_mut(place).words = [at_us, count];
                true
            }
            (Kind::Packed, Edit::SetLast { drop: 0, at_us, count }) if !exact => {
                let at = PackedAt::from_word(slot.words[1]);
                let Some(word) = pack(slot.words[0], at_us, count) else { return false };
                self.logs_mut().packed_mut(at)[at.len - 1] = word;
                true
            }
            (Kind::Hits, Edit::Push { drop, at_us, count }) => {
                let hits = self.logs_mut().hits_mut(slot.words[0] as usize);
                hits.drop_oldest(drop);
                hits.push(at_us, count);
                true
            }
            (Kind::Hits, Edit::SetLast { drop, at_us, count }) => {
                let hits = self.logs_mut().hits_mut(slot.words[0] as usize);
                hits.drop_oldest(drop);
                hits.set(hits.len() - 1, at_us, count);
                true
            }
            _ => false,
        }
    }

    /// Remembers until when this counter says anything.
    #[inline]
    pub fn keep_for(&mut self, place: Place, lifetime_us: u64, now_us: u64) {
        let expires_s = (now_us.saturating_sub(self.epoch_us).saturating_add(lifetime_us)) / 1_000_000 + 1;
        self.slot_mut(place).expires_s = u32::try_from(expires_s).unwrap_or(u32::MAX);
    }

    /// As [`Self::keep_for`], but never shorter: a window made longer keeps what it finds alive.
    #[inline]
    pub fn keep_at_least_for(&mut self, place: Place, lifetime_us: u64, now_us: u64) {
        let before_s = self.slot(place).expires_s;
        self.keep_for(place, lifetime_us, now_us);
        let slot = self.slot_mut(place);
        slot.expires_s = slot.expires_s.max(before_s);
    }

    /// The counter to spend on: the key's own, made if there is room, else the limit's overflow cell. A new counter
    /// starts from what its cell has counted.
    pub fn own_or_cell(&mut self, limit: &LimitResult, now_us: u64) -> Place {
        if let Some(place) = self.find(limit.key) {
            return place;
        }
        let class = class_of(limit.limit);
        let now_s = self.seconds(now_us);
        if !self.has_room_for(class) && self.purged_s.saturating_add(PURGE_EVERY_S) <= now_s {
            self.purged_s = now_s;
            self.rebuild(self.buckets.len(), now_s);
        }
        if self.has_room_for(class) {
            let cell = if self.cells == 0 { None } else { self.find_cell(limit) };
            let heritage = cell.map(|place| self.copy(place));
            let place = self.insert(limit.key, class, now_s);
            if let Some(heritage) = heritage {
                self.restore(place, &heritage);
            }
            return place;
        }
        if let Some(place) = self.find_cell(limit) {
            return place;
        }
        let key = if self.cells < CELLS_MAX { cell_key(limit) } else { last_cell_key(limit.quota.algorithm) };
        let place = self.insert(key, CELL, now_s);
        self.cells += 1; // After it: making room counts the cells anew.
        place
    }

    /// Forgets a key's own counter.
    pub fn remove(&mut self, key: Hash) -> bool {
        let Some(place) = self.find(key) else { return false };
        let had_state = self.slot(place).kind != Kind::Empty;
        self.set(place, Kind::Empty, [0, 0]);
        self.slot_mut(place).expires_s = 0;
        had_state
    }

    /// Whether a new counter of this class may be made: while the shard is not full, or out of an eighth kept
    /// back for limits that hold little, so that a flood on one limit leaves room for the others.
    fn has_room_for(&mut self, class: Class) -> bool {
        let keys = self.keys();
        if keys < self.max_keys {
            return true;
        }
        let reserve = (self.max_keys / 8).max(1);
        if keys >= self.max_keys + reserve || self.heavy == Some(class) {
            return false;
        }
        let held = self.buckets.iter().flat_map(Bucket::used).filter(|slot| slot.class == class).count();
        let is_light = held < (reserve / 2).max(1);
        if !is_light {
            self.heavy = Some(class);
        }
        is_light
    }

    #[inline]
    fn find(&self, key: Hash) -> Option<Place> {
        let count = self.buckets.len();
        if count == 0 {
            return None;
        }
        let tag = tag_of(key);
        let mut bucket = reduce(key[1], count);
        for _ in 0..count {
            if let Some(slot) = self.buckets[bucket].find(key, tag) {
                return Some(Place { bucket, slot });
            }
            if self.buckets[bucket].first_unused().is_some() {
                return None;
            }
            bucket = if bucket + 1 == count { 0 } else { bucket + 1 };
        }
        None
    }

    fn find_cell(&self, limit: &LimitResult) -> Option<Place> {
        self.find(cell_key(limit)).or_else(|| self.find(last_cell_key(limit.quota.algorithm)))
    }

    /// Puts a new, empty counter into the first dead or unused slot on its way.
    fn insert(&mut self, key: Hash, class: Class, now_s: u32) -> Place {
        if self.len + 1 > self.buckets.len() * BUCKET_SLOTS * 7 / 8 {
            let live = self.buckets.iter().flat_map(Bucket::used).filter(|slot| slot.expires_s > now_s).count();
            let crowded = live + 1 > self.buckets.len() * BUCKET_SLOTS * 3 / 4;
            let buckets = if crowded { self.grown() } else { self.buckets.len() };
            self.rebuild(buckets, now_s);
        }
        let count = self.buckets.len();
        let mut bucket = reduce(key[1], count);
        loop {
            let dead = self.buckets[bucket].used().position(|slot| slot.expires_s <= now_s && !slot.is_cell());
            if let Some(slot) = dead {
                let place = Place { bucket, slot };
                self.set(place, Kind::Empty, [0, 0]);
                return self.occupy(place, key, class);
            }
            if let Some(slot) = self.buckets[bucket].first_unused() {
                self.len += 1;
                return self.occupy(Place { bucket, slot }, key, class);
            }
            bucket = if bucket + 1 == count { 0 } else { bucket + 1 };
        }
    }

    fn occupy(&mut self, place: Place, key: Hash, class: Class) -> Place {
        self.buckets[place.bucket].set_tag(place.slot, tag_of(key));
        // Until it is spent on, it must not look dead to another insert in the same call.
        *self.slot_mut(place) = Slot { key, class, expires_s: u32::MAX, ..Slot::default() };
        place
    }

    /// A quarter more. Shards take their first steps differently, so that they do not all grow at once.
    fn grown(&self) -> usize {
        match self.buckets.len() {
            count @ 0..8 => count + 1,
            8 => 9 + self.growth_phase,
            count => count + count.div_ceil(4),
        }
    }

    /// Lays the shard out anew without its dead counters.
    fn rebuild(&mut self, buckets: usize, now_s: u32) {
        let mut fresh = vec![Bucket::default(); buckets.max(1)];
        fresh.shrink_to_fit();
        let old = std::mem::replace(&mut self.buckets, fresh);
        self.len = 0;
        self.cells = 0;
        self.heavy = None;
        for slot in old.iter().flat_map(Bucket::used) {
            if slot.expires_s <= now_s {
                release(&mut self.logs, slot);
                continue;
            }
            let count = self.buckets.len();
            let mut bucket = reduce(slot.key[1], count);
            let index = loop {
                if let Some(index) = self.buckets[bucket].first_unused() {
                    break index;
                }
                bucket = if bucket + 1 == count { 0 } else { bucket + 1 };
            };
            self.buckets[bucket].set_tag(index, tag_of(slot.key));
            self.buckets[bucket].slots[index] = *slot;
            self.len += 1;
            self.cells += usize::from(slot.is_cell());
        }
    }

    #[inline]
    fn set(&mut self, place: Place, kind: Kind, words: [u64; 2]) {
        if matches!(self.slot(place).kind, Kind::Packed | Kind::Wide | Kind::Hits) {
            let slot = *self.slot(place);
            release(&mut self.logs, &slot);
        }
        let slot = self.slot_mut(place);
        slot.kind = kind;
        slot.words = words;
    }

    fn edit_log(&mut self, place: Place, drop: usize, exact: bool, edit: impl FnOnce(&mut Vec<(u64, u64)>)) {
        let State::Log(groups) = self.state(place) else { return };
        let mut groups: Vec<(u64, u64)> = groups.iter().skip(drop).collect();
        edit(&mut groups);
        self.store_log(place, &groups, exact);
    }

    fn store_log(&mut self, place: Place, groups: &[(u64, u64)], exact: bool) {
        if let [(at_us, count)] = *groups {
            return self.set(place, Kind::One, [at_us, count]);
        }
        let Some((base_us, _)) = groups.first().copied() else {
            return self.set(place, Kind::Empty, [0, 0]);
        };
        let packed: Option<Vec<u64>> = groups.iter().map(|(at_us, count)| pack(base_us, *at_us, *count)).collect();
        let logs = self.logs.get_or_insert_default();
        let (kind, words) = match packed {
            _ if exact || groups.len() > GROUPS_MAX => {
                let mut hits = Hits::default();
                groups.iter().for_each(|(at_us, count)| hits.push(*at_us, *count));
                (Kind::Hits, [logs.insert_hits(hits) as u64, 0])
            }
            Some(words) => (Kind::Packed, [base_us, logs.insert_packed(&words).to_word()]),
            None => {
                let words = groups.iter().flat_map(|(at_us, count)| [*at_us, *count]).collect();
                (Kind::Wide, [logs.insert_wide(words) as u64, 0])
            }
        };
        self.set(place, kind, words);
    }

    fn copy(&self, place: Place) -> Heritage {
        let slot = *self.slot(place);
        let groups = match self.state(place) {
            State::Log(groups) => Some((groups.iter().collect(), slot.kind == Kind::Hits)),
            _ => None,
        };
        Heritage { slot, groups }
    }

    fn restore(&mut self, place: Place, heritage: &Heritage) {
        match &heritage.groups {
            Some((groups, exact)) => self.store_log(place, groups, *exact),
            None => self.set(place, heritage.slot.kind, heritage.slot.words),
        }
    }

    fn seconds(&self, now_us: u64) -> u32 {
        u32::try_from(now_us.saturating_sub(self.epoch_us) / 1_000_000).unwrap_or(u32::MAX - 1)
    }

    #[inline]
    fn slot(&self, place: Place) -> &Slot {
        &self.buckets[place.bucket].slots[place.slot]
    }

    #[inline]
    fn slot_mut(&mut self, place: Place) -> &mut Slot {
        &mut self.buckets[place.bucket].slots[place.slot]
    }

    fn logs_mut(&mut self) -> &mut Logs {
        self.logs.get_or_insert_default()
    }

    #[inline]
    fn logs(&self) -> &Logs {
        self.logs.as_deref().expect("a slot that points to a list was stored with one")
    }
}

/// What a cell knew, taken along by a key that got its own counter.
struct Heritage {
    slot: Slot,
    groups: Option<(Vec<(u64, u64)>, bool)>,
}

fn release(logs: &mut Option<Box<Logs>>, slot: &Slot) {
    let Some(logs) = logs else { return };
    match slot.kind {
        Kind::Packed => logs.remove_packed(PackedAt::from_word(slot.words[1])),
        Kind::Wide => logs.remove_wide(slot.words[0] as usize),
        Kind::Hits => logs.remove_hits(slot.words[0] as usize),
        _ => {}
    }
}

fn cell_key(limit: &LimitResult) -> Hash {
    [limit.limit[1] ^ 0x6f76_6572_666c_6f77, limit.limit[0] ^ 0x0000_0000_6365_6c6c]
}

fn last_cell_key(algorithm: Algorithm) -> Hash {
    [0x6c61_7374_2063_656c, 0x6c00 | algorithm as u64]
}
