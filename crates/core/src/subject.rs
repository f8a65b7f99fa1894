//! How shared stores name what a limit counts by: readable, escaped, bounded, and the same on every node.
//!
//! A record's key is `hg1:{user:42}`; what `by` names beyond the principal follows the hash tag, as in
//! `hg1:{user:42}:endpoint=/login`, so it lies in the same slot and goes with the same call.

use sha2::{Digest, Sha256};
use std::fmt::Write;

/// Names the layout of records: another layout takes another prefix, so that two versions can share a server.
pub const PREFIX: &str = "hg1:";
/// Longer texts are named by a 128-bit hash.
pub const TEXT_BYTES_MAX: usize = 128;
/// What parts of keys are made of besides texts.
const RESERVED: [u8; 5] = *b"{}|%:";
const HEX: &[u8; 16] = b"0123456789ABCDEF";

/// The principal's part of a key, hash tag and all.
pub fn put_principal(key: &mut Vec<u8>, kind: &str, text: Option<&str>) {
    key.extend_from_slice(PREFIX.as_bytes());
    key.push(b'{');
    key.extend_from_slice(kind.as_bytes());
    if let Some(text) = text {
        key.push(b':');
        put_text(key, text);
    }
    key.push(b'}');
}

/// One more part, after the principal.
pub fn put_rest(key: &mut Vec<u8>, name: &str, text: &str) {
    key.push(b':');
    put_text(key, name);
    key.push(b'=');
    put_text(key, text);
}

/// The key of an exact log's hits, beside its record.
pub fn log_key(record_key: &[u8], limit_id: u64) -> Box<[u8]> {
    let mut key = record_key.to_vec();
    key.extend_from_slice(format!("|log|{limit_id:010x}").as_bytes());
    key.into()
}

fn put_text(key: &mut Vec<u8>, text: &str) {
    if text.len() > TEXT_BYTES_MAX {
        let hash = Sha256::digest(text.as_bytes());
        let hex = hash[..16].iter().fold(String::from("#"), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}"); // Writing to a String cannot fail.
            hex
        });
        return key.extend_from_slice(hex.as_bytes());
    }
    // A text that looks like a hash must not pass for one.
    let first_is_hash = text.starts_with('#');
    for (nth, byte) in text.bytes().enumerate() {
        if RESERVED.contains(&byte) || byte.is_ascii_control() || (nth == 0 && first_is_hash) {
            key.extend_from_slice(&[b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        } else {
            key.push(byte);
        }
    }
}

/// The part of a key that decides its slot: what stands between its first braces, else all of it.
pub fn hash_tag(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|byte| *byte == b'{') else { return key };
    match key[open + 1..].iter().position(|byte| *byte == b'}') {
        None | Some(0) => key,
        Some(len) => &key[open + 1..][..len],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn principal(kind: &str, text: &str) -> String {
        let mut key = Vec::new();
        put_principal(&mut key, kind, Some(text));
        String::from_utf8(key).unwrap()
    }

    #[test]
    fn keys_are_readable_and_escaped() {
        assert_eq!(principal("user", "42"), "hg1:{user:42}");
        assert_eq!(principal("user", "a}b:{c}|%\n"), "hg1:{user:a%7Db%3A%7Bc%7D%7C%25%0A}");
        let mut key = Vec::new();
        put_principal(&mut key, "global", None);
        put_rest(&mut key, "endpoint", "/login");
        assert_eq!(key, b"hg1:{global}:endpoint=/login");
        assert_eq!(&*log_key(&key, 0xab), b"hg1:{global}:endpoint=/login|log|00000000ab".as_slice());
    }

    #[test]
    fn long_texts_are_hashed_and_nothing_can_pass_for_a_hash() {
        let long = principal("user", &"x".repeat(129));
        assert_eq!(long.len(), "hg1:{user:#}".len() + 32);
        assert_ne!(long, principal("user", &"y".repeat(129)));
        let hash = &long["hg1:{user:".len()..long.len() - 1];
        assert_ne!(principal("user", hash), long);
    }

    #[test]
    fn the_tag_is_what_the_server_takes() {
        assert_eq!(hash_tag(b"hg1:{user:42}:endpoint=/x"), b"user:42");
        assert_eq!(hash_tag(b"foo{}{bar}"), b"foo{}{bar}");
        assert_eq!(hash_tag(b"plain"), b"plain");
    }
}
