"""Which upstream a path goes to, and how it is reached."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from typer.testing import CliRunner

from headgate.cli import app as headgate
from tests.gateway import wire
from tests.gateway.conftest import Upstreams
from tests.gateway.gate import Gate
from tests.gateway.upstream import Upstream

Three = dict[str, Upstream]


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Gate, Three]]:
    """Nothing is said of where `/` goes."""
    made = {"/a": Upstream(), "/a/b": Upstream(), "/c": Upstream()}
    said = ",".join(f"{prefix}={upstream.url}" for prefix, upstream in made.items())
    with Gate(tmp_path_factory.mktemp("three"), said) as gate:
        yield gate, made
    for upstream in made.values():
        upstream.close()


PATHS = {
    "/a": "/a",
    "/a/": "/a",
    "/a/x": "/a",
    "/a?b=/c": "/a",
    "/a/bc": "/a",
    "/a/b": "/a/b",
    "/a/b/": "/a/b",
    "/a/b/c": "/a/b",
    "/c": "/c",
    "/c/a/b": "/c",
    "/a/../c": "/c",
    "/a/%2e%2e/c": "/c",
    "/a/%2E./c/": "/c",
    "/a/./b": "/a/b",
    "//a": "/a",
    "/a//b": "/a/b",
    "/%61/b": "/a/b",
    "/c/../../../a": "/a",
    "/ab": None,
    "/": None,
    "/A": None,
    "/c/..": None,
    "/nowhere/a": None,
}


@pytest.mark.parametrize(("target", "prefix"), PATHS.items(), ids=PATHS)
def test_the_longest_prefix_of_whole_segments_wins_and_the_path_is_passed_on_as_it_came(
    three: tuple[Gate, Three], target: str, prefix: str | None
) -> None:
    gate, made = three
    for upstream in made.values():
        upstream.begin()
    reply = gate.get(target)
    assert {name: upstream.targets for name, upstream in made.items() if upstream.targets} == (
        {prefix: [target]} if prefix else {}
    )
    assert reply.status == (200 if prefix else 404)
    if prefix is None:
        assert reply.problem


@pytest.mark.parametrize("prefix", ["/unix", "/tls"])
def test_upstreams_behind_a_socket_and_behind_tls(gate: Gate, upstreams: Upstreams, prefix: str) -> None:
    upstream = {"/unix": upstreams.unix, "/tls": upstreams.tls}[prefix]
    client = gate.wire()
    for number in range(3):
        client.send(wire.request("POST", f"{prefix}/{number}", body=b"x" * 100_000))
        assert client.answer().body == b"ok"
    assert [len(message.body) for message in upstream.messages] == [100_000] * 3
    assert upstream.messages[0].head.value("host") == "shop.example"


def test_rules_see_the_path_as_routes_do(gate: Gate, upstream: Upstream) -> None:
    """Another spelling of a path that is closed is closed."""
    for spelt in ("/closed", "/x/../closed", "/%63losed", "//closed", "/closed/", "/closed?x"):
        assert gate.get(spelt).status == 403, spelt
    assert upstream.raw() == b""


@pytest.mark.parametrize("method", ["TRACE", "CONNECT"])
def test_methods_that_are_for_proxies_are_not_passed_on(gate: Gate, upstream: Upstream, method: str) -> None:
    assert gate.says(wire.request(method, "/")).status in (400, 405)
    assert upstream.raw() == b""


@pytest.mark.parametrize("method", ["OPTIONS", "PROPFIND", "X-OWN", "M~!"])
def test_any_other_method_is(gate: Gate, upstream: Upstream, method: str) -> None:
    assert gate.says(wire.request(method, "/")).status == 200
    assert upstream.only.head.method == method


MISTAKES = {
    "ftp://127.0.0.1:21": "ftp",
    "http://127.0.0.1:3000/path": "path",
    "api=http://127.0.0.1:3000": "api",
    "/a=http://127.0.0.1:1,/a=http://127.0.0.1:2": "already",
    "http://user:pass-word@127.0.0.1:3000": "password",
    "http://127.0.0.1:99999": "65535",
}


@pytest.mark.parametrize("said", MISTAKES)
def test_a_mistake_in_an_upstream_is_told(said: str) -> None:
    told = CliRunner().invoke(headgate, ["settings", "--upstream", said])
    assert told.exit_code == 2
    assert "--upstream" in told.output
    assert MISTAKES[said] in told.output
    assert "pass-word" not in told.output


def test_the_gateways_door_has_no_api_of_its_own_and_the_others_have(gate: Gate, upstream: Upstream) -> None:
    """What is called /healthz or /v1/check at the gateway is the application's."""
    for path in ("/healthz", "/readyz", "/metrics", "/v1/check", "/api/v1/rules"):
        assert gate.get(path).body == b"ok"
    assert upstream.targets == ["/healthz", "/readyz", "/metrics", "/v1/check", "/api/v1/rules"]
    assert gate.admin("/healthz").status_code == gate.admin("/readyz").status_code == 200
    with wire.Wire.to(gate.port("grpc")) as other:
        other.send(wire.request("POST", "/v1/check", body=b'{"user": "1"}'))
        assert other.answer().json()["allowed"] is True
