//! Finding the servers: who is primary, who serves which slots. Blocking, off the request path.

use super::connect::Target;
use super::greeting::ConnectError;
use super::lane::Lane;
use super::resp::Reply;
use super::routing::{NOBODY, SLOTS};
use super::url::{Address, StoreUrl};
use rustls::ClientConfig;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Who serves which slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterMap {
    pub primaries: Vec<Address>,
    /// A place among the primaries for each slot.
    pub by_slot: Vec<u16>,
}

pub struct Resolver {
    pub url: StoreUrl,
    pub tls: Option<Arc<ClientConfig>>,
    pub timeout: Duration,
}

impl Resolver {
    /// How to reach one of the store's servers.
    pub fn target(&self, address: Address) -> Target {
        Target { address, login: self.url.login.clone(), database: self.url.database, tls: self.tls.clone() }
    }

    /// The primary, as the first sentinel that answers knows it.
    pub fn primary(&self, name: &str) -> Result<Address, ConnectError> {
        let ask = |address: &Address| {
            let login = self.url.sentinel_login.clone();
            let target = Target { address: address.clone(), login, database: 0, tls: self.tls.clone() };
            let found = Lane::bare(&target, self.deadline())?.command(
                &[b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", name.as_bytes()],
                self.deadline(),
                read_primary,
            )?;
            found.map_err(|what| ConnectError::NotReady(format!("the sentinel at {address}: {what}")))
        };
        self.first(&self.url.servers, ask)
    }

    /// The cluster as the first node that answers sees it.
    pub fn cluster(&self, known: &[Address]) -> Result<ClusterMap, ConnectError> {
        let mut nodes = known.to_vec();
        nodes.extend(self.url.servers.iter().filter(|seed| !known.contains(seed)).cloned());
        self.first(&nodes, |address| {
            let mut lane = Lane::connect(&self.target(address.clone()), self.deadline())?;
            if !lane.greeting.is_cluster {
                let what = format!("{address} is not part of a cluster; use redis:// for a single server");
                return Err(ConnectError::Rejected(what));
            }
            let map = lane.command(&[b"CLUSTER", b"SLOTS"], self.deadline(), |reply| read_slots(reply, address))?;
            map.ok_or_else(|| ConnectError::NotReady(format!("{address} knows no slots")))
        })
    }

    fn deadline(&self) -> Instant {
        Instant::now() + self.timeout
    }

    /// The first answer; else the most telling error.
    fn first<T>(
        &self,
        addresses: &[Address],
        ask: impl Fn(&Address) -> Result<T, ConnectError>,
    ) -> Result<T, ConnectError> {
        let mut last: Option<ConnectError> = None;
        for address in addresses {
            match ask(address) {
                Ok(answer) => return Ok(answer),
                Err(error) if !matches!(last, Some(ConnectError::Rejected(_))) => last = Some(error),
                Err(_) => {}
            }
        }
        Err(last.unwrap_or_else(|| ConnectError::Refused("no server is named".into())))
    }
}

fn read_primary(reply: &Reply<'_>) -> Result<Address, String> {
    match reply {
        Reply::Array(items) => match items.as_slice() {
            [host, port] => {
                let host = host.text().ok_or("an address that is none")?.to_owned();
                let port = port.number().and_then(|port| u16::try_from(port).ok()).ok_or("a port that is none")?;
                Ok(Address::Tcp { host, port })
            }
            _ => Err("an address that is none".into()),
        },
        Reply::Nil => Err("it knows no primary of that name".into()),
        Reply::Error(error) => Err(String::from_utf8_lossy(error).into_owned()),
        _ => Err("an answer of another kind".into()),
    }
}

fn read_slots(reply: &Reply<'_>, asked: &Address) -> Option<ClusterMap> {
    let mut map = ClusterMap { primaries: Vec::new(), by_slot: vec![NOBODY; SLOTS] };
    for range in reply.array()? {
        let [first, last, primary, ..] = range.array()? else { return None };
        let (first, last) = (first.number()? as usize, last.number()? as usize);
        let [host, port, ..] = primary.array()? else { return None };
        let host = match (host.text().filter(|host| !host.is_empty()), asked) {
            (Some(host), _) => host.to_owned(),
            // A node that does not know its own name is the one that was asked.
            (None, Address::Tcp { host, .. }) => host.clone(),
            (None, Address::Unix(_)) => return None,
        };
        let address = Address::Tcp { host, port: u16::try_from(port.number()?).ok()? };
        let number = map.primaries.iter().position(|known| *known == address).unwrap_or_else(|| {
            map.primaries.push(address);
            map.primaries.len() - 1
        });
        map.by_slot.get_mut(first..=last)?.fill(number as u16);
    }
    (!map.primaries.is_empty()).then_some(map)
}
