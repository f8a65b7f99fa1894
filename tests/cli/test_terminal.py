"""What a person at a terminal sees: a question before a change, a bar during long work, one line after Ctrl-C."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.conftest import Headgate
from tests.cli.scripted import Said, scripted
from tests.cli.terminal import terminal

RULES = "rules:\n  - {name: login, by: user, limit: 5/minute}\n"


@pytest.fixture(autouse=True)
def rules(folder: Path) -> Path:
    path = folder / "rules.yaml"
    path.write_text(RULES)
    return path


def last_line(text: str) -> str:
    """Without what moves the cursor and colours."""
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    return plain.replace("\r", "\n").strip().splitlines()[-1].strip()


def test_the_plan_is_shown_and_agreed_to(headgate: Headgate) -> None:
    with terminal("rules", "apply", "-f", "rules.yaml", environment=headgate.plane.environment) as screen:
        screen.until("apply this? [y/N]:")
        assert "+ rule login" in screen.seen
        assert headgate.json("rules", "list") == []
        screen.type("y\n")
        assert screen.end() == 0
        assert "1 created (version 1)" in screen.seen
    assert len(headgate.json("rules", "list")) == 1


@pytest.mark.parametrize("answer", ["n\n", "\n", "\x03"])
def test_without_a_yes_nothing_is_changed(headgate: Headgate, answer: str) -> None:
    with terminal("rules", "apply", "-f", "rules.yaml", environment=headgate.plane.environment) as screen:
        screen.until("apply this? [y/N]:")
        if answer == "\x03":
            assert screen.interrupt() == 1
        else:
            screen.type(answer)
            assert screen.end() == 1
        assert "stopped; nothing was changed" in last_line(screen.seen)
    assert headgate.json("versions", "list") == []


def test_what_was_agreed_to_is_not_applied_to_something_else(headgate: Headgate) -> None:
    with terminal("rules", "apply", "-f", "rules.yaml", environment=headgate.plane.environment) as screen:
        screen.until("apply this? [y/N]:")
        headgate.run("tiers", "put", "in-between")
        screen.type("y\n")
        assert screen.end() != 0
        assert "somebody else has changed it" in " ".join(screen.seen.split())
    assert headgate.json("rules", "list") == []


def test_going_back_is_asked_about_too(headgate: Headgate) -> None:
    headgate.run("rules", "apply", "-f", "rules.yaml", "--yes")
    with terminal("rules", "rollback", "0", environment=headgate.plane.environment) as screen:
        screen.until("go back to version 0? [y/N]:")
        assert "- rule login" in screen.seen
        screen.type("y\n")
        assert screen.end() == 0
    assert headgate.json("rules", "list") == []


def test_long_work_has_a_bar(headgate: Headgate) -> None:
    lines = [json.dumps({"name": f"r{nth}", "by": "user", "limit": "5/minute"}) for nth in range(3_000)]
    Path("big.jsonl").write_text("\n".join(lines) + "\n")
    words = ["rules", "apply", "-f", "big.jsonl", "--yes"]
    with terminal(*words, environment=headgate.plane.environment) as screen:
        assert screen.end() == 0
        assert "━" in screen.seen
        assert "committing" in screen.seen
        assert "3,000 created" in screen.seen


def test_ctrl_c_while_waiting_says_that_the_version_stays(headgate: Headgate) -> None:
    headgate.plane.nodes.behind.append({"id": "slow"})
    words = ["rules", "apply", "-f", "rules.yaml", "--yes", "--wait=5m"]
    with terminal(*words, environment=headgate.plane.environment) as screen:
        screen.until("waiting for the nodes")
        assert screen.interrupt() == 1
        assert last_line(screen.seen) == "headgate: stopped waiting; version 1 stays"
    assert len(headgate.json("rules", "list")) == 1


def test_ctrl_c_while_nobody_answers_does_not_claim_to_know() -> None:
    with scripted(Said(silent=True)) as server:
        environment = {"HEADGATE_CONTROL_URL": server.url, "HEADGATE_TOKEN": "hga_x"}
        with terminal("rules", "delete", "login", environment=environment) as screen:
            while not server.heard:
                screen.until("")
            assert screen.interrupt() == 1
            assert "shows whether the change was made" in last_line(screen.seen)


def test_ctrl_c_while_sending_leaves_nothing_behind(folder: Path) -> None:
    (folder / "big.jsonl").write_bytes(b"x" * 32 * 2**20)
    with scripted(Said(silent=True, early=True)) as server:
        environment = {"HEADGATE_CONTROL_URL": server.url, "HEADGATE_TOKEN": "hga_x"}
        with terminal("rules", "apply", "-f", "big.jsonl", "--yes", environment=environment) as screen:
            screen.until("sending big.jsonl")
            assert screen.interrupt() == 1
            assert last_line(screen.seen) == "headgate: stopped; nothing was changed"


def test_watching_the_fleet_ends_with_ctrl_c(headgate: Headgate) -> None:
    with terminal("fleet", "--watch", environment=headgate.plane.environment) as screen:
        screen.until("2 live nodes")
        screen.until("published")
        assert screen.interrupt() == 0
        assert "Traceback" not in screen.seen
