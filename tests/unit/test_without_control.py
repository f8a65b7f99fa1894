"""Without the packages of `headgate[control]`: what needs none of them works, and what does says what to install."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

WITHOUT = """
import sys
for name in ("sqlalchemy", "alembic", "psycopg", "redis", "fastapi", "uvicorn", "starlette"):
    sys.modules[name] = None
"""
COMMAND = WITHOUT + "sys.argv[0] = 'headgate'\nfrom headgate.cli import main\nmain()\n"


def run(tmp_path: Path, program: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program, *words]
    return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)


def test_the_limiter_and_the_feeds_words_need_none_of_them(tmp_path: Path) -> None:
    program = "import headgate, headgate.feed.codec, headgate.upkeep.feed\n"
    program += "print(bool(headgate.Limiter().check(user='1')))"
    ended = run(tmp_path, WITHOUT + program)
    assert (ended.stdout, ended.stderr) == ("True\n", "")


@pytest.mark.parametrize(
    "words",
    [
        ["serve"],
        ["control", "--database", "sqlite:///headgate.db"],
        ["restore", "backup.gz", "--database", "sqlite:///headgate.db"],
        ["node", "--rules", "redis://127.0.0.1:1", "--feed-key-file", "feed.key"],
        ["node", "--rules", "sqlite:///headgate.db", "--feed-key-file", "feed.key"],
    ],
    ids=lambda words: " ".join(words[:3]),
)
def test_a_verb_that_needs_them_says_what_to_install(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "feed.key").write_text("k" * 32)
    ended = run(tmp_path, COMMAND, *words)
    assert ended.returncode == 2
    assert "pip install headgate[control]" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_set_up_is_looked_at_without_any_of_them(tmp_path: Path) -> None:
    ended = run(tmp_path, COMMAND, "doctor", "--store", "redis://127.0.0.1:1", "--http", "127.0.0.1:1")
    assert ended.returncode == 2
    assert "127.0.0.1:1: Connection refused  [store.away]" in ended.stdout
    assert "Traceback" not in ended.stderr
