//! Taking over what was sent.

use super::entries::{self, Change, Full, understand};
use super::frames::{Delta, Position, RawEntry, Snapshot, block_entries};
use super::status::Changing;
use super::{FeedError, FeedStatus};
use crate::engine::Engine;
use crate::identity::{ApiKeys, ApiKeysBuilder, Identity, KeyChange};
use headgate_core::rule_index::RuleBook;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel, sync_channel};

/// Refusals that are told one by one; more are only counted.
const REFUSED_MAX: usize = 100;
/// Entries that room is made for at once.
const ROOM_MAX: u64 = 10_000_000;
/// Threads that read a large snapshot.
const READERS_MAX: usize = 4;

/// What became of something that was sent.
#[derive(Debug, Default)]
pub struct Applied {
    pub position: Position,
    /// How many entries it had; 0 for what was known already.
    pub entries: usize,
    /// Entries this node could not take; what they were before stays.
    pub refused: Vec<Refused>,
    /// Some of them for want of room, which a snapshot may make.
    pub is_full: bool,
}

#[derive(Debug)]
pub struct Refused {
    pub kind: &'static str,
    pub id: String,
    pub message: String,
}

impl Applied {
    fn refuse(&mut self, kind: u8, id: &str, message: String) {
        if self.refused.len() < REFUSED_MAX {
            self.refused.push(Refused { kind: entries::word(kind), id: id.into(), message });
        }
    }

    fn refuse_full(&mut self, kind: u8, full: Full) {
        self.is_full = true;
        self.refuse(kind, full.name.strip_prefix("block:").unwrap_or(&full.name), full.message);
    }
}

impl Engine {
    /// Where this node stands in the feed; zeros before the first snapshot.
    pub fn feed_position(&self) -> Position {
        self.feed.changing.lock().position
    }

    pub fn set_feed_status(&self, status: FeedStatus) {
        self.feed.set_status(status);
    }

    /// API keys come by the feed from now on, hashed under this secret.
    pub fn take_keys_from_feed(&self, secret: &[u8]) -> Result<(), String> {
        let mut changing = self.feed.changing.lock();
        self.swap_keys(&mut changing, ApiKeys::none(secret)?);
        changing.secret = Some(secret.to_vec());
        Ok(())
    }

    /// Takes a delta over. One that is known already is nothing; one that does not follow is a gap.
    pub fn apply_delta(&self, raw: &[u8], key: &[u8]) -> Result<Applied, FeedError> {
        let delta = Delta::read(raw, key)?;
        let entries = delta.entries()?;
        let mut changing = self.feed.changing.lock();
        let have = changing.position;
        if delta.to <= have {
            return Ok(Applied { position: have, ..Applied::default() });
        }
        if delta.since.epoch != have.epoch || delta.since.version > have.version {
            return Err(FeedError::Gap { have, since: delta.since });
        }
        let mut applied = Applied { position: delta.to, entries: entries.len(), ..Applied::default() };
        let understood: Vec<(RawEntry<'_>, Result<Change, String>)> =
            entries.into_iter().map(|entry| (entry, understand(&entry))).collect();
        let mut keys = Vec::new();
        self.change_rules(|book| {
            for (entry, change) in &understood {
                match change.as_ref().map(|change| change.apply(book)) {
                    Ok(Ok(key)) => keys.extend(key.cloned()),
                    Ok(Err(full)) => applied.refuse_full(entry.kind, full),
                    Err(message) => applied.refuse(entry.kind, entry.id, message.clone()),
                }
            }
        });
        if let (false, Some(table)) = (keys.is_empty(), &changing.keys) {
            match table.changed(keys) {
                Ok(changed) => self.swap_keys(&mut changing, changed),
                Err(message) => applied.refuse(entries::KEY, "all", message),
            }
        }
        self.taken(&mut changing, &applied, delta.at_us);
        Ok(applied)
    }

    /// Takes a snapshot over, whatever its position: everything that came by the feed is replaced at once.
    pub fn apply_snapshot(&self, path: &Path, key: &[u8]) -> Result<Applied, FeedError> {
        let raw = std::fs::read(path).map_err(FeedError::Io)?;
        let snapshot = Snapshot::read(&raw, key)?;
        let mut changing = self.feed.changing.lock();
        let secret = changing.secret.clone();
        let mut applied =
            Applied { position: snapshot.position, entries: snapshot.count as usize, ..Applied::default() };
        let mut keys = secret.and_then(|secret| ApiKeysBuilder::new(&secret).ok());
        self.replace(|book| fill(book, &mut keys, &snapshot, &mut applied))?;
        if let Some(keys) = keys {
            match keys.finish() {
                Ok(keys) => self.swap_keys(&mut changing, keys),
                Err(message) => applied.refuse(entries::KEY, "all", message),
            }
        }
        self.taken(&mut changing, &applied, snapshot.at_us);
        Ok(applied)
    }

    /// Ids of API keys that were used since the last time.
    pub fn take_used_keys(&self, limit: usize) -> Vec<String> {
        self.identity().api_keys.as_ref().map_or_else(Vec::new, |keys| keys.take_used(limit))
    }

    fn taken(&self, changing: &mut Changing, applied: &Applied, at_us: u64) {
        changing.position = applied.position;
        self.feed.refused.fetch_add(applied.refused.len() as u64, Ordering::Relaxed);
        self.feed.moved(applied.position, at_us, self.wall_us());
    }

    fn swap_keys(&self, changing: &mut Changing, keys: ApiKeys) {
        let keys = Arc::new(keys);
        changing.keys = Some(keys.clone());
        self.change_identity(|identity| Identity { api_keys: Some(keys), ..identity });
    }
}

/// Blocks are inflated and understood by several threads; one puts them into the book.
fn fill(
    book: &mut RuleBook,
    keys: &mut Option<ApiKeysBuilder>,
    snapshot: &Snapshot<'_>,
    applied: &mut Applied,
) -> Result<(), FeedError> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let readers = cores.min(READERS_MAX).min(snapshot.blocks.len()).max(1);
    let next = AtomicUsize::new(0);
    let mut count = 0;
    std::thread::scope(|scope| {
        let (sender, receiver) = sync_channel(2 * readers);
        // What a snapshot says of itself is authentic, and bounded all the same.
        book.reserve(snapshot.count.min(ROOM_MAX) as usize);
        // What was put goes back to whoever read it: memory is freed by the thread that took it, which is much quicker.
        let mut done: Vec<Sender<Vec<Understood>>> = Vec::new();
        for reader in 0..readers {
            let (sender, next) = (sender.clone(), &next);
            let (put, emptied) = channel::<Vec<Understood>>();
            done.push(put);
            scope.spawn(move || {
                while let Some(block) = snapshot.blocks.get(next.fetch_add(1, Ordering::Relaxed)) {
                    emptied.try_iter().for_each(drop);
                    if sender.send((reader, understand_block(block))).is_err() {
                        return; // Another block was broken.
                    }
                }
                drop(sender);
                emptied.iter().for_each(drop);
            });
        }
        drop(sender);
        for (reader, block) in receiver {
            let block = block?;
            count += block.len() as u64;
            for understood in &block {
                put(book, keys.as_mut(), understood, applied);
            }
            let _ = done[reader].send(block); // It is there until it has seen them all.
        }
        Ok(())
    })?;
    match count == snapshot.count {
        true => Ok(()),
        false => Err(FeedError::Corrupt("a snapshot does not hold what it says")),
    }
}

fn put(book: &mut RuleBook, keys: Option<&mut ApiKeysBuilder>, (kind, id, change): &Understood, applied: &mut Applied) {
    match (change.as_ref().map(|change| change.apply(book)), keys) {
        (Ok(Ok(Some(KeyChange::Put(digest, owned)))), Some(keys)) => {
            if let Err(message) = keys.add_owned(*digest, owned) {
                applied.refuse(*kind, id, message);
            }
        }
        (Ok(Ok(_)), _) => {}
        (Ok(Err(full)), _) => applied.refuse_full(*kind, full),
        (Err(message), _) => applied.refuse(*kind, id, message.clone()),
    }
}

type Understood = (u8, String, Result<Change, String>);

fn understand_block(block: &[u8]) -> Result<Vec<Understood>, FeedError> {
    let mut room = Vec::new();
    let entries = block_entries(block, &mut room)?;
    let understood = entries.into_iter().map(|entry| {
        let change = understand(&entry);
        // Only what is refused is called by its id again.
        let id = if change.is_err() || entry.kind != entries::RULE { entry.id.to_string() } else { String::new() };
        (entry.kind, id, change)
    });
    Ok(understood.collect())
}
