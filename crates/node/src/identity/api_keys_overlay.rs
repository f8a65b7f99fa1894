//! What became of single API keys after the table of all of them was made.

use super::Known;
use super::api_keys::{Digest, KeyEntry, check_fact, ends_us};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Past it a new table is made: each change copies the overlay.
const OVERLAY_MAX: usize = 16_384;

/// One change: a key as it is now, or the id of one that is gone.
#[derive(Clone)]
pub enum KeyChange {
    Put(Digest, Arc<Owned>),
    Gone(Box<str>),
}

impl KeyChange {
    /// An error is what is wrong with the entry.
    pub fn put(entry: &KeyEntry<'_>) -> Result<KeyChange, String> {
        check_fact("id", entry.id)?;
        for (field, text) in [("user", entry.user), ("org", entry.org), ("tier", entry.tier)] {
            text.map_or(Ok(()), |text| check_fact(field, text))?;
        }
        let known = Known {
            user: entry.user.map(Box::from),
            tier: entry.tier.map(Box::from),
            org: entry.org.map(Box::from),
            api_key: Some(entry.id.into()),
        };
        let owned = Owned { ends_us: ends_us(entry), known, is_used: AtomicBool::new(false) };
        Ok(KeyChange::Put(entry.digest, Arc::new(owned)))
    }
}

pub struct Owned {
    pub ends_us: u64,
    known: Known,
    is_used: AtomicBool,
}

impl Owned {
    pub fn known(&self) -> Known {
        self.known.clone()
    }

    pub fn id(&self) -> &str {
        self.known.api_key.as_deref().unwrap_or_default()
    }

    pub fn entry(&self, digest: Digest) -> KeyEntry<'_> {
        let (user, org, tier) = (self.known.user.as_deref(), self.known.org.as_deref(), self.known.tier.as_deref());
        KeyEntry { id: self.id(), digest, user, org, tier, ..KeyEntry::default() }
    }

    #[inline]
    pub fn mark_used(&self) {
        if !self.is_used.load(Ordering::Relaxed) {
            self.is_used.store(true, Ordering::Relaxed);
        }
    }
}

/// By hash; none where the key is gone.
#[derive(Clone, Default)]
pub struct Overlay(HashMap<Digest, Option<Arc<Owned>>>);

impl Overlay {
    #[inline]
    pub fn get(&self, digest: &Digest) -> Option<Option<&Owned>> {
        if self.0.is_empty() {
            return None;
        }
        self.0.get(digest).map(Option::as_deref)
    }

    /// `digest_of` finds a key of the table below by its id.
    pub fn changed(&self, changes: Vec<KeyChange>, digest_of: impl Fn(&str) -> Option<Digest>) -> Overlay {
        let mut changed = self.clone();
        for change in changes {
            match change {
                KeyChange::Put(digest, owned) => drop(changed.0.insert(digest, Some(owned))),
                KeyChange::Gone(id) => {
                    let own = changed.present().find(|(_, owned)| *owned.id() == *id).map(|(digest, _)| digest);
                    if let Some(digest) = own.or_else(|| digest_of(&id)) {
                        changed.0.insert(digest, None);
                    }
                }
            }
        }
        changed
    }

    pub fn is_full(&self) -> bool {
        self.0.len() > OVERLAY_MAX
    }

    pub fn digests(&self) -> impl Iterator<Item = &Digest> {
        self.0.keys()
    }

    pub fn present(&self) -> impl Iterator<Item = (Digest, &Arc<Owned>)> {
        self.0.iter().filter_map(|(digest, owned)| owned.as_ref().map(|owned| (*digest, owned)))
    }

    pub fn take_used(&self, limit: usize) -> Vec<String> {
        let used = self.present().filter(|(_, owned)| owned.is_used.load(Ordering::Relaxed)).take(limit);
        let told = used.map(|(_, owned)| {
            owned.is_used.store(false, Ordering::Relaxed);
            owned.id().to_string()
        });
        told.collect()
    }
}
