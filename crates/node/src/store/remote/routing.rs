//! Which shard holds a key.

use super::shard::Shard;
use headgate_core::hash::shared_id;
use headgate_core::subject::hash_tag;
use std::sync::Arc;

pub const SLOTS: usize = 16_384;
/// Points on the ring for each of its servers: enough for shares within a few per cent of each other.
const POINTS_PER_SERVER: usize = 160;
/// A slot nobody serves.
pub const NOBODY: u16 = u16::MAX;

#[derive(Clone)]
pub enum Routing {
    One(Arc<Shard>),
    Slots { shards: Vec<Arc<Shard>>, by_slot: Arc<[u16]> },
    Ring { shards: Vec<Arc<Shard>>, points: Arc<[(u64, u16)]> },
}

impl Routing {
    pub fn ring(shards: Vec<Arc<Shard>>) -> Routing {
        let mut points: Vec<(u64, u16)> = Vec::with_capacity(shards.len() * POINTS_PER_SERVER);
        for (number, shard) in shards.iter().enumerate() {
            points.extend((0..POINTS_PER_SERVER).map(|n| (shared_id(&[&shard.name, &n.to_string()]), number as u16)));
        }
        points.sort_unstable();
        Routing::Ring { shards, points: points.into() }
    }

    pub fn shards(&self) -> &[Arc<Shard>] {
        match self {
            Routing::One(shard) => std::slice::from_ref(shard),
            Routing::Slots { shards, .. } | Routing::Ring { shards, .. } => shards,
        }
    }

    /// The shard of a key, and the slot that keeps it apart from others there; none while nobody serves it.
    #[inline]
    pub fn find(&self, key: &[u8]) -> Option<(&Arc<Shard>, u16)> {
        match self {
            Routing::One(shard) => Some((shard, 0)),
            Routing::Slots { shards, by_slot } => {
                let slot = slot_of(key);
                let shard = shards.get(usize::from(by_slot[usize::from(slot)]))?;
                Some((shard, slot))
            }
            Routing::Ring { shards, points } => {
                let tag = String::from_utf8_lossy(hash_tag(key));
                let hash = shared_id(&[&tag]);
                let next = points.partition_point(|(point, _)| *point < hash);
                let (_, shard) = points.get(next).or_else(|| points.first())?;
                Some((&shards[usize::from(*shard)], 0))
            }
        }
    }
}

/// The cluster's own hash: CRC16 (XMODEM) of the hash tag.
pub fn slot_of(key: &[u8]) -> u16 {
    let crc = hash_tag(key).iter().fold(0_u16, |crc, byte| {
        (0..8).fold(crc ^ u16::from(*byte) << 8, |crc, _| if crc & 0x8000 != 0 { crc << 1 ^ 0x1021 } else { crc << 1 })
    });
    crc % SLOTS as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shards(count: usize) -> Vec<Arc<Shard>> {
        (0..count).map(|n| Shard::new(format!("10.0.0.{n}:6379"), None, Arc::default())).collect()
    }

    #[test]
    fn slots_are_the_servers_own() {
        assert_eq!(slot_of(b"123456789"), 0x31c3);
        assert_eq!(slot_of(b"hg1:{user1000}:a"), slot_of(b"user1000"));
    }

    #[test]
    fn a_ring_shares_evenly_and_a_lost_server_moves_only_its_own() {
        let count = |ring: &Routing, n: usize| {
            let key = format!("hg1:{{user:{n}}}");
            ring.find(key.as_bytes()).unwrap().0.name.clone()
        };
        let (four, three) = (Routing::ring(shards(4)), Routing::ring(shards(3)));
        let mut shares = std::collections::HashMap::new();
        let mut moved = 0;
        for n in 0..20_000 {
            let (before, after) = (count(&four, n), count(&three, n));
            *shares.entry(before.clone()).or_insert(0) += 1;
            moved += u32::from(before != after && before != "10.0.0.3:6379");
        }
        assert_eq!(moved, 0);
        assert!(shares.values().all(|share| (3_500..6_500).contains(share)), "{shares:?}");
    }
}
