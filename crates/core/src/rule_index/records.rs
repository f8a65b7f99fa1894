//! Rules as the index keeps them: compact records in copy-on-write segments, sharing what most rules share.

use crate::hash::Hash;
use crate::quota::Quota;
use crate::rule::{Action, OnStoreFailure, Precision, Response};
use std::sync::Arc;

const SEGMENT_RECORDS: usize = 512;
/// Text of removed names a segment may carry before it is laid out anew.
const SEGMENT_TEXT_MAX: usize = SEGMENT_RECORDS * 128;

/// What many rules have in common, held once.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Template {
    pub by: u16,
    pub action: Action,
    pub until_us: Option<u64>,
    pub response: Response,
    pub on_store_failure: OnStoreFailure,
    pub precision: Precision,
    /// Of a rule for whole descriptors: the names of those it replaces in a call.
    pub replaces: Option<Box<[Box<str>]>>,
}

/// A limit, ready to count with.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BuiltLimit {
    pub label: Box<str>,
    /// The label's hash: part of a counter's name.
    pub label_hash: Hash,
    /// The label as shared stores know it.
    pub label_id: u64,
    pub quota: Quota,
}

impl BuiltLimit {
    /// Whether its label is more than its position.
    pub fn is_named(&self, nth: usize) -> bool {
        self.label.parse() != Ok(nth)
    }
}

/// The limits of a rule; rules with the same limits share one.
pub type LimitSet = Box<[BuiltLimit]>;

/// Bits of a [`RankedKey`] that number its endpoint pattern.
const PATTERN_BITS: u32 = 28;
/// Endpoint patterns a rule set may have.
pub const PATTERNS_MAX: usize = (1 << PATTERN_BITS) - 1;

/// One key a rule is found by, how specific the rule is when found so, and the number of the endpoint pattern it
/// takes (from 1; 0 for none).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankedKey {
    pub key: Hash,
    rank_and_pattern: u64,
}

impl RankedKey {
    pub fn new(key: Hash, rank: u64, pattern: u32) -> Self {
        Self { key, rank_and_pattern: rank << PATTERN_BITS | u64::from(pattern) }
    }

    #[inline]
    pub fn rank(&self) -> u64 {
        self.rank_and_pattern >> PATTERN_BITS
    }

    pub fn pattern(&self) -> u32 {
        self.rank_and_pattern as u32 & PATTERNS_MAX as u32
    }
}

#[derive(Clone, Debug)]
pub struct Record {
    name_at: u32,
    name_len: u16,
    pub group: u16,
    pub priority: i32,
    pub first: RankedKey,
    /// The hash of the counter's name and of what it is kept for.
    pub counter: Hash,
    /// The same as shared stores know it.
    pub counter_id: u64,
    pub template: Arc<Template>,
    pub limits: Arc<LimitSet>,
    /// Keys beyond the first, for rules that match lists. Empty keys: a disabled rule.
    pub more: Option<Box<[RankedKey]>>,
}

impl Record {
    pub fn new(parts: RecordParts) -> Self {
        let RecordParts { group, priority, keys, counter, counter_id, template, limits } = parts;
        let first = keys.first().copied().unwrap_or(RankedKey::new([0, 0], 0, 0));
        let more = (keys.len() != 1).then(|| keys.get(1..).unwrap_or_default().into());
        Self { name_at: 0, name_len: 0, group, priority, first, counter, counter_id, template, limits, more }
    }

    pub fn keys(&self) -> impl Iterator<Item = RankedKey> + '_ {
        let is_disabled = self.more.is_some() && self.first.key == [0, 0];
        let first = (!is_disabled).then_some(self.first);
        first.into_iter().chain(self.more.iter().flat_map(|more| more.iter().copied()))
    }

    /// How specific the rule is when found by `key`.
    #[inline]
    pub fn rank(&self, key: Hash) -> u64 {
        if self.first.key == key {
            return self.first.rank();
        }
        self.keys().find(|ranked| ranked.key == key).map_or(0, |ranked| ranked.rank())
    }
}

/// What a record is made of.
pub struct RecordParts {
    pub group: u16,
    pub priority: i32,
    pub keys: Vec<RankedKey>,
    pub counter: Hash,
    pub counter_id: u64,
    pub template: Arc<Template>,
    pub limits: Arc<LimitSet>,
}

#[derive(Clone, Debug, Default)]
struct Segment {
    records: Vec<Option<Record>>,
    text: String,
}

/// Records by number. Numbers of removed rules are used again.
#[derive(Clone, Debug, Default)]
pub struct Records {
    segments: Vec<Arc<Segment>>,
    free: Arc<Vec<u32>>,
    len: usize,
}

impl Records {
    pub fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub fn get(&self, id: u32) -> Option<&Record> {
        let segment = self.segments.get(id as usize / SEGMENT_RECORDS)?;
        segment.records.get(id as usize % SEGMENT_RECORDS)?.as_ref()
    }

    /// The record of a rule known to be there: an id the same version's index gave.
    #[inline]
    pub fn at(&self, id: u32) -> &Record {
        self.get(id).expect("the index names only rules that are there")
    }

    #[inline]
    pub fn name(&self, id: u32) -> &str {
        let segment = &self.segments[id as usize / SEGMENT_RECORDS];
        segment.records[id as usize % SEGMENT_RECORDS].as_ref().map_or("", |record| segment.name(record))
    }

    pub fn insert(&mut self, name: &str, record: Record) -> u32 {
        self.len += 1;
        let id = match Arc::make_mut(&mut self.free).pop() {
            Some(id) => id,
            None => self
                .segments
                .last()
                .map_or(0, |last| ((self.segments.len() - 1) * SEGMENT_RECORDS + last.records.len()) as u32),
        };
        if id as usize / SEGMENT_RECORDS == self.segments.len() {
            self.segments.push(Arc::default());
        }
        Arc::make_mut(&mut self.segments[id as usize / SEGMENT_RECORDS]).set(id, name, record);
        id
    }

    pub fn remove(&mut self, id: u32) {
        Arc::make_mut(&mut self.segments[id as usize / SEGMENT_RECORDS]).records[id as usize % SEGMENT_RECORDS] = None;
        Arc::make_mut(&mut self.free).push(id);
        self.len -= 1;
    }

    /// Gives back what growing by doubling left unused, after a bulk load.
    pub fn shrink(&mut self) {
        for segment in &mut self.segments {
            let segment = Arc::make_mut(segment);
            segment.text.shrink_to_fit();
            segment.records.shrink_to_fit();
        }
        self.segments.shrink_to_fit();
    }
}

impl Segment {
    #[inline]
    fn name(&self, record: &Record) -> &str {
        &self.text[record.name_at as usize..][..usize::from(record.name_len)]
    }

    fn set(&mut self, id: u32, name: &str, mut record: Record) {
        if self.text.len() + name.len() > SEGMENT_TEXT_MAX {
            self.lay_out_text();
        }
        record.name_at = self.text.len() as u32;
        record.name_len = name.len() as u16;
        self.text.push_str(name);
        let index = id as usize % SEGMENT_RECORDS;
        if index == self.records.len() {
            self.records.push(Some(record));
        } else {
            self.records[index] = Some(record);
        }
    }

    fn lay_out_text(&mut self) {
        let old = std::mem::take(&mut self.text);
        for record in self.records.iter_mut().flatten() {
            let name = &old[record.name_at as usize..][..usize::from(record.name_len)];
            record.name_at = self.text.len() as u32;
            self.text.push_str(name);
        }
    }
}
