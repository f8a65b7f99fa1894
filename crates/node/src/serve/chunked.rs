//! Bodies that come in chunks, whose length nobody knows beforehand.

/// The longest line that announces a chunk, or trailer that follows the last.
const LINE_BYTES_MAX: usize = 256;
/// Trailers are read over; so many of them.
const TRAILERS_MAX: usize = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expects {
    Size,
    Data(u64),
    /// The end of the line after a chunk's data.
    DataEnd,
    Trailer(usize),
}

/// Gathers a chunked body piece by piece.
#[derive(Debug)]
pub(crate) struct Chunks {
    expects: Expects,
    pub body: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// So many bytes of input were used, and more are needed.
    Part(usize),
    /// So many bytes of input were used, and the body is whole.
    Whole(usize),
    TooLarge,
    Wrong,
}

impl Default for Chunks {
    fn default() -> Self {
        Self { expects: Expects::Size, body: Vec::new() }
    }
}

impl Chunks {
    /// Takes what it can from `input`; a body may have at most `bytes_max`.
    pub fn take(&mut self, input: &[u8], bytes_max: usize) -> Progress {
        let mut used = 0;
        loop {
            let rest = &input[used..];
            if let Expects::Data(len) = self.expects {
                let count = rest.len().min(usize::try_from(len).unwrap_or(usize::MAX));
                self.body.extend_from_slice(&rest[..count]);
                used += count;
                let left = len - count as u64;
                self.expects = if left == 0 { Expects::DataEnd } else { Expects::Data(left) };
                if left > 0 {
                    return Progress::Part(used);
                }
                continue;
            }
            // Data longer than announced is told from a line's end by its first byte.
            if self.expects == Expects::DataEnd && !rest.iter().zip(b"\r\n").all(|(byte, expected)| byte == expected) {
                return Progress::Wrong;
            }
            let Some(end) = rest.iter().take(LINE_BYTES_MAX).position(|byte| *byte == b'\n') else {
                return if rest.len() < LINE_BYTES_MAX { Progress::Part(used) } else { Progress::Wrong };
            };
            let Some(line) = rest[..end].strip_suffix(b"\r") else { return Progress::Wrong };
            used += end + 1;
            match (self.expects, line) {
                (Expects::Size, _) => match size(line) {
                    Some(0) => self.expects = Expects::Trailer(0),
                    Some(len) if len <= (bytes_max - self.body.len()) as u64 => self.expects = Expects::Data(len),
                    Some(_) => return Progress::TooLarge,
                    None => return Progress::Wrong,
                },
                (Expects::DataEnd, b"") => self.expects = Expects::Size,
                (Expects::Trailer(_), b"") => return Progress::Whole(used),
                (Expects::Trailer(count), _) if count < TRAILERS_MAX => self.expects = Expects::Trailer(count + 1),
                _ => return Progress::Wrong,
            }
        }
    }
}

/// The size a chunk's line announces; what follows a semicolon means nothing to us.
fn size(line: &[u8]) -> Option<u64> {
    let digits = line.split(|byte| *byte == b';').next()?.trim_ascii_end();
    if digits.is_empty() || digits.len() > 15 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u64::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_the_same_however_it_is_cut() {
        let input = b"5\r\nhello\r\nA;name=value\r\n, you all!\r\n0\r\ntrailer: x\r\n\r\nnext";
        for piece in 1..input.len() {
            let (mut chunks, mut unread, mut fed) = (Chunks::default(), Vec::new(), 0);
            let rest = loop {
                let more = &input[fed..(fed + piece).min(input.len())];
                fed += more.len();
                unread.extend_from_slice(more);
                match chunks.take(&unread, 100) {
                    Progress::Part(used) => drop(unread.drain(..used)),
                    Progress::Whole(used) => break unread.split_off(used),
                    other => panic!("{piece}: {other:?}"),
                }
            };
            assert_eq!(chunks.body, b"hello, you all!", "{piece}");
            assert_eq!([&rest, &input[fed..]].concat(), b"next", "{piece}");
        }
    }

    #[test]
    fn what_is_no_chunk_is_wrong_and_what_is_too_large_is_told() {
        let take = |input: &[u8]| Chunks::default().take(input, 10);
        for wrong in [
            &b"zz\r\n"[..],
            b"\r\n",
            b"-1\r\n",
            b"5\nhello\r\n",
            b"5\r\nhelloX\r\n",
            b"0x5\r\n",
            b"fffffffffffffffff\r\n",
            &[b'1'; 300],
        ] {
            assert_eq!(take(wrong), Progress::Wrong, "{wrong:?}");
        }
        assert_eq!(take(b"b\r\n"), Progress::TooLarge);
        assert_eq!(take(b"6\r\nabcdef\r\n5\r\n"), Progress::TooLarge);
        assert_eq!(take(format!("0\r\n{}", "a: b\r\n".repeat(40)).as_bytes()), Progress::Wrong);
    }
}
