"""Limitador's limits: what its documents promise is what the imported rules decide, and what differs is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headgate.importing import limitador
from headgate.importing.limitador import read_limitador
from headgate.importing.limitador_terms import Term, read_condition, read_variable
from tests.importing.deciding import Moved, moved

EXAMPLE = """\
- namespace: test_namespace
  max_value: 10
  seconds: 60
  conditions: ["req.method == 'GET'"]
  variables: [user_id]
- namespace: test_namespace
  max_value: 5
  seconds: 60
  conditions: ["req.method == 'POST'"]
  variables: [user_id]
"""
WINDOWS = ("theirs.yaml", limitador._WINDOWS)
TOGETHER = ("theirs.yaml", limitador._TOGETHER)


def asked(namespace: str = "ns", **entries: str) -> dict[str, Any]:
    """The facts of one descriptor of a call."""
    return {"descriptors": {"domain": namespace, **entries}}


def importing(folder: Path, *lines: str) -> Moved:
    return moved(read_limitador, folder, "".join(f"- {{namespace: ns, {line}}}\n" for line in lines))


def test_the_example_allows_ten_reads_and_five_writes_a_user(tmp_path: Path) -> None:
    there = moved(read_limitador, tmp_path, EXAMPLE)
    read = asked("test_namespace", **{"req.method": "GET", "user_id": "1"})
    write = asked("test_namespace", **{"req.method": "POST", "user_id": "1"})
    assert there.admitted(20, **read) == 10
    assert there.admitted(20, **write) == 5
    assert there.admitted(20, **asked("test_namespace", **{"req.method": "GET", "user_id": "2"})) == 10
    assert there.admitted(20, **asked("test_namespace", **{"req.method": "PUT", "user_id": "1"})) == 20
    assert there.admitted(20, **asked("test_namespace", **{"req.method": "GET"})) == 20, "a variable that is not there"
    assert there.admitted(20, **asked("another", **{"req.method": "GET", "user_id": "1"})) == 20
    there.clock.advance(60)
    assert there.admitted(20, **read) == 10
    assert there.said("differs") == [WINDOWS, TOGETHER], "two entries, named as if a call had one descriptor"
    assert there.imported.document["rules"][0] == {
        "name": "test_namespace/req.method=GET by user_id",
        "match": {"descriptors": {"domain": "test_namespace", "req.method": "GET"}},
        "by": "user_id",
        "algorithm": "fixed_window",
        "limit": "10/minute",
    }


@pytest.mark.parametrize(
    ("condition", "terms"),
    [
        ("req.method == 'GET'", [Term("req.method", None, "GET")]),
        ('req.method=="G E T"', [Term("req.method", None, "G E T")]),
        ("req.method == GET", [Term("req.method", None, "GET")]),
        ("app-id == 12", [Term("app-id", None, "12")]),
        ("'GET' == req.method", [Term("req.method", None, "GET")]),
        ("descriptors[0]['req.method'] == 'GET'", [Term("req.method", 0, "GET")]),
        ('descriptors[1]["a b"] == "it\'s"', [Term("a b", 1, "it's")]),
        ("descriptors[0].plan == 'x' && descriptors[0].app == 'y'", [Term("plan", 0, "x"), Term("app", 0, "y")]),
        ("'x && y' == descriptors[0].plan", [Term("plan", 0, "x && y")]),
        ("req.method != 'GET'", None),
        ("descriptors[0].size > 10", None),
        ("descriptors[0].size == 10", None),
        ("descriptors[0].plan == 'x' || descriptors[0].app == 'y'", None),
        ("descriptors[0].plan in ['x', 'y']", None),
        ("descriptors[0].path.startsWith('/a')", None),
        ("!(descriptors[0].plan == 'x')", None),
        ("descriptors[0].plan == 'it\\'s'", None),
        ("descriptors[0].plan == 'x' &&", None),
        ("descriptors[0].plan == 'x' extra", None),
        ("descriptors == 'x'", None),
        ("true", None),
        ("", None),
    ],
)
def test_conditions_are_equalities_in_either_language(condition: str, terms: list[Term] | None) -> None:
    assert read_condition(condition) == terms


@pytest.mark.parametrize(
    ("variable", "term"),
    [
        ("user_id", Term("user_id", None)),
        ("descriptors[0].user_id", Term("user_id", 0)),
        ("descriptors[0]['user.id']", Term("user.id", 0)),
        ("descriptors[0].a.b", None),
        ("descriptors[0].path.split('/')", None),
        ("descriptors[0]", None),
        ("1 + 1", None),
    ],
)
def test_variables_are_entries_in_either_language(variable: str, term: Term | None) -> None:
    assert read_variable(variable) == term


def test_limits_that_hold_together_all_apply(tmp_path: Path) -> None:
    there = importing(
        tmp_path,
        "max_value: 3, seconds: 60, conditions: [\"plan == 'free'\"], variables: [app]",
        "max_value: 5, seconds: 60, conditions: [], variables: [app]",
        "max_value: 6, seconds: 60",
    )
    assert there.admitted(9, **asked(plan="free", app="a")) == 3
    assert there.admitted(9, **asked(plan="paid", app="a")) == 2, "five of this application, whatever its plan"
    assert there.admitted(9, **asked(plan="paid", app="b")) == 1, "six of all"
    assert there.said("note") == [("theirs.yaml", limitador._APART)]
    assert there.rule("ns/plan=free by app")["by"] == ["app", "plan"]


def test_limits_that_count_by_the_same_facts_apply_together_where_both_hold(tmp_path: Path) -> None:
    """Both count by method and app in the end, and only a rule for both at once keeps them from competing."""
    there = importing(
        tmp_path,
        "max_value: 9, seconds: 60, variables: [app]",
        "max_value: 3, seconds: 60, conditions: [\"method == 'GET'\"], variables: [app]",
        "max_value: 9, seconds: 60, variables: [method]",
        "max_value: 2, seconds: 60, conditions: [\"app == 'a'\"], variables: [method]",
    )
    assert there.admitted(9, method="GET", **asked(app="a")) == 2
    assert there.admitted(9, method="GET", **asked(app="b")) == 3
    assert there.admitted(9, method="PUT", **asked(app="a")) == 2
    both = there.rule("ns/app=a,method=GET")
    assert both["priority"] == 102
    assert [limit["limit"] for limit in both["limit"]] == ["3/minute", "2/minute"]
    assert both["counter"] == there.rule("ns/app=a by method")["counter"]


def test_several_windows_for_the_same_requests_are_limits_of_one_rule(tmp_path: Path) -> None:
    there = importing(
        tmp_path, "max_value: 2, seconds: 1, variables: [app]", "max_value: 3, seconds: 86400, variables: [app]"
    )
    assert there.admitted(9, **asked(app="a")) == 2
    there.clock.advance(1)
    assert there.admitted(9, **asked(app="a")) == 1
    (rule,) = there.imported.document["rules"]
    assert rule["limit"] == [{"limit": "2/second", "label": "1s"}, {"limit": "3/day", "label": "86400s"}]


def test_nothing_a_minute_is_a_block_that_answers_429(tmp_path: Path) -> None:
    there = importing(
        tmp_path,
        "max_value: 0, seconds: 60, conditions: [\"app == 'bad'\"], name: away",
        "max_value: 0, seconds: 60, conditions: [\"app == 'worse'\"], variables: [plan]",
    )
    decision = there.limiter.check(**asked(app="bad"))
    assert (decision.allowed, decision.status, decision.rule) == (False, 429, "ns/away")
    assert there.admitted(3, **asked(app="good")) == 3
    assert there.said("differs") == [
        ("theirs.yaml:2:3", "`max_value: 0` blocks every request its conditions hold for, also without plan"),
        TOGETHER,
    ]
    assert there.admitted(3, **asked(app="worse")) == 0


def test_entries_that_are_facts_here_are_matched_and_counted_as_such(tmp_path: Path) -> None:
    there = importing(
        tmp_path,
        "max_value: 1, seconds: 60, conditions: [\"path == '/login'\"], variables: [remote_address]",
        "max_value: 2, seconds: 60, conditions: [\"remote_address == '198.51.100.7'\"], variables: [user]",
    )
    domain = asked()
    assert there.admitted(3, path="/login", ip="198.51.100.1", **domain) == 1
    assert there.admitted(3, path="/login", ip="198.51.100.2", **domain) == 1
    assert there.admitted(3, path="/other", ip="198.51.100.1", **domain) == 3
    assert there.admitted(3, path="/other", ip="198.51.100.7", user="bob", **domain) == 2
    said = ("theirs.yaml:1:3", "IPv6 addresses are counted by their /64 here, unless `ipv6_prefix` is 128")
    assert there.said("differs") == [said, WINDOWS, TOGETHER]


def test_what_cannot_be_said_is_told_with_its_place_and_the_rest_is_imported(tmp_path: Path) -> None:
    there = importing(
        tmp_path,
        "max_value: 1, seconds: 60, conditions: [\"app != 'a'\"]",
        "max_value: 1, seconds: 60, variables: [\"descriptors[0].path.split('/')\"]",
        'max_value: 1, seconds: 60, conditions: ["descriptors[0].a == \'1\'"], variables: ["descriptors[1].b"]',
        "max_value: 1, seconds: 99999999",
        "max_value: 1000000000001, seconds: 1",
        "max_value: 1, seconds: 60, conditions: [\"app == ''\"]",
        "max_value: 1, seconds: 60, variables: [domain]",
        "max_value: 1, seconds: 60, conditions: [\"path == '/a*'\"]",
        "max_value: 1, seconds: 60, conditions: [\"ip == 'here'\"]",
        "max_value: 1, seconds: 60, conditions: [\"app == 'a'\", \"app == 'b'\"]",
        "max_value: 4, seconds: 60, policy: odd",
    )
    left_out = "; this limit is left out"
    assert there.said("cannot") == [
        (
            "theirs.yaml:1:59",
            f"the condition `app != 'a'` is no equality with a text, which is all that rules match{left_out}",
        ),
        (
            "theirs.yaml:2:58",
            "the variable `descriptors[0].path.split('/')` is an expression, and rules count by facts as they are"
            + left_out,
        ),
        ("theirs.yaml:3:3", f"it looks at several descriptors at once, and a rule at one{left_out}"),
        ("theirs.yaml:4:3", f"a window is at most 366 days long{left_out}"),
        ("theirs.yaml:5:3", f"a limit counts to 1,000,000,000,000 at most{left_out}"),
        ("theirs.yaml:6:59", f"a text in a rule is 1 to 1,024 bytes long{left_out}"),
        ("theirs.yaml:7:58", f"`domain` cannot be matched or counted by: it is the namespace here{left_out}"),
        ("theirs.yaml:8:59", f"`/a*` is not a plain path{left_out}"),
        ("theirs.yaml:9:59", f"`here` is no address{left_out}"),
        ("theirs.yaml:11:46", "`policy` is not known here, and was left out; the limit itself is imported"),
    ]
    assert there.said("note") == [
        ("theirs.yaml:10:3", "`app` is never two values at once: left out, for it never applies")
    ]
    assert there.names == ["ns"]
    assert there.admitted(9, **asked()) == 4


def test_of_limits_that_count_the_same_the_smaller_is_kept(tmp_path: Path) -> None:
    there = importing(
        tmp_path,
        "max_value: 5, seconds: 60, variables: [app]",
        "max_value: 2, seconds: 60, variables: [app]",
        "max_value: 2, seconds: 60, variables: [app]",
    )
    what = f"counts what {there.path}:{{}}:3 counts; the smaller of the two was kept"
    assert there.said("differs") == [("theirs.yaml:2:3", what.format(1)), WINDOWS]
    assert there.said("note") == [("theirs.yaml:3:3", what.format(2))]
    assert there.admitted(9, **asked(app="a")) == 2


def test_a_descriptor_further_back_is_said_to_differ(tmp_path: Path) -> None:
    there = importing(tmp_path, 'max_value: 1, seconds: 60, variables: ["descriptors[1].app"]')
    assert there.said("differs") == [
        ("theirs.yaml:1:3", "`descriptors[1]`: the rule applies to whichever descriptor has these entries"),
        ("theirs.yaml", limitador._DESCRIPTORS),
        WINDOWS,
    ]


def test_more_ways_to_hold_together_than_there_may_be_rules_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limitador, "COMBINED_MAX", 2)
    there = importing(
        tmp_path,
        "max_value: 9, seconds: 60, variables: [app]",
        "max_value: 3, seconds: 60, conditions: [\"plan == 'x'\"], variables: [app]",
        "max_value: 9, seconds: 60, variables: [plan]",
        "max_value: 2, seconds: 60, conditions: [\"app == 'a'\"], variables: [plan]",
    )
    said, *_ = there.said("differs")
    assert said[0] == "theirs.yaml:2:3"
    assert said[1].startswith("limits that count by app, plan may hold together in more than 2 ways")


def test_more_limits_or_sets_of_facts_than_rules_can_have_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limitador, "BY_MAX", 2)
    lines = [f"max_value: 1, seconds: {n + 1}, variables: [app]" for n in range(18)]
    lines += ["max_value: 1, seconds: 1, variables: [a]", "max_value: 1, seconds: 1, variables: [b]"]
    there = importing(tmp_path, *lines)
    assert there.said("cannot") == [
        ("theirs.yaml:20:3", "rules count by at most 2 different sets of facts; divide the namespaces between nodes"),
        ("theirs.yaml:17:3", "a rule has at most 16 limits, and so many hold here already"),
        ("theirs.yaml:18:3", "a rule has at most 16 limits, and so many hold here already"),
    ]


def test_a_resource_of_kubernetes_is_read_for_its_limits(tmp_path: Path) -> None:
    text = "kind: Limitador\nspec:\n  limits:\n    - {namespace: ns, max_value: 2, seconds: 60}\n"
    assert moved(read_limitador, tmp_path, text).admitted(5, **asked()) == 2


def test_names_are_theirs_and_never_the_same(tmp_path: Path) -> None:
    there = importing(
        tmp_path,
        "max_value: 1, seconds: 60, variables: [a], name: mine",
        "max_value: 1, seconds: 60, variables: [b], name: mine",
        f"max_value: 1, seconds: 60, variables: [c], name: {'x' * 300}",
        f"max_value: 1, seconds: 60, variables: [d], name: {'x' * 300}",
    )
    assert there.names[:2] == ["ns/mine", "ns/mine (2)"]
    assert len(set(there.names)) == 4
    assert all(len(name.encode()) <= 128 for name in there.names)
