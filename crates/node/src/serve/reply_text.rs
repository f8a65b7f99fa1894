//! Answers as HTTP/1 writes them.

use super::date::date;
use super::router::Reply;

/// Appends an answer. `stays` is the line that says whether the connection goes on, if it must be said.
#[inline]
pub(crate) fn put_answer(out: &mut Vec<u8>, reply: &Reply, stays: &str, body: &[u8], shows_body: bool) {
    let mut put = |text: &[u8]| out.extend_from_slice(text);
    put(status_line(reply.status));
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
fn status_line(status: u16) -> &'static [u8] {
    match status {
        200 => b"HTTP/1.1 200 OK\r\n",
        400 => b"HTTP/1.1 400 Bad Request\r\n",
        404 => b"HTTP/1.1 404 Not Found\r\n",
        405 => b"HTTP/1.1 405 Method Not Allowed\r\n",
        413 => b"HTTP/1.1 413 Content Too Large\r\n",
        431 => b"HTTP/1.1 431 Request Header Fields Too Large\r\n",
        503 => b"HTTP/1.1 503 Service Unavailable\r\n",
        _ => b"HTTP/1.1 500 Internal Server Error\r\n",
    }
}
