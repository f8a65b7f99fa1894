//! Where a connection came in, and what that means for it.

use super::tls::Tls;
use rustls::ServerConfig;
use std::net::IpAddr;
use std::sync::Arc;

/// A listener's name and manners.
#[derive(Clone)]
pub(crate) struct Door {
    pub name: &'static str,
    /// Health and metrics, and nothing else.
    pub is_admin: bool,
    /// Requests pass through to upstreams, and nothing is answered here.
    pub is_gateway: bool,
    pub tls: Option<Arc<Tls>>,
    /// Whether clients must show a certificate, where one can be asked for.
    pub is_mutual: bool,
}

impl Door {
    /// What a connection that comes in now is to speak TLS by.
    pub fn tls_config(&self) -> Option<Arc<ServerConfig>> {
        self.tls.as_ref().map(|tls| tls.config(self.is_mutual))
    }
}

/// One connection's origin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    /// The address at the other end; none over a Unix socket.
    pub peer: Option<IpAddr>,
    pub is_admin: bool,
    pub is_gateway: bool,
    pub is_tls: bool,
}
