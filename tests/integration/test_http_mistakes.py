"""A request that is wrong is a 400 that names what is wrong, and counts nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.integration.conftest import Starter
from tests.integration.http_node import Node

DEEP = "[" * 30_000
LIMIT = '{"key":"k","limit":5,"window":60'

# Of one request's facts; what follows `"user":"42"` in an otherwise good body, and the field to be named.
FACTS: list[tuple[str, str]] = [
    ('"cost":-1', "cost"),
    ('"cost":-9223372036854775808', "cost"),
    ('"cost":1000000000001', "cost"),
    ('"cost":18446744073709551616', "cost"),
    ('"cost":' + "9" * 400, "cost"),
    ('"cost":1e400', "cost"),
    ('"cost":1.5', "cost"),
    ('"cost":NaN', "cost"),
    ('"cost":Infinity', "cost"),
    ('"cost":-Infinity', "cost"),
    ('"cost":"1"', "cost"),
    ('"cost":true', "cost"),
    ('"cost":[1]', "cost"),
    ('"cost":{}', "cost"),
    ('"cost":01', "cost"),
    ('"cost":' + DEEP, "cost"),
    ('"user":"43"', "user"),
    ('"\\u0075ser":"43"', "user"),
    ('"api_key":""', "api_key"),
    ('"api_key":1.5', "api_key"),
    ('"api_key":true', "api_key"),
    ('"api_key":18446744073709551616', "api_key"),
    ('"api_key":"' + "k" * 1_025 + '"', "api_key"),
    ('"api_key":"\\ud800"', "api_key"),
    ('"api_key":"a\nb"', "api_key"),
    ('"api_key":"\\x41"', "api_key"),
    ('"org":["a"]', "org"),
    ('"org":' + DEEP, "org"),
    ('"tier":7', "tier"),
    ('"method":""', "method"),
    ('"path":false', "path"),
    ('"path":"/' + "a" * 8_192 + '"', "path"),
    ('"region":{}', "region"),
    ('"ip":"198.51.100.256"', "ip"),
    ('"ip":"198.51.100.7/32"', "ip"),
    ('"ip":"198.51.100.7:80"', "ip"),
    ('"ip":"localhost"', "ip"),
    ('"ip":" 198.51.100.7"', "ip"),
    ('"ip":"::1::"', "ip"),
    ('"ip":""', "ip"),
    ('"ip":3325256711', "ip"),
    ('"descriptors":[]', "descriptors"),
    ('"descriptors":"plan=x"', "descriptors"),
    ('"descriptors":{"":"x"}', "descriptors"),
    ('"descriptors":{"plan":""}', "descriptors.plan"),
    ('"descriptors":{"plan":null}', "descriptors.plan"),
    ('"descriptors":{"plan":{"a":1}}', "descriptors.plan"),
    ('"descriptors":{"plan":' + DEEP, "descriptors.plan"),
    ('"descriptors":{"plan":"a","plan":"b"}', "descriptors.plan"),
    ('"descriptors":' + json.dumps({f"d{n}": "x" for n in range(33)}), "descriptors"),
    ('"uesr":"42"', "uesr"),
    ('"User":"42"', "User"),
    ('"limit":5', "limit"),
    ('"' + "n" * 5_000 + '":1', "n" * 64 + "…"),
    ('"tab\\tquote\\"":1', 'tab\tquote"'),
]
LIMITS: list[tuple[str, str]] = [
    ("{}", "key"),
    ('{"limit":5,"window":60}', "key"),
    ('{"key":null,"limit":5,"window":60}', "key"),
    ('{"key":"","limit":5,"window":60}', "key"),
    ('{"key":7,"limit":5,"window":60}', "key"),
    ('{"key":"' + "k" * 1_025 + '","limit":5,"window":60}', "key"),
    ('{"key":"k","window":60}', "limit"),
    *[
        ('{"key":"k","limit":' + limit + ',"window":60}', "limit")
        for limit in ("0", "-1", "5.5", "1000000000001", "1e400", "NaN", "Infinity", '""', "true", "[5]", "{}", DEEP)
    ],
    *[
        ('{"key":"k","limit":' + limit + "}", "limit")
        for limit in ('"5"', '"0/minute"', '"-5/minute"', '"5/fortnight"', '"5/minute;"', '"5/minute;6/minute"')
    ],
    ('{"key":"k","limit":5}', "window"),
    ('{"key":"k","limit":"5/minute","window":60}', "window"),
    *[
        ('{"key":"k","limit":5,"window":' + window + "}", "window")
        for window in (
            *("0", "-1", "-1.5", "-0.0", "0.0001", "31622401", "1e18", "1e400", "18446744073709551615"),
            *("NaN", "Infinity", "-Infinity", '"NaN"', '"inf"', '""', '"-1s"', '"soon"', "true", "[60]", DEEP),
        )
    ],
    *[(LIMIT + ',"cost":' + cost + "}", "cost") for cost in ("-1", "1.5", '"1"', "1000000000001", "NaN", "1e400")],
    *[(LIMIT + ',"burst":' + burst + "}", "burst") for burst in ("0", "-1", '"2"', "1.5", "1000000000001")],
    ('{"key":"k","limit":"5/minute","burst":2}', "burst"),
    (LIMIT + ',"burst":2,"algorithm":"fixed_window"}', "burst"),
    (LIMIT + ',"algorithm":"leaky"}', "algorithm"),
    (LIMIT + ',"algorithm":""}', "algorithm"),
    (LIMIT + ',"algorithm":7}', "algorithm"),
    ('{"key":"k","limit":10001,"window":60,"algorithm":"sliding_log"}', "limit"),
    (LIMIT + ',"key":"k"}', "key"),
    (LIMIT + ',"user":"42"}', "user"),
]
# What is wrong as a whole: there is no field to name.
BROKEN: list[bytes] = [
    b"",
    b" ",
    b"nul",
    b"null",
    b"true",
    b"42",
    b'"text"',
    b"{",
    b"}",
    b"{'user':'42'}",
    b"{user:42}",
    b"user=42",
    b"\xef\xbb\xbf{}",
    b'{"user":"\xff"}',
    b'{"user":"\xed\xa0\x80"}',
    b"\x00",
    b"\x1f\x8b\x08\x00",
    "{}".encode("utf-16"),
]


def refused(node: Node, path: str, body: bytes) -> dict[str, Any]:
    """The problem, after making sure that it is one and that nothing was counted."""
    client = node.client()
    client.post("/v1/check", json={"user": "42"})
    client.post("/v1/limit", json={"key": "k", "limit": 5, "window": 60})
    before = node.decisions()
    response = client.post(path, content=body)
    assert response.status_code == 400, response.text
    assert response.headers["content-type"] == "application/problem+json"
    problem: dict[str, Any] = response.json()
    assert problem.keys() == {"type", "title", "status", "detail", "field"}
    assert (problem["type"], problem["status"]) == ("about:blank", 400)
    assert problem["detail"].startswith(f"{'the body' if problem['field'] is None else problem['field']}: ")
    assert len(response.content) < 1_000
    assert node.decisions() == before
    assert node.remaining() == 4
    assert node.engine.peek_limit("k", 5, 60, 0).remaining == 4
    return problem


@pytest.mark.parametrize(("mistake", "field"), FACTS, ids=[mistake[:30] for mistake, _ in FACTS])
def test_a_wrong_fact_is_named_and_counts_nothing(run: Starter, mistake: str, field: str) -> None:
    body = '{"user":"42",' + mistake + "}"
    assert refused(run(), "/v1/check", body.encode())["field"] == field


@pytest.mark.parametrize(("mistake", "field"), FACTS, ids=[mistake[:30] for mistake, _ in FACTS])
def test_a_wrong_fact_anywhere_in_a_list_is_named_and_nothing_of_the_list_counts(
    run: Starter, mistake: str, field: str
) -> None:
    body = '[{"user":"42"},{"user":"42"},{"user":"42",' + mistake + '},{"user":"42"}]'
    assert refused(run(), "/v1/checks", body.encode())["field"] == f"[2].{field}"


@pytest.mark.parametrize(("body", "field"), LIMITS, ids=[body[:50] for body, _ in LIMITS])
def test_a_wrong_limit_is_named_and_counts_nothing(run: Starter, body: str, field: str) -> None:
    assert refused(run(), "/v1/limit", body.encode())["field"] == field


@pytest.mark.parametrize("path", ["/v1/check", "/v1/checks", "/v1/limit"])
@pytest.mark.parametrize("body", BROKEN, ids=repr)
def test_what_is_no_json_of_the_right_shape_is_refused_whole(run: Starter, path: str, body: bytes) -> None:
    assert refused(run(), path, body)["field"] is None


@pytest.mark.parametrize("body", ["[]", "[{}]", DEEP, '{"":1}', '{"cost":0x1}', '{"user":"42"}{}', '{"user":"42"},'])
def test_a_check_is_one_object(run: Starter, body: str) -> None:
    assert refused(run(), "/v1/check", body.encode())["field"] is None


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ("{}", None),
        ('{"user":"42"}', None),
        ('[{"user":"42"}]]', None),
        ('[{"user":"42"},null]', "[1]"),
        ('[{"user":"42"},[]]', "[1]"),
        ('[{"user":"42"},', "[1]"),
        (DEEP, "[0]"),
        (json.dumps([{"user": "42"}] * 1_001), None),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_list_is_a_list_of_at_most_1000_objects(run: Starter, body: str, field: str | None) -> None:
    assert refused(run(), "/v1/checks", body.encode())["field"] == field


def test_the_largest_things_allowed_are_allowed(run: Starter) -> None:
    client = run().client()
    facts = {
        "user": "u" * 1_024,
        "org": 2**64 - 1,
        "path": "/" + "a" * 8_191,
        "descriptors": {f"d{n}": n for n in range(32)},
        "cost": 10**12,
        "ip": "::ffff:198.51.100.7",
    }
    assert client.post("/v1/check", json=facts).status_code == 200
    for window in (0.001, 31_622_400, "366 days"):
        body = {"key": "k" * 1_024, "limit": 10**12, "window": window, "cost": 10**12, "burst": 10**12}
        assert client.post("/v1/limit", json=body).status_code == 200, window


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_past_the_bound_is_a_413_and_counts_nothing(node: Node, chunked: bool) -> None:
    padded = b'{"user":"42"' + b" " * 65_536 + b"}"
    response = node.client().post("/v1/check", content=iter([padded]) if chunked else padded)
    assert (response.status_code, response.headers["content-type"]) == (413, "application/problem+json")
    assert "65536" in response.json()["detail"]
    assert node.decided() == 0


def test_the_bound_on_bodies_is_a_setting_and_exact(run: Starter) -> None:
    node = run(max_body_bytes=13)
    client = node.client()
    assert client.post("/v1/check", content=b'{"user":"42"}').status_code == 200
    assert client.post("/v1/check", content=b'{"user":"42"} ').status_code == 413
    assert client.post("/v1/check", content=iter([b'{"user"', b':"42"}'])).status_code == 200
    assert client.post("/v1/check", content=iter([b'{"user"', b':"42"}', b" "])).status_code == 413
    assert node.remaining() == 3
