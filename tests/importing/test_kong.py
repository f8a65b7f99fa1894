"""Kong's plugins: what its documents promise is what the imported rules decide."""

from __future__ import annotations

import itertools
import json
import textwrap
from pathlib import Path
from typing import Any

import pytest

from headgate.importing import kong_notes
from headgate.importing.kong import read_kong
from tests.importing.deciding import moved
from tests.importing.kong_files import BOB, EVE, configured, importing, own_notes
from tests.model.kong import PRECEDENCE


def test_a_global_plugin_counts_consumers_and_strangers_by_address_in_windows_on_the_clock(tmp_path: Path) -> None:
    there = configured(tmp_path, "second: 5, minute: 8, policy: local")
    assert there.admitted(9, user="bob", ip=BOB) == 5
    there.clock.advance(1)
    assert there.admitted(9, user="bob", ip=BOB) == 3
    assert there.admitted(9, ip=BOB) == 5, "nobody known: by address"
    assert there.admitted(9, ip=EVE) == 5
    there.clock.advance(59)
    assert there.admitted(9, user="bob", ip=BOB) == 5
    assert there.imported.document == {
        "rules": [
            {
                "name": "kong/global",
                "by": "user",
                "algorithm": "fixed_window",
                "limit": [{"limit": "5/second", "label": "second"}, {"limit": "8/minute", "label": "minute"}],
            }
        ]
    }
    assert there.said("cannot") == []
    assert [what for _, what in there.said("differs")] == [kong_notes._ADDRESS, kong_notes._ANSWERS]
    assert [what for _, what in there.said("note")] == [kong_notes._USERS, kong_notes._STORE]


SCOPES = """\
services:
- name: orders
  plugins:
  - {name: rate-limiting, config: {minute: 2, limit_by: ip}}
  routes:
  - {name: list, paths: [/orders]}
  - name: export
    paths: [/orders/export]
    plugins:
    - {name: rate-limiting, config: {minute: 3, limit_by: service}}
- name: pages
  routes:
  - {name: pages, paths: [/orders/help, /pages]}
consumers:
- username: bob
  plugins:
  - {name: rate-limiting, config: {minute: 4}}
- username: eve
plugins:
- {name: rate-limiting, config: {minute: 5, limit_by: ip}}
- {name: rate-limiting, route: export, consumer: bob, config: {minute: 1}}
"""


@pytest.mark.parametrize(
    ("facts", "admitted", "why"),
    [
        ({"path": "/orders/7", "ip": EVE}, 2, "the service's"),
        ({"path": "/orders/export", "ip": EVE}, 3, "the route's, not the service's"),
        ({"path": "/orders/export", "ip": BOB, "user": "bob"}, 1, "this consumer's on this route"),
        ({"path": "/orders/7", "ip": BOB, "user": "bob"}, 4, "the consumer's goes before the service's"),
        ({"path": "/pages", "ip": BOB, "user": "bob"}, 4, "the consumer's goes before the global one"),
        ({"path": "/pages", "ip": EVE, "user": "eve"}, 5, "the global one: nothing else is for her"),
        ({"path": "/orders/help", "ip": EVE}, 5, "a route of another service within this one's paths"),
        ({"path": "/", "ip": EVE}, 5, "the global one"),
    ],
)
def test_only_the_most_specific_instance_runs(tmp_path: Path, facts: dict[str, str], admitted: int, why: str) -> None:
    assert importing(tmp_path, SCOPES).admitted(9, **facts) == admitted, why


def test_an_instance_counts_all_routes_it_is_for_together(tmp_path: Path) -> None:
    there = importing(
        tmp_path,
        """\
        services:
        - name: one
          plugins: [{name: rate-limiting, config: {minute: 3, limit_by: ip}}]
          routes: [{name: a, paths: [/a]}, {name: b, paths: [/b], methods: [post]}]
        """,
    )
    assert there.admitted(2, path="/a", ip=BOB) == 2
    assert there.admitted(9, path="/b/c", method="POST", ip=BOB) == 1
    assert there.admitted(9, path="/b/c", method="GET", ip=BOB) == 9, "no route"
    assert there.admitted(9, path="/a/b", ip=EVE) == 3
    assert there.rule("kong/service=one at route=b")["match"] == {"endpoint": ["/b", "/b/*"], "method": ["POST"]}
    assert kong_notes._PREFIX in [what for _, what in there.said("differs")]


def test_a_route_without_limits_within_one_that_has_them_is_free(tmp_path: Path) -> None:
    there = importing(
        tmp_path,
        """\
        routes:
        - name: api
          paths: [/api]
          plugins: [{name: rate-limiting, config: {minute: 1, limit_by: ip}}]
        - {name: health, paths: [/api/health]}
        """,
    )
    assert there.admitted(9, path="/api/x", ip=BOB) == 1
    assert there.admitted(9, path="/api/health", ip=BOB) == 9
    assert there.rule("kong/none at route=health not by ip")["limit"] == "1_000_000_000_000/second"


def test_counting_by_service_is_one_counter_for_each(tmp_path: Path) -> None:
    there = importing(
        tmp_path,
        """\
        services:
        - {name: one, routes: [{name: a, paths: [/a]}, {name: b, paths: [/b]}]}
        - {name: two, routes: [{name: c, paths: [/c]}]}
        routes: [{name: d, paths: [/d]}]
        plugins: [{name: rate-limiting, config: {minute: 3, limit_by: service}}]
        """,
    )
    assert there.admitted(2, path="/a", ip=BOB) == 2
    assert there.admitted(9, path="/b", ip=EVE) == 1
    assert there.admitted(9, path="/c", ip=EVE) == 3
    assert there.admitted(9, path="/d", ip=EVE) == 3, "without a service: by address"
    assert there.admitted(9, path="/d", ip=BOB) == 3


def test_counting_by_path_is_one_counter_for_it_and_by_address_elsewhere(tmp_path: Path) -> None:
    there = configured(tmp_path, "minute: 3, limit_by: path, path: /status")
    assert there.admitted(2, path="/status", ip=BOB) == 2
    assert there.admitted(9, path="/status", ip=EVE) == 1
    assert there.admitted(9, path="/other", ip=EVE) == 3
    assert there.admitted(9, path="/other", ip=BOB) == 3


def test_counting_by_header_is_counting_by_a_descriptor(tmp_path: Path) -> None:
    there = configured(tmp_path, "minute: 3, limit_by: header, header_name: X-Tenant")
    assert there.admitted(9, descriptors={"x-tenant": "a"}) == 3
    assert there.admitted(9, descriptors={"x-tenant": "b"}) == 3
    assert there.admitted(9, ip=BOB) == 9
    assert own_notes(there, "differs") == [
        ("theirs.yaml:4:33", "a request without the header is not counted here, and there by its address")
    ]
    assert own_notes(there, "note") == [
        (
            "theirs.yaml:4:33",
            "whoever asks must give the header as a descriptor of that name, as Envoy's descriptors do",
        )
    ]


def test_counting_by_credential_is_counting_by_api_key(tmp_path: Path) -> None:
    there = configured(tmp_path, "minute: 3, limit_by: credential")
    assert there.admitted(9, api_key="k1", user="bob", ip=BOB) == 3
    assert there.admitted(9, api_key="k2", user="bob", ip=BOB) == 3
    assert there.admitted(9, user="bob", ip=BOB) == 3
    (said,) = own_notes(there, "differs")
    assert said[1].startswith("credentials are API keys here: who shows a token is counted by address")


@pytest.mark.parametrize(
    "membership",
    [
        "consumers: [{username: bob, groups: [{name: gold}]}, {username: eve}]\nconsumer_groups: [{name: gold}]",
        "consumers: [{username: bob}]\nconsumer_groups: [{name: gold, consumers: [{consumer: bob}]}]",
        "consumers: [{username: bob}]\nconsumer_groups: [{name: gold, consumers: [{username: bob}]}]",
    ],
)
def test_consumer_groups_are_tiers_and_overrides_say_who_is_in_them(tmp_path: Path, membership: str) -> None:
    plugins = """\
        plugins:
        - {name: rate-limiting, config: {minute: 1}}
        - {name: rate-limiting, consumer_group: gold, config: {minute: 4}}
        """
    there = importing(tmp_path, f"{membership}\n{textwrap.dedent(plugins)}")
    assert there.imported.document["overrides"] == [{"user": "bob", "tier": "gold"}]
    assert there.admitted(9, user="bob", ip=BOB) == 4
    assert there.admitted(9, user="eve", ip=EVE) == 1
    assert kong_notes._GROUPS in [what for _, what in there.said("note")]


def test_who_is_in_two_groups_gets_the_first_and_it_is_said(tmp_path: Path) -> None:
    there = importing(
        tmp_path,
        """\
        consumers: [{username: bob, groups: [{name: gold}, {name: new}]}]
        consumer_groups: [{name: gold}, {name: new}]
        plugins: [{name: rate-limiting, config: {minute: 4, limit_by: consumer-group}}]
        """,
    )
    said = [what for _, what in there.said("differs")]
    assert "`bob` is in gold and new; a user has one tier, and the first was taken" in said
    assert "who is in no group is counted by address there, and here together with all of the tier `free`" in said
    assert there.admitted(9, user="bob", ip=BOB) == 4


NAMED = {"route": "orders", "service": "shop", "consumer": "bob", "group": "gold"}


@pytest.mark.parametrize(("first", "second"), list(itertools.combinations(PRECEDENCE, 2)), ids=str)
def test_of_any_two_instances_the_more_specific_runs(
    tmp_path: Path, first: tuple[str, ...], second: tuple[str, ...]
) -> None:
    def plugin(scope: tuple[str, ...], count: int) -> dict[str, Any]:
        whom = {"consumer_group" if kind == "group" else kind: NAMED[kind] for kind in scope}
        return {"name": "rate-limiting", **whom, "config": {"minute": count}}

    file = {
        "services": [{"name": "shop", "routes": [{"name": "orders", "paths": ["/orders"]}]}],
        "consumer_groups": [{"name": "gold"}],
        "consumers": [{"username": "bob", "groups": [{"name": "gold"}]}],
        "plugins": [plugin(second, 5), plugin(first, 3)],
    }
    there = moved(read_kong, tmp_path, json.dumps(file))
    assert there.admitted(9, user="bob", ip=BOB, path="/orders") == 3
