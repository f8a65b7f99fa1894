//! A record: all limits of one subject, as the scripts in `lua/` keep them in one value. `lua/record.lua` names the
//! layout. The server decides and writes; a node reads what was there before and works out the figures with its own
//! algorithms, so that they are computed once and never in the store.

use crate::algorithm::{Edit, Groups, State};
use crate::quota::{Algorithm, Quota};

/// Limits are known by 40 bits.
pub const ID_MASK: u64 = (1 << 40) - 1;
/// What a count saturates at.
pub const COUNT_MAX: u64 = (1 << 40) - 1;
const TIME_48: u64 = 1 << 48;
const HEAD_BYTES: usize = 6;
const ENTRY_BYTES: usize = 15;

pub const KIND_BUCKET: u8 = 1;
pub const KIND_WINDOW: u8 = 2;
pub const KIND_PAIR: u8 = 3;
pub const KIND_GROUPS: u8 = 4;
pub const KIND_WIDE_GROUPS: u8 = 5;
pub const KIND_HITS: u8 = 6;

/// How a limit's algorithm is called in a record.
pub fn kind_of(algorithm: Algorithm) -> u8 {
    match algorithm {
        Algorithm::Gcra => KIND_BUCKET,
        Algorithm::FixedWindow => KIND_WINDOW,
        Algorithm::SlidingWindowCounter => KIND_PAIR,
        Algorithm::SlidingWindow => KIND_GROUPS,
        Algorithm::SlidingLog => KIND_HITS,
    }
}

/// How long an entry can matter after its last change, whatever it holds: `2^(life/4)` ms.
pub fn life_of(quota: &Quota) -> u8 {
    let us = match quota.algorithm {
        Algorithm::SlidingWindowCounter => quota.window_us.saturating_mul(2),
        _ => quota.full_window_us(),
    };
    let ms = us.div_ceil(1_000).saturating_add(1);
    (4.0 * (ms as f64).log2()).ceil().clamp(0.0, 255.0) as u8
}

#[derive(Clone, Debug, PartialEq)]
enum Kept {
    Nothing,
    Bucket {
        level: f64,
        refunds: u16,
    },
    Window {
        used: u64,
    },
    Pair {
        current: u32,
        previous: u32,
    },
    /// Times and counts in turn, oldest first.
    Groups(Vec<u64>),
    /// Kept in a key of its own; only what is in use is known here.
    Hits {
        used: u64,
    },
}

#[derive(Clone, Debug, PartialEq)]
struct Entry {
    id: u64,
    at_us: u64,
    kept: Kept,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    entries: Vec<Entry>,
}

impl Record {
    /// Reads a value. One that no script of this layout wrote counts as absent, as the scripts take it too.
    pub fn read(value: &[u8]) -> Record {
        let mut reader = Reader { bytes: value, at: HEAD_BYTES };
        let mut entries = Vec::new();
        while reader.at < value.len() {
            match reader.entry() {
                Some(entry) => entries.push(entry),
                None => return Record::default(),
            }
        }
        Record { entries }
    }

    pub fn state(&self, id: u64) -> State<'_> {
        let Some(entry) = self.entries.iter().find(|entry| entry.id == id) else { return State::Empty };
        let at_us = entry.at_us;
        match &entry.kept {
            Kept::Nothing => State::Empty,
            Kept::Bucket { level, refunds } => State::Bucket { level: *level, at_us, refunds: *refunds },
            Kept::Window { used } => State::Window { at_us, used: *used },
            Kept::Pair { current, previous } => State::WindowPair { at_us, current: *current, previous: *previous },
            Kept::Groups(words) => State::Log(Groups::Wide { words }),
            Kept::Hits { used: 0 } => State::Empty,
            // As another algorithm's usage, which is what it is to whoever asks here: logs are answered apart. A window
            // is foreign to every algorithm but its own, which takes it as its own: so much, last at that time.
            Kept::Hits { used } => State::Window { at_us, used: *used },
        }
    }

    /// When an entry was last changed.
    pub fn at_us(&self, id: u64) -> Option<u64> {
        self.entries.iter().find(|entry| entry.id == id).map(|entry| entry.at_us)
    }

    /// An entry was changed in a way that is not kept here.
    pub fn touch(&mut self, id: u64, at_us: u64) {
        match self.entries.iter_mut().find(|entry| entry.id == id) {
            Some(entry) => entry.at_us = at_us,
            None => self.entries.push(Entry { id, at_us, kept: Kept::Nothing }),
        }
    }

    /// Carries out an edit, as the script did.
    pub fn apply(&mut self, id: u64, edit: Edit) {
        let position = self.entries.iter().position(|entry| entry.id == id).unwrap_or_else(|| {
            self.entries.push(Entry { id, at_us: 0, kept: Kept::Nothing });
            self.entries.len() - 1
        });
        let entry = &mut self.entries[position];
        match edit {
            Edit::Clear => entry.kept = Kept::Nothing,
            Edit::Bucket { level, at_us, refunds } => entry.set(at_us, Kept::Bucket { level, refunds }),
            Edit::Window { at_us, used } => entry.set(at_us, Kept::Window { used }),
            Edit::WindowPair { at_us, current, previous } => entry.set(at_us, Kept::Pair { current, previous }),
            Edit::Replace { at_us, count } => entry.set(at_us, Kept::Groups(vec![at_us, count.min(COUNT_MAX)])),
            Edit::Push { drop, at_us, count } => entry.edit_groups(at_us, |words| {
                words.drain(..drop * 2);
                words.extend([at_us, count.min(COUNT_MAX)]);
            }),
            Edit::SetLast { drop, at_us, count } => entry.edit_groups(at_us, |words| {
                words.drain(..drop * 2);
                words.truncate(words.len() - 2);
                words.extend([at_us, count.min(COUNT_MAX)]);
            }),
            // Refunds are reported by the script that made them, and nothing is asked of the record after.
            Edit::Take { .. } => {}
        }
    }
}

impl Entry {
    fn set(&mut self, at_us: u64, kept: Kept) {
        self.at_us = at_us;
        self.kept = kept;
    }

    fn edit_groups(&mut self, at_us: u64, edit: impl FnOnce(&mut Vec<u64>)) {
        if let Kept::Groups(words) = &mut self.kept {
            edit(words);
            self.at_us = at_us;
        }
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    /// A whole number of up to 8 bytes, lowest first.
    fn number(&mut self, len: usize) -> Option<u64> {
        let bytes = self.bytes.get(self.at..self.at + len)?;
        self.at += len;
        Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn double(&mut self) -> Option<f64> {
        let number = f64::from_bits(self.number(8)?);
        (number.is_finite() && number >= 0.0).then_some(number)
    }

    fn entry(&mut self) -> Option<Entry> {
        if self.bytes.len() < self.at + ENTRY_BYTES {
            return None;
        }
        let (id, tag) = (self.number(5)?, self.number(2)?);
        let _life = self.number(1)?;
        let at_us = self.number(7)?;
        let kept = match (tag & 15) as u8 {
            KIND_BUCKET => Kept::Bucket { level: self.double()?, refunds: (tag >> 4) as u16 },
            KIND_WINDOW => Kept::Window { used: self.double()? as u64 },
            KIND_PAIR => Kept::Pair { current: self.number(4)? as u32, previous: self.number(4)? as u32 },
            KIND_GROUPS => self.groups(at_us, 2)?,
            KIND_WIDE_GROUPS => self.groups(at_us, 5)?,
            KIND_HITS => {
                let used = self.number(5)?;
                self.number(8)?;
                Kept::Hits { used }
            }
            _ => return None,
        };
        Some(Entry { id, at_us, kept })
    }

    fn groups(&mut self, at_us: u64, count_bytes: usize) -> Option<Kept> {
        let newest = self.number(5)?;
        self.number(5)?; // The sum, which is read off the groups here.
        let older = self.number(1)?;
        let mut words = Vec::with_capacity(older as usize * 2 + 2);
        for _ in 0..older {
            let (time, count) = (self.number(6)?, self.number(count_bytes)?);
            words.extend([at_us - at_us.wrapping_sub(time) % TIME_48, count]);
        }
        words.extend([at_us, newest]);
        Some(Kept::Groups(words))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(bytes: &mut Vec<u8>, number: u64, len: usize) {
        bytes.extend_from_slice(&number.to_le_bytes()[..len]);
    }

    fn entry(kind: u64, at_us: u64, payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; HEAD_BYTES];
        put(&mut bytes, 7, 5);
        put(&mut bytes, kind | 3 << 4, 2);
        put(&mut bytes, 64, 1);
        put(&mut bytes, at_us, 7);
        bytes.extend_from_slice(payload);
        bytes
    }

    #[test]
    fn a_bucket_is_read_as_it_was_written() {
        let record = Record::read(&entry(1, 1_760_000_000_000_000, &2.5_f64.to_le_bytes()));
        assert_eq!(record.state(7), State::Bucket { level: 2.5, at_us: 1_760_000_000_000_000, refunds: 3 });
        assert_eq!(record.state(8), State::Empty);
    }

    #[test]
    fn groups_find_their_whole_times_again() {
        let at_us: u64 = (1 << 48) * 6 + 5; // Just past a turn of the 48 bits.
        let mut payload = Vec::new();
        put(&mut payload, 4, 5);
        put(&mut payload, 6, 5);
        put(&mut payload, 1, 1);
        put(&mut payload, (at_us - 10) % (1 << 48), 6);
        put(&mut payload, 2, 2);
        let record = Record::read(&entry(4, at_us, &payload));
        assert_eq!(record.state(7), State::Log(Groups::Wide { words: &[at_us - 10, 2, at_us, 4] }));
    }

    #[test]
    fn what_is_no_record_is_an_empty_one() {
        let whole = entry(1, 1, &2.5_f64.to_le_bytes());
        assert_eq!(Record::read(b"hello"), Record::default());
        assert_eq!(Record::read(&whole[..whole.len() - 1]), Record::default());
        assert_eq!(Record::read(&entry(9, 1, &[0; 8])), Record::default());
        assert_eq!(Record::read(&entry(1, 1, &f64::NAN.to_le_bytes())), Record::default());
    }

    #[test]
    fn a_life_covers_the_whole_drain() {
        for (count, window_us, burst) in [(5, 60_000_000, None), (1, 1_000_000, Some(1_000)), (1, 1_000, None)] {
            let quota = Quota::new(count, window_us, burst, None).unwrap();
            let life_ms = (f64::from(life_of(&quota)) / 4.0).exp2();
            assert!(life_ms * 1_000.0 >= quota.full_window_us() as f64);
            assert!(life_ms * 1_000.0 <= quota.full_window_us() as f64 * 1.2 + 3_000.0);
        }
    }
}
