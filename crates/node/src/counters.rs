//! What a node counts about itself. Striped, so that threads do not fight over a cache line.

use headgate_core::rule_index::GROUPS_MAX;
use headgate_core::verdict::{Path, Verdict};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

const STRIPES: usize = 8;
const PATHS: usize = Path::ALL.len();

#[derive(Default)]
#[repr(align(128))]
struct Stripe {
    /// Allowed and refused, by path.
    by_path: [[AtomicU64; 2]; PATHS],
}

/// Allowed, refused, and would-be refusals of shadow rules.
#[derive(Default)]
struct Group {
    counts: [AtomicU64; 3],
}

pub struct Counters {
    stripes: [Stripe; STRIPES],
    groups: Box<[Group]>,
}

impl Default for Counters {
    fn default() -> Self {
        Self { stripes: Default::default(), groups: (0..GROUPS_MAX).map(|_| Group::default()).collect() }
    }
}

/// One group's counts.
#[derive(Clone, Copy, Debug, Default)]
pub struct GroupCounts {
    pub allowed: u64,
    pub refused: u64,
    pub shadow_refused: u64,
}

impl Counters {
    #[inline]
    pub fn count(&self, verdict: &Verdict, group: Option<u16>) {
        let refused = usize::from(!verdict.allowed);
        let cell = &self.stripes[stripe()].by_path[verdict.path as usize][refused];
        cell.fetch_add(1, Ordering::Relaxed);
        if let Some(group) = group {
            self.groups[usize::from(group)].counts[refused].fetch_add(1, Ordering::Relaxed);
        }
    }

    pub fn count_shadow_refusal(&self, group: u16) {
        self.groups[usize::from(group)].counts[2].fetch_add(1, Ordering::Relaxed);
    }

    pub fn by_path(&self, path: Path, allowed: bool) -> u64 {
        let cells = self.stripes.iter().map(|stripe| &stripe.by_path[path as usize][usize::from(!allowed)]);
        cells.map(|cell| cell.load(Ordering::Relaxed)).sum()
    }

    pub fn group(&self, group: u16) -> GroupCounts {
        let load = |n: usize| self.groups[usize::from(group)].counts[n].load(Ordering::Relaxed);
        GroupCounts { allowed: load(0), refused: load(1), shadow_refused: load(2) }
    }
}

#[inline]
fn stripe() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static MINE: usize = NEXT.fetch_add(1, Ordering::Relaxed) % STRIPES);
    MINE.with(|mine| *mine)
}
