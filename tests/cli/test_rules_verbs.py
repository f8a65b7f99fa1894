"""`headgate rules` against a control plane."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Headgate

RULES = """\
tiers: [free, pro]
rules:
  - name: free-login
    match: {tier: free, endpoint: /api/v1/login, method: POST}
    by: user
    limit: 5/minute
  - name: org-ceiling
    by: org
    limit: [100/second burst 200, 50000/hour]
overrides:
  - {user: 42, tier: pro}
"""


@pytest.fixture
def rules(folder: Path) -> Path:
    (folder / "rules").mkdir()
    path = folder / "rules" / "all.yaml"
    path.write_text(RULES, encoding="utf-8")
    return path


@pytest.fixture
def applied(headgate: Headgate, rules: Path) -> Headgate:
    headgate.run("rules", "apply", "-f", "rules", "--yes", "--why", "first")
    return headgate


def names(headgate: Headgate) -> list[str]:
    return [rule["name"] for rule in headgate.json("rules", "list")]


def test_rules_as_code_are_planned_agreed_applied_and_waited_for(headgate: Headgate, rules: Path) -> None:
    done = headgate.run("rules", "apply", "-f", "rules", "--yes", "--wait", "--why", "first")
    assert "+ rule free-login" in done.stdout
    assert "    limit: 5/minute" in done.stdout
    assert "5 to create" in done.stdout
    assert "5 created (version 1)" in done.stdout
    assert "2 live nodes have version 1" in done.stdout
    assert [position.version for position in headgate.plane.nodes.waited] == [1]
    rules.write_text(RULES.replace("5/minute", "9/minute"))
    plan = headgate.run("rules", "apply", "-f", "rules", "--dry-run")
    assert "~ rule free-login\n    limit: 5/minute → 9/minute\n" in plan.stdout
    assert headgate.json("rules", "show", "free-login")["limit"] == "5/minute"


def test_applying_again_changes_nothing_and_takes_no_version(applied: Headgate) -> None:
    again = applied.run("rules", "apply", "-f", "rules")
    assert "nothing to change" in again.stdout
    assert len(applied.json("versions", "list")) == 1


def test_what_is_in_no_file_is_deleted_only_when_asked_for(applied: Headgate, rules: Path) -> None:
    rules.write_text("rules:\n  - {name: only, by: user, limit: 1/second}\n")
    applied.run("rules", "apply", "-f", "rules", "--yes")
    assert names(applied) == ["free-login", "only", "org-ceiling"]
    pruned = applied.run("rules", "apply", "-f", "rules", "--yes", "--prune")
    assert "- rule free-login" in pruned.stdout
    assert names(applied) == ["only"]
    assert applied.json("overrides", "list")[0]["user"] == "42", "no file speaks of overrides"


def test_without_a_terminal_somebody_must_have_agreed(headgate: Headgate, rules: Path) -> None:
    refused = headgate.run("rules", "apply", "-f", "rules", code=2)
    assert "give --yes" in refused.stderr
    assert names(headgate) == []


def test_nodes_that_are_behind_are_named(headgate: Headgate, rules: Path) -> None:
    headgate.plane.nodes.behind.append({"id": "n7", "position": "5.0"})
    late = headgate.run("rules", "apply", "-f", "rules", "--yes", "--wait=1s", code=1)
    assert "version 1 is made, and after 1 s 1 of 2 live nodes do not have it: n7 (at 0)" in late.stderr
    assert len(names(headgate)) == 2


def test_a_mistake_is_told_with_its_place_before_anything_is_sent(headgate: Headgate, rules: Path) -> None:
    rules.write_text(RULES.replace("5/minute", "often"))
    wrong = headgate.run("rules", "apply", "-f", "rules", "--yes", code=2)
    assert "rules/all.yaml:6:12: rules[0].limit: `often` is not a limit" in wrong.stderr
    assert headgate.json("calls") == []


def test_a_mistake_that_only_the_control_plane_sees_has_its_place_too(applied: Headgate, rules: Path) -> None:
    rules.write_text("rules:\n  - {name: vip, match: {tier: vip}, by: user, limit: 1/second}\n")
    wrong = applied.run("rules", "apply", "-f", "rules", "--yes", code=2)
    assert "rules/all.yaml:2:" in wrong.stderr
    assert "vip" in wrong.stderr


@pytest.mark.parametrize("file", ["out.yaml", "out.json", "out.jsonl"])
def test_what_is_exported_applies_back_to_no_change(applied: Headgate, file: str) -> None:
    applied.run("tiers", "put", "pro", "--description", "Pays")
    applied.run("rules", "export", "-o", file)
    before = len(applied.json("versions", "list"))
    done = applied.run("rules", "apply", "-f", file, "--prune", "--yes")
    assert "nothing to change" in done.stdout or "unchanged" in done.stdout
    assert len(applied.json("versions", "list")) == before


def test_an_export_is_printed_as_yaml_or_json(applied: Headgate) -> None:
    assert applied.run("rules", "export").stdout.startswith("tiers:\n- free\n- pro\nrules:\n- ")
    assert len(applied.json("rules", "export")["rules"]) == 2
    assert "ends in .yaml" in applied.run("rules", "export", "-o", "rules.txt", code=2).stderr


def test_a_bulk_file_is_sent_as_it_is_read(headgate: Headgate) -> None:
    lines = [json.dumps({"name": f"r{nth}", "by": "user", "limit": f"{nth + 1}/minute"}) for nth in range(3_000)]
    Path("big.jsonl").write_text("\n".join(lines) + "\n")
    done = headgate.run("rules", "import", "big.jsonl", "--yes")
    assert "3,000 created (version 1)" in done.stdout
    assert "sending big.jsonl" in done.stderr
    assert "committing" in done.stderr
    lines[1] = lines[1].replace("2/minute", "often")
    Path("big.jsonl").write_text("\n".join(lines) + "\n")
    wrong = headgate.run("rules", "apply", "-f", "big.jsonl", "--yes", code=2)
    assert "headgate: big.jsonl:2: limit: `often` is not a limit" in wrong.stderr
    assert wrong.stderr.count("often") == 1
    Path("big.jsonl").write_text(lines[0] + "\n")
    pruned = headgate.run("rules", "apply", "-f", "big.jsonl", "--dry-run", "--prune")
    assert "2,999 to delete" in pruned.stdout
    assert len(headgate.json("versions", "list")) == 1


def test_rules_are_listed_found_and_shown(applied: Headgate) -> None:
    table = applied.run("rules", "list").stdout
    assert "free-login" in table
    assert "tier=free" in table
    assert "100/second burst 200, 50000/hour" in table
    assert [rule["name"] for rule in applied.json("rules", "list", "--tier", "free")] == ["free-login"]
    assert [rule["name"] for rule in applied.json("rules", "list", "--search", "ceil")] == ["org-ceiling"]
    cut = applied.run("rules", "list", "--limit", "1")
    assert "there are more" in cut.stderr
    shown = applied.run("rules", "show", "free-login").stdout
    assert shown.startswith("# version 1, ")
    Path("shown.yaml").write_text("rules:\n- " + shown.partition("\n")[2].replace("\n", "\n  ").rstrip() + "\n")
    applied.run("rules", "validate", "shown.yaml")


def test_a_rule_that_is_not_there_is_told(headgate: Headgate) -> None:
    for verb in ("show", "delete", "enable", "history"):
        assert "nobody" in headgate.run("rules", verb, "nobody", code=2).stderr


def test_switching_one_rule_or_all(applied: Headgate) -> None:
    applied.run("rules", "disable", "free-login")
    assert "disabled" in applied.run("rules", "list").stdout
    assert [rule["name"] for rule in applied.json("rules", "list", "--disabled")] == ["free-login"]
    applied.run("rules", "enable", "free-login")
    applied.run("rules", "shadow", "org-ceiling", "--wait")
    assert "shadow (switch)" in applied.run("rules", "list").stdout
    applied.run("rules", "shadow", "--all", "--why", "too much is refused")
    assert "every rule is in shadow" in applied.run("rules", "list").stderr
    applied.run("rules", "enforce", "--all")
    applied.run("rules", "enforce", "org-ceiling")
    assert "shadow" not in applied.run("rules", "list").stdout
    assert "either the NAME of a rule or --all" in applied.run("rules", "shadow", code=2).stderr


def test_history_diff_and_the_way_back(applied: Headgate, rules: Path) -> None:
    rules.write_text(RULES.replace("5/minute", "9/minute"))
    applied.run("rules", "apply", "-f", "rules", "--yes", "--why", "more")
    history = applied.run("rules", "history", "free-login").stdout
    assert "by first: more" in history
    assert "limit: 5/minute → 9/minute" in history
    assert "limit: 5/minute → 9/minute" in applied.run("rules", "diff").stdout
    assert "limit: 9/minute → 5/minute" in applied.run("rules", "diff", "2", "1").stdout
    assert "nothing to change" in applied.run("rules", "diff", "-f", "rules", "--prune", "--exit-code").stdout
    back = applied.run("rules", "rollback", "1", "--yes", "--why", "too much")
    assert "limit: 9/minute → 5/minute" in back.stdout
    assert "(version 3)" in back.stdout
    applied.run("rules", "diff", "-f", "rules", "--exit-code", code=1)
    assert applied.json("rules", "show", "free-login")["limit"] == "5/minute"
    assert "too much" in applied.run("versions", "list").stdout
    assert "~ rule free-login" in applied.run("versions", "show", "3").stdout
    assert applied.json("versions", "show", "1")["why"] == "first"


def test_a_rule_is_deleted_only_if_nobody_changed_it(applied: Headgate) -> None:
    applied.run("rules", "disable", "free-login")
    stale = applied.run("rules", "delete", "free-login", "--if-version", "1", code=1)
    assert stale.stderr
    assert "- rule free-login" in applied.run("rules", "delete", "free-login", "--dry-run").stdout
    assert applied.json("rules", "delete", "free-login", "--if-version", "2")["deleted"] is True
    assert names(applied) == ["org-ceiling"]
