//! Time for counters in this process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Microseconds since 1970 that never run backwards: the wall clock at the start, then the monotonic one. A step of
/// the wall clock neither hands out nor takes away allowance.
#[derive(Clone, Debug)]
pub enum Clock {
    System {
        start_us: u64,
        start: Instant,
    },
    /// Moves only when told to.
    Fake(Arc<AtomicU64>),
}

impl Clock {
    pub fn system() -> Self {
        Clock::System { start_us: epoch_us(), start: Instant::now() }
    }

    #[inline]
    pub fn now_us(&self) -> u64 {
        match self {
            Clock::System { start_us, start } => {
                let elapsed = start.elapsed();
                start_us + elapsed.as_secs() * 1_000_000 + u64::from(elapsed.subsec_micros())
            }
            Clock::Fake(now_us) => now_us.load(Ordering::Relaxed),
        }
    }

    /// What the calendar says, for times that others wrote: a machine that slept has missed part of the steady time, and
    /// would take a token that ended meanwhile for good.
    #[inline]
    pub fn wall_us(&self) -> u64 {
        match self {
            Clock::System { .. } => epoch_us(),
            Clock::Fake(_) => self.now_us(),
        }
    }
}

fn epoch_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
}
