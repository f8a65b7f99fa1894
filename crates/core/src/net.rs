//! Client addresses: one form for each client.

use std::net::{IpAddr, Ipv6Addr};

/// Reads an address; an IPv4 address written as IPv6 is that IPv4 address.
pub fn parse_ip(text: &str) -> Option<IpAddr> {
    text.parse::<IpAddr>().ok().map(|ip| ip.to_canonical())
}

/// The address a client is counted by: an IPv6 client by its prefix, since it owns all of it.
#[inline]
pub fn counted_ip(ip: IpAddr, ipv6_prefix: u8) -> IpAddr {
    match ip {
        IpAddr::V4(_) => ip,
        IpAddr::V6(v6) => IpAddr::V6(mask_v6(v6, ipv6_prefix)),
    }
}

fn mask_v6(ip: Ipv6Addr, prefix: u8) -> Ipv6Addr {
    let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
    Ipv6Addr::from(u128::from(ip) & mask)
}

/// A range of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cidr {
    pub network: IpAddr,
    pub prefix: u8,
}

impl Cidr {
    pub fn parse(text: &str) -> Result<Cidr, String> {
        let fail = || format!("`{text}` is not an address or range; expected `203.0.113.0/24` or `2001:db8::/32`");
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix.parse::<u8>().map_err(|_| fail())?)),
            None => (text, None),
        };
        let ip: IpAddr = address.parse().map_err(|_| fail())?;
        let width = if ip.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.unwrap_or(width);
        if prefix > width {
            return Err(fail());
        }
        // A range inside ::ffff:0:0/96 is a range of IPv4.
        let (ip, prefix) = match ip.to_canonical() {
            canonical @ IpAddr::V4(_) if width == 128 && prefix >= 96 => (canonical, prefix - 96),
            _ => (ip, prefix),
        };
        let network = masked(ip, prefix);
        if network != ip {
            return Err(format!("`{text}` has bits beyond its prefix; did you mean `{network}/{prefix}`?"));
        }
        Ok(Cidr { network, prefix })
    }

    pub fn is_v6(&self) -> bool {
        self.network.is_ipv6()
    }
}

/// The first address of the range of that length that holds `ip`.
#[inline]
pub fn masked(ip: IpAddr, prefix: u8) -> IpAddr {
    match ip {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
            IpAddr::V4((u32::from(v4) & mask).into())
        }
        IpAddr::V6(v6) => IpAddr::V6(mask_v6(v6, prefix)),
    }
}

/// The address as bytes, for hashing: 4 or 16 of them.
#[inline]
pub fn with_bytes<R>(ip: IpAddr, f: impl FnOnce(&[u8]) -> R) -> R {
    match ip {
        IpAddr::V4(v4) => f(&v4.octets()),
        IpAddr::V6(v6) => f(&v6.octets()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapped_address_is_its_ipv4_address() {
        assert_eq!(parse_ip("::ffff:192.0.2.1"), parse_ip("192.0.2.1"));
    }

    #[test]
    fn an_ipv6_client_is_counted_by_prefix() {
        let counted = |text| counted_ip(parse_ip(text).unwrap(), 64);
        assert_eq!(counted("2001:db8::1"), counted("2001:db8::ffff:2"));
        assert_ne!(counted("2001:db8::1"), counted("2001:db8:0:1::1"));
    }

    #[test]
    fn ranges_are_read_strictly() {
        assert_eq!(Cidr::parse("203.0.113.7").unwrap().prefix, 32);
        assert_eq!(Cidr::parse("::ffff:10.0.0.0/104").unwrap(), Cidr::parse("10.0.0.0/8").unwrap());
        assert!(Cidr::parse("10.0.0.1/8").unwrap_err().contains("10.0.0.0/8"));
        for wrong in ["10.0.0.0/33", "10.0.0", "", "::/129", "10.0.0.0/-1"] {
            assert!(Cidr::parse(wrong).is_err(), "{wrong}");
        }
    }
}
