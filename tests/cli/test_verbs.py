"""Tiers, overrides, blocks, keys, tokens, the fleet and the record of calls, against a control plane."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from headgate.cli import app
from tests.cli.conftest import Headgate
from tests.cli.scripted import Said, problem, scripted
from tests.cli.terminal import ROOT


def test_tiers_are_made_listed_and_deleted_unless_in_use(headgate: Headgate) -> None:
    headgate.run("tiers", "put", "pro", "--description", "Pays by the month")
    assert "Pays by the month" in headgate.run("tiers", "list").stdout
    headgate.run("overrides", "set", "user", "42", "--tier", "pro")
    used = headgate.run("tiers", "delete", "pro", code=2)
    assert "42" in used.stderr
    headgate.run("overrides", "delete", "user", "42")
    headgate.run("tiers", "delete", "pro", "--why", "no longer sold")
    assert headgate.json("tiers", "list") == []


def test_an_override_keeps_what_is_not_named(headgate: Headgate) -> None:
    headgate.run("overrides", "set", "user", "42", "--limit", "100/minute", "--limit", "1000/hour")
    headgate.run("overrides", "set", "user", "42", "--block", "--reason", "Invoice unpaid", "--for", "7d")
    shown = headgate.json("overrides", "show", "user", "42")
    assert shown["limit"] == ["100/minute", "1000/hour"]
    assert shown["block"]["reason"] == "Invoice unpaid"
    ends = datetime.fromisoformat(shown["block"]["until"])
    assert timedelta(days=6) < ends - datetime.now(UTC) < timedelta(days=8)
    assert "Invoice unpaid until" in headgate.run("overrides", "list", "--blocked").stdout
    headgate.run("overrides", "set", "user", "42", "--no-block")
    assert "block" not in headgate.json("overrides", "show", "user", "42")
    headgate.run("overrides", "set", "user", "42", "--limit", "", "--tier", "pro")
    assert "limit" not in headgate.json("overrides", "show", "user", "42")
    headgate.run("overrides", "set", "user", "42", "--limit", "5/minute", "--replace")
    shown = headgate.json("overrides", "show", "user", "42")
    assert (shown["limit"], "tier" in shown) == ("5/minute", False)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["user", "42"], "nothing to set"),
        (["user", "42", "--reason", "x"], "give --block with them"),
        (["user", "42", "--block", "--for", "1h", "--until", "2027-01-31"], "give one of them"),
        (["user", "42", "--block", "--for", "soon"], "--for soon: expected a whole number"),
        (["user", "42", "--limit", "often"], "limit: `often` is not a limit"),
        (["team", "42", "--limit", "1/second"], "team"),
    ],
)
def test_an_override_that_cannot_be_is_refused(headgate: Headgate, words: list[str], message: str) -> None:
    assert message in headgate.run("overrides", "set", *words, code=2).stderr
    assert headgate.json("overrides", "list") == []


def test_a_range_is_blocked_and_the_block_is_lifted(headgate: Headgate) -> None:
    words = ["--ip", "203.0.113.0/24", "--for", "1h", "--why", "Scraping"]
    done = headgate.run("blocks", "add", *words, "--wait").stdout
    assert "ip 203.0.113.0/24 is blocked until 2" in done
    assert "live nodes have version 1" in done
    (block,) = headgate.json("blocks", "list")
    assert (block["ip"], block["why"]) == ("203.0.113.0/24", "Scraping")
    assert headgate.json("versions", "list")[0]["why"] == "Scraping"
    headgate.run("blocks", "lift", block["id"])
    assert headgate.json("blocks", "list", "--all") == []
    assert block["id"] in headgate.run("blocks", "lift", block["id"], code=2).stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "give one of --ip, --user, --org and --api-key"),
        (["--user", "1", "--org", "2"], "give one of --ip"),
        (["--ip", "203.0.113.7/24"], "203.0.113.0/24"),
        (["--ip", "home"], "ip: "),
    ],
)
def test_a_block_that_cannot_be_is_refused(headgate: Headgate, words: list[str], message: str) -> None:
    assert message in headgate.run("blocks", "add", *words, code=2).stderr


def test_a_dry_run_of_a_block_blocks_nobody(headgate: Headgate) -> None:
    assert "+ block" in headgate.run("blocks", "add", "--user", "42", "--dry-run").stdout
    assert headgate.json("blocks", "list") == []


def test_a_key_is_printed_once_listed_rotated_and_revoked(headgate: Headgate) -> None:
    made = headgate.run("keys", "create", "--user", "42", "--name", "laptop", "--limit", "9/minute", "--expires", "90d")
    value = made.stdout.splitlines()[0]
    key_id = value.split("_")[1]
    assert value.startswith("hgk_")
    assert headgate.json("overrides", "show", "api_key", key_id)["limit"] == "9/minute"
    listed = headgate.run("keys", "list", "--user", "42").stdout
    assert "laptop" in listed
    assert value not in listed
    rotated = headgate.json("keys", "rotate", key_id, "--grace", "24h")
    assert rotated["user"] == "42"
    headgate.run("keys", "revoke", rotated["id"], "--why", "lost")
    assert "revoked" in headgate.run("keys", "list").stdout
    assert [key["id"] for key in headgate.json("keys", "list", "--state", "revoked")] == [rotated["id"]]
    assert "--by is for files" in headgate.run("keys", "revoke", key_id, "--by", "me", code=2).stderr
    assert not list(Path().glob("keys.*")), "nothing is written to the folder"


def test_keys_in_a_file_are_not_asked_of_the_control_plane(headgate: Headgate) -> None:
    headgate.run("keys", "create", "--file", "mine.yaml", "--user", "42")
    assert headgate.json("keys", "list") == []
    assert headgate.json("keys", "list", "--file", "mine.yaml")[0]["user"] == "42"
    wrong = headgate.run("keys", "create", "--file", "mine.yaml", "--why", "x", "--wait", code=2)
    assert "--why, --wait: only for keys of a control plane" in wrong.stderr
    assert headgate.run("keys", "list", "--file", "mine.yaml", "--control", "http://h", code=2).stderr


def test_a_key_in_a_file_is_rotated(headgate: Headgate) -> None:
    old = headgate.json("keys", "create", "--file", "mine.yaml", "--user", "42", "--tier", "pro")["id"]
    new = headgate.json("keys", "rotate", old, "--file", "mine.yaml", "--grace", "24h")["id"]
    first, second = headgate.json("keys", "list", "--file", "mine.yaml")
    assert (first["id"], second["id"], second["user"], second["tier"]) == (old, new, "42", "pro")
    assert first["revoked"] > second["created"]
    assert "was revoked already" in headgate.run("keys", "rotate", old, "--file", "mine.yaml", code=2).stderr


def test_tokens_may_do_what_their_role_says_until_they_are_revoked(headgate: Headgate) -> None:
    made = headgate.json("tokens", "create", "--name", "ci", "--role", "viewer", "--expires", "90d")
    Path("token").write_text(made["token"] + "\n")
    mine = ["--control", headgate.plane.url, "--token-file", "token"]

    def as_viewer(*words: str) -> tuple[int, str]:
        result = CliRunner().invoke(app, [*words, *mine], env={"HEADGATE_TOKEN": ""})
        return result.exit_code, result.stderr

    assert as_viewer("rules", "list")[0] == 0
    code, told = as_viewer("blocks", "add", "--user", "42")
    assert (code, "editor" in told) == (1, True)
    assert "ci" in headgate.run("tokens", "list").stdout
    headgate.run("tokens", "revoke", made["id"])
    code, told = as_viewer("rules", "list")
    assert (code, "headgate tokens create" in told) == (2, True)
    assert made["token"] not in told
    assert "revoked" in headgate.run("tokens", "list").stdout


def test_the_record_of_calls_shows_who_changed_what(headgate: Headgate) -> None:
    headgate.run("tiers", "put", "pro", "--why", "new")
    (call, *_) = headgate.plane_calls("/api/v1/tiers/pro")
    assert (call["who"], call["status"], call["why"]) == ("first", 201, "new")
    assert "/api/v1/tiers/pro" in headgate.run("calls", "--who", "first").stdout
    assert headgate.json("calls", "--status", "403") == []


def test_the_fleet_shows_who_is_behind(headgate: Headgate) -> None:
    well = headgate.run("fleet").stdout
    assert "version 3; 2 live nodes, 0 behind" in well
    assert "3.5 ms" in well
    headgate.plane.nodes.behind.append({"id": "slow", "region": "us", "position": "5.1"})
    assert "slow" in headgate.run("fleet", code=1).stdout
    headgate.plane.nodes.behind.clear()
    headgate.plane.nodes.error = "connection refused"
    assert headgate.json("fleet", code=1)["regions"][0]["error"] == "connection refused"


def test_a_token_that_is_missing_says_how_to_get_one() -> None:
    result = CliRunner().invoke(app, ["rules", "list"])
    assert (result.exit_code, "HEADGATE_TOKEN" in result.stderr) == (2, True)


def test_a_token_that_is_none_is_not_repeated(headgate: Headgate) -> None:
    result = CliRunner().invoke(app, ["rules", "list"], env={"HEADGATE_TOKEN": "two words\nX-Evil: yes"})
    assert result.exit_code == 2
    assert "Evil" not in result.stderr


def test_nobody_there_is_exit_code_1() -> None:
    environment = {"HEADGATE_TOKEN": "hga_x", "HEADGATE_CONTROL_URL": "http://127.0.0.1:1"}
    result = CliRunner().invoke(app, ["rules", "list"], env=environment)
    assert (result.exit_code, "is it running there" in result.stderr) == (1, True)


def test_variables_of_those_who_ask_are_no_mistaken_settings() -> None:
    environment = {"HEADGATE_TOKEN": "hga_x", "HEADGATE_TOKEN_FILE": "x", "HEADGATE_CONTROL_URL": "http://h"}
    result = CliRunner().invoke(app, ["settings"], env=environment)
    assert "warning" not in result.stderr
    assert "hga_x" not in result.output


def test_asking_needs_nothing_that_only_a_control_plane_needs() -> None:
    away = ("sqlalchemy", "alembic", "psycopg", "redis", "fastapi", "uvicorn", "starlette")
    program = (
        f"import sys; sys.modules.update(dict.fromkeys({away!r}))\n"
        "from headgate.cli import app\n"
        "assert not [name for name in sys.modules if name.startswith(('headgate.control', 'headgate.storage'))]\n"
        "app(['rules', 'list'])\n"
    )
    environ = {**os.environ, "HEADGATE_TOKEN": "hga_x", "HEADGATE_CONTROL_URL": "http://127.0.0.1:1"}
    environ["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True, text=True)
    assert (done.returncode, "is it running there" in done.stderr) == (1, True), done.stderr


def asked_of(url: str, *words: str) -> Result:
    return CliRunner().invoke(app, list(words), env={"HEADGATE_TOKEN": "hga_x", "HEADGATE_CONTROL_URL": url})


def test_a_change_without_an_answer_may_have_been_made_and_that_is_told() -> None:
    with scripted(Said(body=b"{" * 100, cut=10), Said(body=b"{" * 100, cut=10)) as server:
        lost = asked_of(server.url, "blocks", "lift", "b1")
        planned = asked_of(server.url, "blocks", "lift", "b1", "--dry-run")
    assert (lost.exit_code, "shows whether the change was made" in lost.stderr) == (1, True)
    assert (planned.exit_code, "whether the change" in planned.stderr) == (1, False)
    assert "is it running there" in asked_of(server.url, "blocks", "lift", "b1").stderr, "it was never asked"


def test_a_key_is_told_even_when_waiting_for_the_nodes_goes_wrong() -> None:
    made = Said(201, {"id": "k1", "key": "hgk_k1_value"}, {"X-Headgate-Version": "5.1"})
    with scripted(made, Said(503, problem(503, "the database does not answer"))) as server:
        result = asked_of(server.url, "keys", "create", "--user", "42", "--wait", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["key"] == "hgk_k1_value"
