//! The head of a request: what is asked, and how its body is framed.
//!
//! Strict where two readers could disagree about where a request ends: such a request is refused and the connection
//! closed.

use super::router::Route;
use httparse::{Error, Header, Status};
use std::mem::MaybeUninit;
use std::ops::Range;

/// The most bytes a request's line and headers may take.
pub(crate) const HEAD_BYTES_MAX: usize = 32 * 1024;
/// The most headers a request may have.
pub(crate) const HEADERS_MAX: usize = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// So many bytes; 0 when there is no body.
    Length(u64),
    Chunked,
}

/// What is kept of a head. Positions count from the start of the input it was read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub route: Route,
    pub method: Range<usize>,
    pub query: Option<Range<usize>>,
    pub framing: Framing,
    /// Whether the client wants to go on after this.
    pub keep_alive: bool,
    /// HTTP/1.0: which must be told when its connection stays.
    pub is_old: bool,
    /// Whether the client waits to be told to send its body.
    pub expects_continue: bool,
    /// Where the body begins.
    pub len: usize,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Parsed {
    Whole(Head),
    /// More is to come.
    Part,
    /// Not a request: the status that says so.
    Wrong(u16),
}

/// Reads the head at the start of `input`.
#[inline]
pub(crate) fn parse(input: &[u8]) -> Parsed {
    let mut headers: [MaybeUninit<Header<'_>>; HEADERS_MAX] = [const { MaybeUninit::uninit() }; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut []);
    let len = match request.parse_with_uninit_headers(input, &mut headers) {
        Ok(Status::Complete(len)) if len <= HEAD_BYTES_MAX => len,
        Ok(Status::Partial) if input.len() <= HEAD_BYTES_MAX => return Parsed::Part,
        Ok(_) | Err(Error::TooManyHeaders) => return Parsed::Wrong(431),
        Err(_) => return Parsed::Wrong(400),
    };
    let (Some(method), Some(target), Some(version)) = (request.method, request.path, request.version) else {
        return Parsed::Wrong(400);
    };
    let at = |part: &str| {
        let start = part.as_ptr() as usize - input.as_ptr() as usize;
        start..start + part.len()
    };
    let (path, query) = match target.split_once('?') {
        Some((path, query)) => (path, Some(at(query))),
        None => (target, None),
    };
    let mut head = Head {
        route: Route::of(without_origin(path)),
        method: at(method),
        query,
        framing: Framing::Length(0),
        keep_alive: version == 1,
        is_old: version == 0,
        expects_continue: false,
        len,
    };
    match read_headers(&mut head, request.headers) {
        Some(()) => Parsed::Whole(head),
        None => Parsed::Wrong(400),
    }
}

/// None when the headers leave open where the body ends.
#[inline]
fn read_headers(head: &mut Head, headers: &[Header<'_>]) -> Option<()> {
    let mut length: Option<u64> = None;
    let mut chunked = false;
    for Header { name, value } in headers {
        match name.len() {
            14 if name.eq_ignore_ascii_case("content-length") => {
                let read = whole_number(value)?;
                if length.is_some_and(|known| known != read) {
                    return None;
                }
                length = Some(read);
            }
            17 if name.eq_ignore_ascii_case("transfer-encoding") => {
                if chunked || !value.eq_ignore_ascii_case(b"chunked") {
                    return None;
                }
                chunked = true;
            }
            10 if name.eq_ignore_ascii_case("connection") => {
                for word in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
                    if word.eq_ignore_ascii_case(b"close") {
                        head.keep_alive = false;
                    } else if word.eq_ignore_ascii_case(b"keep-alive") {
                        head.keep_alive = true;
                    }
                }
            }
            6 if name.eq_ignore_ascii_case("expect") => {
                head.expects_continue = !head.is_old && value.eq_ignore_ascii_case(b"100-continue");
            }
            _ => {}
        }
    }
    if chunked && (length.is_some() || head.is_old) {
        return None;
    }
    head.framing = if chunked { Framing::Chunked } else { Framing::Length(length.unwrap_or(0)) };
    Some(())
}

fn whole_number(value: &[u8]) -> Option<u64> {
    let digits = value.iter().all(u8::is_ascii_digit).then_some(value)?;
    str::from_utf8(digits).ok()?.parse().ok()
}

/// The path of a target written as a whole address, as requests through a proxy are.
fn without_origin(target: &str) -> &str {
    match target.strip_prefix("http://") {
        Some(rest) => rest.find('/').map_or("/", |slash| &rest[slash..]),
        None => target,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(text: &str) -> Head {
        match parse(text.as_bytes()) {
            Parsed::Whole(head) => head,
            other => panic!("{text:?}: {other:?}"),
        }
    }

    #[test]
    fn a_head_is_read() {
        let text = "POST /v1/check?headers=true HTTP/1.1\r\nHost: x\r\nContent-LENGTH: 12\r\n\r\n{}";
        let head = whole(text);
        assert_eq!((head.route, head.framing), (Route::Check, Framing::Length(12)));
        assert_eq!((&text[head.method], &text[head.query.unwrap()]), ("POST", "headers=true"));
        assert!(head.keep_alive && !head.is_old && !head.expects_continue);
        assert_eq!(&text[head.len..], "{}");
    }

    #[test]
    fn who_stays_is_as_the_version_and_the_client_say() {
        for (text, stays) in [
            ("GET / HTTP/1.1\r\n\r\n", true),
            ("GET / HTTP/1.1\r\nconnection: close\r\n\r\n", false),
            ("GET / HTTP/1.1\r\nconnection: foo , Close\r\n\r\n", false),
            ("GET / HTTP/1.0\r\n\r\n", false),
            ("GET / HTTP/1.0\r\nconnection: Keep-Alive\r\n\r\n", true),
        ] {
            assert_eq!(whole(text).keep_alive, stays, "{text:?}");
        }
    }

    #[test]
    fn a_target_may_be_a_whole_address() {
        assert_eq!(whole("GET http://a:80/healthz HTTP/1.1\r\n\r\n").route, Route::Healthz);
        assert_eq!(whole("GET http://a HTTP/1.1\r\n\r\n").route, Route::Unknown);
    }

    #[test]
    fn what_could_be_read_two_ways_is_refused() {
        for headers in [
            "content-length: 3\r\ncontent-length: 4",
            "content-length: 3\r\ntransfer-encoding: chunked",
            "transfer-encoding: gzip, chunked",
            "transfer-encoding: chunked\r\ntransfer-encoding: chunked",
            "content-length: +3",
            "content-length: 3, 3",
            "content-length:",
            "content-length: 99999999999999999999",
            "content-length : 3",
            "a: b\r\n c: folded",
        ] {
            let text = format!("POST /v1/check HTTP/1.1\r\n{headers}\r\n\r\n");
            assert_eq!(parse(text.as_bytes()), Parsed::Wrong(400), "{text:?}");
        }
        assert_eq!(parse(b"POST / HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n"), Parsed::Wrong(400));
        assert_eq!(parse(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), Parsed::Wrong(400));
    }

    #[test]
    fn a_part_waits_for_more_until_it_is_too_much() {
        assert_eq!(parse(b""), Parsed::Part);
        assert_eq!(parse(b"\r\n"), Parsed::Part);
        assert_eq!(parse(b"GET / HTTP/1.1\r\nhost: x\r\n"), Parsed::Part);
        let long = format!("GET / HTTP/1.1\r\nx: {}", "y".repeat(HEAD_BYTES_MAX));
        assert_eq!(parse(long.as_bytes()), Parsed::Wrong(431));
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "x: y\r\n".repeat(HEADERS_MAX + 1));
        assert_eq!(parse(many.as_bytes()), Parsed::Wrong(431));
    }
}
