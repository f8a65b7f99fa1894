//! Which address a request came from, when proxies stand between.
//!
//! Every hop adds the address it saw at the right of `X-Forwarded-For`. What stands there is believed only as far as
//! trusted hops wrote it, so nothing a client sends changes the address it is counted by.

use crate::net::{Cidr, masked, parse_ip};
use std::net::IpAddr;

/// Hops looked at, from the right. More proxies in a row are a mistake or an attack.
pub const HOPS_MAX: usize = 64;
/// Ranges a list of trusted proxies may hold: each hop of each request is compared with all of them.
pub const RANGES_MAX: usize = 256;
/// The longest entry: an IPv6 address in brackets, with a port.
const ENTRY_BYTES_MAX: usize = 64;

/// The proxies whose word is taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trusted {
    ranges: Box<[Cidr]>,
}

impl Trusted {
    /// Reads addresses and ranges; the error names the first that is none.
    pub fn parse<'a>(ranges: impl IntoIterator<Item = &'a str>) -> Result<Trusted, String> {
        let ranges = ranges.into_iter().map(Cidr::parse).collect::<Result<Box<[Cidr]>, String>>()?;
        if ranges.len() > RANGES_MAX {
            return Err(format!("at most {RANGES_MAX} ranges, not {}", ranges.len()));
        }
        Ok(Trusted { ranges })
    }

    /// This machine and nobody else.
    pub fn loopback() -> Trusted {
        let ranges = ["127.0.0.0/8", "::1/128"].into_iter().filter_map(|text| Cidr::parse(text).ok());
        Trusted { ranges: ranges.collect() }
    }

    #[inline]
    pub fn contains(&self, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        let holds = |range: &Cidr| range.is_v6() == ip.is_ipv6() && masked(ip, range.prefix) == range.network;
        self.ranges.iter().any(holds)
    }
}

/// The client's address. `peer` is who is connected to us; none for a Unix socket, which is trusted: only this machine
/// reaches it. `forwarded_for` are the values of that header, in the order they came.
///
/// From the right, as long as the hop that reported an entry is trusted. An entry that is no address ends the walk at the
/// hop that reported it: that one is real, whatever lies beyond it.
pub fn client_ip<'a>(
    peer: Option<IpAddr>,
    forwarded_for: impl DoubleEndedIterator<Item = &'a [u8]>,
    trusted: &Trusted,
) -> Option<IpAddr> {
    let mut hop = peer.map(|ip| ip.to_canonical());
    if hop.is_some_and(|ip| !trusted.contains(ip)) {
        return hop;
    }
    let entries = forwarded_for.rev().flat_map(|value| value.rsplit(|byte| *byte == b','));
    for entry in entries.take(HOPS_MAX) {
        let Some(ip) = entry_ip(entry) else { break };
        hop = Some(ip);
        if !trusted.contains(ip) {
            break;
        }
    }
    hop
}

/// `1.2.3.4`, `1.2.3.4:567`, `2001:db8::1`, `[2001:db8::1]`, `[2001:db8::1]:567`.
fn entry_ip(entry: &[u8]) -> Option<IpAddr> {
    let entry = entry.trim_ascii();
    if entry.len() > ENTRY_BYTES_MAX {
        return None;
    }
    let text = str::from_utf8(entry).ok()?;
    if let Some(rest) = text.strip_prefix('[') {
        let (address, port) = rest.split_once(']')?;
        let is_right = address.contains(':') && (port.is_empty() || is_port(port.strip_prefix(':')?));
        return if is_right { parse_ip(address) } else { None };
    }
    match text.split_once(':') {
        Some((address, port)) if !port.contains(':') => is_port(port).then(|| parse_ip(address))?,
        _ => parse_ip(text),
    }
}

fn is_port(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u16>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: &str = "198.51.100.7";

    fn ip(text: &str) -> IpAddr {
        parse_ip(text).unwrap()
    }

    fn trusted() -> Trusted {
        Trusted::parse(["127.0.0.0/8", "10.0.0.0/8", "2001:db8:f::/48"]).unwrap()
    }

    fn walk(peer: Option<&str>, values: &[&str]) -> Option<IpAddr> {
        client_ip(peer.map(|peer| peer.parse().unwrap()), values.iter().map(|value| value.as_bytes()), &trusted())
    }

    #[test]
    fn what_an_untrusted_peer_says_is_never_looked_at() {
        for said in ["192.0.2.1", "10.0.0.1", "garbage", "", "192.0.2.1, 10.0.0.1"] {
            assert_eq!(walk(Some(CLIENT), &[said]), Some(ip(CLIENT)), "{said}");
        }
    }

    #[test]
    fn the_walk_ends_at_the_first_hop_that_is_not_trusted() {
        assert_eq!(walk(Some("10.0.0.1"), &["192.0.2.1, 198.51.100.7"]), Some(ip(CLIENT)));
        assert_eq!(walk(Some("10.0.0.1"), &["192.0.2.1, 198.51.100.7, 10.9.9.9"]), Some(ip(CLIENT)));
        assert_eq!(walk(Some("10.0.0.1"), &["garbage, 198.51.100.7"]), Some(ip(CLIENT)));
        assert_eq!(walk(Some("::ffff:10.0.0.1"), &["198.51.100.7"]), Some(ip(CLIENT)));
    }

    #[test]
    fn several_headers_are_one_list() {
        assert_eq!(walk(Some("10.0.0.1"), &["192.0.2.1", "198.51.100.7", "10.0.0.2, 10.0.0.3"]), Some(ip(CLIENT)));
        assert_eq!(walk(Some("10.0.0.1"), &["198.51.100.7", "10.0.0.2"]), Some(ip(CLIENT)));
    }

    #[test]
    fn an_entry_that_is_no_address_ends_the_walk_at_the_hop_that_reported_it() {
        for wrong in
            ["", " ", "unknown", "_hidden", "1.2.3", "1.2.3.4:", "1.2.3.4:x", "1.2.3.4:70000", "[::1", "[1.2.3.4]:5"]
        {
            assert_eq!(walk(Some("10.0.0.1"), &[&format!("198.51.100.7, {wrong}")]), Some(ip("10.0.0.1")), "{wrong}");
            let behind = format!("198.51.100.7, {wrong}, 10.0.0.2");
            assert_eq!(walk(Some("10.0.0.1"), &[&behind]), Some(ip("10.0.0.2")), "{wrong}");
        }
        for wrong in
            ["fe80::1%eth0", "[::1]5", "[::1]:", "01.2.3.4", "1.2.3.4 5.6.7.8", "\"1.2.3.4\"", "::1]:80", "[]:80"]
        {
            assert_eq!(walk(Some("10.0.0.1"), &[wrong]), Some(ip("10.0.0.1")), "{wrong}");
        }
        assert_eq!(walk(None, &["unknown"]), None);
    }

    #[test]
    fn entries_may_carry_ports() {
        for entry in ["198.51.100.7:567", " 198.51.100.7 ", "::ffff:198.51.100.7", "[::ffff:198.51.100.7]:80"] {
            assert_eq!(walk(None, &[entry]), Some(ip(CLIENT)), "{entry}");
        }
        for entry in ["2001:db8::1", "[2001:db8::1]", "[2001:db8::1]:80"] {
            assert_eq!(walk(None, &[entry]), Some(ip("2001:db8::1")), "{entry}");
        }
    }

    #[test]
    fn a_unix_socket_is_trusted_and_has_no_address_of_its_own() {
        assert_eq!(walk(None, &["192.0.2.1, 198.51.100.7"]), Some(ip(CLIENT)));
        assert_eq!(walk(None, &[]), None);
    }

    #[test]
    fn when_every_hop_is_trusted_the_first_of_them_is_the_client() {
        assert_eq!(walk(Some("10.0.0.1"), &["10.0.0.3, 10.0.0.2"]), Some(ip("10.0.0.3")));
        assert_eq!(walk(Some("2001:db8:f::1"), &["2001:db8:f::2"]), Some(ip("2001:db8:f::2")));
        assert_eq!(walk(Some("10.0.0.1"), &[]), Some(ip("10.0.0.1")));
    }

    #[test]
    fn a_chain_without_end_is_not_followed() {
        let chain = format!("198.51.100.7{}", ",10.0.0.2".repeat(HOPS_MAX));
        assert_eq!(walk(Some("10.0.0.1"), &[&chain]), Some(ip("10.0.0.2")));
    }

    #[test]
    fn ranges_that_are_none_are_told() {
        assert!(Trusted::parse(["10.0.0.0/8", "proxy"]).unwrap_err().contains("`proxy`"));
        assert!(Trusted::parse(["10.0.0.1/8"]).unwrap_err().contains("10.0.0.0/8"));
        assert!(Trusted::parse(vec!["10.0.0.1"; RANGES_MAX + 1]).unwrap_err().contains("at most"));
        assert!(!Trusted::default().contains(ip("127.0.0.1")));
        assert!(Trusted::loopback().contains(ip("127.8.8.8")) && Trusted::loopback().contains(ip("::1")));
    }
}
