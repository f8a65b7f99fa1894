//! Which endpoint patterns a path meets: all of them, looked up by shape.
//!
//! A pattern's shape is its number of segments, which of them are parameters, and whether it ends in `*`. For each
//! shape in use, the path's segments of that shape make one key. So the cost is the number of shapes, not of
//! patterns, and adding one never restructures anything.

use crate::hash::{Hash, Keyed};
use crate::path::{Pattern, PatternKind, SEGMENTS_MAX, segments};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

const PATH_DOMAIN: u8 = 32;
const SEGMENT_DOMAIN: u8 = 33;
/// Patterns one path may meet; the most specific shapes are looked at first.
pub const PATTERNS_MATCHED_MAX: usize = 32;

pub type Hits = SmallVec<[Hit; 4]>;

/// One pattern a path met.
#[derive(Clone, Copy, Debug)]
pub struct Hit {
    pub key: Hash,
    index: u32,
}

/// In the order in which they are looked at: the most literal first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Shape {
    is_prefix: bool,
    parameters: u32,
    segments: u32,
}

/// Keys are hashes already.
#[derive(Default)]
pub struct AlreadyHashed(u64);

impl Hasher for AlreadyHashed {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        if let Some(first) = bytes.first_chunk() {
            self.0 ^= u64::from_ne_bytes(*first);
        }
    }
    fn write_usize(&mut self, _: usize) {}
}

type ByKey = HashMap<[u64; 2], u32, BuildHasherDefault<AlreadyHashed>>;

#[derive(Clone, Debug, Default)]
pub struct Patterns {
    by_key: ByKey,
    list: Vec<Arc<Pattern>>,
    /// Exact patterns apart, which one key finds.
    shapes: Vec<Shape>,
}

impl Patterns {
    pub fn new(keyed: &Keyed, patterns: impl Iterator<Item = Arc<Pattern>>) -> Self {
        let mut new = Self::default();
        for pattern in patterns {
            new.by_key.insert(key_of(keyed, &pattern), new.list.len() as u32);
            if pattern.kind != PatternKind::Exact {
                let shape = shape_of(&pattern);
                if !new.shapes.contains(&shape) {
                    new.shapes.push(shape);
                }
            }
            new.list.push(pattern);
        }
        new.shapes.sort_unstable();
        new
    }

    /// The path's own key; every pattern that matches it is put among the hits.
    #[inline]
    pub fn matching(&self, keyed: &Keyed, path: &str, hits: &mut Hits) -> Hash {
        let exact = keyed.text(PATH_DOMAIN, path);
        if self.list.is_empty() {
            return exact;
        }
        if let Some(index) = self.by_key.get(&exact) {
            hits.push(Hit { key: exact, index: *index });
        }
        if self.shapes.is_empty() {
            return exact;
        }
        let mut count = 0_u32;
        let mut hashes: SmallVec<[Hash; 8]> = SmallVec::new();
        for segment in segments(path) {
            if hashes.len() < SEGMENTS_MAX {
                hashes.push(keyed.text(SEGMENT_DOMAIN, segment));
            }
            count += 1;
        }
        for shape in &self.shapes {
            // `/a/*` is for what lies below `/a`; `/*` is for everything.
            let fits = match shape {
                Shape { is_prefix: true, segments: 0, .. } => true,
                Shape { is_prefix: true, segments, .. } => *segments < count,
                Shape { segments, .. } => *segments == count,
            };
            if fits && hits.len() < PATTERNS_MATCHED_MAX {
                let key = fold(keyed, shape, |n| hashes[n]);
                if let Some(index) = self.by_key.get(&key) {
                    hits.push(Hit { key, index: *index });
                }
            }
        }
        exact
    }

    #[inline]
    pub fn pattern(&self, hit: &Hit) -> &Arc<Pattern> {
        &self.list[hit.index as usize]
    }

    /// The most specific of the patterns a path met.
    pub fn most_specific(&self, hits: &Hits) -> Option<(Hash, &Arc<Pattern>)> {
        let ranked = hits.iter().map(|hit| (hit.key, self.pattern(hit)));
        ranked.max_by(|(_, a), (_, b)| {
            (a.kind, a.literal_len).cmp(&(b.kind, b.literal_len)).then_with(|| b.text.cmp(&a.text))
        })
    }
}

/// The key a pattern is found by; patterns that differ only in parameter names share it.
pub fn key_of(keyed: &Keyed, pattern: &Pattern) -> Hash {
    if pattern.kind == PatternKind::Exact {
        return keyed.text(PATH_DOMAIN, &pattern.text);
    }
    let hashes: Vec<Hash> = segments(&pattern.text).map(|segment| keyed.text(SEGMENT_DOMAIN, segment)).collect();
    fold(keyed, &shape_of(pattern), |n| hashes[n])
}

fn shape_of(pattern: &Pattern) -> Shape {
    Shape {
        is_prefix: pattern.kind == PatternKind::Prefix,
        parameters: pattern.parameters,
        segments: pattern.segments as u32,
    }
}

#[inline]
fn fold(keyed: &Keyed, shape: &Shape, hash_of: impl Fn(usize) -> Hash) -> Hash {
    let seed = [u64::from(shape.parameters) << 8 | u64::from(shape.is_prefix), u64::from(shape.segments)];
    let literal = (0..shape.segments).filter(|n| shape.parameters & (1 << n) == 0);
    literal.fold(keyed.mix(seed, seed), |key, n| keyed.mix(key, hash_of(n as usize)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matching(patterns: &[&str], path: &str) -> Vec<String> {
        let keyed = Keyed::random();
        let parsed = patterns.iter().map(|text| Arc::new(Pattern::parse(text).unwrap()));
        let patterns = Patterns::new(&keyed, parsed);
        let mut hits = Hits::new();
        patterns.matching(&keyed, path, &mut hits);
        let mut texts: Vec<String> = hits.iter().map(|hit| patterns.pattern(hit).text.clone()).collect();
        texts.sort_unstable();
        texts
    }

    #[test]
    fn a_path_meets_every_pattern_that_matches_it() {
        let patterns = ["/a/{x}", "/a/*", "/a/b", "/*", "/a/{x}/c", "/b/*", "/{y}/b"];
        assert_eq!(matching(&patterns, "/a/b"), ["/*", "/a/*", "/a/b", "/a/{x}", "/{y}/b"]);
        assert_eq!(matching(&patterns, "/a/q/c"), ["/*", "/a/*", "/a/{x}/c"]);
        assert_eq!(matching(&patterns, "/a"), ["/*"], "`/a/*` is for what lies below `/a`");
        assert_eq!(matching(&patterns, "/"), ["/*"]);
    }

    #[test]
    fn the_most_specific_pattern_is_the_most_literal() {
        let keyed = Keyed::random();
        let parsed = ["/a/*", "/a/{x}", "/{y}/b"].iter().map(|text| Arc::new(Pattern::parse(text).unwrap()));
        let patterns = Patterns::new(&keyed, parsed);
        let mut hits = Hits::new();
        patterns.matching(&keyed, "/a/b", &mut hits);
        assert_eq!(patterns.most_specific(&hits).unwrap().1.text, "/a/{x}");
    }
}
