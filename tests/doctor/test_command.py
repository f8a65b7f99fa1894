"""`headgate doctor` as a person or a script runs it."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from headgate import Limiter
from headgate._core import Server as Node
from headgate.cli import app
from headgate.doctor.examine import Examination, Step
from headgate.settings import Settings
from tests.cli.control_plane import ControlPlane, control_plane
from tests.docs.pages import DOCS, ROOT
from tests.servers.ports import HOST, free_port
from tests.servers.server import Server

PATIENCE_S = 30.0
RULES = "rules:\n  - {name: login, match: {endpoint: /login}, by: user, limit: 5/minute}\n"
AREAS = "settings|store|rules|node|listeners|files|identity|upstreams|sources|fleet|process|doctor"
CODE = re.compile(rf'"((?:{AREAS})\.\w+)"')


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    for name in ("HEADGATE_CONTROL_URL", "HEADGATE_TOKEN", "HEADGATE_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "rules.yaml").write_text(RULES)
    logger = logging.getLogger("headgate")
    before = list(logger.handlers)
    yield tmp_path
    logger.handlers[:] = before


@pytest.fixture
def node() -> Iterator[str]:
    server = Node(Limiter(RULES), listen=f"{HOST}:0", threads=1)
    server.start()
    try:
        yield server.addresses()["http"]
    finally:
        server.drain(PATIENCE_S)


def doctor(*words: str, code: int, **environment: str) -> Result:
    # A free port: a node of somebody's own on this machine is none of ours.
    quiet = ("--http", f"{HOST}:{free_port()}", "--grpc", "", "--max-connections", "100")
    result = CliRunner().invoke(app, ["doctor", *quiet, *words], env=environment)
    assert result.exit_code == code, f"{result.output}\n{result.exception!r}"
    return result


def told(*words: str, code: int, **environment: str) -> dict[str, str]:
    """Code and level of all that is not well."""
    said: dict[str, Any] = json.loads(doctor(*words, "--json", code=code, **environment).stdout)
    return {one["code"]: one["level"] for one in said["findings"] if one["level"] != "ok"}


def test_a_good_set_up_exits_with_nought(node: str) -> None:
    found = told("--rules", "rules.yaml", "--node", node, code=0)
    assert found == {"store.memory": "note"}


def test_people_see_the_worst_first_with_what_to_do() -> None:
    result = doctor("--rules", "rules.yaml", "--trusted-proxies", "0.0.0.0/0", code=2)
    lines = result.stdout.splitlines()
    assert lines[0] == "PROBLEM  Everybody is taken for a proxy, so clients choose the address they are counted by"
    assert lines[1] == "    trusted_proxies has 0.0.0.0/0  [listeners.trusts_everyone]"
    assert lines[2] == "    → name the addresses of your own proxies only"
    assert re.fullmatch(r"1 problem, 2 notes \(\d+ well; --all shows them\)", lines[-1])
    assert "looking at the store …" in result.stderr
    assert "OK  Every rule can win" in doctor("--rules", "rules.yaml", "--all", code=0).stdout


def test_warnings_exit_with_one(node: str) -> None:
    found = told("--rules", "rules.yaml", "--node", node, "--grpc", f"0.0.0.0:{free_port()}", code=1)
    assert found["listeners.clear"] == "warning"


def test_mistakes_in_settings_are_findings() -> None:
    assert told("--max-keys", "many", code=2) == {"settings.mistakes": "problem"}
    assert told("--rules", "rules.yaml", code=0, HEADGATE_STOER="x")["settings.unknown"] == "note"


def test_a_mistake_in_its_own_flags_is_a_mistake_of_the_user() -> None:
    assert "--node: expected" in doctor("--node", "ftp://x", code=2).stderr
    assert "token" in doctor("--control-url", f"http://{HOST}:1", code=2).stderr
    assert "goes with --control-url" in doctor("--token-file", "token", code=2).stderr


def test_a_store_that_hangs_ends_nothing_and_no_password_is_shown(node: str) -> None:
    with Server(password="hunter2") as store:
        store.stop_signal()
        result = doctor("--rules", "rules.yaml", "--store", store.url, "--node", node, "--json", code=2)
    said = json.loads(result.stdout)
    codes = {one["code"]: one["level"] for one in said["findings"]}
    assert (said["worst"], codes["store.away"], codes["rules.never_wins"]) == ("problem", "problem", "ok")
    assert "hunter2" not in result.output


def test_a_gateway_is_looked_at_as_one(folder: Path) -> None:
    (folder / "rules.yaml").write_text("rules:\n  - {name: a, match: {org: x}, by: user, limit: 5/minute}\n")
    upstream = f"http://{HOST}:{free_port()}"
    found = told("--rules", "rules.yaml", "--upstream", upstream, "--upstream", f"/api={upstream}", code=2)
    assert found["upstreams.away"] == "problem"
    assert found["rules.unknown_callers"] == "warning"


def test_rules_of_a_control_plane_are_looked_at_when_it_is_named(folder: Path, sqlite_url: str) -> None:
    (folder / "feed.key").write_text("k" * 64)
    (folder / "feed.key").chmod(0o600)
    feed = ("--rules", f"redis://{HOST}:{free_port()}", "--feed-key-file", "feed.key")
    assert "fleet.away" not in told(*feed, code=2)
    with control_plane(sqlite_url) as plane:
        _put_rules(plane)
        found = told(*feed, "--control-url", plane.url, code=2, HEADGATE_TOKEN=plane.token)
        assert found["rules.never_wins"] == "warning"
        assert found["sources.away"] == "problem"
        assert "fleet.behind" not in found
        plane.nodes.behind = [{"id": "slow"}]
        found = told("--rules", "rules.yaml", code=1, **plane.environment)
        assert found["fleet.behind"] == "warning"
    gone = told("--rules", "rules.yaml", code=2, **plane.environment)
    assert gone["fleet.away"] == "problem"


def test_a_look_that_fails_is_a_finding_and_the_others_go_on() -> None:
    def explode() -> list[Any]:
        raise RuntimeError("no")

    (found,) = Step("the moon", explode).findings()
    assert (found.code, found.seen) == ("doctor.failed", "RuntimeError: no")


def test_every_look_is_taken_of_a_full_set_up(folder: Path) -> None:
    settings = Settings(
        rules="rules.hgs",
        feed_key_file="feed.key",
        upstream=f"http://{HOST}:{free_port()}",
        uds="node.sock",
        tls_cert="c.pem",
        tls_key="k.pem",
        jwt_secret_file="s",
        grpc=None,
    )
    findings = [one for step in Examination(settings).steps() for one in step.findings()]
    assert "doctor.failed" not in {one.code for one in findings}
    assert {one.area for one in findings} >= {"store", "sources", "files", "identity", "upstreams", "process", "node"}


def test_every_code_is_on_the_page_and_no_other() -> None:
    """What machines and people look up is there to be found."""
    text = "\n".join(path.read_text() for path in sorted((ROOT / "src/headgate/doctor").rglob("*.py")))
    text += (ROOT / "src/headgate/cli/doctor.py").read_text()
    written = set(CODE.findall(text))
    documented = [row[0].strip("`") for row in DOCS["doctor"].section("What is looked at").rows()]
    assert sorted(documented) == sorted(written)


def _put_rules(plane: ControlPlane) -> None:
    for name, priority in (("all", 200), ("hidden", 100)):
        rule = Path(f"{name}.yaml")
        rule.write_text(f"rules:\n  - {{name: {name}, by: user, limit: 5/minute, priority: {priority}}}\n")
        words = ["rules", "apply", "-f", str(rule), "--yes"]
        result = CliRunner().invoke(app, words, env=plane.environment)
        assert result.exit_code == 0, result.output
