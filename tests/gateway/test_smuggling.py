"""Whatever two servers might read differently is refused, and the upstream sees nothing of it."""

from __future__ import annotations

import contextlib

import pytest

from tests.gateway import smuggling, strict, wire
from tests.gateway.gate import SENTINEL, Gate
from tests.gateway.smuggling import HIDDEN
from tests.gateway.strict import Ended
from tests.gateway.upstream import Upstream
from tests.proxies.tokens import bearer

HEADS = [
    pytest.param(raw, id=f"{kind}: {name}") for kind, table in smuggling.HEADS.items() for name, raw in table.items()
]
# What is not HTTP/1.x may also be told that its version is not spoken here, and CONNECT that it is not allowed.
REFUSALS = {400, 405, 505}


def assert_saw_nothing(gate: Gate, upstream: Upstream) -> None:
    """Not a byte came before an honest request that is sent now."""
    assert gate.get(SENTINEL).status == 200
    upstream.settle()
    assert [message.head.target for message in strict.requests(upstream.raw())] == [SENTINEL]


def answers(client: wire.Wire) -> list[wire.Reply]:
    """All until the gateway ends the connection, which it must."""
    replies: list[wire.Reply] = []
    with contextlib.suppress(Ended, ConnectionError):
        while client.stream.peek(1):
            replies.append(client.answer())
    return replies


@pytest.mark.parametrize("raw", HEADS)
def test_a_head_that_can_be_misread_is_refused(gate: Gate, upstream: Upstream, raw: bytes) -> None:
    client = gate.wire()
    client.send(raw + HIDDEN)
    (refusal,) = answers(client)
    assert refusal.status in REFUSALS
    assert refusal.header("connection") == "close"
    assert_saw_nothing(gate, upstream)


@pytest.mark.parametrize("raw", smuggling.SIZES.values(), ids=smuggling.SIZES)
def test_a_head_that_is_too_large_is_refused(gate: Gate, upstream: Upstream, raw: bytes) -> None:
    client = gate.wire()
    with contextlib.suppress(ConnectionError):
        client.send(raw + HIDDEN)
    # What was still being sent when the connection ended may have cost the client the answer.
    assert [refusal.status for refusal in answers(client)] in ([431], [])
    assert_saw_nothing(gate, upstream)


@pytest.mark.parametrize("raw", smuggling.CHUNKS.values(), ids=smuggling.CHUNKS)
def test_a_body_that_can_be_misread_never_comes_to_its_end(gate: Gate, upstream: Upstream, raw: bytes) -> None:
    client = gate.wire()
    with contextlib.suppress(ConnectionError):
        client.send(raw + HIDDEN)
    refusals = [refusal.status for refusal in answers(client)]
    assert refusals in ([400], [431], []), refusals
    assert gate.get(SENTINEL).status == 200
    upstream.settle()
    assert upstream.targets == [SENTINEL]
    assert b"/hidden" not in upstream.raw()


@pytest.mark.parametrize("raw", [raw for raw, _ in smuggling.GOOD.values()], ids=smuggling.GOOD)
def test_its_careful_neighbour_passes(gate: Gate, upstream: Upstream, raw: bytes) -> None:
    """Else the tables above would prove nothing."""
    (body,) = [body for good, body in smuggling.GOOD.values() if good is raw]
    assert gate.says(raw).status == 200
    assert upstream.only.body == body
    assert len(strict.requests(upstream.raw())) == 1
    assert upstream.only.head.value("transfer-encoding") in (None, "chunked")


REFUSED = {
    "limited": (429, "/few/x"),
    "blocked": (403, "/closed"),
}


@pytest.mark.parametrize(("status", "path"), REFUSED.values(), ids=REFUSED)
def test_the_body_of_a_refused_request_is_never_read_as_requests(
    gate: Gate, upstream: Upstream, status: int, path: str
) -> None:
    shown = [f"{name}: {value}" for name, value in bearer(f"refused-{status}").items()]
    for _ in range(3):
        gate.get("/few/x", *shown)
    upstream.begin()
    for raw in (
        wire.request("POST", path, *shown, body=HIDDEN),
        wire.in_chunks("POST", path, HIDDEN, fields=tuple(shown)),
        wire.request("POST", path, *shown, "Expect: 100-continue", f"Content-Length: {len(HIDDEN)}") + HIDDEN,
    ):
        client = gate.wire()
        client.send(raw)
        client.socket.shutdown(1)
        assert [refusal.status for refusal in answers(client)] == [status]
    assert_saw_nothing(gate, upstream)


def test_nothing_is_read_after_a_request_that_was_not_understood(gate: Gate, upstream: Upstream) -> None:
    client = gate.wire()
    client.send(wire.request("GET", "/first") + smuggling.LENGTHS["CL.TE"] + HIDDEN * 10)
    assert [reply.status for reply in answers(client)] == [200, 400]
    assert upstream.targets == ["/first"]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 16])
def test_it_does_not_matter_how_bytes_arrive(gate: Gate, upstream: Upstream, size: int) -> None:
    """A scanner that sees a head in pieces must not overlook what stands across two of them."""
    for raw in (smuggling.LENGTHS["CL.TE"], smuggling.CODINGS["behind a bare LF"], smuggling.LINES["CR before CRLF"]):
        client = gate.wire()
        with contextlib.suppress(ConnectionError):
            for at in range(0, len(raw), size):
                client.send(raw[at : at + size])
        assert [reply.status for reply in answers(client)] in ([400], [])
    assert_saw_nothing(gate, upstream)
    upstream.begin()
    client = gate.wire()
    for good in (smuggling.GOOD["chunks"][0], smuggling.GOOD["a trailer"][0], smuggling.GOOD["a length"][0]):
        for at in range(0, len(good), size):
            client.send(good[at : at + size])
        assert client.answer().status == 200
    assert [message.body for message in upstream.messages] == [b"abcde"] * 3
