"""How entries become facts, with nothing standing in for those that are missing (SEMANTICS 7.1)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.grpc import wire
from tests.grpc.client import RATE_LIMIT, Client, Descriptor, Status, by
from tests.grpc.conftest import Asking, Rule


def rule(**fields: Any) -> Rule:
    return {"name": "r", "by": "global", "limit": "2/minute"} | fields


def applies(client: Client, descriptor: Descriptor, domain: str = "") -> bool:
    return client.ask(descriptor, domain=domain).statuses[0].rule is not None


@pytest.mark.parametrize("fact", ["user", "org", "api_key", "tier", "region", "method"])
def test_an_entry_named_as_a_fact_is_that_fact(asking: Asking, fact: str) -> None:
    client = asking(rule(match={fact: "GOLD"}, by=fact))
    assert applies(client, Descriptor({fact: "GOLD"}))
    assert not applies(client, Descriptor({fact: "other"}))
    assert not applies(client, by(something="GOLD"))


@pytest.mark.parametrize("fact", ["user", "org", "api_key", "tier", "region", "method", "ip", "app"])
def test_values_are_counted_apart(asking: Asking, fact: str) -> None:
    client = asking(rule(by=fact))
    one, other = ("198.51.100.7", "198.51.100.8") if fact == "ip" else ("ONE", "OTHER")
    remaining = [client.ask(Descriptor({fact: value})).remaining[0] for value in (one, one, other)]
    assert remaining == [1, 0, 1]


@pytest.mark.parametrize("entry", ["remote_address", "ip"])
def test_an_address_is_an_ip_however_it_is_written(asking: Asking, entry: str) -> None:
    client = asking(rule(match={"ip": "198.51.100.0/24"}, by="ip"))
    assert client.ask(Descriptor({entry: "198.51.100.7"})).remaining == [1]
    assert client.ask(Descriptor({entry: "::ffff:198.51.100.7"})).remaining == [0]
    assert not applies(client, Descriptor({entry: "192.0.2.1"}))


def test_ipv6_clients_are_counted_by_their_network(asking: Asking) -> None:
    client = asking(rule(by="ip"))
    asked = [client.ask(by(remote_address=ip)) for ip in ("2001:db8::1", "2001:db8::2", "2001:db8:0:1::1")]
    assert [answer.remaining for answer in asked] == [[1], [0], [1]]


def test_an_entry_that_holds_no_address_is_a_descriptor_of_that_name(asking: Asking) -> None:
    client = asking(rule(by="ip"), rule(name="unknown", match={"descriptors": {"remote_address": "hidden"}}))
    assert client.ask(by(remote_address="hidden")).statuses[0].rule == "unknown"


def test_a_path_is_normalised_and_loses_its_query(asking: Asking) -> None:
    client = asking(rule(match={"endpoint": "/api/{thing}"}, by="endpoint"))
    paths = ["/api/x", "//api/./%78/", "/api/y?key=1"]
    assert [client.ask(by(path=path)).code for path in paths] == ["OK", "OK", "OVER_LIMIT"]
    assert not applies(client, by(path="/elsewhere"))


def test_other_entries_are_descriptors(asking: Asking) -> None:
    client = asking(rule(match={"descriptors": {"plan": "trial", "model": ["small", "large"]}}, by=["app", "model"]))
    assert applies(client, by(plan="trial", model="large", app="web"))
    assert not applies(client, by(plan="trial", model="huge", app="web"))
    assert not applies(client, by(plan="trial", model="large"))


def test_the_domain_is_a_descriptor_of_every_descriptor(asking: Asking) -> None:
    client = asking(rule(match={"descriptors": {"domain": "edge"}}, by=["user", "domain"]))
    assert applies(client, by(user="42"), domain="edge")
    assert not applies(client, by(user="42"), domain="mesh")
    assert not applies(client, by(user="42"))


def test_domains_are_counted_apart_by_rules_that_count_by_them(asking: Asking) -> None:
    client = asking(rule(by=["user", "domain"]))
    remaining = [client.ask(by(user="42"), domain=domain).remaining for domain in ("edge", "edge", "mesh")]
    assert remaining == [[1], [0], [1]]


def test_no_tier_is_no_tier(asking: Asking) -> None:
    client = asking(rule(match={"tier": "free"}, by="user"))
    assert not applies(client, by(user="42"))
    assert applies(client, by(user="42", tier="free"))


@pytest.mark.parametrize("fact", ["user", "api_key"])
def test_nothing_is_counted_by_ip_instead(asking: Asking, fact: str) -> None:
    client = asking(rule(by=fact))
    assert client.ask(by(remote_address="198.51.100.7")).statuses == [Status("OK")]


def test_a_rule_needs_every_fact_it_counts_by_from_one_descriptor(asking: Asking) -> None:
    client = asking(rule(by=["user", "org"]))
    assert client.ask(by(user="42"), by(org="acme")).statuses == [Status("OK"), Status("OK")]
    assert applies(client, by(user="42", org="acme"))


def test_a_global_rule_needs_nothing(asking: Asking) -> None:
    client = asking(rule())
    assert client.ask(by(anything="x"), by(user="42")).remaining == [1, 1]
    assert applies(client, Descriptor({}))


def test_the_first_of_equal_keys_counts(asking: Asking) -> None:
    client = asking(rule(match={"user": "42"}, by="user"))
    assert applies(client, Descriptor([("user", "42"), ("user", "7")]))
    assert not applies(client, Descriptor([("user", "7"), ("user", "42")]))


def test_an_empty_value_is_no_id(asking: Asking) -> None:
    """Envoy leaves out a descriptor whose header is missing; one sent empty must not become a client of its own."""
    client = asking(rule(by="user"))
    assert client.ask(by(user="")).code == "OK"


@pytest.mark.parametrize("value", [b"\xff\xfe", b"caf\xe9", b"\x00", b"x" * 5_000, b"\xff" * 200_000])
def test_texts_that_are_none_and_very_long_ones_are_counted(asking: Asking, value: bytes) -> None:
    """An error would let the client pass."""
    client = asking(rule(by="user"))
    request = wire.rate_limit_request("edge", [("user", value)])
    codes = [client.answer(client.raw(f"{RATE_LIMIT}/ShouldRateLimit", request)).code for _ in range(3)]
    assert codes == ["OK", "OK", "OVER_LIMIT"]


def test_long_values_that_differ_only_at_the_end_are_counted_apart(asking: Asking) -> None:
    client = asking(rule(by="user"))
    remaining = [client.ask(by(user="x" * 5_000 + end)).remaining for end in ("a", "a", "b")]
    assert remaining == [[1], [0], [1]]
