"""`headgate rules import`: our files into a control plane, and other limiters' files into rules."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from headgate.cli import app
from tests.cli.conftest import Headgate
from tests.cli.terminal import terminal

LIMITS = """\
- namespace: edge
  max_value: 10
  seconds: 60
  conditions: ["req.method == 'GET'"]
  variables: [user_id]
"""
UNSAYABLE = """\
- namespace: edge
  max_value: 5
  seconds: 60
  conditions: ["req.method != 'GET'"]
"""
KONG = '_format_version: "3.0"\nplugins: [{name: rate-limiting, config: {minute: 5}}]\n'
GROUPS = """\
_format_version: "3.0"
consumer_groups: [{name: gold, plugins: [{name: rate-limiting, config: {minute: 5}}]}]
consumers: [{username: bob, groups: [{name: gold}]}]
"""
RULES = "rules:\n  - {name: login, by: user, limit: 5/minute}\n"


@pytest.fixture(autouse=True)
def files(folder: Path) -> None:
    (folder / "limits.yaml").write_text(LIMITS)
    (folder / "unsayable.yaml").write_text(LIMITS + UNSAYABLE)
    (folder / "kong.yaml").write_text(KONG)
    (folder / "rules.yaml").write_text(RULES)


def run(*words: str, code: int = 0) -> Result:
    """Without a control plane, and without a token for one."""
    result = CliRunner().invoke(app, ["rules", "import", *words])
    assert result.exit_code == code, f"{result.output}\n{result.exception!r}"
    return result


def test_their_files_become_rules_on_the_output_and_notes_beside_it(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "headgate", "rules", "import", "--from", "limitador", "unsayable.yaml"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stderr.splitlines()[:4] == [
        "Cannot be expressed:",
        "  unsayable.yaml:9:16: the condition `req.method != 'GET'` is no equality with a text, which is all that "
        "rules match; this limit is left out",
        "Behaves differently:",
        "  unsayable.yaml: a window begins there with a counter's first hit, and here on the clock, at whole multiples "
        "of its length: as many are admitted in a window, and across the end of one up to twice as many, there as here",
    ]
    (folder / "made.yaml").write_text(done.stdout)
    judged = CliRunner().invoke(app, ["rules", "validate", "made.yaml"])
    assert judged.output == "made.yaml: 1 rule, no mistakes\n"


def test_the_file_of_output_is_overwritten_only_by_force(folder: Path) -> None:
    made = run("--from", "kong", "kong.yaml", "--output", "made.yaml")
    assert made.stdout == ""
    assert "made.yaml: 1 rule\n" in made.stderr
    text = (folder / "made.yaml").read_text()
    (folder / "made.yaml").write_text("mine")
    refused = run("--from", "kong", "kong.yaml", "-o", "made.yaml", code=2)
    assert "made.yaml: exists already; give --force to overwrite it" in refused.stderr
    assert (folder / "made.yaml").read_text() == "mine"
    run("--from", "kong", "kong.yaml", "-o", "made.yaml", "--force")
    assert (folder / "made.yaml").read_text() == text
    lost = run("--from", "kong", "kong.yaml", "-o", "nowhere/made.yaml", code=2)
    assert "nowhere/made.yaml: cannot be written: No such file or directory" in lost.stderr


@pytest.mark.parametrize("name", ["made.yaml", "made.yml", "made.json", "made.jsonl"])
def test_what_is_written_is_what_its_name_says(folder: Path, name: str) -> None:
    run("--from", "limitador", "limits.yaml", "-o", name)
    judged = CliRunner().invoke(app, ["rules", "validate", name])
    assert judged.output == f"{name}: 1 rule, no mistakes\n"


def test_a_name_that_rules_are_not_read_by_is_refused(folder: Path) -> None:
    refused = run("--from", "limitador", "limits.yaml", "-o", "made.txt", code=2)
    assert refused.stderr.endswith("made.txt: expected a name that ends in .yaml, .json or .jsonl\n")
    (folder / "groups.yaml").write_text(GROUPS)
    refused = run("--from", "kong", "groups.yaml", "-o", "made.jsonl", code=2)
    assert "JSON Lines hold rules alone, and there are overrides; name a *.yaml" in refused.stderr
    assert not list(folder.glob("made.*"))


def test_more_than_a_rule_set_holds_is_told(folder: Path) -> None:
    """Each rule is well written, and a node would still not start with them."""
    listed = [{"namespace": "a", "max_value": 1, "seconds": 60, "variables": [f"v{nth}"]} for nth in range(257)]
    (folder / "wide.yaml").write_text(json.dumps(listed))
    assert "at most 256 different sets of facts" in run("--from", "limitador", "wide.yaml", "--strict", code=1).stderr
    wide = {"rules": [{"name": f"r{nth}", "by": [f"v{nth}"], "limit": "1/minute"} for nth in range(257)]}
    (folder / "wide.rules.json").write_text(json.dumps(wide))
    judged = CliRunner().invoke(app, ["rules", "validate", "wide.rules.json"])
    assert (judged.exit_code, "more than 256 different sets" in judged.output) == (2, True)


def test_strict_refuses_what_cannot_be_expressed_whole(folder: Path) -> None:
    refused = run("--from", "limitador", "unsayable.yaml", "--strict", "-o", "made.yaml", code=1)
    assert "headgate: not everything can be expressed, and --strict was given: stopped" in refused.stderr
    assert not (folder / "made.yaml").exists()
    assert run("--from", "limitador", "unsayable.yaml", "--strict", code=1).stdout == ""
    assert "name: edge/" in run("--from", "limitador", "limits.yaml", "--strict").stdout


def test_machines_get_rules_and_notes_as_one_json() -> None:
    shown = run("--from", "limitador", "unsayable.yaml", "--json")
    told = json.loads(shown.stdout)
    assert shown.stderr == ""
    assert [rule["limit"] for rule in told["document"]["rules"]] == ["10/minute"]
    assert [note["level"] for note in told["notes"]] == ["cannot", "differs", "differs"]
    assert told["notes"][0]["where"] == "unsayable.yaml:9:16"
    refused = run("--from", "limitador", "unsayable.yaml", "--json", "--strict", code=1)
    assert json.loads(refused.stdout) == told


def test_what_is_wrong_in_their_files_is_told_with_its_place(folder: Path) -> None:
    (folder / "broken.yaml").write_text("- {namespace: a, max_value: x, seconds: 0}\n")
    refused = run("--from", "limitador", "broken.yaml", code=2)
    assert refused.stdout == ""
    assert refused.stderr == (
        "broken.yaml:1:29: `max_value` must be a whole number\nbroken.yaml:1:41: `seconds` must be at least 1\n"
    )


def test_what_a_file_holds_does_not_drive_the_terminal(folder: Path) -> None:
    (folder / "odd.yaml").write_text(
        '- {namespace: a, max_value: 1, seconds: 60, conditions: ["\\e[2J"], name: "\\e[31m"}\n'
        '- {namespace: "a\\e[2J", max_value: 1, seconds: 60, name: "\\e[31m"}\n'
        '- {namespace: b, max_value: 1, seconds: 60, name: "\\e[31m"}\n'
    )
    shown = run("--from", "limitador", "odd.yaml")
    assert "\x1b" not in shown.output
    assert r"the condition `\x1b[2J` is no equality" in shown.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--from", "nginx", "kong.yaml"], "--from nginx: expected one of envoy, limitador, kong"),
        (["rules.yaml", "--strict"], "--strict is for another limiter's files: say whose they are, with --from"),
        (["rules.yaml", "--apply"], "--apply is for another limiter's files: say whose they are, with --from"),
        (["rules.yaml", "kong.yaml"], "name one file; `headgate rules apply` takes several"),
        (["--from", "kong", "kong.yaml", "--apply", "-o", "x"], "give --apply or --output, not both"),
        (["--from", "kong", "kong.yaml", "--force"], "--force is for the file of --output"),
        (["--from", "kong", "kong.yaml", "--dry-run"], "nothing is sent to a control plane without --apply"),
        (["--from", "kong", "kong.yaml", "--yes"], "nothing is sent to a control plane without --apply"),
        (["--from", "kong", "kong.yaml", "--apply"], "a token is needed to ask the control plane"),
        (["rules.yaml"], "a token is needed to ask the control plane"),
    ],
)
def test_flags_that_do_not_go_together_are_told(words: list[str], told: str) -> None:
    assert told in run(*words, code=2).stderr


def test_our_own_file_goes_to_the_control_plane(headgate: Headgate) -> None:
    done = headgate.run("rules", "import", "rules.yaml", "--yes")
    assert "1 created (version 1)" in done.stdout
    assert [rule["name"] for rule in headgate.json("rules", "list")] == ["login"]


def test_their_rules_go_to_the_control_plane_as_one_change_beside_what_it_has(headgate: Headgate) -> None:
    headgate.run("rules", "import", "rules.yaml", "--yes")
    words = ("rules", "import", "--from", "kong", "kong.yaml", "--apply")
    planned = headgate.run(*words, "--dry-run")
    assert "+ rule kong/global" in planned.stdout
    assert "Good to know:" in planned.stderr
    assert [rule["name"] for rule in headgate.json("rules", "list")] == ["login"]
    assert "give --yes" in headgate.run(*words, code=2).stderr
    done = headgate.run(*words, "--yes", "--why", "moving in", "--wait")
    assert "1 created (version 2)" in done.stdout
    assert [rule["name"] for rule in headgate.json("rules", "list")] == ["kong/global", "login"]
    assert headgate.json("versions", "list")[0]["why"] == "moving in"
    assert "nothing to change" in headgate.run(*words).stdout


def test_strict_sends_nothing_that_is_not_the_whole(headgate: Headgate) -> None:
    words = ("rules", "import", "--from", "limitador", "unsayable.yaml", "--apply", "--yes")
    headgate.run(*words, "--strict", code=1)
    assert headgate.json("rules", "list") == []
    headgate.run(*words)
    assert len(headgate.json("rules", "list")) == 1


def test_at_a_terminal_the_plan_of_an_import_is_agreed_to(headgate: Headgate) -> None:
    words = ("rules", "import", "--from", "kong", "kong.yaml", "--apply")
    with terminal(*words, environment=headgate.plane.environment) as screen:
        screen.until("apply this? [y/N]:")
        assert "Behaves differently:" in screen.seen
        screen.type("y\n")
        assert screen.end() == 0
        assert "1 created (version 1)" in screen.seen
