//! Credentials a caller was shown and hands on, as a fact of a request: verified here, so that what they say can be trusted.

use super::facts_json::FactsBody;
use super::json::{AnyScalar, TextKind, Trail, text};
use super::problem::Problem;
use crate::Engine;
use crate::identity::{Credentials, Identity, Known, Who};
use headgate_core::client_ip::client_ip;
use headgate_core::net::parse_ip;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};
use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

pub(crate) const CREDENTIALS_EXPECTED: &str = "an object with authorization, api_key, peer, forwarded_for";
const KNOWN: [&str; 4] = ["authorization", "api_key", "peer", "forwarded_for"];
const PEER_EXPECTED: &str = "the address a request came from, such as 203.0.113.7, or unix";
/// Too long a token is refused as one, whatever is done about those; the body is bounded.
const HEADER: TextKind = TextKind { bytes_max: usize::MAX, or_whole_number: false };

type Text<'de> = Cow<'de, str>;

/// What the caller of this node was shown, as it came.
#[derive(Debug, Default)]
pub(crate) struct CredentialsBody<'de> {
    authorization: Option<Text<'de>>,
    api_key: Option<Text<'de>>,
    peer: Option<Peer>,
    forwarded_for: Option<Text<'de>>,
}

#[derive(Clone, Copy, Debug)]
enum Peer {
    Ip(IpAddr),
    Unix,
}

/// What became of credentials.
#[derive(Debug)]
pub(crate) struct Verified {
    pub known: Option<Arc<Known>>,
    /// None unless the caller asked for it.
    pub ip: Option<IpAddr>,
}

/// Verifies the credentials of requests, all of them before anything is counted.
pub(crate) fn verified<'de>(engine: &Engine, mut list: Vec<FactsBody<'de>>) -> Result<Vec<FactsBody<'de>>, Problem> {
    for (nth, facts) in list.iter_mut().enumerate() {
        facts.verify(engine).map_err(|problem| at(nth, problem))?;
    }
    Ok(list)
}

fn at(nth: usize, problem: Problem) -> Problem {
    let field = problem.field.map(|field| format!("[{nth}].{field}"));
    let dot = if field.is_some() { "." } else { ": " };
    Problem { status: problem.status, detail: format!("[{nth}]{dot}{}", problem.detail), field }
}

impl FactsBody<'_> {
    /// Puts what credentials say in the place of facts that were not given. A fact given beside credentials that speak of
    /// it is a mistake: whose word would count?
    #[inline]
    pub fn verify(&mut self, engine: &Engine) -> Result<(), Problem> {
        match self.credentials.take() {
            None => Ok(()),
            Some(credentials) => self.verify_with(engine, &credentials),
        }
    }

    fn verify_with(&mut self, engine: &Engine, shown: &CredentialsBody<'_>) -> Result<(), Problem> {
        let identity = engine.identity();
        let credentials = Credentials {
            authorization: shown.authorization.as_deref().map(str::as_bytes),
            api_key: shown.api_key.as_deref().map(str::as_bytes),
        };
        let spoken = identity.speaks_of(&credentials);
        for (name, is_given, is_spoken) in [
            ("user", self.user.is_some(), spoken.user),
            ("tier", self.tier.is_some(), spoken.tier),
            ("org", self.org.is_some(), spoken.org),
            ("api_key", self.api_key.is_some(), spoken.api_key),
            ("ip", self.ip.is_some(), shown.peer.is_some()),
        ] {
            if is_given && is_spoken {
                return Err(Problem::field(name, "is told by the credentials; give one or the other"));
            }
        }
        let known = match identity.identify(&credentials, engine.wall_us()) {
            Who::Known(known) => Some(known),
            Who::Unverified(why) if identity.rejects() => return Err(Problem::new(401, why.text())),
            Who::Anonymous | Who::Unverified(_) => None,
        };
        self.verified = Some(Verified { known, ip: shown.ip(&identity) });
        Ok(())
    }
}

impl CredentialsBody<'_> {
    fn ip(&self, identity: &Identity) -> Option<IpAddr> {
        let peer = match self.peer? {
            Peer::Ip(ip) => Some(ip),
            Peer::Unix => None,
        };
        let forwarded_for = self.forwarded_for.as_deref().map(str::as_bytes);
        client_ip(peer, forwarded_for.into_iter(), identity.trusted())
    }
}

pub(crate) struct CredentialsSeed<'t>(pub &'t mut Trail);

impl<'de> DeserializeSeed<'de> for CredentialsSeed<'_> {
    type Value = Option<Box<CredentialsBody<'de>>>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for CredentialsSeed<'_> {
    type Value = Option<Box<CredentialsBody<'de>>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(CREDENTIALS_EXPECTED)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let trail = self.0;
        let mut body = CredentialsBody::default();
        let mut seen = 0_u8;
        while let Some(name) = map.next_key::<Text<'de>>()? {
            trail.part(&name);
            let Some(field) = KNOWN.iter().position(|known| *known == name) else {
                return Err(trail.wrong(format!("unknown field; expected one of {}", KNOWN.join(", "))));
            };
            if seen & (1 << field) != 0 {
                return Err(trail.wrong("appears twice"));
            }
            seen |= 1 << field;
            trail.enter("credentials", if field == 2 { PEER_EXPECTED } else { "a text" });
            let value = text(trail, map.next_value_seed(AnyScalar)?, HEADER)?;
            match field {
                0 => body.authorization = value,
                1 => body.api_key = value,
                2 => body.peer = value.map(|text| peer(trail, &text)).transpose()?,
                _ => body.forwarded_for = value,
            }
            trail.whole();
            trail.enter("credentials", CREDENTIALS_EXPECTED);
        }
        if body.forwarded_for.is_some() && body.peer.is_none() {
            trail.part("forwarded_for");
            return Err(trail.wrong("needs `peer` beside it: only what trusted peers say is believed"));
        }
        Ok(Some(Box::new(body)))
    }
}

fn peer<E: serde::de::Error>(trail: &mut Trail, text: &str) -> Result<Peer, E> {
    match parse_ip(text) {
        Some(ip) => Ok(Peer::Ip(ip)),
        None if text == "unix" => Ok(Peer::Unix),
        None => Err(trail.wrong(format!("expected {PEER_EXPECTED}"))),
    }
}
