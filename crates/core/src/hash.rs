//! Keyed 128-bit hashes: the names under which counters and rules are looked up.
//!
//! The key is random per process, so a client can neither find two subjects that collide nor aim at one shard.

use siphasher::sip128::{Hasher128, SipHasher13};
use std::hash::{BuildHasher, Hasher, RandomState};

/// A 128-bit hash as two words. Kept as an array so that records holding one need no 16-byte alignment.
pub type Hash = [u64; 2];

/// The process's secret, from which every hash is made.
#[derive(Clone, Debug)]
pub struct Keyed {
    sip: [u64; 2],
    fold: [u64; 4],
}

impl Keyed {
    /// A key nobody outside this process can know.
    pub fn random() -> Self {
        let random = RandomState::new();
        Self::from_words(std::array::from_fn(|i| random.hash_one(i)))
    }

    /// A fixed key, for tests that want the same table twice.
    pub fn from_words(words: [u64; 6]) -> Self {
        let [a, b, c, d, e, f] = words;
        // Odd multipliers never map two inputs to one.
        Self { sip: [a, b], fold: [c | 1, d | 1, e | 1, f | 1] }
    }

    /// The hash of a text (or any bytes) under a domain, so that `user:7` and `org:7` differ.
    #[inline]
    pub fn bytes(&self, domain: u8, bytes: &[u8]) -> Hash {
        let mut hasher = SipHasher13::new_with_keys(self.sip[0] ^ u64::from(domain), self.sip[1]);
        hasher.write(bytes);
        let hash = hasher.finish128();
        [hash.h1, hash.h2]
    }

    #[inline]
    pub fn text(&self, domain: u8, text: &str) -> Hash {
        self.bytes(domain, text.as_bytes())
    }

    /// Folds `b` into `a`. Order matters. The inputs are keyed hashes, which no client can choose, so a fast
    /// multiply-and-fold is enough here.
    #[inline]
    pub fn mix(&self, a: Hash, b: Hash) -> Hash {
        let low = fold_multiply(a[0] ^ self.fold[0], b[1] ^ self.fold[1]) ^ b[0].rotate_left(23);
        let high = fold_multiply(a[1] ^ self.fold[2], b[0] ^ self.fold[3]) ^ a[0].rotate_left(41);
        [low, high]
    }
}

/// A number that means the same on every node and in every process: what shared stores know a limit by. Made of names an
/// operator chose, so it needs no secret.
pub fn shared_id(parts: &[&str]) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(0x6865_6164_6761_7465, 1);
    for part in parts {
        hasher.write(part.as_bytes());
        hasher.write_u8(0xff); // Never part of a text, so `a|bc` and `ab|c` differ.
    }
    hasher.finish128().h1
}

#[inline]
fn fold_multiply(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ ((product >> 64) as u64)
}

/// Maps a 64-bit hash to `0..n` without a division.
#[inline]
pub fn reduce(hash: u64, n: usize) -> usize {
    ((u128::from(hash) * n as u128) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn keyed() -> Keyed {
        Keyed::from_words([1, 2, 3, 4, 5, 6])
    }

    #[test]
    fn two_processes_hash_the_same_text_differently() {
        assert_ne!(Keyed::random().text(0, "user"), Keyed::random().text(0, "user"));
    }

    #[test]
    fn a_domain_keeps_equal_texts_apart() {
        assert_ne!(keyed().text(0, "7"), keyed().text(1, "7"));
    }

    #[test]
    fn mixing_depends_on_order_and_does_not_collide_on_a_grid() {
        let keyed = keyed();
        let values: Vec<Hash> = (0..300).map(|i| keyed.text(0, &format!("v{i}"))).collect();
        let mixed: HashSet<Hash> = values.iter().flat_map(|a| values.iter().map(|b| keyed.mix(*a, *b))).collect();
        assert_eq!(mixed.len(), 300 * 300);
    }
}
