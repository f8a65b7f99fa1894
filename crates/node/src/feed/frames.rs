//! Deltas and snapshots as bytes: verified, taken apart, inflated. Knows nothing of what entries mean.

use super::FeedError;
use flate2::{Decompress, FlushDecompress, Status};
use ring::hmac;
use std::fmt;

const DELTA_MAGIC: &[u8] = b"HGD1";
const SNAPSHOT_MAGIC: &[u8] = b"HGS1";
const MAC_BYTES: usize = 32;
const DELTA_HEAD: usize = 4 + 4 * 8 + 4 + 1 + 4;
const SNAPSHOT_HEAD: usize = 4 + 3 * 8;
/// What a delta may be, inflated.
const DELTA_BYTES_MAX: usize = 64 << 20;
/// What a block of a snapshot may be, inflated: one entry larger than a block has one of its own.
const BLOCK_BYTES_MAX: usize = (512 << 10) + (2 << 20) + 4_096 + 7;
const GONE: u32 = u32::MAX;

/// A place in the log of changes. A ledger that was restored begins a new epoch, so the newest is the greatest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    pub epoch: u64,
    pub version: u64,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.epoch, self.version)
    }
}

/// One entry: its body's JSON, or none when it is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawEntry<'a> {
    pub kind: u8,
    pub id: &'a str,
    pub body: Option<&'a str>,
}

/// What changed after `since`, up to `to`.
pub struct Delta {
    pub since: Position,
    pub to: Position,
    pub at_us: u64,
    count: usize,
    body: Vec<u8>,
}

impl Delta {
    pub fn read(raw: &[u8], key: &[u8]) -> Result<Delta, FeedError> {
        const SHORT: FeedError = FeedError::Corrupt("a delta is cut short or too long");
        if !raw.starts_with(DELTA_MAGIC) {
            return Err(FeedError::Corrupt("this is no delta"));
        }
        let signed = verified(raw, key, "a delta")?;
        let (head, body) = signed.split_at_checked(DELTA_HEAD).ok_or(SHORT)?;
        let mut head = Numbers(&head[4..]);
        let (epoch, since, to, at_us) = (head.u64(), head.u64(), head.u64(), head.u64());
        let (count, deflated, length) = (head.u32() as usize, head.u8(), head.u32() as usize);
        if body.len() != length || since > to {
            return Err(SHORT);
        }
        let body = if deflated == 0 { body.to_vec() } else { inflate(body, DELTA_BYTES_MAX)? };
        let at = |version| Position { epoch, version };
        Ok(Delta { since: at(since), to: at(to), at_us, count, body })
    }

    pub fn entries(&self) -> Result<Vec<RawEntry<'_>>, FeedError> {
        let entries = entries(&self.body)?;
        match entries.len() == self.count {
            true => Ok(entries),
            false => Err(FeedError::Corrupt("a delta does not hold what it says")),
        }
    }
}

/// Everything there is at one position.
pub struct Snapshot<'a> {
    pub position: Position,
    pub at_us: u64,
    pub count: u64,
    /// Deflated, each on its own.
    pub blocks: Vec<&'a [u8]>,
}

impl<'a> Snapshot<'a> {
    pub fn read(raw: &'a [u8], key: &[u8]) -> Result<Snapshot<'a>, FeedError> {
        const SHORT: FeedError = FeedError::Corrupt("a snapshot is cut short or too long");
        if !raw.starts_with(SNAPSHOT_MAGIC) {
            return Err(FeedError::Corrupt("this is no snapshot"));
        }
        let signed = verified(raw, key, "a snapshot")?;
        let (head, mut rest) = signed.split_at_checked(SNAPSHOT_HEAD).ok_or(SHORT)?;
        let mut head = Numbers(&head[4..]);
        let (epoch, version, at_us) = (head.u64(), head.u64(), head.u64());
        let mut blocks = Vec::new();
        loop {
            let (length, after) = rest.split_first_chunk().ok_or(SHORT)?;
            let length = u32::from_le_bytes(*length) as usize;
            if length == 0 {
                let count = u64::from_le_bytes(after.try_into().map_err(|_| SHORT)?);
                return Ok(Snapshot { position: Position { epoch, version }, at_us, count, blocks });
            }
            let (block, after) = after.split_at_checked(length).ok_or(SHORT)?;
            blocks.push(block);
            rest = after;
        }
    }
}

/// A block's entries, inflated into `room`.
pub fn block_entries<'r>(block: &[u8], room: &'r mut Vec<u8>) -> Result<Vec<RawEntry<'r>>, FeedError> {
    *room = inflate(block, BLOCK_BYTES_MAX)?;
    entries(room)
}

/// All but the mac at the end, once that is known to be right.
fn verified<'a>(raw: &'a [u8], key: &[u8], what: &'static str) -> Result<&'a [u8], FeedError> {
    let Some(at) = raw.len().checked_sub(MAC_BYTES) else {
        return Err(FeedError::Corrupt("too short to be anything"));
    };
    let (signed, mac) = raw.split_at(at);
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    hmac::verify(&key, signed, mac).map_err(|_| FeedError::Forged(what))?;
    Ok(signed)
}

fn inflate(raw: &[u8], bytes_max: usize) -> Result<Vec<u8>, FeedError> {
    const BROKEN: FeedError = FeedError::Corrupt("what was deflated cannot be read");
    let mut out = Vec::with_capacity((raw.len().saturating_mul(8)).min(bytes_max));
    let mut inflater = Decompress::new(true);
    loop {
        let consumed = inflater.total_in() as usize;
        let status = inflater.decompress_vec(&raw[consumed..], &mut out, FlushDecompress::Finish);
        match status.map_err(|_| BROKEN)? {
            Status::StreamEnd if inflater.total_in() as usize == raw.len() && out.len() <= bytes_max => return Ok(out),
            Status::StreamEnd => return Err(BROKEN),
            // Room ran out, or the input did.
            _ if out.len() == out.capacity() && out.len() < bytes_max => {
                out.reserve(out.capacity().max(4_096).min(bytes_max));
            }
            _ => return Err(BROKEN),
        }
    }
}

fn entries(mut raw: &[u8]) -> Result<Vec<RawEntry<'_>>, FeedError> {
    const BROKEN: FeedError = FeedError::Corrupt("an entry cannot be read");
    let mut found = Vec::new();
    while !raw.is_empty() {
        let (head, rest) = raw.split_first_chunk::<7>().ok_or(BROKEN)?;
        let mut head = Numbers(head);
        let (kind, id_length, body_length) = (head.u8(), usize::from(head.u16()), head.u32());
        let (id, rest) = rest.split_at_checked(id_length).ok_or(BROKEN)?;
        let gone = body_length == GONE;
        let (body, rest) = rest.split_at_checked(if gone { 0 } else { body_length as usize }).ok_or(BROKEN)?;
        let id = str::from_utf8(id).map_err(|_| BROKEN)?;
        let body = str::from_utf8(body).map_err(|_| BROKEN)?;
        found.push(RawEntry { kind, id, body: (!gone).then_some(body) });
        raw = rest;
    }
    Ok(found)
}

/// Little-endian numbers off the front of bytes whose length was looked at before.
struct Numbers<'a>(&'a [u8]);

impl Numbers<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (taken, rest) = self.0.split_first_chunk().expect("heads are as long as what is read from them");
        self.0 = rest;
        *taken
    }

    fn u8(&mut self) -> u8 {
        u8::from_le_bytes(self.take())
    }

    fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.take())
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }
}
