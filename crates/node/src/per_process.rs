//! What a forked child does not take over from its parent.
//!
//! A fork copies locks as they are, also those that a thread holds that the child does not have: nobody would ever open them.
//! What threads of the store lock is therefore made anew in a child, on its first use.

use arc_swap::ArcSwap;
use std::sync::Arc;

pub struct PerProcess<T> {
    own: ArcSwap<Owned<T>>,
}

struct Owned<T> {
    process: u32,
    value: Arc<T>,
}

impl<T: Default> Owned<T> {
    fn new() -> Arc<Self> {
        Arc::new(Self { process: std::process::id(), value: Arc::default() })
    }
}

impl<T: Default> Default for PerProcess<T> {
    fn default() -> Self {
        Self { own: ArcSwap::new(Owned::new()) }
    }
}

impl<T: Default> PerProcess<T> {
    pub fn get(&self) -> Arc<T> {
        let own = self.own.load();
        if own.process == std::process::id() {
            return own.value.clone();
        }
        // Of several threads that come first, one makes it; the parent's is never dropped, since that may need its locks.
        let replaced = self.own.compare_and_swap(&own, Owned::new());
        std::mem::forget(replaced);
        self.own.load().value.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_one() {
        let own: PerProcess<parking_lot::Mutex<Vec<u8>>> = PerProcess::default();
        own.get().lock().push(1);
        assert_eq!(*own.get().lock(), [1]);
    }
}
