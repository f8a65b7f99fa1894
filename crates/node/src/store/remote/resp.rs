//! The servers' protocol (RESP 2) over plain bytes: no sockets here.

use std::fmt;

/// The longest reply that is waited for.
pub const REPLY_BYTES_MAX: usize = 64 << 20;
const DEPTH_MAX: usize = 8;
const ELEMENTS_MAX: usize = 1 << 20;

/// One reply, borrowed from the buffer it came in.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply<'a> {
    Simple(&'a [u8]),
    Error(&'a [u8]),
    Number(i64),
    Bulk(&'a [u8]),
    Nil,
    Array(Vec<Reply<'a>>),
}

impl<'a> Reply<'a> {
    pub fn bytes(&self) -> Option<&'a [u8]> {
        match self {
            Reply::Bulk(bytes) | Reply::Simple(bytes) => Some(bytes),
            _ => None,
        }
    }

    pub fn text(&self) -> Option<&'a str> {
        self.bytes().and_then(|bytes| str::from_utf8(bytes).ok())
    }

    pub fn number(&self) -> Option<i64> {
        match self {
            Reply::Number(number) => Some(*number),
            other => other.text()?.parse().ok(),
        }
    }

    pub fn array(&self) -> Option<&[Reply<'a>]> {
        match self {
            Reply::Array(items) => Some(items),
            _ => None,
        }
    }
}

/// The other side does not speak this protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotResp(pub String);

impl fmt::Display for NotResp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Begins a command of so many parts.
pub fn put_head(out: &mut Vec<u8>, parts: usize) {
    put_number(out, b'*', parts);
}

pub fn put_bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, b'$', bytes.len());
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

pub fn put_command(out: &mut Vec<u8>, parts: &[&[u8]]) {
    put_head(out, parts.len());
    parts.iter().for_each(|part| put_bulk(out, part));
}

fn put_number(out: &mut Vec<u8>, sign: u8, number: usize) {
    out.push(sign);
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Reads one reply off the front; none while part of it is still to come.
pub fn read_reply(bytes: &[u8]) -> Result<Option<(Reply<'_>, usize)>, NotResp> {
    let mut reader = Reader { bytes, at: 0 };
    match reader.reply(0) {
        Ok(reply) => Ok(Some((reply, reader.at))),
        Err(Stop::Short) if bytes.len() > REPLY_BYTES_MAX => Err(NotResp("a reply is too long".into())),
        Err(Stop::Short) => Ok(None),
        Err(Stop::Wrong(what)) => Err(NotResp(what)),
    }
}

enum Stop {
    Short,
    Wrong(String),
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn reply(&mut self, depth: usize) -> Result<Reply<'a>, Stop> {
        let kind = *self.bytes.get(self.at).ok_or(Stop::Short)?;
        if !matches!(kind, b'+' | b'-' | b':' | b'$' | b'*') {
            return Err(Stop::Wrong(self.shown()));
        }
        self.at += 1;
        let line = self.line()?;
        match kind {
            b'+' => Ok(Reply::Simple(line)),
            b'-' => Ok(Reply::Error(line)),
            b':' => self.number(line).map(Reply::Number),
            b'$' => match self.number(line)? {
                -1 => Ok(Reply::Nil),
                len => self.bulk(len),
            },
            _ => match self.number(line)? {
                -1 => Ok(Reply::Nil),
                len => self.array(len, depth),
            },
        }
    }

    fn bulk(&mut self, len: i64) -> Result<Reply<'a>, Stop> {
        let len = usize::try_from(len).ok().filter(|len| *len <= REPLY_BYTES_MAX);
        let len = len.ok_or_else(|| Stop::Wrong("a text of impossible length".into()))?;
        let bytes = self.bytes.get(self.at..self.at + len + 2).ok_or(Stop::Short)?;
        self.at += len + 2;
        match bytes.strip_suffix(b"\r\n") {
            Some(text) => Ok(Reply::Bulk(text)),
            None => Err(Stop::Wrong("a text without its end".into())),
        }
    }

    fn array(&mut self, len: i64, depth: usize) -> Result<Reply<'a>, Stop> {
        let len = usize::try_from(len).ok().filter(|len| *len <= ELEMENTS_MAX && depth < DEPTH_MAX);
        let len = len.ok_or_else(|| Stop::Wrong("a list of impossible length or depth".into()))?;
        let mut items = Vec::with_capacity(len.min(512));
        for _ in 0..len {
            items.push(self.reply(depth + 1)?);
        }
        Ok(Reply::Array(items))
    }

    fn line(&mut self) -> Result<&'a [u8], Stop> {
        let rest = &self.bytes[self.at..];
        let Some(len) = rest.iter().position(|byte| *byte == b'\r') else { return Err(Stop::Short) };
        match rest.get(len + 1) {
            None => Err(Stop::Short),
            Some(b'\n') => {
                self.at += len + 2;
                Ok(&rest[..len])
            }
            Some(_) => Err(Stop::Wrong(self.shown())),
        }
    }

    fn number(&self, line: &[u8]) -> Result<i64, Stop> {
        let number = str::from_utf8(line).ok().and_then(|text| text.parse().ok());
        number.ok_or_else(|| Stop::Wrong("a number that is none".into()))
    }

    /// The start of what came instead, for the error.
    fn shown(&self) -> String {
        let start: String = String::from_utf8_lossy(&self.bytes[self.at..]).chars().take(40).collect();
        format!("it answered {start:?}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_read_whole_or_not_at_all() {
        let bytes = b"*4\r\n$3\r\na\r\n\r\n:-7\r\n$-1\r\n*1\r\n+OK\r\n-ERR no\r\n";
        let wanted = Reply::Array(vec![
            Reply::Bulk(b"a\r\n"),
            Reply::Number(-7),
            Reply::Nil,
            Reply::Array(vec![Reply::Simple(b"OK")]),
        ]);
        let whole = bytes.len() - b"-ERR no\r\n".len();
        assert_eq!(read_reply(bytes), Ok(Some((wanted, whole))));
        for cut in 0..whole {
            assert_eq!(read_reply(&bytes[..cut]), Ok(None), "cut at {cut}");
        }
        assert_eq!(read_reply(&bytes[whole..]), Ok(Some((Reply::Error(b"ERR no"), 9))));
    }

    #[test]
    fn another_protocol_is_told_from_half_a_reply() {
        for bytes in [&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], b"$x\r\n", b"$2\r\nabcd", b"*-5\r\n", b":1\rx"] {
            assert!(read_reply(bytes).is_err(), "{bytes:?}");
        }
        let deep = b"*1\r\n".repeat(20);
        assert!(read_reply(&deep).is_err());
    }

    #[test]
    fn commands_are_counted_texts() {
        let mut out = Vec::new();
        put_command(&mut out, &[b"GET", b"a b"]);
        assert_eq!(out, b"*2\r\n$3\r\nGET\r\n$3\r\na b\r\n");
    }
}
