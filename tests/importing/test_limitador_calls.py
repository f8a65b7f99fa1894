"""Imported limits, asked as Envoy asks: what Limitador's documents say of a call, case by case."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.importing.imported import Imported
from headgate.importing.limitador import read_limitador
from tests.importing.envoy_node import serving
from tests.servers.server import Server

CALL = "KEY_A=VALUE_A,OTHER_KEY=OTHER_VALUE"


def imported(folder: Path, text: str) -> Imported:
    path = folder / "limits.yaml"
    path.write_text(text)
    return read_limitador([path])


@pytest.mark.parametrize(
    ("limit", "admitted"),
    [
        ("conditions: [\"KEY_A == 'VALUE_A'\"]", 1),
        ("conditions: [\"descriptors[0].KEY_A == 'VALUE_A'\"], variables: [\"descriptors[0]['OTHER_KEY']\"]", 1),
        ("variables: [KEY_A, OTHER_KEY]", 1),
        ("conditions: []", 1),
        ("conditions: [\"KEY_B == 'VALUE_B'\"]", 3),
        ("conditions: [\"KEY_A == 'VALUE_A'\", \"OTHER_KEY == 'WRONG_VALUE'\"]", 3),
        ("variables: [MY_VAR]", 3),
        ("conditions: [\"KEY_A == 'VALUE_A'\"], variables: [MY_VAR]", 3),
    ],
)
def test_a_limit_applies_if_its_conditions_hold_and_its_variables_are_there(
    tmp_path: Path, limit: str, admitted: int
) -> None:
    found = imported(tmp_path, f"- {{namespace: example.org, max_value: 1, seconds: 60, {limit}}}\n")
    with serving(found, "example.org") as node:
        assert node.admitted(CALL, of=3) == admitted
        assert node.ask(CALL, domain="elsewhere").code == "OK"


def test_nothing_a_window_refuses_every_call(tmp_path: Path) -> None:
    found = imported(tmp_path, "- {namespace: ns, max_value: 0, seconds: 60, conditions: [\"app == 'a'\"]}\n")
    with serving(found, "ns") as node:
        assert node.ask("app=a").code == "OVER_LIMIT"
        assert node.ask("app=b").code == "OK"


def test_limits_that_hold_together_are_spent_together_or_not_at_all_in_a_shared_store(tmp_path: Path) -> None:
    lines = (
        "max_value: 3, conditions: [\"method == 'GET'\"], variables: [app]",
        "max_value: 2, conditions: [\"app == 'a'\"], variables: [method]",
        "max_value: 9, variables: [app]",
        "max_value: 9, variables: [method]",
        "max_value: 5",
    )
    found = imported(tmp_path, "".join(f"- {{namespace: ns, seconds: 31536000, {line}}}\n" for line in lines))
    with Server() as store, serving(found, "ns", store=store.url) as node:
        assert node.admitted("method=GET,app=a", of=4) == 2
        assert node.admitted("method=GET,app=b", of=4) == 3, "what was refused had spent nothing"
        assert node.admitted("method=PUT,app=c", of=4) == 0, "five of all"
