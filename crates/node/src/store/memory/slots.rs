//! The table's raw form: buckets of 16 slots, found by a byte of the hash.

use headgate_core::hash::Hash;

pub const BUCKET_SLOTS: usize = 16;

/// What a slot's two state words mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    #[default]
    Empty,
    /// Level (as bits), time.
    Bucket,
    /// Time, used.
    Window,
    /// Time, current and previous.
    WindowPair,
    /// Time, count: a log of one group.
    One,
    /// Base time, where its groups are.
    Packed,
    /// Where its groups are.
    Wide,
    /// Where its hits are.
    Hits,
}

/// One counter: 40 bytes. The expiry is in whole seconds after the store's epoch, rounded up.
#[derive(Clone, Copy, Debug, Default)]
pub struct Slot {
    pub key: Hash,
    pub words: [u64; 2],
    pub expires_s: u32,
    pub kind: Kind,
    pub class: Class,
}

/// Tells limits apart when shares of the table are counted.
pub type Class = [u8; 3];
/// The class of overflow cells, whatever their limit.
pub const CELL: Class = [0xff; 3];

/// The class of a limit; never that of cells.
pub fn class_of(limit: Hash) -> Class {
    let [first, second, third, ..] = limit[0].to_le_bytes();
    [first & 0x7f, second, third]
}

impl Slot {
    pub fn is_cell(&self) -> bool {
        self.class == CELL
    }
}

/// 16 slots behind 16 tags. A tag is 0 for a slot never used, else 0x80 with seven bits of the hash.
#[derive(Clone, Debug, Default)]
pub struct Bucket {
    tags: [u64; 2],
    pub slots: [Slot; BUCKET_SLOTS],
}

#[inline]
pub fn tag_of(key: Hash) -> u8 {
    (key[1] as u8) | 0x80
}

impl Bucket {
    #[inline]
    pub fn set_tag(&mut self, index: usize, tag: u8) {
        let shift = (index % 8) * 8;
        let word = &mut self.tags[index / 8];
        *word = (*word & !(0xff << shift)) | (u64::from(tag) << shift);
    }

    #[inline]
    pub fn find(&self, key: Hash, tag: u8) -> Option<usize> {
        let mut matches = self.matches(tag);
        while matches != 0 {
            let index = matches.trailing_zeros() as usize;
            if self.slots[index].key == key {
                return Some(index);
            }
            matches &= matches - 1;
        }
        None
    }

    /// The first slot never used, if any: where a search may stop.
    #[inline]
    pub fn first_unused(&self) -> Option<usize> {
        let unused = |word: u64| !word & 0x8080_8080_8080_8080;
        match (unused(self.tags[0]), unused(self.tags[1])) {
            (0, 0) => None,
            (0, high) => Some(8 + high.trailing_zeros() as usize / 8),
            (low, _) => Some(low.trailing_zeros() as usize / 8),
        }
    }

    pub fn used(&self) -> impl Iterator<Item = &Slot> {
        self.slots.iter().take(self.first_unused().unwrap_or(BUCKET_SLOTS))
    }

    /// A bit for each slot whose tag is `tag`.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    fn matches(&self, tag: u8) -> u32 {
        use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_movemask_epi8, _mm_set_epi64x, _mm_set1_epi8};
        #[allow(unused_unsafe, unsafe_code)]
        // SAFETY: SSE2 is part of every x86_64, and nothing here touches memory.
        unsafe {
            let tags = _mm_set_epi64x(self.tags[1] as i64, self.tags[0] as i64);
            _mm_movemask_epi8(_mm_cmpeq_epi8(tags, _mm_set1_epi8(tag as i8))) as u32
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    #[inline]
    fn matches(&self, tag: u8) -> u32 {
        (0..BUCKET_SLOTS).fold(0, |mask, index| {
            let stored = (self.tags[index / 8] >> ((index % 8) * 8)) as u8;
            mask | u32::from(stored == tag) << index
        })
    }
}
