//! Base64, read strictly: one text for one value, so that a token cannot be written in two ways.

const URL: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const NONE: u8 = 0xff;

const URL_VALUES: [u8; 256] = values(URL);
const STANDARD_VALUES: [u8; 256] = values(STANDARD);

const fn values(alphabet: &[u8; 64]) -> [u8; 256] {
    let mut values = [NONE; 256];
    let mut value = 0;
    while value < 64 {
        values[alphabet[value] as usize] = value as u8;
        value += 1;
    }
    values
}

/// base64url without padding, as tokens and JWKs are written.
pub(super) fn decode_url(text: &[u8]) -> Option<Vec<u8>> {
    decode(text, &URL_VALUES)
}

/// Standard base64 with padding, as PEM is written; white space is skipped.
pub(super) fn decode_pem(text: &str) -> Option<Vec<u8>> {
    let packed: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    if !packed.len().is_multiple_of(4) {
        return None;
    }
    let padding = packed.iter().rev().take_while(|byte| **byte == b'=').count();
    if padding > 2 {
        return None;
    }
    decode(&packed[..packed.len() - padding], &STANDARD_VALUES)
}

fn decode(text: &[u8], values: &[u8; 256]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 2);
    for chunk in text.chunks(4) {
        let mut bits = 0_u32;
        for byte in chunk {
            let value = values[usize::from(*byte)];
            if value == NONE {
                return None;
            }
            bits = bits << 6 | u32::from(value);
        }
        let spare = match chunk.len() {
            4 => 0,
            3 => 2,
            2 => 4,
            _ => return None,
        };
        // Bits that belong to no byte must be zero, or two texts would mean the same.
        if bits & ((1 << spare) - 1) != 0 {
            return None;
        }
        let whole = (bits >> spare).to_be_bytes();
        bytes.extend_from_slice(&whole[whole.len() - (chunk.len() - 1)..]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_and_other_writings_of_them_are_not() {
        for (text, value) in [("", &b""[..]), ("Zg", b"f"), ("Zm8", b"fo"), ("Zm9v", b"foo"), ("-_8", b"\xfb\xff")] {
            assert_eq!(decode_url(text.as_bytes()).as_deref(), Some(value), "{text}");
        }
        for wrong in ["Zh", "Zm9", "Zg==", "Z", "+/8", "Zm 9v", "Zm9v\n", "Zm8=", "é"] {
            assert_eq!(decode_url(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn pem_is_padded_and_may_be_broken_into_lines() {
        assert_eq!(decode_pem("Zm9v\r\nZg==\n").as_deref(), Some(&b"foof"[..]));
        for wrong in ["Zg", "Zg=", "Zg===", "-_8=", "Zm9vZ==="] {
            assert_eq!(decode_pem(wrong), None, "{wrong}");
        }
    }
}
