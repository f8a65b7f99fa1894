"""Nothing a client sends changes the address it is counted by, unless it is a trusted proxy."""

from __future__ import annotations

import ipaddress

from hypothesis import given
from hypothesis import strategies as st

from headgate import IdentityOptions, Limiter

TRUSTED = ["10.0.0.0/8", "2001:db8:f::/48"]
NETWORKS = [ipaddress.ip_network(text) for text in TRUSTED]
LIMITER = Limiter(identity=IdentityOptions(trusted_proxies=TRUSTED))


def is_trusted(ip: str) -> bool:
    address = ipaddress.ip_address(ip)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return any((mapped or address) in network for network in NETWORKS)


any_ip = st.ip_addresses().map(str)
strangers = any_ip.filter(lambda ip: not is_trusted(ip))
proxies = st.one_of(
    st.ip_addresses(v=4, network="10.0.0.0/8").map(str),
    st.ip_addresses(v=4, network="10.0.0.0/8").map(lambda ip: f"::ffff:{ip}"),
    st.ip_addresses(v=6, network="2001:db8:f::/48").map(str),
)
# What a client may write into the header: addresses, trusted ones too, ports, garbage, many of them.
written = st.one_of(
    any_ip,
    proxies,
    any_ip.map(lambda ip: f"[{ip}]:80" if ":" in ip else f"{ip}:80"),
    st.sampled_from(["", " ", "unknown", "_x", "127.0.0.1", "::1", "0.0.0.0", ",,,", "[", "::ffff:10.0.0.1", "\t"]),
    st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=40),
)
headers = st.one_of(st.none(), st.lists(written, max_size=100).map(",".join))


def canonical(ip: str) -> str:
    address = ipaddress.ip_address(ip)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def told(ip: str | None) -> str | None:
    """One form for one address: the two libraries write some of them differently."""
    return None if ip is None else canonical(ip)


@given(strangers, headers)
def test_a_client_that_reaches_us_is_itself_whatever_it_says(client: str, header: str | None) -> None:
    assert told(LIMITER.identify(peer=client, forwarded_for=header).ip) == canonical(client)


@given(strangers, headers, st.lists(proxies, max_size=10), st.one_of(proxies, st.just("unix")))
def test_a_client_behind_proxies_is_itself_whatever_it_says(
    client: str, header: str | None, between: list[str], peer: str
) -> None:
    """Each hop appends the address it was called from, as proxies do."""
    hops = ([] if header is None else [header]) + [client, *between]
    assert told(LIMITER.identify(peer=peer, forwarded_for=",".join(hops)).ip) == canonical(client)
