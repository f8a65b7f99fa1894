//! Who a request with headers is from.

use super::forwarded::Forwarded;
use super::problem::Problem;
use crate::Engine;
use crate::identity::{Credentials, Identity, Known, Who};
use headgate_core::Facts;
use headgate_core::answer::header_text;
use headgate_core::client_ip::client_ip;
use std::net::IpAddr;
use std::sync::Arc;

#[derive(Default)]
pub(crate) struct Identified {
    known: Option<Arc<Known>>,
    ip: Option<IpAddr>,
}

/// Verifies what the client shows. A problem where that is not what it should be and such requests are rejected.
pub(crate) fn identify(
    engine: &Engine,
    identity: &Identity,
    forwarded: &Forwarded<'_>,
    peer: Option<IpAddr>,
) -> Result<Identified, Problem> {
    let ip = client_ip(peer, forwarded.forwarded_for.iter().copied(), identity.trusted());
    let credentials = Credentials { authorization: forwarded.authorization, api_key: forwarded.api_key };
    match identity.identify(&credentials, engine.wall_us()) {
        Who::Known(known) => Ok(Identified { known: Some(known), ip }),
        Who::Unverified(why) if identity.rejects() => Err(Problem::new(401, why.text())),
        Who::Anonymous | Who::Unverified(_) => Ok(Identified { known: None, ip }),
    }
}

impl Identified {
    pub fn facts(&self) -> Facts<'_> {
        let known = self.known.as_deref();
        Facts {
            user: known.and_then(|known| known.user.as_deref()),
            org: known.and_then(|known| known.org.as_deref()),
            tier: known.and_then(|known| known.tier.as_deref()),
            api_key: known.and_then(|known| known.api_key.as_deref()),
            ip: self.ip,
            ..Facts::default()
        }
    }

    pub fn each_header(&self, put: &mut impl FnMut(&'static str, &str)) {
        if let Some(known) = self.known.as_deref() {
            each_header(known, put);
        }
    }
}

/// What the upstream may be told.
pub(crate) fn each_header(known: &Known, put: &mut impl FnMut(&'static str, &str)) {
    let told = [
        ("X-Headgate-User", &known.user),
        ("X-Headgate-Org", &known.org),
        ("X-Headgate-Tier", &known.tier),
        ("X-Headgate-Api-Key", &known.api_key),
    ];
    for (name, value) in told {
        if let Some(value) = value {
            put(name, &header_text(value));
        }
    }
}
