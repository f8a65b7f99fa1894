"""Whatever text comes in, it is read or explained: never a crash, and what validates can be loaded."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate._core import Decision, Engine, RulesError, normalise_path, parse_limit, validate_rules
from tests.properties.strategies import examples, places

WORDS = """
name match by limit algorithm action priority enabled group counter class on_store_failure precision until
response description tier endpoint method ip user api_key org region descriptors rules tiers overrides block
status message retry_after hide_remaining label reason global gcra sliding_window token_bucket shadow throttle
allow queue open closed local 5/minute 10/second|burst|20 0/minute 1/ms /a/{x} /a/* / 10.0.0.0/8 ::/0
2030-01-31T12:00:00Z
"""
words = st.sampled_from([word.replace("|", " ") for word in WORDS.split()])
numbers = st.one_of(st.integers(), st.floats(), st.sampled_from([0, -1, 2**63, 2**64, 10**30, 1e308, -0.0]))
leaves = st.one_of(st.none(), st.booleans(), numbers, words, st.text(max_size=20))
anything = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words | st.text(max_size=8), inner, max_size=5),
)
documents = st.one_of(
    anything,
    st.fixed_dictionaries({}, optional={"rules": st.lists(anything, max_size=4), "tiers": anything}),
    st.fixed_dictionaries({"rules": st.lists(st.dictionaries(words, anything, max_size=6), max_size=4)}),
    st.fixed_dictionaries({"overrides": st.lists(st.dictionaries(words, anything, max_size=6), max_size=4)}),
)

VALID: dict[str, Any] = {
    "tiers": ["free", "gold"],
    "rules": [
        {
            "name": "login",
            "description": "logins",
            "match": {
                "tier": "free",
                "endpoint": ["/login", "/a/{x}", "/a/*"],
                "method": ["POST"],
                "ip": "10.0.0.0/8",
                "user": [1, "2"],
                "descriptors": {"plan": ["basic"]},
            },
            "by": ["user", "endpoint", "plan"],
            "limit": ["5/minute;100/hour", {"limit": "10/second burst 20", "label": "fast"}],
            "priority": 7,
            "enabled": True,
            "group": "g",
            "counter": "c",
            "class": "abuse",
            "precision": "exact",
            "response": {"status": 429, "message": "slow down", "retry_after": 5, "hide_remaining": True},
        },
        {"name": "no", "match": {"org": "x"}, "action": "block", "until": "2030-01-31T12:00:00Z"},
        {"name": "yes", "match": {"region": "eu", "api_key": "k"}, "action": "allow"},
        {"name": "look", "by": "global", "limit": "1/day", "algorithm": "fixed_window", "action": "shadow"},
    ],
    "overrides": [
        {"user": 42, "tier": "gold", "limit": "9/minute", "counter": "c"},
        {"org": "o", "block": {"reason": "fraud", "until": "2030-01-31T12:00:00Z"}},
    ],
}


@st.composite
def mutated(draw: st.DrawFn) -> Any:
    """A valid document with a few values replaced, removed, doubled or renamed."""
    document = copy.deepcopy(VALID)
    for _ in range(draw(st.integers(1, 4))):
        found = list(places(document))
        if not found:
            break
        parent, key = found[draw(st.integers(0, len(found) - 1))]
        how = draw(st.integers(0, 4))
        if how == 0:
            del parent[key]
        elif how == 1 and isinstance(parent, list):
            parent.append(copy.deepcopy(parent[key]))
        elif how == 2 and isinstance(parent, dict):
            parent[draw(words)] = parent.pop(key)
        else:
            parent[key] = draw(leaves if how == 3 else anything)
    return document


def explained(kind: type[Exception], call: Callable[[], object]) -> Exception | None:
    """The error a call ended with, if it did: of this kind, and with words."""
    try:
        call()
    except kind as error:
        if not str(error):
            raise
        return error
    return None


def judge(text: str) -> None:
    mistakes = validate_rules(text)
    assert isinstance(mistakes, list)
    for path, message in mistakes:
        assert all(isinstance(step, str | int) for step in path)
        assert message
    engine = Engine()
    if not mistakes:
        engine.load_rules(text)
        engine.check(user="42", path="/a/b", ip="10.0.0.1", method="POST", descriptors={"plan": "basic"})
        return
    with pytest.raises(RulesError) as raised:
        engine.load_rules(text)
    assert raised.value.errors == mistakes
    assert engine.rule_count() == 0


def test_the_document_the_mutations_start_from_is_valid() -> None:
    assert validate_rules(json.dumps(VALID)) == []


@examples(200)
@given(document=documents)
def test_any_json_is_loaded_or_explained(document: Any) -> None:
    judge(json.dumps(document))


@examples(400)
@given(document=mutated())
def test_a_damaged_document_is_loaded_or_explained(document: Any) -> None:
    judge(json.dumps(document))


@examples(200)
@given(text=st.text(max_size=60), cut=st.integers(0, 900))
def test_text_that_is_no_json_is_explained(text: str, cut: int) -> None:
    judge(text)
    judge(json.dumps(VALID)[:cut] + text)


@pytest.mark.parametrize("opening", ["[", '{"rules":', '{"rules":[{"match":', '[{"a":'])
def test_deep_nesting_is_a_mistake_and_not_a_crash(opening: str) -> None:
    assert validate_rules(opening * 100_000)


@examples(200)
@given(rule=st.dictionaries(words, anything, max_size=6), override=st.dictionaries(words, anything, max_size=4))
def test_single_rules_and_overrides_are_taken_or_explained(rule: Any, override: Any) -> None:
    engine = Engine()
    puts: list[tuple[Callable[[str], None], Any]] = [
        (engine.put_rule, rule),
        (engine.put_override, override),
    ]
    for put, value in puts:
        version = engine.rules_version()
        mistakes = explained(RulesError, partial(put, json.dumps(value)))
        if mistakes is not None:
            assert getattr(mistakes, "errors", None)
            assert engine.rules_version() == version


limit_texts = st.one_of(
    st.text(max_size=30),
    st.lists(
        st.sampled_from(
            [
                "5",
                "0",
                "1_000",
                "99999999999999999999",
                "/",
                "per",
                " ",
                "minute",
                "s",
                "ms",
                "month",
                "burst",
                ";",
                "é",
            ]
        ),
        max_size=10,
    ).map("".join),
    st.from_regex(r"\A[0-9]{1,14} ?(/|per) ?[0-9]{0,4} ?(s|m|h|day|month|ms)( burst [0-9]{1,13})?\Z"),
)


@examples(600)
@given(
    text=limit_texts,
    algorithm=st.none() | st.sampled_from(["gcra", "sliding_log", "fixed_window", "nonsense", ""]),
)
def test_a_limit_is_read_or_explained_and_what_is_read_works(text: str, algorithm: str | None) -> None:
    if explained(ValueError, lambda: parse_limit(text, algorithm)) is not None:
        return
    limits = parse_limit(text, algorithm)
    assert limits
    for name, count, window_s, capacity in limits:
        assert count >= 1
        assert capacity >= 1
        assert 0.001 <= window_s <= 366 * 86_400
        assert algorithm is None or name == algorithm
    assert Engine().check_limit("k", text, algorithm=algorithm)


@examples(400)
@given(
    path=st.text(max_size=200),
    method=st.text(max_size=10),
    user=st.text(max_size=30),
    ip=st.text(max_size=20),
)
def test_any_facts_are_decided_or_explained(path: str, method: str, user: str, ip: str) -> None:
    assert normalise_path(path).startswith("/")
    engine = Engine()
    engine.load_rules(json.dumps(VALID))
    if explained(ValueError, lambda: engine.check(path=path, method=method, user=user, ip=ip)) is not None:
        return
    decision = engine.check(path=path, method=method, user=user, ip=ip)
    json.loads(decision.to_json())
    json.loads(engine.explain(path=path, method=method, user=user, ip=ip))
    decision.headers()


@pytest.mark.parametrize("cost", [-1, -(2**63), 2**64, 10**30])
def test_impossible_costs_are_refused_by_words_or_by_the_limit(cost: int) -> None:
    engine = Engine()
    engine.put_rule(json.dumps({"name": "r", "by": "global", "limit": "5/minute"}))
    asks: list[Callable[[], Decision]] = [
        lambda: engine.check(cost=cost),
        lambda: engine.check_limit("k", 5, 60, cost),
    ]
    for ask in asks:
        if explained(ValueError, ask) is None:
            assert cost > 0
            decision = ask()
            assert not decision.allowed
            assert decision.retry_after is None
    remaining = engine.peek(cost=0).remaining
    assert remaining == 5


EXTREME = """
import sys
from headgate._core import Engine, FakeClock
engine, text, more = Engine(clock=FakeClock(1.76e9)), sys.argv[1], int(sys.argv[2])
third = engine.peek_limit("k", text, cost=0).limit // 3
while engine.check_limit("k", text, cost=third):
    pass
refused = engine.peek_limit("k", text, cost=third + more)
assert not refused.allowed and refused.retry_after > 0, refused
"""


@pytest.mark.parametrize(
    "text", ["1/year burst 1000000000000", "1/year burst 999999999989", "7/month burst 10000000019"]
)
@pytest.mark.parametrize("more", [1, 10**9])
def test_extreme_buckets_answer_without_a_search(text: str, more: int) -> None:
    """Their numbers pass what a double holds exactly. In a process of its own: a search would take hours."""
    subprocess.run([sys.executable, "-c", EXTREME, text, str(more)], check=True, timeout=60)
