//! Where a node stands in the feed, for whoever asks: metrics, health, heartbeats.

use super::frames::Position;
use crate::identity::ApiKeys;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What Python, which follows the feed, says of it.
#[derive(Clone, Debug, Default)]
pub struct FeedStatus {
    /// When it was last known that these rules are the newest; 0 for never.
    pub contact_us: u64,
    pub source: String,
    pub error: Option<String>,
}

/// The engine's part of it.
#[derive(Default)]
pub(crate) struct Feed {
    /// One change at a time. Holds the keys that came by the feed, and none where they come from elsewhere.
    pub changing: Mutex<Changing>,
    epoch: AtomicU64,
    version: AtomicU64,
    /// From the change's commit to its enforcement here, of the last one.
    pub lag_us: AtomicU64,
    pub errors: AtomicU64,
    /// Entries that were sent and could not be taken.
    pub refused: AtomicU64,
    status: Mutex<Option<FeedStatus>>,
}

#[derive(Default)]
pub(crate) struct Changing {
    pub position: Position,
    pub keys: Option<Arc<ApiKeys>>,
    pub secret: Option<Vec<u8>>,
}

impl Feed {
    /// As it was told last: the two numbers belong together only while nothing changes, which is all a metric needs.
    pub fn position(&self) -> Position {
        Position { epoch: self.epoch.load(Ordering::Relaxed), version: self.version.load(Ordering::Relaxed) }
    }

    pub fn moved(&self, position: Position, at_us: u64, now_us: u64) {
        self.epoch.store(position.epoch, Ordering::Relaxed);
        self.version.store(position.version, Ordering::Relaxed);
        self.lag_us.store(now_us.saturating_sub(at_us), Ordering::Relaxed);
    }

    pub fn status(&self) -> Option<FeedStatus> {
        self.status.lock().clone()
    }

    pub fn set_status(&self, status: FeedStatus) {
        let mut known = self.status.lock();
        let is_new = status.error.is_some() && known.as_ref().is_none_or(|known| known.error != status.error);
        self.errors.fetch_add(u64::from(is_new), Ordering::Relaxed);
        *known = Some(status);
    }
}
