"""The commands and configurations of docs/backup.md, with a test's own places in place of the ones written there."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.docs.pages import DOCS

PAGE = DOCS["backup"]
COMMAND_TIMEOUT_S = 120


@dataclass(frozen=True)
class Places:
    """`instead` is what stands for what in commands. With a `user` they run as that one, without our groups."""

    instead: Mapping[str, str]
    environment: Mapping[str, str] = field(default_factory=dict)
    user: int | None = None
    folder: Path = Path("/")

    def adapted(self, text: str) -> str:
        for written, real in self.instead.items():
            text = text.replace(written, real)
        return text

    def run(self, command: str) -> str:
        """What it printed. Raises AssertionError, with all it said, when it fails."""
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", self.adapted(command)],
            cwd=self.folder,
            env={**os.environ, **self.environment},
            user=self.user,
            group=self.user,
            extra_groups=None if self.user is None else [],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMMAND_TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout


def commands(section: str) -> list[str]:
    """The commands shown under a heading, in order."""
    blocks = [example.text for example in PAGE.examples_in("console") if example.section == section]
    lines = [line.removeprefix("$ ") for block in blocks for line in block.splitlines() if line.startswith("$ ")]
    assert lines, f"{PAGE.path.name}: no commands under {section!r}"
    return lines


def shown(section: str, language: str) -> str:
    """The one block of a language under a heading."""
    (found,) = [example.text for example in PAGE.examples_in(language) if example.section == section]
    return found


def options(section: str) -> dict[str, str]:
    """The lines of the configuration under a heading, `name = 'value'` or `name value`."""
    found = {}
    for line in shown(section, "ini").splitlines():
        name, *words = shlex.split(line.replace(" = ", " ", 1))
        found[name] = " ".join(words)
    return found
