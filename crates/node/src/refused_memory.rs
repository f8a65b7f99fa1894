//! Refused-memory, shared by a node's threads.

use headgate_core::Quota;
use headgate_core::hash::{Hash, reduce};
use headgate_core::refused::Refusals;
use parking_lot::Mutex;

/// Places of four refusals each: a bounded memory, whatever is refused.
const PLACES: usize = 4_096;

pub struct RefusedMemory {
    places: Box<[Mutex<Refusals>]>,
}

impl Default for RefusedMemory {
    fn default() -> Self {
        Self { places: (0..PLACES).map(|_| Mutex::default()).collect() }
    }
}

impl RefusedMemory {
    #[inline]
    pub fn ready_us(&self, key: Hash, quota: &Quota, cost: u64, now_us: u64) -> Option<u64> {
        self.place(key).lock().ready_us(key, quota, cost, now_us)
    }

    pub fn remember(&self, key: Hash, quota: &Quota, cost: u64, wait_us: u64, now_us: u64) {
        self.place(key).lock().remember(key, quota, cost, wait_us, now_us);
    }

    pub fn forget(&self, key: Hash) {
        self.place(key).lock().forget(key);
    }

    fn place(&self, key: Hash) -> &Mutex<Refusals> {
        &self.places[reduce(key[0], PLACES)]
    }
}
