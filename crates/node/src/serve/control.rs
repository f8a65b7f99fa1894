//! The control plane behind the same door: requests for it are handed to its own server, over a Unix socket.
//!
//! One request a connection: the head is written anew with `Connection: close`, so that whatever the client sends after it
//! is read by one reader only. Everything else is copied as it comes, in both directions, however long it is.

use super::door::Origin;
use super::head::HEADERS_MAX;
use super::shared::Shared;
use std::io;
use std::path::Path;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, copy_bidirectional};
use tokio::net::UnixStream;

/// The longest that one request may take, whatever it is.
const REQUEST_MAX: Duration = Duration::from_secs(3_600);
/// How often, and how many times, it is tried to reach.
const CONNECT_EVERY: Duration = Duration::from_millis(50);
const CONNECTS: usize = 100;
/// What an answer under way is given when the process ends.
const DRAIN_MAX: Duration = Duration::from_secs(1);
/// Headers that are between two hops, or that only the last hop may be believed.
const DROPPED: [&str; 8] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "upgrade",
    "forwarded",
    "x-forwarded-for",
    "x-forwarded-proto",
    "x-real-ip",
];

/// It may be a moment behind the node it starts with.
pub(crate) async fn connect(path: &Path) -> io::Result<UnixStream> {
    for _ in 1..CONNECTS {
        if let Ok(stream) = UnixStream::connect(path).await {
            return Ok(stream);
        }
        tokio::time::sleep(CONNECT_EVERY).await;
    }
    UnixStream::connect(path).await
}

/// Copies a request and its answer. `request` is what came of it so far: its head, and whatever came behind that.
pub(crate) async fn hand_over<S>(
    client: &mut S,
    mut control: UnixStream,
    request: &[u8],
    head_len: usize,
    origin: Origin,
    shared: &Shared,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let Some(head) = rewritten(&request[..head_len], origin) else { return };
    let copying = async {
        control.write_all(&head).await?;
        control.write_all(&request[head_len..]).await?;
        copy_bidirectional(client, &mut control).await
    };
    let drained = async {
        if !shared.is_draining() {
            shared.draining.notified().await;
        }
        tokio::time::sleep(DRAIN_MAX).await;
    };
    // Whoever ends it, the connection is closed, which is all that either side must know.
    tokio::select! {
        _ = tokio::time::timeout(REQUEST_MAX, copying) => {}
        () = drained => {}
    }
}

/// The head as the control plane is to see it; none for one that cannot be read, which the caller did before.
fn rewritten(head: &[u8], origin: Origin) -> Option<Vec<u8>> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    request.parse(head).ok()?;
    let mut out = Vec::with_capacity(head.len() + 64);
    out.extend_from_slice(request.method?.as_bytes());
    out.push(b' ');
    out.extend_from_slice(request.path?.as_bytes());
    out.extend_from_slice(b" HTTP/1.1\r\n");
    let kept = |name: &str| !DROPPED.iter().any(|dropped| name.eq_ignore_ascii_case(dropped));
    for header in request.headers.iter().filter(|header| kept(header.name)) {
        out.extend_from_slice(header.name.as_bytes());
        out.extend_from_slice(b": ");
        out.extend_from_slice(header.value);
        out.extend_from_slice(b"\r\n");
    }
    if let Some(peer) = origin.peer {
        out.extend_from_slice(format!("X-Forwarded-For: {peer}\r\n").as_bytes());
    }
    out.extend_from_slice(b"Connection: close\r\n\r\n");
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_to_the_hop_is_left_out() {
        let head = "GET /api/v1/rules?q=1 HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\nX-Forwarded-For: 1.2.3.4\r\n\
                    Authorization: Bearer x\r\nUPGRADE: websocket\r\n\r\n";
        let origin = Origin { peer: "203.0.113.9".parse().ok(), is_admin: false, is_gateway: false, is_tls: false };
        let text = String::from_utf8(rewritten(head.as_bytes(), origin).unwrap()).unwrap();
        let expected = "GET /api/v1/rules?q=1 HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer x\r\n\
                        X-Forwarded-For: 203.0.113.9\r\nConnection: close\r\n\r\n";
        assert_eq!(text, expected);
    }
}
