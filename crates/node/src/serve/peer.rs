//! A client's connection, whatever it is made of.

use socket2::SockRef;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::server::TlsStream;

/// What waits in the kernel for a client that reads slowly. It takes more only when much of it has gone, so with as much as it
/// likes to hold nothing would seem to move for minutes.
#[cfg(target_os = "linux")]
const UNSENT_BYTES_MAX: u32 = 256 * 1024;

/// Has what is sent to a client of the gateway move in steps that can be seen.
pub(crate) fn move_in_small_steps(stream: &std::net::TcpStream) {
    // One that is gone already is found out soon enough; other systems do as they do.
    #[cfg(target_os = "linux")]
    let _ = SockRef::from(stream).set_tcp_notsent_lowat(UNSENT_BYTES_MAX);
    #[cfg(not(target_os = "linux"))]
    let _ = stream;
}

pub(crate) trait Peer: AsyncRead + AsyncWrite + Unpin {
    /// Makes it end as one that broke: where an answer lasts until the end, half of it would else pass for the whole.
    fn break_off(&self);
}

impl Peer for TcpStream {
    fn break_off(&self) {
        // A connection that is gone already needs no breaking.
        let _ = SockRef::from(self).set_linger(Some(Duration::ZERO));
    }
}

/// Has no such end; nor is there a gateway behind one.
impl Peer for UnixStream {
    fn break_off(&self) {}
}

impl<S: Peer> Peer for TlsStream<S> {
    fn break_off(&self) {
        self.get_ref().0.break_off();
    }
}
