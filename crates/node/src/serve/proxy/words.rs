//! What heads are made of: letters, names, numbers and lists.

use super::body::passes_for;

const HOST_BYTES_MAX: usize = 512;

/// The words of a list by comma.
pub(super) fn words(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|word| !word.is_empty())
}

/// Whether a header says where a request ends or whom it is for.
pub(super) fn is_framing(name: &[u8]) -> bool {
    [&b"host"[..], b"content-length", b"transfer-encoding"].iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// Whether some upstream may take this for a header that says where a request ends, and we do not.
pub(super) fn passes_for_framing(name: &[u8]) -> bool {
    passes_for(name, b"content-length") || passes_for(name, b"transfer-encoding")
}

pub(super) fn whole_number(value: &[u8]) -> Option<u64> {
    let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    let number = if is_number { str::from_utf8(value).ok()?.parse().ok() } else { None };
    // Some upstreams keep a sign, and would read a larger one as less than nothing.
    number.filter(|number| i64::try_from(*number).is_ok())
}

/// Whether a target is one that is passed on: a path, whatever it came by.
pub(super) fn is_target(target: &[u8]) -> bool {
    target.first() == Some(&b'/') && target.iter().all(|byte| is_target_byte(*byte))
}

/// A name and a port, or none. It is told to upstreams three times, and no name is longer.
pub(super) fn is_host(host: &[u8]) -> bool {
    let is_byte = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~:[]%!$&'()*+;=".contains(byte);
    host.len() <= HOST_BYTES_MAX && host.iter().all(is_byte)
}

#[inline]
pub(super) fn is_target_byte(byte: u8) -> bool {
    matches!(byte, 0x21..=0x7e) && byte != b'#'
}

#[inline]
pub(super) fn is_value(byte: u8) -> bool {
    matches!(byte, 0x20..=0x7e | b'\t' | 0x80..)
}

/// Letters that names are made of, as HTTP has them.
const TOKEN: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        let is_other = matches!(
            byte as u8,
            b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`' | b'|' | b'~'
        );
        table[byte] = (byte as u8).is_ascii_alphanumeric() || is_other;
        byte += 1;
    }
    table
};

#[inline]
pub(super) fn is_token(byte: u8) -> bool {
    TOKEN[usize::from(byte)]
}
