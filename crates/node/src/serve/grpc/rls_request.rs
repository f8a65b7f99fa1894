//! `RateLimitRequest`, read in place.

use super::proto::{Fields, Garbage, Value};
use crate::described::Entry;
use headgate_core::quota::{Algorithm, Quota};
use smallvec::SmallVec;
use std::borrow::Cow;

/// Descriptors of one call, and entries of one descriptor.
const DESCRIPTORS_MAX: usize = 64;
const ENTRIES_MAX: usize = 32;

/// What is wrong with a request, as the caller is told.
pub(crate) type Wrong = &'static str;

/// A call. Texts are borrowed from its message; those of all descriptors lie in one list, so that nothing large is moved.
#[derive(Debug, Default)]
pub(crate) struct Request<'a> {
    pub domain: Cow<'a, str>,
    pub descriptors: SmallVec<[Descriptor; 6]>,
    entries: SmallVec<[Entry<'a>; 12]>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Descriptor {
    first: u16,
    end: u16,
    pub own: OwnLimit,
    /// The request's addend where it has none of its own.
    pub hits: u64,
}

impl<'a> Request<'a> {
    pub fn entries(&self, descriptor: &Descriptor) -> &[Entry<'a>] {
        &self.entries[usize::from(descriptor.first)..usize::from(descriptor.end)]
    }
}

/// The limit a descriptor brings along.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum OwnLimit {
    #[default]
    None,
    Nothing,
    Quota(Quota),
}

/// Envoy's units of time, by their numbers, in seconds.
const UNITS_S: [(u64, u64); 7] =
    [(1, 1), (2, 60), (3, 3_600), (4, 86_400), (5, 30 * 86_400), (6, 365 * 86_400), (7, 7 * 86_400)];

/// The number of a unit; 0 for a time that is none.
pub(crate) fn unit_of(window_us: u64) -> u64 {
    UNITS_S.iter().find(|(_, unit_s)| unit_s * 1_000_000 == window_us).map_or(0, |(number, _)| *number)
}

/// Reads a message into an empty request.
pub(crate) fn read<'a>(message: &'a [u8], request: &mut Request<'a>) -> Result<(), Wrong> {
    let mut hits = 0;
    let mut count = 0;
    for field in Fields::new(message) {
        match field.map_err(garbage)? {
            (1, Value::Bytes(domain)) => request.domain = text(domain),
            (2, Value::Bytes(_)) => count += 1,
            (3, Value::Varint(addend)) => hits = addend,
            _ => {}
        }
    }
    if count == 0 {
        return Err("a call needs at least one descriptor");
    }
    if count > DESCRIPTORS_MAX {
        return Err("a call may have at most 64 descriptors");
    }
    // The addend may stand behind the descriptors, and nought means one.
    let hits = u64::from((hits as u32).max(1));
    for field in Fields::new(message) {
        if let (2, Value::Bytes(descriptor)) = field.map_err(garbage)? {
            read_descriptor(descriptor, hits, request)?;
        }
    }
    Ok(())
}

fn read_descriptor<'a>(message: &'a [u8], hits: u64, request: &mut Request<'a>) -> Result<(), Wrong> {
    let first = request.entries.len();
    let mut descriptor = Descriptor { first: first as u16, end: 0, own: OwnLimit::None, hits };
    for field in Fields::new(message) {
        match field.map_err(garbage)? {
            (1, Value::Bytes(entry)) => request.entries.push(read_entry(entry)?),
            (2, Value::Bytes(limit)) => descriptor.own = read_limit(limit)?,
            // Its presence says that it is meant: nought only looks.
            (3, Value::Bytes(addend)) => descriptor.hits = read_number(addend)?,
            (4, Value::Varint(negative)) if negative != 0 => return Err("negative hits are not taken"),
            _ => {}
        }
        if request.entries.len() - first > ENTRIES_MAX {
            return Err("a descriptor may have at most 32 entries");
        }
    }
    descriptor.end = request.entries.len() as u16;
    request.descriptors.push(descriptor);
    Ok(())
}

fn read_entry(message: &[u8]) -> Result<Entry<'_>, Wrong> {
    let (mut key, mut value) = (Cow::Borrowed(""), Cow::Borrowed(""));
    for field in Fields::new(message) {
        match field.map_err(garbage)? {
            (1, Value::Bytes(bytes)) => key = text(bytes),
            (2, Value::Bytes(bytes)) => value = text(bytes),
            _ => {}
        }
    }
    Ok((key, value))
}

/// What a client sent may be no UTF-8. It counts all the same: an error would let it pass.
#[inline]
fn text(bytes: &[u8]) -> Cow<'_, str> {
    match str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => String::from_utf8_lossy(bytes),
    }
}

fn read_limit(message: &[u8]) -> Result<OwnLimit, Wrong> {
    let (mut count, mut unit) = (0, 0);
    for field in Fields::new(message) {
        match field.map_err(garbage)? {
            (1, Value::Varint(number)) => count = number,
            (2, Value::Varint(number)) => unit = number,
            _ => {}
        }
    }
    let unit_s = UNITS_S.iter().find(|(number, _)| *number == unit).map(|(_, unit_s)| *unit_s);
    let window_us = unit_s.ok_or("a descriptor's limit needs a unit of time")? * 1_000_000;
    if count == 0 {
        return Ok(OwnLimit::Nothing);
    }
    let quota = Quota::new(u64::from(count as u32), window_us, None, Some(Algorithm::SlidingWindow));
    quota.map(OwnLimit::Quota).map_err(|_| "a descriptor's limit is out of range")
}

/// A number wrapped in a message, as those are that may be absent.
fn read_number(message: &[u8]) -> Result<u64, Wrong> {
    let mut number = 0;
    for field in Fields::new(message) {
        if let (1, Value::Varint(value)) = field.map_err(garbage)? {
            number = value;
        }
    }
    Ok(number)
}

fn garbage(_: Garbage) -> Wrong {
    "this is no RateLimitRequest"
}
