//! Heads, well-formed and not.

use super::body::Body;
use super::scan::{Head, Scanned, scan};
use crate::serve::head::{HEAD_BYTES_MAX, HEADERS_MAX};

fn whole(text: &str) -> Head {
    match scan(text.as_bytes()) {
        Scanned::Whole(head) => head,
        other => panic!("{text:?}: {other:?}"),
    }
}

fn wrong(text: &[u8]) -> u16 {
    match scan(text) {
        Scanned::Wrong((status, _)) => status,
        other => panic!("{:?}: {other:?}", String::from_utf8_lossy(text)),
    }
}

#[test]
fn a_head_is_read() {
    let text = "POST /a/b?c=d HTTP/1.1\r\nHost: x:80\r\nContent-LENGTH:12\t\r\nX: \r\n\r\n{}";
    let head = whole(text);
    let bytes = text.as_bytes();
    assert_eq!((head.method.of(bytes), head.target.of(bytes)), (&b"POST"[..], &b"/a/b?c=d"[..]));
    assert_eq!((head.path.of(bytes), head.body.clone()), (&b"/a/b"[..], Body::Length(12)));
    assert_eq!(head.host.unwrap().of(bytes), b"x:80");
    assert_eq!((head.fields[2].name.of(bytes), head.fields[2].value.of(bytes)), (&b"X"[..], &b""[..]));
    assert!(head.keep_alive && !head.is_old && !head.upgrades && !head.lists_names);
    assert_eq!(&text[head.len..], "{}");
}

#[test]
fn every_part_of_a_head_waits_for_more() {
    let text = b"GET /a HTTP/1.1\r\nHost: x\r\nA: b\r\n\r\n";
    for end in 0..text.len() {
        assert_eq!(scan(&text[..end]), Scanned::Part, "{end}");
    }
    assert!(matches!(scan(text), Scanned::Whole(_)));
}

#[test]
fn what_two_readers_could_read_in_two_ways_is_refused() {
    let lines = [
        "content-length: 3\r\ncontent-length: 3",
        "content-length: 3\r\ncontent-length: 4",
        "content-length: 3\r\ntransfer-encoding: chunked",
        "transfer-encoding: chunked\r\ncontent-length: 3",
        "transfer-encoding: gzip, chunked",
        "transfer-encoding: chunked, chunked",
        "transfer-encoding: chunked\r\ntransfer-encoding: chunked",
        "transfer-encoding: xchunked",
        "transfer-encoding: \"chunked\"",
        "transfer-encoding:",
        "content-length: +3",
        "content-length: 3, 3",
        "content-length:",
        "content-length: 0x3",
        "content-length: 99999999999999999999",
        "content-length: 9223372036854775808",
        "content-length : 3",
        "content-length\t: 3",
        "a: b\r\n c: folded",
        "a: b\r\n\tfolded",
        " a: b",
        "a\u{b}: b",
        ": b",
        "a b: c",
        "no colon",
        "a: \0",
        "a: b\nc: d",
        "a: b\rc: d",
        "a: \u{7f}",
        "host: y",
        "connection: close, content-length",
        "content_length: 3",
        "Transfer.Encoding: chunked",
        "connection: Transfer-Encoding",
        "upgrade: h2c\r\nupgrade: websocket",
    ];
    for line in lines {
        let text = format!("POST /a HTTP/1.1\r\nHost: x\r\n{line}\r\n\r\n");
        assert_eq!(wrong(text.as_bytes()), 400, "{text:?}");
    }
    let heads: [&[u8]; 22] = [
        b"\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\nHost: x\n\n",
        b"GET / HTTP/1.1\r\nHost: x\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n\nX",
        b"GET  / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /  HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET\t/ HTTP/1.1\r\nHost: x\r\n\r\n",
        b" GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET http://x/ HTTP/1.1\r\nHost: x\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET x:80 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /\xc3\xa4 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /a#b HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /a\0 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.2\r\nHost: x\r\n\r\n",
        b"GET / HTTP/2.0\r\nHost: x\r\n\r\n",
        b"GET / http/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1 \r\nHost: x\r\n\r\n",
        b"GET /\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x y\r\n\r\n",
        b"GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
    ];
    for head in heads {
        assert_eq!(wrong(head), 400, "{:?}", String::from_utf8_lossy(head));
    }
    assert_eq!(wrong(b"TRACE / HTTP/1.1\r\nHost: x\r\n\r\n"), 405);
    assert_eq!(wrong(b"GET / HTTP/1.1\r\nHost: x\r\nExpect: more\r\n\r\n"), 417);
}

#[test]
fn too_much_is_too_much() {
    let long = format!("GET / HTTP/1.1\r\nHost: x\r\nx: {}", "y".repeat(HEAD_BYTES_MAX));
    assert_eq!(wrong(long.as_bytes()), 431);
    let many = format!("GET / HTTP/1.1\r\nHost: x\r\n{}\r\n", "x: y\r\n".repeat(HEADERS_MAX));
    assert_eq!(wrong(many.as_bytes()), 431);
}

#[test]
fn connections_stay_end_and_change_as_they_are_asked_to() {
    let said = |lines: &str| whole(&format!("GET / HTTP/1.1\r\nHost: x\r\n{lines}\r\n"));
    assert!(!said("Connection: foo , Close\r\n").keep_alive);
    assert!(said("Connection: X-Mine\r\n").lists_names);
    assert!(said("Connection: Upgrade\r\nUpgrade: websocket\r\n").upgrades);
    assert!(!said("Upgrade: websocket\r\n").upgrades);
    for protocol in ["h2c", "websocket, H2C", "HTTP/2.0", "TLS/1.2, HTTP/1.1"] {
        assert!(
            !said(&format!("Connection: Upgrade, HTTP2-Settings\r\nUpgrade: {protocol}\r\n")).upgrades,
            "{protocol}"
        );
    }
    assert!(!said("Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 1\r\n").upgrades);
    assert!(said("Expect: 100-Continue\r\n").expects_continue);
    assert!(!whole("GET / HTTP/1.0\r\n\r\n").keep_alive);
    assert!(whole("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").keep_alive);
}
