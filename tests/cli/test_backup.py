"""`headgate backup` and `headgate restore`."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from tests.cli.conftest import Headgate
from tests.cli.control_plane import control_plane

RULES = "rules:\n  - {name: login, by: user, limit: 5/minute}\n"


@pytest.fixture
def saved(headgate: Headgate, folder: Path) -> Headgate:
    (folder / "rules.yaml").write_text(RULES)
    headgate.run("rules", "import", "rules.yaml", "--yes", "--why", "first")
    headgate.run("keys", "create", "--user", "42")
    headgate.run("backup", "all.backup")
    return headgate


def test_a_backup_is_its_owners_and_comes_back_into_an_empty_database(saved: Headgate, folder: Path) -> None:
    assert stat.S_IMODE(Path("all.backup").stat().st_mode) == 0o600
    elsewhere = f"sqlite:///{folder}/elsewhere.db"
    done = saved.json("restore", "all.backup", "--database", elsewhere)
    assert done["changed"] is True
    with control_plane(elsewhere, token=saved.plane.token) as plane:
        restored = Headgate(plane)
        assert [rule["name"] for rule in restored.json("rules", "list")] == ["login"]
        assert restored.json("keys", "list")[0]["user"] == "42"
        assert restored.json("versions", "list")[-1]["why"] == "first"


def test_a_database_that_is_not_empty_is_replaced_only_when_asked_for(saved: Headgate) -> None:
    saved.run("rules", "delete", "login")
    url = f"sqlite:///{saved.plane.database_path}"
    refused = saved.run("restore", "all.backup", "--database", url, code=1)
    assert "--replace" in refused.stderr
    saved.run("restore", "all.backup", "--database", url, "--replace")
    assert [rule["name"] for rule in saved.json("rules", "list")] == ["login"]
    assert saved.json("versions", "list")[0]["verb"] == "restore"


def test_a_file_that_was_cut_short_changes_nothing(saved: Headgate, folder: Path) -> None:
    raw = Path("all.backup").read_bytes()
    Path("all.backup").write_bytes(raw[:-10])
    elsewhere = f"sqlite:///{folder}/elsewhere.db"
    assert saved.run("restore", "all.backup", "--database", elsewhere, code=1).stderr
    with control_plane(elsewhere) as plane:
        assert Headgate(plane).json("versions", "list") == []


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["missing.backup", "--database", "sqlite:///x.db"], 1),
        (["all.backup"], 2),
        (["all.backup", "--database", "nowhere"], 2),
    ],
)
def test_what_cannot_be_restored_is_told(saved: Headgate, words: list[str], code: int) -> None:
    told = saved.run("restore", *words, code=code)
    assert told.stderr
    assert "Traceback" not in told.output
