"""docs/cli.md lists the commands and flags that exist, and its examples run."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from headgate.cli import app
from headgate.settings import setting_items
from tests.docs.pages import DOCS, README, WRITTEN, first_rules

CLI = DOCS["cli"]
EVERY_SETTING = "settings.md#every-setting"
BROKEN = """\
rules:
  - name: login
    by: user
    limit: often
"""
# With the key that the examples speak of.
KEYS = f"""\
keys:
  - id: k3v9x2m4q7wz
    user: 42
    hash: "{"0" * 64}"
"""
# Flags that many verbs share are told once.
SHARED = {
    "#asking-the-control-plane": "Asking the control plane",
    "#changing-something": "Changing something",
}
# These need no server, or are given a file instead of one; the rest is tried with real servers elsewhere.
RUN_ALONE = ("check", "settings", "version", "rules validate", "rules schema")


def commands(command: Any, name: str) -> dict[str, Any]:
    """Every command that does something, by its full name."""
    if not hasattr(command, "commands"):
        return {name: command}
    found: dict[str, Any] = {}
    for word, inner in command.commands.items():
        found |= commands(inner, f"{name} {word}")
    return found


EXISTING = commands(typer.main.get_command(app), "headgate")


def test_every_command_is_documented() -> None:
    documented = {section.title for section in CLI.sections if section.title.startswith("headgate ")}
    assert documented == set(EXISTING)


@pytest.mark.parametrize("name", EXISTING)
def test_every_flag_is_documented(name: str) -> None:
    section = CLI.section(name)
    documented = [code.split()[0] for code in section.codes()]
    if EVERY_SETTING in section.links():
        documented += [item.flag for item in setting_items()]
    for link, title in SHARED.items():
        if link in section.links():
            documented += {code.split()[0].partition("=")[0]: None for code in CLI.section(title).codes()}
    existing = [flag for item in EXISTING[name].params for flag in item.opts if flag.startswith("--")]
    assert sorted(documented) == sorted(existing)


def test_the_flags_of_headgate_itself_are_documented() -> None:
    existing = [flag for item in typer.main.get_command(app).params for flag in item.opts]
    assert sorted(CLI.section("headgate").codes()) == sorted([*existing, "--help"])


@pytest.mark.parametrize("line", [line for page in WRITTEN for line in page.commands("headgate")])
def test_commands_in_examples_run(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rules.yaml").write_text(first_rules(), encoding="utf-8")
    (tmp_path / "broken.yaml").write_text(BROKEN, encoding="utf-8")
    (tmp_path / "keys.yaml").write_text(KEYS, encoding="utf-8")
    words = shlex.split(line.partition(">")[0], comments=True)
    environment = dict(words.pop(0).split("=", 1) for _ in range(words.index("headgate")))
    alone = words[1] in RUN_ALONE or " ".join(words[1:3]) in RUN_ALONE
    if not alone and not (words[1] == "keys" and "--file" in words):
        words.append("--help")
    result = CliRunner().invoke(app, words[1:], env=environment)
    wrong_on_purpose = "broken.yaml" in line or "many" in words
    assert result.exit_code == (2 if wrong_on_purpose else int("--repeat" in words)), result.output


def test_the_first_rules_are_told_to_be_without_mistakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The output shown under `headgate rules validate` is what it prints."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rules.yaml").write_text(first_rules(), encoding="utf-8")
    (tmp_path / "broken.yaml").write_text(BROKEN, encoding="utf-8")
    shown = next(example.text for example in CLI.examples_in("console") if "broken.yaml" in example.text)
    printed = [CliRunner().invoke(app, ["rules", "validate", file]).stdout for file in ("rules.yaml", "broken.yaml")]
    assert [line for line in shown.splitlines() if not line.startswith("$")] == "".join(printed).splitlines()


def test_the_readme_runs_the_commands_it_shows() -> None:
    assert len(README.commands("headgate")) >= 3
