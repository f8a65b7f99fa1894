//! Protocol Buffers on the wire: fields read in place, messages written straight into their buffer.

/// A field number has 29 bits.
const NUMBER_MAX: u64 = (1 << 29) - 1;
/// 64 bits, seven a byte.
const VARINT_BYTES_MAX: usize = 10;

/// The bytes are not a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Garbage;

/// What a field holds, as far as the wire knows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Value<'a> {
    Varint(u64),
    Fixed64(u64),
    /// A text, bytes, or a message.
    Bytes(&'a [u8]),
    Fixed32(u32),
}

/// The fields of a message, in the order they were sent. Nothing follows an error.
#[derive(Clone, Debug)]
pub(crate) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    #[inline]
    pub fn new(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    #[inline]
    fn read(&mut self) -> Result<(u32, Value<'a>), Garbage> {
        let tag = self.varint()?;
        let number = tag >> 3;
        if number == 0 || number > NUMBER_MAX {
            return Err(Garbage);
        }
        let value = match tag & 7 {
            0 => Value::Varint(self.varint()?),
            1 => Value::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let length = self.varint()?;
                Value::Bytes(self.take(length)?)
            }
            5 => Value::Fixed32(u32::from_le_bytes(self.array()?)),
            // Groups have been history since before any of the messages spoken here; 6 and 7 mean nothing.
            _ => return Err(Garbage),
        };
        Ok((number as u32, value))
    }

    #[inline]
    fn varint(&mut self) -> Result<u64, Garbage> {
        match self.rest {
            [byte, rest @ ..] if *byte < 0x80 => {
                self.rest = rest;
                Ok(u64::from(*byte))
            }
            _ => self.long_varint(),
        }
    }

    /// Padding with zeros is accepted, as everywhere: writers that patch a length in use it.
    fn long_varint(&mut self) -> Result<u64, Garbage> {
        let mut value = 0u64;
        for (index, &byte) in self.rest.iter().take(VARINT_BYTES_MAX).enumerate() {
            if index == VARINT_BYTES_MAX - 1 && byte > 1 {
                return Err(Garbage);
            }
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte < 0x80 {
                self.rest = &self.rest[index + 1..];
                return Ok(value);
            }
        }
        Err(Garbage)
    }

    #[inline]
    fn take(&mut self, length: u64) -> Result<&'a [u8], Garbage> {
        let length = usize::try_from(length).map_err(|_| Garbage)?;
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(Garbage)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Garbage> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(Garbage)?;
        self.rest = rest;
        Ok(*taken)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Value<'a>), Garbage>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let read = self.read();
        if read.is_err() {
            self.rest = &[];
        }
        Some(read)
    }
}

#[inline]
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[inline]
fn put_tag(out: &mut Vec<u8>, number: u32, wire_type: u32) {
    put_varint(out, u64::from(number << 3 | wire_type));
}

/// A number, a boolean or an enum. Zero is what an absent field says; leave it out instead.
#[inline]
pub(crate) fn put_number(out: &mut Vec<u8>, number: u32, value: u64) {
    put_tag(out, number, 0);
    put_varint(out, value);
}

/// A text, bytes, or a message that is already written.
#[inline]
pub(crate) fn put_bytes(out: &mut Vec<u8>, number: u32, value: &[u8]) {
    put_tag(out, number, 2);
    put_varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

/// A message inside a message. Its length is known last and takes one byte for most; for longer ones what was written
/// moves up a little.
#[inline]
pub(crate) fn put_message<T>(out: &mut Vec<u8>, number: u32, write: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    put_tag(out, number, 2);
    let length_at = out.len();
    out.push(0);
    let written = write(out);
    let length = out.len() - length_at - 1;
    match u8::try_from(length) {
        Ok(byte) if byte < 0x80 => out[length_at] = byte,
        _ => make_room_for_length(out, length_at, length),
    }
    written
}

fn make_room_for_length(out: &mut Vec<u8>, length_at: usize, length: usize) {
    let length_bytes = (usize::BITS - length.leading_zeros()).div_ceil(7) as usize;
    let end = out.len();
    out.resize(end + length_bytes - 1, 0);
    out.copy_within(length_at + 1..end, length_at + length_bytes);
    let mut rest = length;
    for byte in &mut out[length_at..length_at + length_bytes] {
        *byte = rest as u8 | 0x80;
        rest >>= 7;
    }
    out[length_at + length_bytes - 1] &= 0x7f;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(message: &[u8]) -> Result<Vec<(u32, Value<'_>)>, Garbage> {
        Fields::new(message).collect()
    }

    #[test]
    fn every_wire_type_is_read_in_order() {
        let message = [0x08, 0x96, 0x01, 0x11, 1, 0, 0, 0, 0, 0, 0, 0, 0x1a, 2, b'h', b'i', 0x25, 2, 0, 0, 0];
        let expected =
            [(1, Value::Varint(150)), (2, Value::Fixed64(1)), (3, Value::Bytes(b"hi")), (4, Value::Fixed32(2))];
        assert_eq!(read(&message).unwrap(), expected);
        assert_eq!(read(&[]).unwrap(), []);
    }

    #[test]
    fn a_message_cut_anywhere_is_garbage_or_ends_between_fields() {
        let message = [0x08, 0x96, 0x01, 0x11, 1, 0, 0, 0, 0, 0, 0, 0, 0x1a, 2, b'h', b'i', 0x25, 2, 0, 0, 0];
        let between_fields = [0, 3, 12, 16, 21];
        for end in 0..=message.len() {
            assert_eq!(read(&message[..end]).is_ok(), between_fields.contains(&end), "cut at {end}");
        }
    }

    #[test]
    fn varints_hold_64_bits_and_no_more() {
        let all_ones = [0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(read(&all_ones).unwrap(), [(1, Value::Varint(u64::MAX))]);
        let mut one_bit_more = all_ones;
        one_bit_more[10] = 0x02;
        assert_eq!(read(&one_bit_more), Err(Garbage));
        let eleven_bytes = [0x08, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00];
        assert_eq!(read(&eleven_bytes), Err(Garbage));
    }

    #[test]
    fn a_length_padded_with_zeros_is_read() {
        assert_eq!(read(&[0x0a, 0x81, 0x80, 0x00, b'x']).unwrap(), [(1, Value::Bytes(b"x"))]);
    }

    #[test]
    fn groups_unknown_wire_types_and_impossible_numbers_are_garbage() {
        for message in [&[0x0b][..], &[0x0c], &[0x0e], &[0x0f], &[0x00, 0x00], &[0x02, 0x00]] {
            assert_eq!(read(message), Err(Garbage), "{message:?}");
        }
        let mut message = Vec::new();
        put_varint(&mut message, (NUMBER_MAX + 1) << 3);
        message.push(0);
        assert_eq!(read(&message), Err(Garbage));
    }

    #[test]
    fn a_length_past_the_end_is_garbage() {
        assert_eq!(read(&[0x0a, 2, b'x']), Err(Garbage));
        assert_eq!(read(&[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]), Err(Garbage));
    }

    #[test]
    fn nothing_follows_an_error() {
        let mut fields = Fields::new(&[0x0b, 0x08, 0x01]);
        assert_eq!(fields.next(), Some(Err(Garbage)));
        assert_eq!(fields.next(), None);
    }

    #[test]
    fn any_bytes_are_read_without_a_panic() {
        let mut state = 1u64;
        for length in 0..4096usize {
            let bytes: Vec<u8> = (0..length % 64)
                .map(|_| {
                    state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    (state >> 33) as u8
                })
                .collect();
            let taken: usize = Fields::new(&bytes)
                .map_while(Result::ok)
                .map(|(_, value)| if let Value::Bytes(bytes) = value { bytes.len() } else { 1 })
                .sum();
            assert!(taken <= bytes.len());
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let mut out = Vec::new();
        put_number(&mut out, 1, 0);
        put_number(&mut out, 2, u64::MAX);
        put_bytes(&mut out, 16, b"text");
        let expected = [(1, Value::Varint(0)), (2, Value::Varint(u64::MAX)), (16, Value::Bytes(b"text"))];
        assert_eq!(read(&out).unwrap(), expected);
    }

    #[test]
    fn a_message_of_any_length_is_written_as_its_bytes_would_be() {
        for length in [0, 1, 127, 128, 129, 16_383, 16_384, 2_097_151, 2_097_152] {
            let content: Vec<u8> = (0..length).map(|index| index as u8).collect();
            let (mut patched, mut plain) = (vec![7], vec![7]);
            put_message(&mut patched, 5, |out| out.extend_from_slice(&content));
            put_bytes(&mut plain, 5, &content);
            assert!(patched == plain, "{length} bytes");
        }
    }

    #[test]
    fn messages_nest() {
        let mut out = Vec::new();
        put_message(&mut out, 1, |out| {
            put_message(out, 2, |out| put_bytes(out, 3, &[b'x'; 200]));
            put_number(out, 4, 9);
        });
        let [(1, Value::Bytes(outer))] = read(&out).unwrap()[..] else { panic!("{out:?}") };
        let [(2, Value::Bytes(inner)), (4, Value::Varint(9))] = read(outer).unwrap()[..] else { panic!("{outer:?}") };
        assert_eq!(read(inner).unwrap(), [(3, Value::Bytes(&[b'x'; 200][..]))]);
    }
}
