//! An upstream's answer: its head understood, and written anew for the client.

use super::body::{Body, Malformed};
use super::request::put;
use super::words::{whole_number, words};
use httparse::{Header, ParserConfig, Status};
use std::mem::MaybeUninit;

/// The most bytes, and headers, an upstream's head may take.
pub(super) const RESPONSE_HEAD_BYTES_MAX: usize = 64 * 1024;
const RESPONSE_HEADERS_MAX: usize = 200;

/// What of the request matters for its answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    /// `HEAD`: the answer has no body whatever it says.
    pub is_head: bool,
    pub upgrades: bool,
    /// Whether trailers are to be kept.
    pub keeps_trailers: bool,
}

/// An upstream's head.
pub(super) struct Said<'i> {
    pub status: u16,
    reason: &'i str,
    headers: &'i [Header<'i>],
    pub body: Body,
    /// What `Content-Length` says, also where there is no body.
    pub length: Option<u64>,
    /// Whether the connection ends with this answer.
    pub closes: bool,
    lists_names: bool,
    pub len: usize,
}

/// Reads the head at the start of `input`; none when more of it is to come.
pub(super) fn read<T>(input: &[u8], asked: Asked, use_it: impl FnOnce(&Said<'_>) -> T) -> Result<Option<T>, Malformed> {
    let mut headers: [MaybeUninit<Header<'_>>; RESPONSE_HEADERS_MAX] =
        [const { MaybeUninit::uninit() }; RESPONSE_HEADERS_MAX];
    let mut response = httparse::Response::new(&mut []);
    let parsed = ParserConfig::default().parse_response_with_uninit_headers(&mut response, input, &mut headers);
    let len = match parsed {
        Ok(Status::Complete(len)) if len <= RESPONSE_HEAD_BYTES_MAX => len,
        Ok(Status::Partial) if input.len() < RESPONSE_HEAD_BYTES_MAX => return Ok(None),
        _ => return Err(Malformed),
    };
    let (Some(status @ 100..=599), Some(version)) = (response.code, response.version) else { return Err(Malformed) };
    let mut said = Said {
        status,
        reason: response.reason.unwrap_or_default(),
        headers: &*response.headers,
        body: Body::Length(0),
        length: None,
        closes: version == 0,
        lists_names: false,
        len,
    };
    understand(&mut said, asked, version == 0)?;
    Ok(Some(use_it(&said)))
}

fn understand(said: &mut Said<'_>, asked: Asked, is_old: bool) -> Result<(), Malformed> {
    let mut is_chunked = false;
    for Header { name, value } in said.headers {
        match name.len() {
            14 if name.eq_ignore_ascii_case("content-length") => {
                let length = whole_number(value).ok_or(Malformed)?;
                if said.length.replace(length).is_some_and(|other| other != length) {
                    return Err(Malformed);
                }
            }
            17 if name.eq_ignore_ascii_case("transfer-encoding") => {
                if is_chunked || is_old || !value.eq_ignore_ascii_case(b"chunked") {
                    return Err(Malformed);
                }
                is_chunked = true;
            }
            10 if name.eq_ignore_ascii_case("connection") => {
                for word in words(value) {
                    match word {
                        _ if word.eq_ignore_ascii_case(b"close") => said.closes = true,
                        _ if word.eq_ignore_ascii_case(b"keep-alive") => said.closes = false,
                        _ => said.lists_names = true,
                    }
                }
            }
            _ => {}
        }
    }
    if is_chunked && said.length.is_some() {
        return Err(Malformed);
    }
    let has_none = asked.is_head || said.status < 200 || matches!(said.status, 204 | 304);
    if said.status < 200 || said.status == 204 {
        said.length = None;
    }
    said.body = match said.length {
        _ if has_none => Body::Length(0),
        _ if is_chunked => Body::chunked_by_upstream(asked.keeps_trailers),
        Some(length) => Body::Length(length),
        None => {
            said.closes = true;
            Body::UntilClose
        }
    };
    if said.status == 101 && !asked.upgrades { Err(Malformed) } else { Ok(()) }
}

impl Said<'_> {
    /// Every header that the client is to have. Of limits we speak ourselves, where we have something to say.
    pub fn each_header(&self, speaks_of_limits: bool, mut put: impl FnMut(&str, &[u8])) {
        for Header { name, value } in self.headers {
            let is_dropped = is_hop(name)
                || speaks_of_limits && is_rate_header(name)
                || self.lists_names && self.is_listed(name.as_bytes());
            if !is_dropped {
                put(name, value);
            }
        }
    }

    fn is_listed(&self, name: &[u8]) -> bool {
        let connections = self.headers.iter().filter(|header| header.name.eq_ignore_ascii_case("connection"));
        connections.flat_map(|header| words(header.value)).any(|word| word.eq_ignore_ascii_case(name))
    }

    fn header(&self, wanted: &str) -> Option<&[u8]> {
        self.headers.iter().find(|header| header.name.eq_ignore_ascii_case(wanted)).map(|header| header.value)
    }

    /// The head for an HTTP/1 client. `ending` are the lines that follow the upstream's own.
    pub fn put_head(&self, out: &mut Vec<u8>, limits: &[u8], ending: &[u8]) {
        out.extend_from_slice(b"HTTP/1.1 ");
        out.extend_from_slice(itoa::Buffer::new().format(self.status).as_bytes());
        out.push(b' ');
        out.extend_from_slice(self.reason.as_bytes());
        out.extend_from_slice(b"\r\n");
        self.each_header(!limits.is_empty(), |name, value| put(out, name.as_bytes(), value));
        if let Some(length) = self.length {
            put(out, b"content-length", itoa::Buffer::new().format(length).as_bytes());
        }
        if self.status == 101 {
            put(out, b"connection", b"upgrade");
            put(out, b"upgrade", self.header("upgrade").unwrap_or_default());
        }
        out.extend_from_slice(limits);
        out.extend_from_slice(ending);
        out.extend_from_slice(b"\r\n");
    }
}

/// Headers that are between the upstream and us, and the length, which is written once.
#[inline]
fn is_hop(name: &str) -> bool {
    match name.len() {
        7 => name.eq_ignore_ascii_case("upgrade"),
        10 => name.eq_ignore_ascii_case("connection") || name.eq_ignore_ascii_case("keep-alive"),
        14 => name.eq_ignore_ascii_case("content-length"),
        16 => name.eq_ignore_ascii_case("proxy-connection"),
        17 => name.eq_ignore_ascii_case("transfer-encoding"),
        18 => name.eq_ignore_ascii_case("proxy-authenticate"),
        _ => false,
    }
}

#[inline]
fn is_rate_header(name: &str) -> bool {
    let starts = |prefix: &str| name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
    starts("x-ratelimit-") || starts("ratelimit")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Asked = Asked { is_head: false, upgrades: false, keeps_trailers: false };

    fn said(text: &str, asked: Asked) -> Result<Option<(Body, bool)>, Malformed> {
        read(text.as_bytes(), asked, |said| (said.body.clone(), said.closes))
    }

    #[test]
    fn the_end_of_a_body_is_known_from_its_head() {
        let length = |asked| said("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", asked).unwrap().unwrap();
        assert_eq!(length(PLAIN), (Body::Length(5), false));
        assert_eq!(length(Asked { is_head: true, ..PLAIN }).0, Body::Length(0));
        let chunked = said("HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n", PLAIN).unwrap().unwrap();
        assert_eq!(chunked, (Body::chunked_by_upstream(false), false));
        assert_eq!(said("HTTP/1.0 200 OK\r\n\r\n", PLAIN), Ok(Some((Body::UntilClose, true))));
        assert_eq!(
            said("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", PLAIN).unwrap().unwrap().0,
            Body::Length(0)
        );
        assert_eq!(said("HTTP/1.1 200 OK\r\nContent", PLAIN), Ok(None));
    }

    #[test]
    fn an_answer_that_can_be_read_in_two_ways_is_none() {
        for text in [
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
            "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
            "HTTP/1.1 101 Switching\r\n\r\n",
            "SSH-2.0-OpenSSH\r\n\r\n",
            "HTTP/1.1 999 OK\r\n\r\n",
        ] {
            assert_eq!(said(text, PLAIN), Err(Malformed), "{text:?}");
        }
    }

    #[test]
    fn a_head_is_written_anew() {
        let text = "HTTP/1.1 200 Fine\r\nDate: d\r\nConnection: close, X-Mine\r\nX-Mine: 1\r\nX-RateLimit-Limit: 7\r\nRateLimit: r\r\n\
                    Keep-Alive: 5\r\nContent-Length: 0\r\nContent-Length: 0\r\nSet-Cookie: a\r\nSet-Cookie: b\r\n\r\n";
        let mut out = Vec::new();
        let limits = b"X-RateLimit-Limit: 5\r\n";
        read(text.as_bytes(), PLAIN, |said| said.put_head(&mut out, limits, b"connection: close\r\n"))
            .unwrap()
            .unwrap();
        let expected = "HTTP/1.1 200 Fine\r\nDate: d\r\nSet-Cookie: a\r\nSet-Cookie: b\r\ncontent-length: 0\r\n\
                        X-RateLimit-Limit: 5\r\nconnection: close\r\n\r\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
