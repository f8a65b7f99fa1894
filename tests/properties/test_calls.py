"""Calls are answered as the slow, exact model answers them: any rules, any descriptors, any history."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from headgate._core import Server
from tests.engine import Clocked, limit_text
from tests.grpc.client import Client, Descriptor, first_address
from tests.model.calls import NO_TIER, Described, Model
from tests.model.limits import ALGORITHMS, MINUTE_US, SECOND_US, Limit
from tests.model.rules import Request, RuleDoc
from tests.properties.strategies import START_US, examples

VALUES = {
    "user": ["u1", "u2"],
    "org": ["o1", "o2"],
    "api_key": ["k1"],
    "tier": ["free", "gold"],
    "method": ["GET", "POST"],
    "path": ["/a", "/a/b", "//a/./c/", "/q"],
    "remote_address": ["198.51.100.7", "10.1.2.3"],
    "plan": ["basic", "pro"],
}
DOMAINS = ["edge", "mesh"]
MATCHES: dict[str, list[Any]] = {
    "user": ["u1"],
    "org": ["o1", ["o1", "o2"]],
    "tier": ["free", "gold"],
    "method": ["GET"],
    "endpoint": ["/a", "/a/*", "/a/{x}"],
    "ip": ["10.0.0.0/8", "198.51.100.7"],
    "descriptors": [{"plan": "pro"}, {"domain": "edge"}, {"plan": ["basic", "pro"], "domain": "mesh"}],
}
BYS = ["user", "org", "api_key", "tier", "method", "ip", "endpoint", "plan", "domain", "global"]

small_limits = st.builds(
    Limit,
    algorithm=st.sampled_from(ALGORITHMS),
    count=st.sampled_from([1, 2, 3, 5, 7]),
    window_us=st.sampled_from([SECOND_US, 10 * SECOND_US, 60 * SECOND_US]),
)
OWN_COUNTS = [1, 3, 5]
bys = st.sampled_from(BYS) | st.lists(st.sampled_from(BYS[:-1]), min_size=1, max_size=2, unique=True)


@st.composite
def rule_sets(draw: st.DrawFn) -> tuple[list[RuleDoc], dict[str, list[Limit]]]:
    rules: list[RuleDoc] = []
    limits: dict[str, list[Limit]] = {}
    for number in range(draw(st.integers(1, 8))):
        tested = draw(st.lists(st.sampled_from(sorted(MATCHES)), max_size=2, unique=True))
        rule: dict[str, Any] = {"name": f"r{number}", "match": {t: draw(st.sampled_from(MATCHES[t])) for t in tested}}
        action = draw(st.sampled_from(["throttle"] * 8 + ["shadow", "shadow", "block", "allow"]))
        if action in ("block", "allow") and tested:
            rules.append(rule | {"action": action})
            continue
        drawn = limits[rule["name"]] = draw(st.lists(small_limits, min_size=1, max_size=2, unique_by=limit_text))
        written = [{"limit": limit_text(limit), "algorithm": limit.algorithm} for limit in drawn]
        rule |= {"by": draw(bys), "limit": written}
        rules.append(rule | ({"action": "shadow"} if action == "shadow" else {}))
    return rules, limits


entry_sets = st.fixed_dictionaries({}, optional={name: st.sampled_from(values) for name, values in VALUES.items()})
own_limits = st.none() | st.none() | st.sampled_from(OWN_COUNTS).map(lambda count: (count, "MINUTE"))
waits_us = st.sampled_from([0, 0, 1, SECOND_US // 2, SECOND_US, 10 * SECOND_US - 1, 30 * SECOND_US])


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[int, str, int, list[Descriptor]]]:
    """Calls made of a few sets of entries, so that they meet again and again, also within a call."""
    pool = draw(st.lists(entry_sets, min_size=1, max_size=4))
    descriptors = st.builds(
        Descriptor, entries=st.sampled_from(pool), limit=own_limits, hits=st.none() | st.integers(0, 4)
    )
    sent = st.lists(descriptors, min_size=1, max_size=5)
    return draw(
        st.lists(st.tuples(waits_us, st.sampled_from(DOMAINS), st.integers(0, 3), sent), min_size=1, max_size=25)
    )


def described(descriptor: Descriptor, domain: str, hits: int) -> Described:
    entries = dict(descriptor.pairs())
    facts = {name: entries.get(name) for name in ("user", "org", "api_key", "method", "path")}
    free = {name: entries[name] for name in ("plan",) if name in entries} | {"domain": domain}
    ip, tier = entries.get("remote_address"), entries.get("tier", NO_TIER)
    request = Request(**facts, ip=ip, tier=tier, descriptors=free)
    own = None
    if descriptor.limit is not None:
        own = ("own", domain, *descriptor.pairs()), Limit("sliding_window", descriptor.limit[0], MINUTE_US)
    return Described(request, max(hits, 1) if descriptor.hits is None else descriptor.hits, own)


@examples(150)
@given(rule_set=rule_sets(), history=histories())
def test_calls_are_answered_as_the_model_answers(
    learned: Client,
    rule_set: tuple[list[RuleDoc], dict[str, list[Limit]]],
    history: list[tuple[int, str, int, list[Descriptor]]],
) -> None:
    rules, limits = rule_set
    node = Clocked(START_US)
    node.engine.load_rules(json.dumps({"rules": rules}))
    server = Server(node.engine, listen="127.0.0.1:0", threads=1)
    server.start()
    model, now_us = Model(rules, limits), START_US
    try:
        with Client(first_address(server)) as client:
            client.share_messages(learned)
            for wait_us, domain, hits, sent in history:
                now_us += wait_us
                node.at(now_us)
                answer = client.ask(*sent, domain=domain, hits=hits)
                code, statuses = model.ask([described(item, domain, hits) for item in sent], now_us)
                assert answer.code == code
                assert len(answer.statuses) == len(statuses)
                for status, right in zip(answer.statuses, statuses, strict=True):
                    assert status in right
    finally:
        server.drain(0.0)
