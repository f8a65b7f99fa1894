"""Which address a request is counted by, at the doors that are told one. The whole table is in the engine's own tests;
that nothing a client sends changes it is tried in `tests/properties`."""

from __future__ import annotations

import pytest

from headgate import IdentityOptions
from tests.integration.conftest import Starter
from tests.integration.http_node import Node
from tests.integration.identified_node import know

CLIENT, OTHER, PROXY = "198.51.100.7", "192.0.2.99", "10.1.2.3"
# The peer, the header, whom it is counted by.
TABLE = [
    (CLIENT, None, CLIENT),
    (CLIENT, OTHER, CLIENT),
    (CLIENT, f"{OTHER}, {PROXY}", CLIENT),
    (PROXY, None, PROXY),
    (PROXY, CLIENT, CLIENT),
    (PROXY, f"{OTHER}, {CLIENT}", CLIENT),
    (PROXY, f"{OTHER},{CLIENT} ,\t10.9.9.9", CLIENT),
    (PROXY, f"{CLIENT}:4711", CLIENT),
    (PROXY, f"{OTHER}, unknown", PROXY),
    (PROXY, f"unknown, {CLIENT}", CLIENT),
    (PROXY, f"{CLIENT},", PROXY),
    (PROXY, "10.0.0.9, 10.0.0.8", "10.0.0.9"),
    (f"::ffff:{PROXY}", f"::ffff:{CLIENT}", CLIENT),
    (PROXY, "[2001:db8::5]:443", "2001:db8::5"),
    (PROXY, "2001:db8::5", "2001:db8::5"),
    ("unix", f"{OTHER}, {CLIENT}", CLIENT),
    ("unix", None, None),
]


@pytest.fixture
def node(run: Starter) -> Node:
    node = run(rules=[{"name": "each", "by": "ip", "limit": "5/minute"}])
    know(node, IdentityOptions(trusted_proxies=["10.0.0.0/8", "127.0.0.0/8"]))
    return node


@pytest.mark.parametrize(("peer", "header", "expected"), TABLE)
def test_the_client_is_the_first_hop_that_is_not_trusted(
    node: Node, peer: str, header: str | None, expected: str | None
) -> None:
    assert node.engine.identify(peer=peer, forwarded_for=header).ip == expected
    shown = {"peer": peer, "forwarded_for": header}
    node.client().post("/v1/check", json={"credentials": shown})
    counted = {ip: 5 - (node.engine.peek(ip=ip, cost=0).remaining or 0) for ip in (CLIENT, OTHER, PROXY, "2001:db8::5")}
    assert counted == {ip: int(ip == expected) for ip in counted}


def test_forward_auth_counts_by_the_client_behind_a_trusted_proxy(node: Node) -> None:
    client = node.client()
    client.get("/v1/authorize", headers=[("X-Forwarded-For", OTHER), ("X-Forwarded-For", CLIENT)])
    assert node.engine.peek(ip=CLIENT, cost=0).remaining == 4
    know(node, IdentityOptions(trusted_proxies=[]))
    client.get("/v1/authorize", headers={"X-Forwarded-For": CLIENT})
    assert node.engine.peek(ip=CLIENT, cost=0).remaining == 4
    assert node.engine.peek(ip="127.0.0.1", cost=0).remaining == 4


@pytest.mark.parametrize("peer", ["", "nowhere", "10.0.0.1:80", "UNIX"])
def test_a_peer_that_is_no_address_is_a_mistake(node: Node, peer: str) -> None:
    with pytest.raises(ValueError, match="peer: "):
        node.engine.identify(peer=peer)


def test_the_header_alone_is_a_mistake(node: Node) -> None:
    with pytest.raises(ValueError, match="needs `peer`"):
        node.engine.identify(forwarded_for=CLIENT)
