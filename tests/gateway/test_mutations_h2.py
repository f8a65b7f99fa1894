"""Header blocks made up at random: whatever passes is one request, with the path and the fields that were sent."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.gateway.gate import Gate
from tests.gateway.h2 import Connection, Field, fields
from tests.gateway.upstream import Upstream

TRIES = 150
NAMES = [
    "x-a",
    "host",
    "content-length",
    "te",
    "connection",
    "cookie",
    "transfer-encoding",
    ":path",
    ":authority",
    "X-B",
]
VALUES = [
    "a",
    "0",
    "5",
    "shop.example",
    "trailers",
    "chunked",
    "/x",
    "a=1",
    "b\r\nHost: evil.example",
    "c\nd",
    "e\0f",
    " g ",
]

names = st.sampled_from(NAMES) | st.text(st.characters(max_codepoint=127), max_size=4)
values = st.sampled_from(VALUES) | st.text(st.characters(max_codepoint=255), max_size=6)
paths = st.sampled_from(["/", "/a b", "/a\r\nb", "*", "http://x/", "/ok?x"]) | st.text(
    st.characters(max_codepoint=255), max_size=5
).map("/".__add__)


@settings(max_examples=TRIES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], database=None)
@given(path=paths, more=st.lists(st.tuples(names, values), max_size=4), body=st.none() | st.just(b"abcde"))
def test_whatever_passes_is_one_request_with_what_was_sent(
    gate: Gate, upstream: Upstream, path: str, more: list[tuple[str, str]], body: bytes | None
) -> None:
    said: list[Field] = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in more]
    upstream.begin()
    connection = Connection(gate.port("http"))
    status = connection.ask(1, fields(*said, path=path.encode("latin-1"), method="POST"), body).status
    connection.close()
    upstream.settle()
    upstream.assert_well()
    if status != 200:
        return
    head = upstream.only.head
    assert (head.target, upstream.only.body) == (path, body or b"")
    assert head.value("host") == "shop.example"
    allowed = {(name, value.strip(" \t")) for name, value in more}
    ours = ("host", "content-length", "transfer-encoding", "te", "cookie", "forwarded")
    for name, value in head.fields:
        assert name.startswith(("x-forwarded-", "x-headgate-")) or name in ours or (name, value) in allowed, name
