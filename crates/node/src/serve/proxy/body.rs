//! Where a body ends: told from its bytes as they pass, without keeping any.

use super::words::{is_token, is_value};

/// Digits a chunk's size may have: no body is longer.
const SIZE_DIGITS_MAX: u8 = 15;
/// Bytes of a client's trailers, and of what a chunk may be said to be beside its size.
const TRAILER_BYTES_MAX: usize = 8 * 1024;
/// The same of an upstream, whose gRPC puts what went wrong there.
const UPSTREAM_TRAILER_BYTES_MAX: usize = 64 * 1024;

/// What is still to come of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Body {
    /// So many bytes; 0 when there is no more.
    Length(u64),
    Chunked(Chunks),
    /// Whatever comes until the connection ends.
    UntilClose,
}

/// Not a body as its head announced it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chunks {
    expects: Expects,
    /// Of the present line, or of all trailers.
    bytes: usize,
    /// What may stand behind a chunk's size is passed on by upstreams and refused from clients.
    takes_extensions: bool,
    /// Trailers as they came, where they are wanted.
    trailers: Option<Vec<u8>>,
    /// Where the present trailer's line begins among them.
    line: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expects {
    /// Digits of a size: how many came, and what they make.
    Size(u8, u64),
    Extension(u64),
    SizeEnd(u64),
    Data(u64),
    DataCr,
    DataLf,
    TrailerStart,
    Trailer,
    TrailerEnd,
    LastLf,
    Done,
}

/// A run of bytes of a chunked body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// How many bytes of the input it takes.
    pub used: usize,
    /// Whether they are what the body is made of, and not what holds it together.
    pub is_data: bool,
}

impl Body {
    /// As a client sends it.
    pub fn chunked() -> Body {
        Body::Chunked(Chunks::new(false, false))
    }

    /// As an upstream sends it, with its trailers kept where they are wanted.
    pub fn chunked_by_upstream(keeps_trailers: bool) -> Body {
        Body::Chunked(Chunks::new(true, keeps_trailers))
    }

    #[inline]
    pub fn is_done(&self) -> bool {
        match self {
            Body::Length(left) => *left == 0,
            Body::Chunked(chunks) => chunks.expects == Expects::Done,
            Body::UntilClose => false,
        }
    }

    /// How many of these bytes belong to it.
    #[inline]
    pub fn take(&mut self, input: &[u8]) -> Result<usize, Malformed> {
        let mut used = 0;
        while used < input.len() && !self.is_done() {
            used += self.next(&input[used..])?.used;
        }
        Ok(used)
    }

    /// The next run of bytes; the input is not empty and the body not done.
    #[inline]
    pub fn next(&mut self, input: &[u8]) -> Result<Piece, Malformed> {
        match self {
            Body::Length(left) => {
                let used = input.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= used as u64;
                Ok(Piece { used, is_data: true })
            }
            Body::Chunked(chunks) => chunks.next(input),
            Body::UntilClose => Ok(Piece { used: input.len(), is_data: true }),
        }
    }

    /// Asks for trailers to be kept, before any of it has come.
    pub fn keep_trailers(&mut self) {
        if let Body::Chunked(chunks) = self {
            chunks.trailers = Some(Vec::new());
        }
    }

    /// The header lines behind a chunked body, once it is done.
    pub fn trailers(&self) -> &[u8] {
        match self {
            Body::Chunked(chunks) => chunks.trailers.as_deref().unwrap_or_default(),
            _ => b"",
        }
    }
}

impl Chunks {
    fn new(takes_extensions: bool, keeps_trailers: bool) -> Self {
        let trailers = keeps_trailers.then(Vec::new);
        Self { expects: Expects::Size(0, 0), bytes: 0, takes_extensions, trailers, line: Vec::new() }
    }

    fn next(&mut self, input: &[u8]) -> Result<Piece, Malformed> {
        if let Expects::Data(left) = self.expects {
            let used = input.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let left = left - used as u64;
            self.expects = if left == 0 { Expects::DataCr } else { Expects::Data(left) };
            return Ok(Piece { used, is_data: true });
        }
        let mut used = 0;
        while used < input.len() && !matches!(self.expects, Expects::Data(_) | Expects::Done) {
            self.expects = self.step(input[used])?;
            used += 1;
        }
        Ok(Piece { used, is_data: false })
    }

    /// What one byte that is not data leads to.
    fn step(&mut self, byte: u8) -> Result<Expects, Malformed> {
        Ok(match (self.expects, byte) {
            (Expects::Size(digits, size), _) if byte.is_ascii_hexdigit() && digits < SIZE_DIGITS_MAX => {
                let digit = (byte as char).to_digit(16).unwrap_or(0);
                Expects::Size(digits + 1, size * 16 + u64::from(digit))
            }
            (Expects::Size(1.., size), b'\r') => Expects::SizeEnd(size),
            (Expects::Size(1.., size), b';' | b' ' | b'\t') if self.takes_extensions => Expects::Extension(size),
            (Expects::Extension(size), b'\r') => Expects::SizeEnd(size),
            (Expects::Extension(size), _) if is_value(byte) => {
                self.count()?;
                Expects::Extension(size)
            }
            (Expects::SizeEnd(0), b'\n') => Expects::TrailerStart,
            (Expects::SizeEnd(size), b'\n') => {
                self.bytes = 0;
                Expects::Data(size)
            }
            (Expects::DataCr, b'\r') => Expects::DataLf,
            (Expects::DataLf, b'\n') => Expects::Size(0, 0),
            (Expects::TrailerStart, b'\r') => Expects::LastLf,
            (Expects::TrailerStart, _) if is_token(byte) => self.trailer(byte)?,
            (Expects::Trailer, b'\r') => Expects::TrailerEnd,
            (Expects::Trailer, _) if is_value(byte) => self.trailer(byte)?,
            (Expects::TrailerEnd, b'\n') => self.end_trailer()?,
            (Expects::LastLf, b'\n') => Expects::Done,
            _ => return Err(Malformed),
        })
    }

    fn count(&mut self) -> Result<(), Malformed> {
        self.bytes += 1;
        let bytes_max = if self.takes_extensions { UPSTREAM_TRAILER_BYTES_MAX } else { TRAILER_BYTES_MAX };
        if self.bytes > bytes_max { Err(Malformed) } else { Ok(()) }
    }

    fn trailer(&mut self, byte: u8) -> Result<Expects, Malformed> {
        self.count()?;
        self.line.push(byte);
        Ok(Expects::Trailer)
    }

    fn end_trailer(&mut self) -> Result<Expects, Malformed> {
        let colon = self.line.iter().position(|byte| *byte == b':').ok_or(Malformed)?;
        let name = &self.line[..colon];
        if name.is_empty() || !name.iter().all(|byte| is_token(*byte)) || is_kept_from_trailers(name) {
            return Err(Malformed);
        }
        if let Some(trailers) = &mut self.trailers {
            trailers.extend_from_slice(&self.line);
            trailers.extend_from_slice(b"\r\n");
        }
        self.line.clear();
        Ok(Expects::TrailerStart)
    }
}

/// Headers that say how a request is framed, routed or whom it is from: behind a body they would speak too late, and an
/// upstream that puts trailers among the headers would believe them.
pub(super) fn is_kept_from_trailers(name: &[u8]) -> bool {
    const NAMES: [&[u8]; 11] = [
        b"host",
        b"content-length",
        b"transfer-encoding",
        b"connection",
        b"upgrade",
        b"te",
        b"trailer",
        b"authorization",
        b"cookie",
        b"forwarded",
        b"content-encoding",
    ];
    NAMES.iter().any(|known| same(name, known)) || is_our_word(name)
}

/// Headers by which upstreams are told whom a request is from, however they are written.
#[inline]
pub(super) fn is_our_word(name: &[u8]) -> bool {
    starts(name, b"x-headgate-") || starts(name, b"x-forwarded-") || same(name, b"x-real-ip")
}

#[inline]
pub(super) fn starts(name: &[u8], prefix: &[u8]) -> bool {
    name.len() >= prefix.len() && same(&name[..prefix.len()], prefix)
}

/// Whether some upstream takes one name for the other: there are those to which an underscore is a hyphen, and those to which
/// everything is that is neither letter nor digit.
#[inline]
pub(super) fn same(name: &[u8], other: &[u8]) -> bool {
    let hyphened = |byte: &u8| if byte.is_ascii_alphanumeric() { byte.to_ascii_lowercase() } else { b'-' };
    name.len() == other.len() && name.iter().zip(other).all(|(byte, other)| hyphened(byte) == hyphened(other))
}

/// The same, written in another way than we read it.
#[inline]
pub(super) fn passes_for(name: &[u8], other: &[u8]) -> bool {
    same(name, other) && !name.eq_ignore_ascii_case(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All that a body is made of, fed in pieces of so many bytes; and what came behind it.
    fn read(mut body: Body, input: &[u8], piece: usize) -> Result<(Vec<u8>, Vec<u8>, Body), Malformed> {
        let mut data = Vec::new();
        let mut at = 0;
        while at < input.len() && !body.is_done() {
            let came = &input[at..(at + piece).min(input.len())];
            let next = body.next(came)?;
            if next.is_data {
                data.extend_from_slice(&came[..next.used]);
            }
            at += next.used;
        }
        Ok((data, input[at..].to_vec(), body))
    }

    #[test]
    fn a_body_is_the_same_however_it_is_cut() {
        let input = b"5\r\nhello\r\n00A\r\n, you all!\r\n0\r\nX-Sum: y\r\n\r\nnext";
        for piece in 1..=input.len() {
            let (data, rest, body) = read(Body::chunked_by_upstream(true), input, piece).unwrap();
            assert_eq!(
                (&data[..], &rest[..], body.is_done()),
                (&b"hello, you all!"[..], &b"next"[..], true),
                "{piece}"
            );
            assert_eq!(body.trailers(), b"X-Sum: y\r\n");
        }
        let mut body = Body::chunked();
        assert_eq!(body.take(input), Ok(input.len() - 4));
        assert!(body.is_done());
    }

    #[test]
    fn a_length_takes_no_more_than_it_says() {
        let mut body = Body::Length(3);
        assert_eq!(body.take(b"ab"), Ok(2));
        assert!(!body.is_done());
        assert_eq!(body.take(b"cd"), Ok(1));
        assert!(body.is_done());
        assert_eq!(body.take(b"ef"), Ok(0));
    }

    #[test]
    fn what_is_no_chunk_is_refused() {
        for wrong in [
            "\r\n",
            "zz\r\n",
            "-1\r\n",
            "+1\r\n",
            "0x5\r\n",
            " 5\r\n",
            "5 \r\n",
            "5;a=b\r\nhello\r\n",
            "5\nhello\r\n",
            "5\r\nhelloX\r\n",
            "5\r\nhello\n",
            "ffffffffffffffff\r\n",
            "0\r\nno colon\r\n\r\n",
            "0\r\n: x\r\n\r\n",
            "0\r\n folded: x\r\n\r\n",
            "0\r\na b: x\r\n\r\n",
            "0\r\nContent-Length: 5\r\n\r\n",
            "0\r\nX_Forwarded_For: 1.2.3.4\r\n\r\n",
            "0\r\nContent_Length: 5\r\n\r\n",
            "0\r\nX-Headgate-User: root\r\n\r\n",
            "0\r\na: b\n\r\n",
            "0\r\n\n",
        ] {
            assert_eq!(Body::chunked().take(wrong.as_bytes()), Err(Malformed), "{wrong:?}");
        }
        let long = format!("0\r\na: {}", "b".repeat(TRAILER_BYTES_MAX));
        assert_eq!(Body::chunked().take(long.as_bytes()), Err(Malformed));
        assert_eq!(Body::chunked_by_upstream(false).take(long.as_bytes()), Ok(long.len()));
        assert_eq!(Body::chunked_by_upstream(false).take(b"5 ;a=b\r\nhello\r\n0\r\n\r\n"), Ok(20));
    }
}
