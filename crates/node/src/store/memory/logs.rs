//! The groups and hits of counters that need more than their slot's two words.
//!
//! Packed lists live in a few arrays of fixed-size pieces, so a key pays for its groups and not for an allocation.

use headgate_core::algorithm::Groups;

/// The sizes a packed list may have, in groups.
const SIZES: [usize; 6] = [2, 4, 8, 16, 33, 65];

/// Where a packed list is: size class (3 bits), length (7 bits), index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedAt {
    pub class: usize,
    pub len: usize,
    pub index: usize,
}

impl PackedAt {
    pub fn to_word(self) -> u64 {
        (self.class | self.len << 3 | self.index << 10) as u64
    }

    pub fn from_word(word: u64) -> Self {
        let word = word as usize;
        Self { class: word & 7, len: word >> 3 & 127, index: word >> 10 }
    }

    /// Whether one more group fits without moving.
    pub fn has_room(self) -> bool {
        self.len < SIZES[self.class]
    }
}

#[derive(Debug, Default)]
struct Pieces {
    words: Vec<u64>,
    free: Vec<u32>,
}

/// The exact log of one counter.
#[derive(Debug, Default)]
pub struct Hits {
    head: usize,
    times_us: Vec<u64>,
    counts: Vec<u32>,
}

impl Hits {
    pub fn groups(&self) -> Groups<'_> {
        Groups::Split { times_us: &self.times_us[self.head..], counts: &self.counts[self.head..] }
    }

    pub fn push(&mut self, at_us: u64, count: u64) {
        self.times_us.push(at_us);
        self.counts.push(u32::try_from(count).unwrap_or(u32::MAX));
    }

    pub fn set(&mut self, index: usize, at_us: u64, count: u64) {
        self.times_us[self.head + index] = at_us;
        self.counts[self.head + index] = u32::try_from(count).unwrap_or(u32::MAX);
    }

    /// Forgets the oldest hits; their room is taken back once they are half of the list.
    pub fn drop_oldest(&mut self, count: usize) {
        self.head += count;
        if self.head * 2 > self.times_us.len() {
            self.times_us.drain(..self.head);
            self.counts.drain(..self.head);
            self.head = 0;
        }
    }

    pub fn len(&self) -> usize {
        self.times_us.len() - self.head
    }
}

/// A list of things with stable indices.
#[derive(Debug)]
struct Slab<T> {
    items: Vec<T>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { items: Vec::new(), free: Vec::new() }
    }
}

impl<T: Default> Slab<T> {
    fn insert(&mut self, item: T) -> usize {
        if let Some(index) = self.free.pop() {
            self.items[index as usize] = item;
            return index as usize;
        }
        self.items.push(item);
        self.items.len() - 1
    }

    fn remove(&mut self, index: usize) -> T {
        self.free.push(index as u32);
        std::mem::take(&mut self.items[index])
    }
}

/// All lists of one shard.
#[derive(Debug, Default)]
pub struct Logs {
    pieces: [Pieces; SIZES.len()],
    wide: Slab<Vec<u64>>,
    hits: Slab<Hits>,
}

impl Logs {
    /// Stores packed groups; the smallest piece that holds them.
    pub fn insert_packed(&mut self, words: &[u64]) -> PackedAt {
        let class = SIZES.iter().position(|size| *size >= words.len()).expect("a list is bounded by GROUPS_MAX");
        let size = SIZES[class];
        let pieces = &mut self.pieces[class];
        let index = match pieces.free.pop() {
            Some(index) => index as usize,
            None => {
                let index = pieces.words.len() / size;
                if pieces.words.len() + size > pieces.words.capacity() {
                    // A quarter at a time: the slack of a shard stays small.
                    let more = (pieces.words.len() / 4).next_multiple_of(size).max(size * 2);
                    pieces.words.reserve_exact(more);
                }
                pieces.words.resize(pieces.words.len() + size, 0);
                index
            }
        };
        pieces.words[index * size..][..words.len()].copy_from_slice(words);
        PackedAt { class, len: words.len(), index }
    }

    #[inline]
    pub fn packed(&self, at: PackedAt) -> &[u64] {
        &self.pieces[at.class].words[at.index * SIZES[at.class]..][..at.len]
    }

    #[inline]
    pub fn packed_mut(&mut self, at: PackedAt) -> &mut [u64] {
        &mut self.pieces[at.class].words[at.index * SIZES[at.class]..][..at.len]
    }

    pub fn remove_packed(&mut self, at: PackedAt) {
        self.pieces[at.class].free.push(at.index as u32);
    }

    pub fn insert_wide(&mut self, words: Vec<u64>) -> usize {
        self.wide.insert(words)
    }

    pub fn wide(&self, index: usize) -> &[u64] {
        &self.wide.items[index]
    }

    pub fn remove_wide(&mut self, index: usize) {
        self.wide.remove(index);
    }

    pub fn insert_hits(&mut self, hits: Hits) -> usize {
        self.hits.insert(hits)
    }

    pub fn hits(&self, index: usize) -> &Hits {
        &self.hits.items[index]
    }

    pub fn hits_mut(&mut self, index: usize) -> &mut Hits {
        &mut self.hits.items[index]
    }

    pub fn remove_hits(&mut self, index: usize) {
        self.hits.remove(index);
    }
}
