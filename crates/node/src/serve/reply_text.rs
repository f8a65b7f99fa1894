//! Answers as HTTP/1 writes them.

use super::date::date;
use super::router::Reply;

/// Appends an answer, whose own header lines come first in `answer`. `stays` is the line that says whether the connection goes on, if it must be said.
#[inline]
pub(crate) fn put_answer(out: &mut Vec<u8>, reply: &Reply, stays: &str, answer: &[u8], shows_body: bool) {
    let (headers, body) = answer.split_at(reply.head_len);
    let mut put = |text: &[u8]| out.extend_from_slice(text);
    match status_line(reply.status) {
        Some(line) => put(line),
        None => put(format!("HTTP/1.1 {} Refused\r\n", reply.status).as_bytes()),
    }
    put(b"date: ");
    put(&date());
    put(b"\r\ncontent-length: ");
    put(itoa::Buffer::new().format(body.len()).as_bytes());
    if let Some(content_type) = reply.kind.content_type() {
        put(b"\r\ncontent-type: ");
        put(content_type.as_bytes());
    }
    put(b"\r\n");
    put(stays.as_bytes());
    put(headers);
    if reply.status == 401 {
        put(b"www-authenticate: Bearer error=\"invalid_token\"\r\n");
    }
    if let Some(allow) = reply.allow {
        put(b"allow: ");
        put(allow.as_bytes());
        put(b"\r\n");
    }
    put(b"\r\n");
    if shows_body {
        put(body);
    }
}

#[inline]
fn status_line(status: u16) -> Option<&'static [u8]> {
    Some(match status {
        200 => b"HTTP/1.1 200 OK\r\n",
        400 => b"HTTP/1.1 400 Bad Request\r\n",
        401 => b"HTTP/1.1 401 Unauthorized\r\n",
        403 => b"HTTP/1.1 403 Forbidden\r\n",
        404 => b"HTTP/1.1 404 Not Found\r\n",
        405 => b"HTTP/1.1 405 Method Not Allowed\r\n",
        408 => b"HTTP/1.1 408 Request Timeout\r\n",
        413 => b"HTTP/1.1 413 Content Too Large\r\n",
        429 => b"HTTP/1.1 429 Too Many Requests\r\n",
        417 => b"HTTP/1.1 417 Expectation Failed\r\n",
        431 => b"HTTP/1.1 431 Request Header Fields Too Large\r\n",
        502 => b"HTTP/1.1 502 Bad Gateway\r\n",
        503 => b"HTTP/1.1 503 Service Unavailable\r\n",
        504 => b"HTTP/1.1 504 Gateway Timeout\r\n",
        500 => b"HTTP/1.1 500 Internal Server Error\r\n",
        // A status that a rule asks for.
        _ => return None,
    })
}
