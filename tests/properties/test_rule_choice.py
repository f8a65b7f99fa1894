"""Which rules apply is what a plain scan over all of them says (SEMANTICS 1), however the set came to be."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate._core import Decision, RulesError
from tests.engine import Clocked
from tests.model.rules import Request, RuleDoc, Selection, select
from tests.properties.strategies import START_US, examples

USERS, KEYS, ORGS = ["u1", "u2", "7"], ["k1", "k2"], ["o1", "o2"]
IPS = ["198.51.100.7", "198.51.100.9", "10.1.2.3", "2001:db8::1", "2001:db8::2", "2001:db8:0:1::5"]
RANGES = [
    "0.0.0.0/0",
    "198.51.100.0/24",
    "198.51.100.7",
    "10.0.0.0/8",
    "10.1.0.0/16",
    "2001:db8::/32",
    "::/0",
]
PATTERNS = ["/*", "/", "/a", "/a/*", "/a/b", "/a/{x}", "/{x}/b", "/{x}", "/a/{x}/c", "/a/b/*", "/longer/*"]
PATHS = [
    "/",
    "/a",
    "/a/b",
    "//a/./b/",
    "/a/q",
    "/q/b",
    "/a/b/c",
    "/a/%62/c",
    "/longer/x/y",
    "/zzz",
    "/a/b/../b",
]
TIERS, METHODS, REGIONS = ["free", "gold"], ["GET", "POST"], ["eu", "us"]
DESCRIPTORS = {"plan": ["basic", "pro"], "app": ["ios", "web"]}
BYS = ["user", "org", "ip", "api_key", "endpoint", "global", "plan", "region"]


def one_or_some(values: list[str]) -> st.SearchStrategy[str | list[str]]:
    single = st.sampled_from(values)
    return single | st.lists(single, min_size=1, max_size=3, unique=True)


matches = st.fixed_dictionaries(
    {},
    optional={
        "user": one_or_some(USERS),
        "api_key": one_or_some(KEYS),
        "org": one_or_some(ORGS),
        "ip": one_or_some(RANGES),
        "endpoint": one_or_some(PATTERNS),
        "method": one_or_some(METHODS),
        "region": one_or_some(REGIONS),
        "tier": one_or_some(TIERS),
        "descriptors": st.fixed_dictionaries(
            {}, optional={name: one_or_some(values) for name, values in DESCRIPTORS.items()}
        ),
    },
)
priorities = st.sampled_from([100, 100, 100, 50, 200])


@st.composite
def rules(draw: st.DrawFn, names: st.SearchStrategy[str]) -> RuleDoc:
    rule: dict[str, Any] = {"name": draw(names), "match": draw(sparse_matches)}
    if draw(st.booleans()):
        rule["priority"] = draw(priorities)
    if draw(st.integers(0, 9)) == 0:
        rule["enabled"] = False
    kind = draw(st.integers(0, 24))
    if kind < 2:
        return rule | {"action": "block" if kind == 0 else "allow"}
    if kind < 7:
        rule["action"] = "shadow"
    by = draw(st.sampled_from(BYS) | st.lists(st.sampled_from(BYS[:5]), min_size=1, max_size=3, unique=True))
    return rule | {"by": by, "limit": "1000000/hour"}


@st.composite
def _sparse(draw: st.DrawFn) -> dict[str, Any]:
    """Few facts tested at once: rules that test many match hardly ever."""
    match = draw(matches)
    kept = draw(st.sets(st.sampled_from(sorted(match)), max_size=2)) if match else set()
    return {name: match[name] for name in match if name in kept}


sparse_matches = _sparse()
names = st.sampled_from([f"r{number:02}" for number in range(40)])
rule_lists = st.lists(rules(names), max_size=25, unique_by=lambda rule: rule["name"])


@st.composite
def _override(draw: st.DrawFn) -> RuleDoc:
    kind, values = draw(st.sampled_from([("user", USERS), ("api_key", KEYS), ("org", ORGS)]))
    override: dict[str, Any] = {kind: draw(st.sampled_from(values))}
    what = draw(st.sampled_from(["limit", "tier", "both", "block"] if kind != "org" else ["limit", "block"]))
    if what in ("limit", "both"):
        override["limit"] = "500/minute"
    if what in ("tier", "both"):
        override["tier"] = draw(st.sampled_from(TIERS))
    if what == "block" and draw(st.booleans()):
        override["block"] = True
    return override if len(override) > 1 else override | {"limit": "400/minute"}


def whom(override: RuleDoc) -> tuple[str, str]:
    kind = next(name for name in ("user", "org", "api_key") if name in override)
    return kind, override[kind]


override_lists = st.lists(_override(), max_size=3, unique_by=whom)
requests = st.builds(
    Request,
    user=st.none() | st.sampled_from(USERS),
    api_key=st.none() | st.sampled_from(KEYS),
    org=st.none() | st.sampled_from(ORGS),
    ip=st.none() | st.sampled_from(IPS),
    tier=st.none() | st.sampled_from(TIERS),
    method=st.none() | st.sampled_from(METHODS),
    path=st.none() | st.sampled_from(PATHS),
    region=st.none() | st.sampled_from(REGIONS),
    descriptors=st.fixed_dictionaries(
        {}, optional={name: st.sampled_from(values) for name, values in DESCRIPTORS.items()}
    ),
)
request_lists = st.lists(requests, min_size=1, max_size=12)


def ask(engine: Clocked, request: Request) -> Decision:
    facts = {name: value for name, value in vars(request).items() if value is not None}
    return engine.engine.peek(**facts)


def check(engine: Clocked, request: Request) -> Decision:
    facts = {name: value for name, value in vars(request).items() if value is not None}
    return engine.engine.check(**facts)


def why(engine: Clocked, request: Request) -> dict[str, Any]:
    facts = {name: value for name, value in vars(request).items() if value is not None}
    explained: dict[str, Any] = json.loads(engine.engine.explain(**facts))
    return explained


def seen(decision: Decision, selection: Selection) -> Selection:
    """The engine's answer in the model's words. What the model alone knows is taken from it."""
    alone = decision.path in ("blocked", "exempt")
    return Selection(
        tier=selection.tier,
        endpoint=selection.endpoint,
        decided_by=decision.rule if alone else None,
        action={"blocked": "block", "exempt": "allow"}.get(decision.path),
        limits=frozenset(str(item.rule) for item in decision.results if not item.shadow),
        shadows=frozenset(str(item.rule) for item in decision.results if item.shadow),
        skipped=frozenset(rule for rule, _ in decision.skipped),
        subjects=selection.subjects,
    )


@examples(150)
@given(rule_list=rule_lists, overrides=override_lists, request_list=request_lists)
def test_the_rules_that_apply_are_those_a_plain_scan_finds(
    rule_list: list[RuleDoc], overrides: list[RuleDoc], request_list: list[Request]
) -> None:
    engine = Clocked(START_US)
    engine.engine.load_rules(json.dumps({"rules": rule_list, "overrides": overrides}))
    for request in request_list:
        selection = select(rule_list, overrides, request)
        decision = ask(engine, request)
        assert seen(decision, selection) == selection
        assert (decision.path == "no_rule") == (
            not selection.decided_by and not selection.limits and not selection.shadows
        )


@examples(60)
@given(rule_list=rule_lists, overrides=override_lists, request_list=request_lists)
def test_what_is_counted_is_what_the_rule_counts_by(
    rule_list: list[RuleDoc], overrides: list[RuleDoc], request_list: list[Request]
) -> None:
    """Two requests share a counter of a rule exactly when the facts it counts by are the same."""
    engine = Clocked(START_US)
    engine.engine.load_rules(json.dumps({"rules": rule_list, "overrides": overrides}))
    used: dict[object, int] = {}
    for request in request_list:
        selection = select(rule_list, overrides, request)
        for item in check(engine, request).results:
            rule = str(item.rule)
            counter = rule, tuple(_counted(part) for part in selection.subjects[rule])
            used[counter] = used.get(counter, 0) + 1
            assert item.remaining == item.limit - used[counter]


def _counted(part: tuple[str, str]) -> tuple[str, str]:
    """IPv6 clients are counted by their /64."""
    name, value = part
    if name == "ip" and ":" in value:
        return name, value.rpartition("::")[0]
    return part


@examples(60)
@given(rule_list=rule_lists, overrides=override_lists, request_list=request_lists)
def test_the_explanation_tells_what_the_decision_did(
    rule_list: list[RuleDoc], overrides: list[RuleDoc], request_list: list[Request]
) -> None:
    engine = Clocked(START_US)
    engine.engine.load_rules(json.dumps({"rules": rule_list, "overrides": overrides}))
    for request in request_list:
        selection = select(rule_list, overrides, request)
        candidates = why(engine, request)["candidates"]
        wins = {item["rule"] for item in candidates if item["outcome"] == "wins"}
        applied = {selection.decided_by} if selection.decided_by else selection.limits | selection.shadows
        assert wins == applied
        assert {item["rule"] for item in candidates if item["outcome"] == "skipped"} == selection.skipped
        for loser in (item for item in candidates if item["outcome"] == "loses"):
            assert loser["to"] in wins | selection.skipped
            assert loser["why"]


edits = st.one_of(
    st.tuples(st.just("put"), rules(names)),
    st.tuples(st.just("remove"), names),
    st.tuples(st.just("put_override"), _override()),
    st.tuples(st.just("remove_override"), _override().map(whom)),
)


@examples(100)
@given(first=rule_lists, changes=st.lists(edits, max_size=40), request_list=request_lists)
def test_changing_rules_one_by_one_ends_where_loading_the_result_does(
    first: list[RuleDoc], changes: list[tuple[str, Any]], request_list: list[Request]
) -> None:
    changed, rebuilt = Clocked(START_US), Clocked(START_US)
    changed.engine.load_rules(json.dumps({"rules": first}))
    kept = {rule["name"]: rule for rule in first}
    overrides: dict[tuple[str, str], RuleDoc] = {}
    for verb, what in changes:
        if verb == "put":
            kept[what["name"]] = what
            changed.engine.put_rule(json.dumps(what))
        elif verb == "remove":
            assert changed.engine.remove_rule(what) == (kept.pop(what, None) is not None)
        elif verb == "put_override":
            overrides[whom(what)] = what
            changed.engine.put_override(json.dumps(what))
        else:
            assert changed.engine.remove_override(*what) == (overrides.pop(what, None) is not None)
    final = {"rules": list(kept.values()), "overrides": list(overrides.values())}
    rebuilt.engine.load_rules(json.dumps(final))
    assert changed.engine.rule_count() == rebuilt.engine.rule_count()
    for request in request_list:
        accounts = [why(engine, request) for engine in (changed, rebuilt)]
        for account in accounts:
            account["candidates"].sort(key=lambda item: item["rule"])
            account["decision"]["results"].sort(key=lambda item: item["rule"])
        assert accounts[0] == accounts[1]
        left = [
            sorted((str(item.rule), item.remaining) for item in check(engine, request).results)
            for engine in (changed, rebuilt)
        ]
        assert left[0] == left[1], "both count the same together"


@given(rule_list=rule_lists, request_list=request_lists)
def test_a_wrong_document_changes_nothing(rule_list: list[RuleDoc], request_list: list[Request]) -> None:
    engine = Clocked(START_US)
    engine.engine.load_rules(json.dumps({"rules": rule_list}))
    version = engine.engine.rules_version()
    before = [why(engine, request) for request in request_list]
    wrong = [
        {"name": "new", "by": "user", "limit": "1/second"},
        {"name": "bad", "by": "user", "limit": "soon"},
    ]
    with pytest.raises(RulesError) as raised:
        engine.engine.load_rules(json.dumps({"rules": wrong}))
    assert raised.value.errors
    assert engine.engine.rules_version() == version
    assert [why(engine, request) for request in request_list] == before


def test_an_operators_block_comes_before_an_allow_rule_of_any_priority() -> None:
    engine = Clocked(START_US)
    vip = {"name": "vip", "action": "allow", "match": {"user": "u1"}, "priority": 1_000_000}
    override = {"user": "u1", "block": True}
    engine.engine.load_rules(json.dumps({"rules": [vip], "overrides": [override]}))
    decision = ask(engine, Request(user="u1"))
    assert decision.path == "blocked"
    assert seen(decision, select([vip], [override], Request(user="u1"))).action == "block"
