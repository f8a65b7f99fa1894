"""A rule that `headgate doctor` says never wins never does, whatever is asked."""

from __future__ import annotations

import json

from hypothesis import event, given
from hypothesis import strategies as st

from headgate.doctor.judge.never_win import find_never_winning
from tests.engine import Clocked
from tests.model.rules import Request, RuleDoc
from tests.properties.strategies import START_US, examples
from tests.properties.test_rule_choice import names, override_lists, request_lists, rule_lists, rules, why


def crowded(rule: RuleDoc) -> RuleDoc:
    """Rules that count by the same and test little hide one another often."""
    match = dict(list(rule["match"].items())[:1])
    return {**rule, "match": match, **({"by": "user"} if "by" in rule else {})}


crowds = st.lists(rules(names).map(crowded), max_size=30, unique_by=lambda rule: rule["name"])


@examples(200)
@given(rule_list=crowds | rule_lists, overrides=override_lists, request_list=request_lists)
def test_what_is_said_never_to_win_never_wins(
    rule_list: list[RuleDoc], overrides: list[RuleDoc], request_list: list[Request]
) -> None:
    shadowed = {one.name for one in find_never_winning(rule_list, overrides).never_win}
    event(f"hidden rules: {min(len(shadowed), 3)}")
    engine = Clocked(START_US)
    engine.engine.load_rules(json.dumps({"rules": rule_list, "overrides": overrides}))
    for request in request_list:
        for candidate in why(engine, request)["candidates"]:
            assert candidate["rule"] not in shadowed or candidate["outcome"] == "loses"
