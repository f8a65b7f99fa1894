//! What happened to the store: the last few things, for whoever asks how this node is.

use crate::per_process::PerProcess;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Events that are remembered.
const EVENTS_MAX: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    BreakerOpened,
    BreakerClosed,
    ShardLost,
    ShardReturned,
    ScriptReloaded,
    TopologyChanged,
    Reconciled,
    Warning,
}

impl Kind {
    pub const ALL: [Kind; 8] = [
        Kind::BreakerOpened,
        Kind::BreakerClosed,
        Kind::ShardLost,
        Kind::ShardReturned,
        Kind::ScriptReloaded,
        Kind::TopologyChanged,
        Kind::Reconciled,
        Kind::Warning,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Kind::BreakerOpened => "breaker_opened",
            Kind::BreakerClosed => "breaker_closed",
            Kind::ShardLost => "shard_lost",
            Kind::ShardReturned => "shard_returned",
            Kind::ScriptReloaded => "script_reloaded",
            Kind::TopologyChanged => "topology_changed",
            Kind::Reconciled => "reconciled",
            Kind::Warning => "warning",
        }
    }

    pub fn is_bad(self) -> bool {
        matches!(self, Kind::BreakerOpened | Kind::ShardLost | Kind::Warning)
    }
}

#[derive(Clone, Debug)]
pub struct Event {
    /// Counts up from 1.
    pub number: u64,
    /// On this machine's wall clock.
    pub at_ms: u64,
    pub kind: Kind,
    /// Whom it happened to: a server's address, or empty.
    pub shard: String,
    pub detail: String,
}

#[derive(Default)]
pub struct Events {
    ring: PerProcess<Mutex<VecDeque<Event>>>,
    counts: [AtomicU64; Kind::ALL.len()],
    total: AtomicU64,
    told: AtomicU64,
}

impl Events {
    pub fn add(&self, kind: Kind, shard: &str, detail: impl Into<String>) {
        let at_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
        self.counts[kind as usize].fetch_add(1, Ordering::Relaxed);
        let ring = self.ring.get();
        let mut ring = ring.lock();
        let number = self.total.fetch_add(1, Ordering::Relaxed) + 1;
        if ring.len() == EVENTS_MAX {
            ring.pop_front();
        }
        ring.push_back(Event { number, at_ms, kind, shard: shard.to_owned(), detail: detail.into() });
    }

    pub fn count(&self, kind: Kind) -> u64 {
        self.counts[kind as usize].load(Ordering::Relaxed)
    }

    pub fn recent(&self) -> Vec<Event> {
        self.ring.get().lock().iter().cloned().collect()
    }

    /// Whether there is something [`Events::untold`] would give.
    #[inline]
    pub fn has_untold(&self) -> bool {
        self.told.load(Ordering::Relaxed) < self.total.load(Ordering::Relaxed)
    }

    /// What nobody has logged yet: each event is given out once.
    pub fn untold(&self) -> Vec<Event> {
        let ring = self.ring.get();
        let ring = ring.lock();
        let told = self.told.swap(self.total.load(Ordering::Relaxed), Ordering::Relaxed);
        ring.iter().filter(|event| event.number > told).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_is_bounded_and_each_event_is_told_once() {
        let events = Events::default();
        for n in 0..100 {
            events.add(Kind::ShardLost, "a", n.to_string());
        }
        assert_eq!(events.recent().len(), EVENTS_MAX);
        assert_eq!(events.recent().last().unwrap().detail, "99");
        assert_eq!(events.count(Kind::ShardLost), 100);
        assert_eq!(events.untold().len(), EVENTS_MAX);
        assert!(!events.has_untold() && events.untold().is_empty());
        events.add(Kind::ShardReturned, "a", "");
        assert_eq!(events.untold().len(), 1);
    }
}
