//! A request's head as the upstream is to see it.

use super::body::{Body, is_our_word, same, starts};
use super::scan::Head;
use super::words::words;
use crate::serve::identified::Identified;
use headgate_core::client_ip::Trusted;
use smallvec::SmallVec;
use std::io::Write;
use std::net::IpAddr;

/// What a client, or a proxy before us, says of where a request came from.
#[derive(Default)]
pub(super) struct Forwarding<'h> {
    /// Who is connected to us; none over a Unix socket.
    pub peer: Option<IpAddr>,
    pub is_tls: bool,
    pub is_trusted: bool,
    /// As the client named it.
    pub host: Option<&'h [u8]>,
    pub forwarded_for: SmallVec<[&'h [u8]; 2]>,
    forwarded: SmallVec<[&'h [u8]; 1]>,
    proto: Option<&'h [u8]>,
    forwarded_host: Option<&'h [u8]>,
}

/// What becomes of one of the client's headers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Passed {
    On,
    Not,
}

impl<'h> Forwarding<'h> {
    pub fn new(peer: Option<IpAddr>, is_tls: bool, trusted: &Trusted) -> Self {
        let is_trusted = peer.is_none_or(|ip| trusted.contains(ip));
        Self { peer, is_tls, is_trusted, ..Self::default() }
    }

    /// Looks at a header: whether it is passed on as it is. What an untrusted client says of its way to us is dropped, and
    /// nobody says who was verified but us.
    #[inline]
    pub fn look(&mut self, name: &[u8], value: &'h [u8]) -> Passed {
        match name.first().map(u8::to_ascii_lowercase) {
            Some(b'x') if is_our_word(name) => self.look_at_ours(name, value),
            Some(b'f') if name.eq_ignore_ascii_case(b"forwarded") => {
                self.forwarded.push(value);
                Passed::Not
            }
            Some(b'c') if name.eq_ignore_ascii_case(b"connection") => Passed::Not,
            Some(b'k') if name.eq_ignore_ascii_case(b"keep-alive") => Passed::Not,
            Some(b'u') if name.eq_ignore_ascii_case(b"upgrade") => Passed::Not,
            Some(b't') if name.eq_ignore_ascii_case(b"te") || name.eq_ignore_ascii_case(b"transfer-encoding") => {
                Passed::Not
            }
            Some(b'h') if name.eq_ignore_ascii_case(b"http2-settings") => Passed::Not,
            Some(b'p') if starts(name, b"proxy-") => Passed::Not,
            _ => Passed::On,
        }
    }

    fn look_at_ours(&mut self, name: &[u8], value: &'h [u8]) -> Passed {
        let is_plain = name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-');
        if !self.is_trusted || !is_plain || starts(name, b"x-headgate-") {
            return Passed::Not;
        }
        if same(name, b"x-forwarded-for") {
            self.forwarded_for.push(value);
        } else if same(name, b"x-forwarded-proto") {
            self.proto = Some(value);
        } else if same(name, b"x-forwarded-host") {
            self.forwarded_host = Some(value);
        } else {
            return Passed::On;
        }
        Passed::Not
    }

    /// Where the request came from, in both ways of saying it.
    pub fn put(&self, out: &mut Vec<u8>) {
        let host = self.host.unwrap_or_default();
        if self.peer.is_some() || !self.forwarded_for.is_empty() {
            out.extend_from_slice(b"X-Forwarded-For: ");
            put_list(out, &self.forwarded_for);
            if let Some(peer) = self.peer {
                put_comma(out, !self.forwarded_for.is_empty());
                put_display(out, peer);
            }
            out.extend_from_slice(b"\r\n");
        }
        let proto = if self.is_tls { &b"https"[..] } else { b"http" };
        put(out, b"X-Forwarded-Proto", self.proto.unwrap_or(proto));
        put(out, b"X-Forwarded-Host", self.forwarded_host.unwrap_or(host));
        out.extend_from_slice(b"Forwarded: ");
        if self.is_trusted && !self.forwarded.is_empty() {
            put_list(out, &self.forwarded);
            put_comma(out, true);
        }
        match self.peer {
            Some(IpAddr::V4(ip)) => {
                out.extend_from_slice(b"for=");
                put_display(out, ip);
            }
            Some(IpAddr::V6(ip)) => {
                out.extend_from_slice(b"for=\"[");
                put_display(out, ip);
                out.extend_from_slice(b"]\"");
            }
            None => out.extend_from_slice(b"for=unknown"),
        }
        if !host.is_empty() {
            out.extend_from_slice(b";host=\"");
            out.extend_from_slice(host);
            out.push(b'"');
        }
        out.extend_from_slice(b";proto=");
        out.extend_from_slice(proto);
        out.extend_from_slice(b"\r\n");
    }
}

/// Writes the head of an HTTP/1 request anew. `bytes` is the head as it came.
pub(super) fn put_head<'h>(
    out: &mut Vec<u8>,
    bytes: &'h [u8],
    head: &Head,
    forwarding: &mut Forwarding<'h>,
    host: impl FnOnce() -> String,
) {
    out.extend_from_slice(head.method.of(bytes));
    out.push(b' ');
    out.extend_from_slice(head.target.of(bytes));
    out.extend_from_slice(b" HTTP/1.1\r\n");
    let mut says_trailers = false;
    // Lines that are passed on are copied together with their neighbours.
    let (mut run_start, mut run_end) = (0, 0);
    for field in &head.fields {
        let (name, value) = (field.name.of(bytes), field.value.of(bytes));
        let is_listed = head.lists_names && is_listed(head, bytes, name);
        if forwarding.look(name, value) == Passed::Not || is_listed {
            says_trailers |= name.eq_ignore_ascii_case(b"te") && wants_trailers(value);
            continue;
        }
        let start = usize::from(field.name.start);
        if start != run_end {
            out.extend_from_slice(&bytes[run_start..run_end]);
            run_start = start;
        }
        run_end = usize::from(field.name.start) + line_len(&bytes[start..]);
    }
    out.extend_from_slice(&bytes[run_start..run_end]);
    if matches!(head.body, Body::Chunked(_)) {
        put(out, b"Transfer-Encoding", b"chunked");
    }
    if head.host.is_none() {
        put(out, b"Host", host().as_bytes());
    }
    if head.upgrades {
        let upgrade = head.fields.iter().find(|field| field.name.of(bytes).eq_ignore_ascii_case(b"upgrade"));
        let protocol = upgrade.map_or(&b""[..], |field| field.value.of(bytes));
        put(out, b"Connection", b"upgrade");
        put(out, b"Upgrade", protocol);
    } else if says_trailers {
        put(out, b"TE", b"trailers");
    }
}

pub(super) fn wants_trailers(te: &[u8]) -> bool {
    words(te).any(|word| word.eq_ignore_ascii_case(b"trailers"))
}

/// Who was verified, for the upstream.
pub(super) fn put_identity(out: &mut Vec<u8>, who: &Identified) {
    who.each_header(&mut |name, value| put(out, name.as_bytes(), value.as_bytes()));
}

/// Whether `Connection` names a header. What the upstream relies on is not for clients to have removed.
fn is_listed(head: &Head, bytes: &[u8], name: &[u8]) -> bool {
    if name.eq_ignore_ascii_case(b"authorization") || name.eq_ignore_ascii_case(b"cookie") || starts(name, b"content-")
    {
        return false;
    }
    let connections = head.fields.iter().filter(|field| field.name.of(bytes).eq_ignore_ascii_case(b"connection"));
    connections.flat_map(|field| words(field.value.of(bytes))).any(|word| word.eq_ignore_ascii_case(name))
}

/// The length of the line at the start, its end with it.
fn line_len(bytes: &[u8]) -> usize {
    bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |at| at + 1)
}

#[inline]
pub(super) fn put(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

fn put_list(out: &mut Vec<u8>, values: &[&[u8]]) {
    for (nth, value) in values.iter().enumerate() {
        put_comma(out, nth > 0);
        out.extend_from_slice(value);
    }
}

fn put_comma(out: &mut Vec<u8>, is_needed: bool) {
    if is_needed {
        out.extend_from_slice(b", ");
    }
}

fn put_display(out: &mut Vec<u8>, value: impl std::fmt::Display) {
    let _ = write!(out, "{value}"); // Writing to memory cannot fail.
}

#[cfg(test)]
mod tests {
    use super::super::scan::{Scanned, scan};
    use super::*;

    fn written(text: &str, peer: &str) -> String {
        let Scanned::Whole(head) = scan(text.as_bytes()) else { panic!("{text:?}") };
        let mut forwarding = Forwarding::new(peer.parse().ok(), false, &Trusted::loopback());
        forwarding.host = head.host.map(|host| host.of(text.as_bytes()));
        let mut out = Vec::new();
        put_head(&mut out, text.as_bytes(), &head, &mut forwarding, || "upstream:1".to_string());
        forwarding.put(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn what_belongs_to_the_hop_stays_at_the_hop() {
        let text = "GET /a?b HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, X-Mine, Authorization\r\nX-Mine: 1\r\nAccept: */*\r\n\
                    Authorization: Bearer t\r\nKeep-Alive: 5\r\nTE: trailers, gzip\r\nProxy-Authorization: p\r\nUpgrade: h2c\r\n\
                    HTTP2-Settings: s\r\nCookie: c\r\n\r\n";
        let expected = "GET /a?b HTTP/1.1\r\nHost: x\r\nAccept: */*\r\nAuthorization: Bearer t\r\nCookie: c\r\nTE: trailers\r\n\
                        X-Forwarded-For: 203.0.113.9\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: x\r\n\
                        Forwarded: for=203.0.113.9;host=\"x\";proto=http\r\n";
        assert_eq!(written(text, "203.0.113.9"), expected);
    }

    #[test]
    fn what_a_stranger_says_of_its_way_is_dropped_and_a_trusted_proxys_word_is_added_to() {
        let text = "GET / HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 1.1.1.1\r\nx-forwarded-for: 2.2.2.2\r\nX_Forwarded_For: 3.3.3.3\r\nX.Forwarded.For: 5.5.5.5\r\n\
                    X-Forwarded-Proto: https\r\nX-Forwarded-Port: 443\r\nX-Real-IP: 4.4.4.4\r\nForwarded: for=1.1.1.1\r\n\
                    X-Headgate-User: root\r\nX_HEADGATE_USER: root\r\n\r\n";
        let stranger = "GET / HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 2001:db8::1\r\nX-Forwarded-Proto: http\r\n\
                        X-Forwarded-Host: x\r\nForwarded: for=\"[2001:db8::1]\";host=\"x\";proto=http\r\n";
        assert_eq!(written(text, "2001:db8::1"), stranger);
        let trusted = "GET / HTTP/1.1\r\nHost: x\r\nX-Forwarded-Port: 443\r\nX-Real-IP: 4.4.4.4\r\n\
                       X-Forwarded-For: 1.1.1.1, 2.2.2.2, 127.0.0.1\r\nX-Forwarded-Proto: https\r\n\
                       X-Forwarded-Host: x\r\nForwarded: for=1.1.1.1, for=127.0.0.1;host=\"x\";proto=http\r\n";
        assert_eq!(written(text, "127.0.0.1"), trusted);
    }

    #[test]
    fn an_upgrade_is_asked_for_in_our_name() {
        let text =
            "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: k\r\n\r\n";
        let head = written(text, "127.0.0.1");
        assert!(head.contains("Sec-WebSocket-Key: k\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"), "{head}");
        assert!(written("GET / HTTP/1.0\r\n\r\n", "127.0.0.1").contains("\r\nHost: upstream:1\r\n"));
    }
}
