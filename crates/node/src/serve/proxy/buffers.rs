//! What a connection reads into and writes from.

use super::flow::{Flow, SMALL_BYTES};
use crate::serve::shared::Worker;

/// Sets of buffers that a worker keeps for whoever is next.
const SPARE_MAX: usize = 64;
/// What is kept for a client of whom nothing has come.
pub(super) const WAITING_BYTES: usize = 4 * 1024;

pub(super) struct Buffers {
    /// What came from the client and is not dealt with.
    pub input: Vec<u8>,
    /// To the upstream, and to the client.
    pub up: Flow,
    pub down: Flow,
    /// The upstream's head, until it is whole.
    pub said: Vec<u8>,
}

/// What is only needed while a request is under way.
#[derive(Default)]
pub(crate) struct Spare {
    up: Flow,
    down: Flow,
    said: Vec<u8>,
}

impl Buffers {
    pub fn new(input: Vec<u8>) -> Self {
        Self { input, up: Flow::default(), down: Flow::default(), said: Vec::new() }
    }

    /// Takes what a request needs, from those that others left.
    #[inline]
    pub fn take(&mut self, worker: &Worker) {
        if self.has_none() {
            let Spare { up, down, said } = worker.spare.lock().pop().unwrap_or_default();
            (self.up, self.down, self.said) = (up, down, said);
        }
    }

    /// Gives it back before the next request is waited for: most connections wait most of the time.
    #[inline]
    pub fn give_back(&mut self, worker: &Worker) {
        self.input.shrink_to(WAITING_BYTES);
        if self.has_none() {
            return;
        }
        let mut spare = Spare {
            up: std::mem::take(&mut self.up),
            down: std::mem::take(&mut self.down),
            said: std::mem::take(&mut self.said),
        };
        spare.up.shrink();
        spare.down.shrink();
        spare.said.clear();
        spare.said.shrink_to(SMALL_BYTES);
        let mut spares = worker.spare.lock();
        if spares.len() < SPARE_MAX {
            spares.push(spare);
        }
    }

    /// Every answer goes by the buffer to the client.
    fn has_none(&self) -> bool {
        self.down.bytes.capacity() == 0
    }
}
