//! API keys: whose they are and until when, found by a keyed hash of their value. The value itself is nowhere.
//!
//! Millions of them, so: records of one size sorted by hash, an index of where each prefix begins, and texts that are kept
//! once however many keys share them. A look-up reads one place of the index and, nearly always, one or two records.

use super::api_keys_overlay::{KeyChange, Overlay, Owned};
use super::texts::{NO_TEXT, Texts};
use super::{Known, Why, is_fact};
use hashbrown::HashTable;
use headgate_core::hash::Keyed;
use ring::hmac;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The longest key that is looked at.
const KEY_BYTES_MAX: usize = 1_024;
const SECRET_BYTES_MIN: usize = 32;
/// As many as texts and records can be numbered.
const KEYS_MAX: usize = 100_000_000;
/// Of `Record::ends_us`: the key was revoked rather than that it expired.
const REVOKED: u64 = 1 << 63;
const NEVER_US: u64 = REVOKED - 1;

pub(super) type Digest = [u8; 32];

/// What is kept of one key.
#[derive(Clone, Copy)]
struct Record {
    digest: Digest,
    ends_us: u64,
    id: u32,
    user: u32,
    org: u32,
    tier: u32,
}

/// All keys: a large table that never changes, and the few changes that came after it.
pub struct ApiKeys {
    secret: hmac::Key,
    table: Arc<Table>,
    overlay: Overlay,
}

struct Table {
    records: Box<[Record]>,
    /// Where the records of each prefix of a digest begin; one more than there are prefixes.
    starts: Box<[u32]>,
    prefix_bits: u32,
    texts: Texts,
    /// A bit a record: whether it was used since it was last asked.
    used: Box<[AtomicU64]>,
}

/// One key as a file tells of it.
#[derive(Clone, Debug, Default)]
pub struct KeyEntry<'a> {
    pub id: &'a str,
    /// HMAC-SHA256 of the key's value under the secret.
    pub digest: [u8; 32],
    pub user: Option<&'a str>,
    pub org: Option<&'a str>,
    pub tier: Option<&'a str>,
    pub expires_us: Option<u64>,
    pub revoked_us: Option<u64>,
}

impl ApiKeys {
    /// No key at all, yet.
    pub fn none(secret: &[u8]) -> Result<ApiKeys, String> {
        ApiKeysBuilder::new(secret)?.finish()
    }

    /// Whose key this is.
    pub(super) fn verify(&self, key: &[u8], now_us: u64) -> Result<Known, Why> {
        let key = key.trim_ascii();
        if key.len() > KEY_BYTES_MAX {
            return Err(Why::TooLong);
        }
        let tag = hmac::sign(&self.secret, key);
        let digest: Digest = tag.as_ref().try_into().map_err(|_| Why::UnknownApiKey)?;
        if let Some(changed) = self.overlay.get(&digest) {
            let owned = changed.ok_or(Why::UnknownApiKey)?;
            check_end(owned.ends_us, now_us)?;
            owned.mark_used();
            return Ok(owned.known());
        }
        let at = self.table.find(&digest).ok_or(Why::UnknownApiKey)?;
        let record = &self.table.records[at];
        check_end(record.ends_us, now_us)?;
        self.table.mark_used(at);
        let text = |at| self.table.texts.get(at).map(Box::from);
        Ok(Known { user: text(record.user), tier: text(record.tier), org: text(record.org), api_key: text(record.id) })
    }

    /// These keys with some changed. A key keeps its hash for as long as it has its id.
    pub fn changed(&self, changes: Vec<KeyChange>) -> Result<ApiKeys, String> {
        let digest_of = |id: &str| self.table.digest_of(id);
        let overlay = self.overlay.changed(changes, digest_of);
        let keys = ApiKeys { secret: self.secret.clone(), table: self.table.clone(), overlay };
        if keys.overlay.is_full() { keys.merged() } else { Ok(keys) }
    }

    /// One table of everything.
    fn merged(&self) -> Result<ApiKeys, String> {
        let mut keys = ApiKeysBuilder::with_secret(self.secret.clone());
        let texts = &self.table.texts;
        for record in self.table.records.iter().filter(|record| self.overlay.get(&record.digest).is_none()) {
            let id = texts.get(record.id).unwrap_or_default();
            let (user, org, tier) = (texts.get(record.user), texts.get(record.org), texts.get(record.tier));
            let entry = KeyEntry { id, digest: record.digest, user, org, tier, ..KeyEntry::default() };
            keys.add_ending(&entry, record.ends_us)?;
        }
        for (digest, owned) in self.overlay.present() {
            keys.add_ending(&owned.entry(digest), owned.ends_us)?;
        }
        keys.finish()
    }

    /// Ids of keys that were used since the last time, at most `limit`; the rest is told the next time.
    pub fn take_used(&self, limit: usize) -> Vec<String> {
        let mut ids = self.overlay.take_used(limit);
        self.table.take_used(limit, &mut ids);
        ids
    }

    pub fn len(&self) -> usize {
        let replaced = self.overlay.digests().filter(|digest| self.table.find(digest).is_some()).count();
        self.table.records.len() - replaced + self.overlay.present().count()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the table takes, in bytes.
    pub fn bytes(&self) -> usize {
        let table = &self.table;
        size_of_val(&*table.records) + size_of_val(&*table.starts) + size_of_val(&*table.used) + table.texts.bytes()
    }
}

impl Table {
    fn find(&self, digest: &Digest) -> Option<usize> {
        let prefix = prefix(digest, self.prefix_bits);
        let (start, end) = (*self.starts.get(prefix)? as usize, *self.starts.get(prefix + 1)? as usize);
        let near = self.records.get(start..end)?;
        let same =
            |found, (at, record): (usize, &Record)| if is_same(&record.digest, digest) { Some(at) } else { found };
        near.iter().enumerate().fold(None, same).map(|at| start + at)
    }

    /// A look at every key: only for one that goes.
    fn digest_of(&self, id: &str) -> Option<Digest> {
        self.records.iter().find(|record| self.texts.get(record.id) == Some(id)).map(|record| record.digest)
    }

    #[inline]
    fn mark_used(&self, at: usize) {
        let (word, bit) = (&self.used[at / 64], 1 << (at % 64));
        // Written once for each time it is asked: a key in use must not cost every request a shared cache line.
        if word.load(Ordering::Relaxed) & bit == 0 {
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }

    fn take_used(&self, limit: usize, ids: &mut Vec<String>) {
        for (nth, word) in self.used.iter().enumerate() {
            if ids.len() + 64 > limit {
                return;
            }
            if word.load(Ordering::Relaxed) == 0 {
                continue;
            }
            let mut bits = word.swap(0, Ordering::Relaxed);
            while bits != 0 {
                let record = &self.records[nth * 64 + bits.trailing_zeros() as usize];
                ids.extend(self.texts.get(record.id).map(str::to_string));
                bits &= bits - 1;
            }
        }
    }
}

/// Whether a key has ended, and how.
fn check_end(ends_us: u64, now_us: u64) -> Result<(), Why> {
    let end_us = ends_us & !REVOKED;
    if end_us == NEVER_US || now_us < end_us {
        return Ok(());
    }
    Err(if ends_us & REVOKED != 0 { Why::RevokedApiKey } else { Why::ExpiredApiKey })
}

impl fmt::Debug for ApiKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiKeys").field("keys", &self.len()).finish_non_exhaustive()
    }
}

/// Takes the same time whatever the digests are.
fn is_same(a: &Digest, b: &Digest) -> bool {
    let difference = a.iter().zip(b).fold(0_u8, |difference, (a, b)| difference | (a ^ b));
    std::hint::black_box(difference) == 0
}

fn prefix(digest: &Digest, bits: u32) -> usize {
    let [a, b, c, d, ..] = *digest;
    let word = u64::from(u32::from_be_bytes([a, b, c, d]));
    (word << bits >> 32) as usize
}

/// Where keys are gathered, one by one.
pub struct ApiKeysBuilder {
    secret: hmac::Key,
    records: Vec<Record>,
    texts: Texts,
    keyed: Keyed,
    /// Texts that may be shared, and ids that may not, by where they are.
    shared: HashTable<u32>,
    ids: HashTable<u32>,
}

impl ApiKeysBuilder {
    pub fn new(secret: &[u8]) -> Result<ApiKeysBuilder, String> {
        if secret.len() < SECRET_BYTES_MIN {
            let len = secret.len();
            return Err(format!(
                "api_key_secret: is too weak: {len} bytes, expected at least {SECRET_BYTES_MIN} (openssl rand -hex 32)"
            ));
        }
        Ok(Self::with_secret(hmac::Key::new(hmac::HMAC_SHA256, secret)))
    }

    fn with_secret(secret: hmac::Key) -> ApiKeysBuilder {
        ApiKeysBuilder {
            secret,
            records: Vec::new(),
            texts: Texts::default(),
            keyed: Keyed::random(),
            shared: HashTable::new(),
            ids: HashTable::new(),
        }
    }

    pub fn add(&mut self, entry: &KeyEntry<'_>) -> Result<(), String> {
        self.add_ending(entry, ends_us(entry))
    }

    /// Adds a key that came by the feed.
    pub(crate) fn add_owned(&mut self, digest: Digest, owned: &Owned) -> Result<(), String> {
        self.add_ending(&owned.entry(digest), owned.ends_us)
    }

    fn add_ending(&mut self, entry: &KeyEntry<'_>, ends_us: u64) -> Result<(), String> {
        const FULL: &str = "there are too many keys";
        if self.records.len() >= KEYS_MAX {
            return Err(FULL.into());
        }
        let record = Record {
            digest: entry.digest,
            ends_us,
            id: self.id(entry.id)?,
            user: self.text("user", entry.user)?,
            org: self.text("org", entry.org)?,
            tier: self.text("tier", entry.tier)?,
        };
        self.records.push(record);
        Ok(())
    }

    /// An error is the position of a key whose value an earlier one has too, and its message.
    pub fn finish(mut self) -> Result<ApiKeys, String> {
        self.records.sort_unstable_by_key(|record| record.digest);
        if let Some(pair) = self.records.windows(2).find(|pair| pair[0].digest == pair[1].digest) {
            let id = |record: &Record| self.texts.get(record.id).unwrap_or_default().to_string();
            return Err(format!("`{}` and `{}` have the same hash; a key has one entry", id(&pair[0]), id(&pair[1])));
        }
        let prefix_bits = self.records.len().max(1).ilog2();
        let mut starts = vec![0_u32; (1 << prefix_bits) + 1];
        for record in &self.records {
            starts[prefix(&record.digest, prefix_bits) + 1] += 1;
        }
        let mut sum = 0;
        for start in &mut starts {
            sum += *start;
            *start = sum;
        }
        self.texts.shrink();
        let used = (0..self.records.len().div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        let (records, starts, texts) = (self.records.into(), starts.into(), self.texts);
        let table = Table { records, starts, prefix_bits, texts, used };
        Ok(ApiKeys { secret: self.secret, table: Arc::new(table), overlay: Overlay::default() })
    }

    fn id(&mut self, id: &str) -> Result<u32, String> {
        check_fact("id", id)?;
        let hash = self.keyed.text(0, id)[0];
        if self.ids.find(hash, |at| self.texts.get(*at) == Some(id)).is_some() {
            return Err(format!("id: `{id}` is the id of an earlier key already; ids are unique"));
        }
        self.put(hash, id, true)
    }

    fn text(&mut self, field: &str, text: Option<&str>) -> Result<u32, String> {
        let Some(text) = text else { return Ok(NO_TEXT) };
        check_fact(field, text)?;
        let hash = self.keyed.text(0, text)[0];
        match self.shared.find(hash, |at| self.texts.get(*at) == Some(text)) {
            Some(at) => Ok(*at),
            None => self.put(hash, text, false),
        }
    }

    fn put(&mut self, hash: u64, text: &str, is_id: bool) -> Result<u32, String> {
        let at = self.texts.push(text).ok_or("the texts of all keys are more than 4 GiB")?;
        let table = if is_id { &mut self.ids } else { &mut self.shared };
        let (texts, keyed) = (&self.texts, &self.keyed);
        table.insert_unique(hash, at, |at| keyed.text(0, texts.get(*at).unwrap_or_default())[0]);
        Ok(at)
    }
}

pub(super) fn ends_us(entry: &KeyEntry<'_>) -> u64 {
    let expires_us = entry.expires_us.unwrap_or(NEVER_US).min(NEVER_US);
    match entry.revoked_us {
        Some(revoked_us) if revoked_us <= expires_us => revoked_us.min(NEVER_US - 1) | REVOKED,
        _ => expires_us,
    }
}

pub(super) fn check_fact(field: &str, text: &str) -> Result<(), String> {
    match is_fact(text) {
        true => Ok(()),
        false => Err(format!("{field}: expected 1 to 1024 bytes without control characters")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";

    fn digest(value: &str) -> Digest {
        hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, SECRET), value.as_bytes()).as_ref().try_into().unwrap()
    }

    fn table(count: usize) -> ApiKeys {
        let mut keys = ApiKeysBuilder::new(SECRET).unwrap();
        for nth in 0..count {
            let (id, user) = (format!("id{nth}"), format!("user{}", nth / 2));
            let digest = digest(&format!("value{nth}"));
            keys.add(&KeyEntry { id: &id, digest, user: Some(&user), tier: Some("pro"), ..KeyEntry::default() })
                .unwrap();
        }
        keys.finish().unwrap()
    }

    #[test]
    fn every_key_is_found_and_no_other() {
        for count in [0, 1, 2, 3, 100, 1_000] {
            let keys = table(count);
            for nth in 0..count {
                let known = keys.verify(format!(" value{nth} ").as_bytes(), 0).unwrap();
                assert_eq!(known.api_key.as_deref(), Some(format!("id{nth}").as_str()));
                assert_eq!(known.user.as_deref(), Some(format!("user{}", nth / 2).as_str()));
                assert_eq!((known.tier.as_deref(), known.org.as_deref()), (Some("pro"), None));
            }
            for wrong in ["", "value", "id0", "VALUE0", "value0x"] {
                assert_eq!(keys.verify(wrong.as_bytes(), 0), Err(Why::UnknownApiKey), "{wrong}");
            }
            assert_eq!(keys.verify(&[b'x'; KEY_BYTES_MAX + 1], 0), Err(Why::TooLong));
        }
    }

    #[test]
    fn a_key_ends_when_it_expires_or_is_revoked() {
        let ends = |expires_us, revoked_us, now_us| {
            let mut keys = ApiKeysBuilder::new(SECRET).unwrap();
            let entry = KeyEntry { id: "a", digest: digest("v"), expires_us, revoked_us, ..KeyEntry::default() };
            keys.add(&entry).unwrap();
            keys.finish().unwrap().verify(b"v", now_us).err()
        };
        assert_eq!(ends(None, None, u64::MAX), None);
        assert_eq!(ends(Some(10), None, 9), None);
        assert_eq!(ends(Some(10), None, 10), Some(Why::ExpiredApiKey));
        assert_eq!(ends(Some(10), Some(5), 4), None);
        assert_eq!(ends(Some(10), Some(5), 5), Some(Why::RevokedApiKey));
        assert_eq!(ends(None, Some(0), 0), Some(Why::RevokedApiKey));
        assert_eq!(ends(Some(10), Some(20), 30), Some(Why::ExpiredApiKey));
    }

    #[test]
    fn ids_and_hashes_are_unique() {
        let mut keys = ApiKeysBuilder::new(SECRET).unwrap();
        let entry = KeyEntry { id: "a", digest: digest("v"), ..KeyEntry::default() };
        keys.add(&entry).unwrap();
        assert!(keys.add(&entry).unwrap_err().contains("ids are unique"));
        keys.add(&KeyEntry { id: "b", ..entry }).unwrap();
        assert!(keys.finish().unwrap_err().contains("same hash"));
    }

    #[test]
    fn a_weak_secret_and_unusable_texts_are_refused() {
        assert!(ApiKeysBuilder::new(&[7; 31]).err().unwrap().contains("at least 32"));
        let mut keys = ApiKeysBuilder::new(SECRET).unwrap();
        for wrong in ["", "a\nb", &"x".repeat(1_025)] {
            assert!(keys.add(&KeyEntry { id: wrong, ..KeyEntry::default() }).is_err());
            assert!(keys.add(&KeyEntry { id: "a", tier: Some(wrong), ..KeyEntry::default() }).is_err());
        }
    }

    #[test]
    fn a_key_takes_at_most_a_hundred_bytes_beyond_its_texts() {
        let keys = table(10_000);
        let own_texts = 10_000 * (2 + "id9999".len()) + 5_000 * (2 + "user4999".len());
        assert!(keys.bytes() - own_texts <= 64 * keys.len(), "{}", keys.bytes() / keys.len());
    }

    fn change(id: &str, value: &str, revoked_us: Option<u64>) -> KeyChange {
        let entry = KeyEntry { id, digest: digest(value), user: Some("new"), revoked_us, ..KeyEntry::default() };
        KeyChange::put(&entry).unwrap()
    }

    #[test]
    fn changes_are_laid_over_the_table() {
        let keys = table(100);
        let changes = vec![
            change("id7", "value7", Some(5)),
            change("id200", "value200", None),
            KeyChange::Gone("id9".into()),
            KeyChange::Gone("nobody".into()),
        ];
        let mut changed = keys.changed(changes).unwrap();
        for _ in 0..2 {
            assert_eq!(changed.len(), 100);
            assert_eq!(changed.verify(b"value7", 6), Err(Why::RevokedApiKey));
            assert_eq!(changed.verify(b"value9", 6), Err(Why::UnknownApiKey));
            assert_eq!(changed.verify(b"value200", 6).unwrap().user.as_deref(), Some("new"));
            assert_eq!(changed.verify(b"value8", 6).unwrap().user.as_deref(), Some("user4"));
            changed = changed.merged().unwrap();
        }
        assert!(keys.verify(b"value7", 6).is_ok() && keys.verify(b"value9", 6).is_ok(), "the old one is as it was");
        let back = changed.changed(vec![KeyChange::Gone("id200".into()), change("id9", "value9", None)]).unwrap();
        assert_eq!(back.verify(b"value200", 0), Err(Why::UnknownApiKey));
        assert!(back.verify(b"value9", 0).is_ok());
    }

    #[test]
    fn many_changes_become_one_table() {
        let mut keys = ApiKeys::none(SECRET).unwrap();
        for step in 0..10 {
            let some = (0..4_000).map(|n| change(&format!("{step}-{n}"), &format!("v{step}-{n}"), None)).collect();
            keys = keys.changed(some).unwrap();
        }
        assert_eq!(keys.len(), 40_000);
        assert!(keys.overlay.digests().count() < 40_000);
        assert!(keys.verify(b"v0-0", 0).is_ok() && keys.verify(b"v9-3999", 0).is_ok());
    }

    #[test]
    fn keys_that_were_used_are_told_once() {
        let keys = table(300).changed(vec![change("id999", "value999", None)]).unwrap();
        assert!(keys.take_used(1_000).is_empty());
        for value in ["value3", "value299", "value999", "value3", "wrong"] {
            let _ = keys.verify(value.as_bytes(), 0);
        }
        let mut used = keys.take_used(1_000);
        used.sort_unstable();
        assert_eq!(used, ["id299", "id3", "id999"]);
        assert!(keys.take_used(1_000).is_empty());
    }

    #[test]
    fn nothing_of_a_table_is_shown() {
        assert_eq!(format!("{:?}", table(2)), "ApiKeys { keys: 2, .. }");
    }
}
