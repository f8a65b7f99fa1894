"""Requests that are made up for a rule are requests that the engine says it matches."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate import Limiter
from headgate.control.sampling import request_of_both, requests_of
from tests.control.state import rule

WORDS = st.sampled_from(["a", "b", "c"])
# No more than two of each: a rule may stand for 256 combinations.
SOME = st.one_of(WORDS, st.lists(WORDS, min_size=1, max_size=2, unique=True))
PATHS = st.sampled_from(["/a", "/a/b", "/a/{id}", "/{x}/b", "/a/*", "/*", "/{x}/*", "/a/b/c"])
RANGES = st.sampled_from(["10.0.0.0/8", "10.1.0.0/16", "10.1.2.3", "2001:db8::/32", "2001:db8::1", "192.0.2.0/24"])
MATCHES = st.fixed_dictionaries(
    {},
    optional={
        "user": SOME,
        "org": SOME,
        "tier": SOME,
        "method": st.sampled_from(["GET", "post", ["GET", "POST"]]),
        "endpoint": st.one_of(PATHS, st.lists(PATHS, min_size=1, max_size=2, unique=True)),
        "ip": st.one_of(RANGES, st.lists(RANGES, min_size=1, max_size=2, unique=True)),
        "descriptors": st.dictionaries(WORDS, SOME, min_size=1, max_size=2),
    },
)
BYS = st.sampled_from(["user", "ip", "global", "org", ["user", "endpoint"], ["a", "method"], "region"])


def matching(limiter: Limiter, request: dict[str, Any]) -> set[str]:
    found = json.loads(limiter.explain(**request))["candidates"]
    return {one["rule"] for one in found if one["outcome"] != "skipped"}


@settings(max_examples=80, deadline=None)
@given(match=MATCHES, by=BYS)
def test_a_rule_matches_and_can_count_what_is_made_up_for_it(match: dict[str, Any], by: Any) -> None:
    limiter = Limiter(max_keys=100)
    body = rule("r", match=match, by=by)
    limiter.put_rule(json.dumps(body))
    for request in requests_of(body):
        assert matching(limiter, request) == {"r"}


@settings(max_examples=150, deadline=None)
@given(one=MATCHES, other=MATCHES, bys=st.tuples(BYS, BYS))
def test_what_is_made_up_for_two_rules_is_matched_by_both(
    one: dict[str, Any], other: dict[str, Any], bys: tuple[Any, Any]
) -> None:
    limiter = Limiter(max_keys=100)
    first, second = rule("one", match=one, by=bys[0]), rule("other", match=other, by=bys[1])
    for body in (first, second):
        limiter.put_rule(json.dumps(body))
    request = request_of_both(first, second)
    if request is not None:
        assert matching(limiter, request) == {"one", "other"}


@pytest.mark.parametrize(
    ("one", "other", "path"),
    [
        ("/a/*", "/{x}/b/c", "/a/b/c"),
        ("/a/{id}", "/a/*", "/a/example"),
        ("/{x}/b", "/a/{y}", "/a/b"),
        ("/*", "/*", "/example"),
        ("/a/*", "/a", None),
        ("/a/b", "/a/c", None),
        ("/a", "/a/b", None),
    ],
)
def test_patterns_meet_where_they_can(one: str, other: str, path: str | None) -> None:
    found = request_of_both(rule("r", match={"endpoint": one}), rule("s", match={"endpoint": other}))
    assert (found or {}).get("path") == path
