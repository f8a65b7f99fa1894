"""The command line: thin verbs, helpful words, exit codes that scripts can trust."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from headgate import __version__
from headgate.cli import app
from headgate.settings import setting_items

RULES = """\
rules:
  - name: login
    match: {tier: free, endpoint: /login}
    by: user
    limit: 2/minute
  - name: everything
    by: user
    limit: 100/minute
"""
VERBS = [["serve"], ["check"], ["rules", "validate"], ["rules", "schema"], ["settings"], ["version"]]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No headgate.toml, no HEADGATE_ variables, and room for tables."""
    monkeypatch.chdir(tmp_path)
    for item in setting_items():
        monkeypatch.delenv(item.variable, raising=False)
    monkeypatch.delenv("HEADGATE_CONFIG", raising=False)
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def rules(tmp_path: Path) -> str:
    (tmp_path / "rules.yaml").write_text(RULES)
    return "rules.yaml"


def run(*words: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, list(words))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


def run_json(*words: str) -> tuple[int, Any]:
    code, out, _ = run(*words, "--json")
    return code, json.loads(out)


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_every_verb_helps_with_an_example(verb: list[str]) -> None:
    code, out, _ = run(*verb, "--help")
    assert code == 0
    assert re.search(rf"Example:\n\s+.*headgate {' '.join(verb)}", out)


def test_every_setting_is_a_flag_of_serve() -> None:
    _, out, _ = run("serve", "--help")
    for item in setting_items():
        assert f"{item.flag} " in out


def test_version_names_the_version() -> None:
    assert f"headgate {__version__} " in run("version")[1]


def test_an_unknown_flag_is_a_usage_error() -> None:
    assert run("serve", "--colour", "red")[0] == 2


def test_settings_show_where_each_value_came_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "headgate.toml").write_text("region = 'eu'\n")
    monkeypatch.setenv("HEADGATE_MAX_KEYS", "77")
    code, rows = run_json("settings", "--threads", "3")
    assert code == 0
    found = {row["name"]: (row["value"], row["source"]) for row in rows}
    assert found["threads"] == (3, "flag --threads")
    assert found["max_keys"] == (77, "environment HEADGATE_MAX_KEYS")
    assert found["region"] == ("eu", "file headgate.toml")
    assert found["listen"] == ("127.0.0.1:8080", "default")
    _, out, _ = run("settings", "--threads", "3")
    assert re.search(r"threads\s+3\s+flag --threads", out)


def test_wrong_settings_end_with_2_and_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADGATE_MAX_KEYS", "x")
    for verb in ("settings", "serve"):
        code, _, err = run(verb, "--threads", "many")
        assert code == 2
        assert [line.split(":")[0] for line in err.splitlines()] == ["--threads", "HEADGATE_MAX_KEYS"]


def test_a_misspelt_variable_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADGATE_RULEZ", "x")
    code, _, err = run("settings")
    assert code == 0
    assert "did you mean HEADGATE_RULES?" in err


def test_the_schema_is_printed_as_json() -> None:
    code, out, _ = run("rules", "schema")
    assert code == 0
    assert json.loads(out)["title"] == "Headgate rules"


def test_good_rules_are_counted(rules: str) -> None:
    assert run("rules", "validate", rules) == (0, "rules.yaml: 2 rules, no mistakes\n", "")


def test_every_mistake_of_every_file_is_shown(rules: str, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        "rules:\n  - name: a\n    by: user\n    limit: often\n  - by: ip\n    limit: 5/minute\n"
    )
    (tmp_path / "b.json").write_text('{"rules": [,]}')
    code, out, _ = run("rules", "validate", "a.yaml", rules, "b.json", "gone.yaml")
    assert code == 2
    lines = out.splitlines()
    assert lines[0].startswith("a.yaml:4:12: rules[0].limit: ")
    assert lines[1].startswith("a.yaml:5:5: rules[1]")
    assert lines[2] == "rules.yaml: 2 rules, no mistakes"
    assert lines[3].startswith("b.json:1:12: not JSON: ")
    assert lines[4].startswith("gone.yaml: cannot be read: ")


def test_mistakes_are_given_to_machines_too(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("rules:\n  - name: a\n    by: user\n    limit: often\n")
    code, found = run_json("rules", "validate", "a.yaml")
    assert code == 2
    assert found["valid"] is False
    mistake = found["files"][0]["mistakes"][0]
    assert (mistake["line"], mistake["column"], mistake["path"]) == (4, 12, ["rules", 0, "limit"])


def test_bulk_files_are_validated(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"name": "a", "by": "ip", "limit": "5/minute"}\n')
    assert run("rules", "validate", "a.jsonl")[:2] == (0, "a.jsonl: 1 rule, no mistakes\n")
    assert run("rules", "validate", "gone.jsonl")[0] == 2


def test_an_allowed_check_ends_with_0_and_says_why(rules: str) -> None:
    code, out, _ = run("check", "--rules", rules, "--user", "42", "--tier", "free", "--path", "/login")
    assert code == 0
    assert out.startswith("ALLOWED by login (store); 1 of 2 remain")
    assert re.search(r"login\s+wins", out)
    assert re.search(r"everything\s+loses to login", out)


def test_a_refused_check_ends_with_1(rules: str) -> None:
    code, out, _ = run("check", "--rules", rules, "--user", "42", "--path", "/login", "--repeat", "3")
    assert code == 1
    assert out.startswith("check 3: REFUSED with 429 by login")
    assert re.search(r"1\s+allowed\s+1\b", out)
    assert re.search(r"3\s+refused\s+0\s+retry in", out)


def test_a_check_explains_itself_to_machines(rules: str) -> None:
    code, found = run_json("check", "--rules", rules, "--user", "42", "--path", "/login", "--repeat", "3")
    assert code == 1
    assert [check["allowed"] for check in found["checks"]] == [True, True, False]
    assert found["decision"] == found["checks"][-1]
    assert {item["rule"] for item in found["candidates"]} == {"login", "everything"}


def test_a_check_that_no_rule_is_about_says_so(rules: str) -> None:
    (Path(rules)).write_text("rules:\n  - {name: a, match: {endpoint: /b}, by: user, limit: 5/minute}\n")
    code, out, _ = run("check", "--rules", rules, "--path", "/c")
    assert code == 0
    assert "no rule matches these facts" in out


def test_check_takes_descriptors(rules: str) -> None:
    Path(rules).write_text("rules:\n  - {name: a, match: {descriptors: {plan: trial}}, by: global, limit: 5/minute}\n")
    code, found = run_json("check", "--rules", rules, "--descriptor", "plan=trial")
    assert code == 0
    assert found["decision"]["rule"] == "a"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--rules", "gone.yaml"], "cannot be read"),
        (["--rules", "rules.yaml", "--descriptor", "x"], "expected KEY=VALUE"),
        (["--rules", "rules.yaml", "--descriptor", "x=1", "--descriptor", "x=2"], "twice"),
        (["--rules", "rules.yaml", "--ip", "bad"], "ip"),
        (["--rules", "rules.yaml", "--cost", "-1"], "cost"),
        (["--rules", "rules.yaml", "--cost", "x"], "cost"),
        (["--rules", "rules.yaml", "--repeat", "0"], "repeat"),
    ],
)
def test_a_mistake_in_a_check_ends_with_2(rules: str, words: list[str], said: str) -> None:
    code, _, err = run("check", *words)
    assert code == 2
    assert said in err


def test_without_rules_check_uses_the_starter_rules_and_says_so() -> None:
    code, out, err = run("check", "--user", "42", "--path", "/api/v1/login", "--method", "POST", "--repeat", "6")
    assert code == 1
    assert "by free-login" in out
    assert "starter rules" in err


def test_rules_may_come_from_the_settings(rules: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADGATE_RULES", rules)
    code, found = run_json("check", "--user", "42", "--path", "/login")
    assert (code, found["decision"]["rule"]) == (0, "login")


def test_help_does_not_load_what_only_tables_need() -> None:
    program = (
        "import sys; from headgate.cli import app\n"
        "loaded = [name for name in ('rich.table', 'structlog', 'asyncio') if name in sys.modules]\n"
        "sys.exit(', '.join(loaded) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
