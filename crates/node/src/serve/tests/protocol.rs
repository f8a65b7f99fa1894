//! HTTP/1 as clients really speak it.

use super::{local, running};

const BODY: &str = r#"{"user":"7"}"#;

#[test]
fn pipelined_requests_are_answered_in_order() {
    let node = running(local());
    let mut client = node.connect();
    let one = |user: usize| {
        let body = format!("{{\"user\":\"{user}\",\"cost\":{}}}", user % 4);
        format!("POST /v1/check HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}", body.len())
    };
    let all: String = (0..60).map(one).collect();
    client.send(&all);
    for user in 0..60 {
        assert_eq!(client.reply().json()["results"][0]["remaining"], 3 - user % 4, "{user}");
    }
}

#[test]
fn a_request_may_come_byte_by_byte() {
    let node = running(local());
    let mut client = node.connect();
    let request = format!("POST /v1/check HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{BODY}", BODY.len());
    for at in 0..request.len() {
        client.send(&request[at..=at]);
    }
    assert_eq!(client.reply().json()["remaining"], 2);
}

#[test]
fn a_chunked_body_is_read() {
    let node = running(local());
    let mut client = node.connect();
    client.send("POST /v1/check HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n");
    client.send("5\r\n{\"use\r\n7\r\nr\":\"7\"}\r\n0\r\n\r\n");
    assert_eq!(client.reply().json()["remaining"], 2);
    client.post("/v1/check", BODY);
    assert_eq!(client.reply().json()["remaining"], 1);
}

#[test]
fn http_1_0_closes_unless_asked_to_stay() {
    let node = running(local());
    let mut client = node.connect();
    client.send("GET /healthz HTTP/1.0\r\nconnection: keep-alive\r\n\r\n");
    let stays = client.reply();
    assert_eq!((stays.status, stays.header("connection")), (200, Some("keep-alive")));
    client.send("GET /healthz HTTP/1.0\r\n\r\n");
    assert_eq!(client.reply().status, 200);
    client.assert_closed();
}

#[test]
fn a_client_that_asks_is_told_to_go_on() {
    let node = running(local());
    let mut client = node.connect();
    let len = BODY.len();
    client
        .send(&format!("POST /v1/check HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: {len}\r\n\r\n"));
    assert!(client.head().starts_with("HTTP/1.1 100 "));
    client.send(BODY);
    assert_eq!(client.reply().json()["remaining"], 2);
}

#[test]
fn a_client_that_asks_with_too_much_is_refused_at_once() {
    let node = running(local());
    let mut client = node.connect();
    client.send("POST /v1/check HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 9999999\r\n\r\n");
    assert_eq!(client.reply().status, 413);
    client.assert_closed();
}

#[test]
fn a_client_may_stop_sending_and_still_be_answered() {
    let node = running(local());
    let mut client = node.connect();
    client.post("/v1/check", BODY);
    client.end_sending();
    assert_eq!(client.reply().json()["remaining"], 2);
    client.assert_closed();
}

#[test]
fn a_head_request_gets_no_body() {
    let node = running(local());
    let mut client = node.connect();
    client.send("HEAD /readyz HTTP/1.1\r\nhost: x\r\n\r\nGET /healthz HTTP/1.1\r\nhost: x\r\n\r\n");
    assert!(client.head().starts_with("HTTP/1.1 200"));
    assert!(client.head().starts_with("HTTP/1.1 200"), "the next answer follows at once");
}

#[test]
fn what_is_no_request_is_refused_and_closed() {
    let node = running(local());
    for wrong in [
        "nonsense\r\n\r\n",
        "GET /healthz HTTP/3.0\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nbad header\r\n\r\n",
        "POST /v1/check HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\n{}  ",
        "POST /v1/check HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n{}",
        "POST /v1/check HTTP/1.1\r\nhost: x\r\ntransfer-encoding: gzip\r\n\r\n{}",
    ] {
        let mut client = node.connect();
        client.send(wrong);
        assert_eq!(client.reply().status, 400, "{wrong}");
        client.assert_closed();
    }
    let mut client = node.connect();
    client.send("POST /v1/check HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n");
    assert_eq!(client.reply().status, 400);
    assert_eq!(node.counted(), (0, 0));
}

#[test]
fn a_body_cut_short_counts_nothing() {
    let node = running(local());
    let mut client = node.connect();
    client.send(&format!("POST /v1/check HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{BODY}"));
    client.end_sending();
    while client.read_more() {}
    assert_eq!(node.counted(), (0, 0));
}

#[test]
fn an_answer_does_not_wait_for_the_rest_of_the_next_request() {
    let node = running(local());
    let mut client = node.connect();
    client.send("GET /healthz HTTP/1.1\r\nhost: x\r\n\r\nGET /readyz HT");
    assert_eq!(client.reply().body, "");
    client.send("TP/1.1\r\nhost: x\r\n\r\n");
    assert_eq!(client.reply().json()["ready"], true);
}
