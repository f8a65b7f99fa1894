//! The strict scanner: every byte of a request's head is looked at before anything is made of it.
//!
//! Whatever two readers could understand in two ways is refused here, so that an upstream never sees a request that we did
//! not see (SEMANTICS 8.2). It is a reader of its own and not a check in front of another: what it did not read does not
//! exist.

use super::body::Body;
use super::words::{is_framing, is_host, is_target_byte, is_token, is_value, passes_for_framing, whole_number, words};
use crate::serve::head::{HEAD_BYTES_MAX, HEADERS_MAX};
use smallvec::SmallVec;
use std::ops::Range;

/// Where a text lies in the head. Heads are short enough for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Span {
    pub start: u16,
    pub end: u16,
}

impl Span {
    fn new(start: usize, end: usize) -> Self {
        Self { start: start as u16, end: end as u16 }
    }

    #[inline]
    pub fn of<'h>(&self, head: &'h [u8]) -> &'h [u8] {
        &head[Range::from(*self)]
    }
}

impl From<Span> for Range<usize> {
    fn from(span: Span) -> Self {
        usize::from(span.start)..usize::from(span.end)
    }
}

/// One header line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Field {
    pub name: Span,
    pub value: Span,
}

/// A request's head, all of it understood. Positions count from its first byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub method: Span,
    pub target: Span,
    /// Of the target, without its query.
    pub path: Span,
    pub fields: SmallVec<[Field; 20]>,
    pub host: Option<Span>,
    pub body: Body,
    /// Whether the client wants to go on after this.
    pub keep_alive: bool,
    /// HTTP/1.0.
    pub is_old: bool,
    /// `HEAD`: whatever its answer says, it has no body.
    pub is_head: bool,
    pub expects_continue: bool,
    /// Asks to go on in another protocol, and not in one that carries requests.
    pub upgrades: bool,
    /// `Connection` names headers that are meant for us alone.
    pub lists_names: bool,
    pub len: usize,
}

/// Why a head is refused: the status, and words for whoever sent it.
pub(super) type Wrong = (u16, &'static str);

#[derive(Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "a box would be an allocation for each request")]
pub(super) enum Scanned {
    Whole(Head),
    /// More is to come.
    Part,
    Wrong(Wrong),
}

/// Scans the head at the start of `input`.
pub(super) fn scan(input: &[u8]) -> Scanned {
    scan_within(input, HEAD_BYTES_MAX, HEADERS_MAX)
}

/// The same for a head that we wrote: there is more in it than came.
pub(super) fn scan_ours(input: &[u8]) -> Scanned {
    scan_within(input, usize::from(u16::MAX), HEADERS_MAX * 2)
}

fn scan_within(input: &[u8], bytes_max: usize, fields_max: usize) -> Scanned {
    let bounded = &input[..input.len().min(bytes_max)];
    match read(bounded, fields_max) {
        Ok(head) => Scanned::Whole(head),
        Err(Stop::Wrong(wrong)) => Scanned::Wrong(wrong),
        Err(Stop::Part) if input.len() < bytes_max => Scanned::Part,
        Err(Stop::Part) => Scanned::Wrong(TOO_LARGE),
    }
}

const TOO_LARGE: Wrong = (431, "the head of the request is too large: at most 32 KiB and 100 headers");
const BAD_LINE: Wrong =
    (400, "a line of the head has to end in CR LF, and hold neither of them nor other controls before");
const BAD_REQUEST_LINE: Wrong = (400, "expected `METHOD /path HTTP/1.1`, with one space between");
const BAD_TARGET: Wrong = (400, "the target has to be a path that starts with `/`, in visible ASCII and without `#`");
const BAD_NAME: Wrong = (400, "a header's name has to be letters, digits and -, with the colon right behind it");
const FOLDED: Wrong = (400, "a header may not go on in the next line");
const BAD_HOST: Wrong = (400, "a request has exactly one well-formed Host header");
const BAD_LENGTH: Wrong =
    (400, "a request has at most one Content-Length, a number, and none beside Transfer-Encoding");
const BAD_FRAMING: Wrong = (400, "Content-Length and Transfer-Encoding are written with a hyphen");
const BAD_CODING: Wrong = (400, "the only Transfer-Encoding known is one `chunked`, and that of HTTP/1.1");
const BAD_CONNECTION: Wrong = (400, "Connection may not name Host, Content-Length or Transfer-Encoding");
const BAD_UPGRADE: Wrong = (400, "a request has at most one Upgrade header");
const BAD_EXPECTATION: Wrong = (417, "the only expectation known is 100-continue");
const BAD_METHOD: Wrong = (405, "CONNECT and TRACE are not passed on");

enum Stop {
    Part,
    Wrong(Wrong),
}

impl From<Wrong> for Stop {
    fn from(wrong: Wrong) -> Self {
        Stop::Wrong(wrong)
    }
}

fn read(input: &[u8], fields_max: usize) -> Result<Head, Stop> {
    let mut cursor = Cursor { input, at: 0 };
    let method = cursor.method()?;
    let target = cursor.target()?;
    let is_old = cursor.version()?;
    let is_path = |byte: &u8| *byte != b'?';
    let path_len = target.of(input).iter().take_while(|byte| is_path(byte)).count();
    let mut head = Head {
        method,
        target,
        path: Span { start: target.start, end: target.start + path_len as u16 },
        fields: SmallVec::new(),
        host: None,
        body: Body::Length(0),
        keep_alive: !is_old,
        is_old,
        is_head: method.of(input) == b"HEAD",
        expects_continue: false,
        upgrades: false,
        lists_names: false,
        len: 0,
    };
    while let Some(field) = cursor.field()? {
        if head.fields.len() == fields_max {
            return Err(TOO_LARGE.into());
        }
        head.fields.push(field);
    }
    head.len = cursor.at;
    understand(&mut head, input)?;
    Ok(head)
}

/// What the headers say of the request's framing and of the connection.
fn understand(head: &mut Head, input: &[u8]) -> Result<(), Wrong> {
    if matches!(head.method.of(input), b"CONNECT" | b"TRACE") {
        return Err(BAD_METHOD);
    }
    let mut length: Option<u64> = None;
    let (mut is_chunked, mut wants_upgrade, mut protocol) = (false, false, None);
    for field in &head.fields {
        let (name, value) = (field.name.of(input), field.value.of(input));
        match name.len() {
            4 if name.eq_ignore_ascii_case(b"host") => {
                once(&mut head.host, field.value, BAD_HOST)?;
                if !is_host(value) {
                    return Err(BAD_HOST);
                }
            }
            14 if name.eq_ignore_ascii_case(b"content-length") => {
                once(&mut length, whole_number(value).ok_or(BAD_LENGTH)?, BAD_LENGTH)?;
            }
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {
                if is_chunked || head.is_old || !value.eq_ignore_ascii_case(b"chunked") {
                    return Err(BAD_CODING);
                }
                is_chunked = true;
            }
            10 if name.eq_ignore_ascii_case(b"connection") => {
                for word in words(value) {
                    match word {
                        _ if word.eq_ignore_ascii_case(b"close") => head.keep_alive = false,
                        _ if word.eq_ignore_ascii_case(b"keep-alive") => head.keep_alive = true,
                        _ if word.eq_ignore_ascii_case(b"upgrade") => wants_upgrade = true,
                        _ if is_framing(word) => return Err(BAD_CONNECTION),
                        _ => head.lists_names = true,
                    }
                }
            }
            7 if name.eq_ignore_ascii_case(b"upgrade") => once(&mut protocol, value, BAD_UPGRADE)?,
            6 if name.eq_ignore_ascii_case(b"expect") => {
                if !value.eq_ignore_ascii_case(b"100-continue") {
                    return Err(BAD_EXPECTATION);
                }
                head.expects_continue = !head.is_old;
            }
            14 | 17 if passes_for_framing(name) => return Err(BAD_FRAMING),
            _ => {}
        }
    }
    if head.host.is_none() && !head.is_old {
        return Err(BAD_HOST);
    }
    head.body = match (length, is_chunked) {
        (Some(_), true) => return Err(BAD_LENGTH),
        (None, true) => Body::chunked(),
        (length, false) => Body::Length(length.unwrap_or(0)),
    };
    head.upgrades =
        wants_upgrade && !head.is_old && head.body == Body::Length(0) && protocol.is_some_and(|value| !is_http(value));
    Ok(())
}

/// Whether requests could go on in one of these protocols, where nobody would look at them.
fn is_http(protocols: &[u8]) -> bool {
    let is_one = |word: &[u8]| {
        let starts = |with: &[u8]| word.get(..with.len()).is_some_and(|start| start.eq_ignore_ascii_case(with));
        starts(b"h2") || starts(b"http") || starts(b"tls")
    };
    words(protocols).any(is_one)
}

fn once<T>(slot: &mut Option<T>, value: T, wrong: Wrong) -> Result<(), Wrong> {
    if slot.replace(value).is_some() { Err(wrong) } else { Ok(()) }
}

struct Cursor<'i> {
    input: &'i [u8],
    at: usize,
}

impl Cursor<'_> {
    /// As many bytes as are of a kind; part when the input ends among them.
    #[inline]
    fn run(&mut self, is_kind: impl Fn(u8) -> bool) -> Result<Span, Stop> {
        let start = self.at;
        let rest = &self.input[start..];
        let len = rest.iter().position(|byte| !is_kind(*byte)).ok_or(Stop::Part)?;
        self.at += len;
        Ok(Span::new(start, self.at))
    }

    #[inline]
    fn expect(&mut self, byte: u8, wrong: Wrong) -> Result<(), Stop> {
        match self.input.get(self.at) {
            Some(found) if *found == byte => {
                self.at += 1;
                Ok(())
            }
            Some(_) => Err(wrong.into()),
            None => Err(Stop::Part),
        }
    }

    #[inline]
    fn line_end(&mut self, wrong: Wrong) -> Result<(), Stop> {
        self.expect(b'\r', wrong)?;
        self.expect(b'\n', BAD_LINE)
    }

    fn method(&mut self) -> Result<Span, Stop> {
        let method = self.run(is_token)?;
        if method.start == method.end {
            return Err(BAD_REQUEST_LINE.into());
        }
        self.expect(b' ', BAD_REQUEST_LINE)?;
        Ok(method)
    }

    fn target(&mut self) -> Result<Span, Stop> {
        let target = self.run(is_target_byte)?;
        if self.input.get(usize::from(target.start)) != Some(&b'/') {
            return Err(BAD_TARGET.into());
        }
        self.expect(b' ', BAD_TARGET)?;
        Ok(target)
    }

    /// Whether it is the old one.
    fn version(&mut self) -> Result<bool, Stop> {
        for byte in b"HTTP/1." {
            self.expect(*byte, BAD_REQUEST_LINE)?;
        }
        let minor = *self.input.get(self.at).ok_or(Stop::Part)?;
        self.at += 1;
        self.line_end(BAD_REQUEST_LINE)?;
        match minor {
            b'0' => Ok(true),
            b'1' => Ok(false),
            _ => Err(BAD_REQUEST_LINE.into()),
        }
    }

    /// The next header, none at the end of the head.
    #[inline]
    fn field(&mut self) -> Result<Option<Field>, Stop> {
        match self.input.get(self.at) {
            Some(b'\r') => {
                self.at += 1;
                self.expect(b'\n', BAD_LINE)?;
                return Ok(None);
            }
            Some(b' ' | b'\t') => return Err(FOLDED.into()),
            _ => {}
        }
        let name = self.run(is_token)?;
        if name.start == name.end {
            return Err(BAD_NAME.into());
        }
        self.expect(b':', BAD_NAME)?;
        let value = self.run(is_value)?;
        self.line_end(BAD_LINE)?;
        let bytes = value.of(self.input);
        let lead = bytes.len() - bytes.trim_ascii_start().len();
        let len = bytes.trim_ascii().len();
        let start = usize::from(value.start) + lead;
        Ok(Some(Field { name, value: Span::new(start, start + len) }))
    }
}
