//! What a client may not do to a server.

use super::super::Options;
use super::{local, running};
use std::time::Duration;

const SOON: Duration = Duration::from_millis(150);
const NEVER: Duration = Duration::from_secs(600);

#[test]
fn a_body_that_is_too_large_is_a_413() {
    let node = running(Options { max_body_bytes: 100, ..local() });
    let fits = format!("{{\"user\":\"{}\"}}", "x".repeat(89));
    assert_eq!((fits.len(), node.post("/v1/check", &fits).status), (100, 200));
    let counted = node.counted();
    for len in [101, 5_000, 900_000] {
        let mut client = node.connect();
        client.post("/v1/check", &" ".repeat(len));
        let reply = client.reply();
        assert_eq!((reply.status, reply.header("connection")), (413, Some("close")), "{len}");
        assert!(reply.json()["detail"].as_str().unwrap().contains("100 bytes"));
        client.assert_closed();
    }
    let mut client = node.connect();
    client.send("POST /v1/_empty HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n");
    for _ in 0..3 {
        client.send(&format!("32\r\n{}\r\n", "x".repeat(0x32)));
    }
    client.send("0\r\n\r\n");
    assert_eq!(client.reply().status, 413);
    assert_eq!(node.counted(), counted);
}

#[test]
fn a_head_that_is_too_large_is_a_431() {
    let node = running(local());
    let long = format!("x-long: {}\r\n", "x".repeat(40_000));
    let many: String = (0..200).map(|n| format!("x-{n}: 1\r\n")).collect();
    for headers in [long, many] {
        let mut client = node.connect();
        client.send(&format!("GET /healthz HTTP/1.1\r\nhost: x\r\n{headers}\r\n"));
        assert_eq!(client.reply().status, 431);
        client.assert_closed();
    }
    assert!(node.get("/metrics").body.contains("{route=\"other\",status=\"431\"} 2\n"));
    let fits = format!("GET /healthz HTTP/1.1\r\nhost: x\r\nx-long: {}\r\n\r\n", "x".repeat(20_000));
    let mut client = node.connect();
    client.send(&fits);
    assert_eq!(client.reply().status, 200);
}

#[test]
fn a_head_that_never_ends_is_cut_off() {
    let node = running(Options { header_timeout: SOON, idle_timeout: NEVER, ..local() });
    let mut client = node.connect();
    client.send("POST /v1/check HTTP/1.1\r\nhost: x\r\nx-slow: ");
    client.assert_closed();
}

#[test]
fn a_head_that_drips_is_cut_off_all_the_same() {
    use std::io::Write;
    let node = running(Options { header_timeout: SOON, idle_timeout: NEVER, ..local() });
    let mut client = node.connect();
    client.send("POST /v1/check HTTP/1.1\r\nhost: x\r\nx-slow: ");
    let drips = (0..2_000).find(|_| {
        std::thread::sleep(Duration::from_millis(10));
        client.stream.write_all(b"x").is_err()
    });
    assert!(drips.is_some(), "each byte bought more time");
}

#[test]
fn a_body_that_never_ends_is_cut_off_and_counts_nothing() {
    let node = running(Options { header_timeout: SOON, idle_timeout: NEVER, ..local() });
    let mut client = node.connect();
    client.send("POST /v1/check HTTP/1.1\r\nhost: x\r\ncontent-length: 50\r\n\r\n{\"user\":");
    client.assert_closed();
    assert_eq!(node.counted(), (0, 0));
}

#[test]
fn an_idle_connection_is_closed_before_and_after_a_request() {
    let node = running(Options { header_timeout: NEVER, idle_timeout: SOON, ..local() });
    node.connect().assert_closed();
    let mut client = node.connect();
    client.post("/v1/check", "{}");
    assert_eq!(client.reply().status, 200);
    client.assert_closed();
}

#[test]
fn a_client_that_takes_no_answers_is_cut_off() {
    use std::io::{ErrorKind, Write};
    let node = running(Options { header_timeout: SOON, idle_timeout: NEVER, ..local() });
    let mut client = node.connect();
    client.send(&"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n".repeat(10_000));
    client.stream.set_nonblocking(true).unwrap();
    let end = (0..20_000).find_map(|_| {
        std::thread::sleep(Duration::from_millis(1));
        client.stream.write_all(b"GET").err().map(|error| error.kind()).filter(|kind| *kind != ErrorKind::WouldBlock)
    });
    assert!(matches!(end, Some(ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)), "{end:?}");
}

#[test]
fn connections_past_the_limit_are_told_to_come_back() {
    let node = running(Options { max_connections: 2, ..local() });
    let mut taken: Vec<_> = (0..2).map(|_| node.connect()).collect();
    for client in &mut taken {
        client.post("/v1/check", "{}");
        assert_eq!(client.reply().status, 200);
    }
    let mut third = node.connect();
    third.post("/v1/check", "{}");
    let refused = third.reply();
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
    assert_eq!(refused.json()["status"], 503);
    third.assert_closed();
    taken.pop();
    // The place is free once the server has seen the end of that connection.
    let served = (0..2_000).any(|_| {
        std::thread::sleep(Duration::from_millis(5));
        node.post("/v1/check", "{}").status == 200
    });
    assert!(served);
    assert_eq!(node.counted().0, 3);
}
