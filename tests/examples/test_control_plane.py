"""Rules as code with the commands of the example's README, and the documentation's emergency commands, for real."""

from __future__ import annotations

import itertools
import json
import re
import shlex
import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner, Result

from headgate.cli import app
from tests.docs.markdown import Page
from tests.docs.pages import DOCS
from tests.proxies.example import EXAMPLES
from tests.servers.postgres import Postgres
from tests.servers.program import PATIENCE_S, Control, Node
from tests.servers.server import Server

FOLDER = EXAMPLES / "control-plane"
PAGE = Page(FOLDER / "README.md")
FLOODING = "203.0.113.9"
# For the rule `login`, and not for those it goes with.
TOO_MANY = 6


class Site:
    """A control plane, a node that follows it over HTTP, and a shell beside the folder of rules."""

    def __init__(self, control: Control, node: Node) -> None:
        self.control, self.node = control, node
        self._fresh = itertools.count(1)

    def run(self, line: str, code: int = 0) -> Result:
        words = shlex.split(line, comments=True)[1:]
        result = CliRunner().invoke(app, words, env=self.control.environment)
        assert result.exit_code == code, f"{line}\n{result.output}\n{result.exception!r}"
        return result

    def login(self, **facts: str | int) -> int:
        """The status of one from an address that nobody has used yet, unless it is told."""
        return int(self._check(facts)["status"])

    def login_rules(self, **facts: str) -> set[str]:
        """The rules that one meets, each with its limit."""
        results = self._check(facts)["results"]
        return {f"{result['rule']} {result['limit']}" for result in results}

    def _check(self, facts: Mapping[str, str | int]) -> Any:
        asked = {"ip": f"198.51.100.{next(self._fresh)}", "path": "/api/v1/login", "method": "POST", **facts}
        url = f"http://{self.node.ready['http']}/v1/check"
        return httpx.post(url, json=asked, timeout=PATIENCE_S, trust_env=False).json()


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(FOLDER / "rules", tmp_path / "rules")
    (command,) = PAGE.commands("headgate control")
    (database,) = re.findall(r"--database sqlite:///(\S+)", command)
    secret = tmp_path / "keys.secret"
    secret.write_text("5e" * 32)
    with (
        Control(tmp_path / "control", f"sqlite:///{database}", "--api-key-secret-file", str(secret)) as control,
        Node(tmp_path / "node", control.url) as node,
    ):
        yield Site(control, node)


def test_the_readmes_commands_do_what_it_says(site: Site, tmp_path: Path) -> None:
    for line in commands(PAGE, "Apply"):
        site.run(line)
    assert "login 5" in site.login_rules(tier="free")
    assert "login-pro 60" in site.login_rules(tier="pro") & site.login_rules(org="acme")

    file = tmp_path / "rules" / "login.yaml"
    file.write_text(file.read_text().replace("limit: 5/minute", "limit: 10/minute"))
    *changes, back, differ = commands(PAGE, "Change, and think again")
    for line in changes:
        site.run(line)
    assert "login 10" in site.login_rules(tier="free")
    site.run(back)
    assert "login 5" in site.login_rules(tier="free")
    site.run(differ, code=1)

    block, shadow, enforce = commands(PAGE, "In an emergency")
    site.run(block)
    assert site.login(ip=FLOODING) == 403
    assert site.login() == 200
    for line in (shadow, enforce):
        site.run(line)
    made = site.run(commands(PAGE, "In a pipeline")[0])
    assert made.stdout.startswith("hga_")


def test_the_emergency_commands_of_the_documentation_do_what_it_says(site: Site) -> None:
    site.run("headgate rules apply -f rules/ --yes --wait")
    site.run("headgate keys create --user 42")
    flood, stolen, blocks, lift, keys, rotate, shadow, all_shadow, all_enforce, enforce, override = commands(
        DOCS["control-plane"], "In an emergency"
    )
    site.run(flood)
    assert site.login(ip=FLOODING) == 403
    site.run(f"{stolen} --wait")
    assert site.login(user="42") == 403
    listed = json.loads(site.run(f"{blocks} --json").stdout)
    (block,) = [block["id"] for block in listed if "ip" in block]
    site.run(lift.replace("b7k2m9x4q1wz", block))
    assert site.login(ip=FLOODING) == 200

    (key,) = json.loads(site.run(f"{keys} --json").stdout)
    site.run(rotate.replace("k3v9x2m4q7wz", key["id"]))
    states = {found["id"]: found["state"] for found in json.loads(site.run(f"{keys} --json").stdout)}
    assert states.pop(key["id"]) == "revoked"
    assert list(states.values()) == ["active"]

    assert site.login(cost=TOO_MANY) == 429
    site.run(shadow.replace("free-login", "login"))
    assert site.login(cost=TOO_MANY) == 200
    site.run(f"{enforce} --wait".replace("free-login", "login"))
    assert site.login(cost=TOO_MANY) == 429
    site.run(all_shadow)
    assert site.login(cost=TOO_MANY) == 200
    # A block is no rule.
    assert site.login(user="42") == 403
    site.run(f"{all_enforce} --wait")
    assert site.login(cost=TOO_MANY) == 429

    site.run(f"{override} --wait")
    assert json.loads(site.run("headgate overrides show user 42 --json").stdout)["limit"] == "1000/minute"


def test_a_control_plane_without_tokens_prints_a_first_one_again(tmp_path: Path) -> None:
    (statement,) = [
        example.text for example in DOCS["control-plane"].examples_in("sql") if example.section == "headgate serve"
    ]
    path = tmp_path / "control.db"
    with Control(tmp_path / "before", f"sqlite:///{path}") as before:
        before.put_rule("login", "5/minute")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement)
    with Control(tmp_path / "after", f"sqlite:///{path}") as after:
        assert after.token != before.token
        assert after.ask("GET", "/rules/login")["limit"] == "5/minute"


def commands(page: Page, section: str) -> list[str]:
    blocks = [example.text for example in page.examples_in("console") if example.section == section]
    return [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ headgate ")]


def test_a_new_feed_key_is_taken_over_as_the_documentation_says(sqlite_url: str, tmp_path: Path) -> None:
    """Control planes first, then the nodes; meanwhile those go on with what they have."""
    folder = tmp_path / "control"
    with Server() as broker:
        regions = ("--regions", f"here={broker.url}")
        with Control(folder, sqlite_url, *regions) as control, Node(tmp_path / "late", broker.url) as late:
            with Node(tmp_path / "early", broker.url) as early:
                control.put_rule("login", "5/minute")
                early.comes_to(login=5)
                late.comes_to(login=5)
            control.close()
            for name in ("control", "early"):
                (tmp_path / name / "feed.key").write_text("e6" * 32)
            with (
                Control(folder, sqlite_url, *regions, token=control.token) as control,
                Node(tmp_path / "early", broker.url) as early,
            ):
                early.comes_to(login=5)
                control.answers(
                    "PUT", "/rules/login", name="login", match={"endpoint": "/login"}, by="user", limit="6/minute"
                )
                early.comes_to(login=6)
                assert late.limit_of("login") == 5
                late.close()
                (tmp_path / "late" / "feed.key").write_text("e6" * 32)
                with Node(tmp_path / "late", broker.url) as late:
                    late.comes_to(login=6)


def test_the_role_that_the_documentation_makes_is_enough(postgres: Postgres, tmp_path: Path) -> None:
    """It owns its database and nothing else."""
    (statements,) = [
        example.text
        for example in DOCS["control-plane"].examples_in("sql")
        if example.section == "A deployment, step by step"
    ]
    for statement in statements.strip().rstrip(";").split(";\n"):
        # The tests' own server has a superuser of that name.
        postgres.execute(re.sub(r"\b(ROLE|DATABASE|OWNER) headgate\b", r"\1 documented", statement))
    url = re.sub(r"//.*?@", "//documented:a-password-of-its-own@", postgres.url("documented"))
    with Control(tmp_path / "control", url) as control:
        lines = "".join(f'{{"name": "r{n}", "by": "user", "limit": "{n + 1}/minute"}}\n' for n in range(100))
        (tmp_path / "rules.jsonl").write_text(lines)
        words = ["rules", "apply", "-f", str(tmp_path / "rules.jsonl"), "--yes"]
        applied = CliRunner().invoke(app, words, env=control.environment)
        assert applied.exit_code == 0, applied.output
        assert control.ask("GET", "/rules/r99")["limit"] == "100/minute"
    postgres.drop_database(url)
    postgres.execute("DROP ROLE documented")
