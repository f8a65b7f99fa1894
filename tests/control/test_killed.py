"""kill -9 at any point of a bulk apply: all of it or nothing, and whoever comes next goes on from there."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from pathlib import Path

from headgate.control.changes import Changes
from headgate.feed import Kind
from headgate.storage.sql import Database, entries, history
from tests.control.state import head, names, rule, versions, winners

RULES = 6_000
KILLS = 6
START_TIMEOUT_S = 120


def written(folder: Path, name: str, limit: str) -> Path:
    path = folder / name
    lines = (json.dumps(rule(f"r{nth:05}", limit, by="org", match={"org": str(nth)})) for nth in range(RULES))
    path.write_text("\n".join(lines))
    return path


def run(url: str, path: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.control.writer_process", url, str(path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def log_replayed(database: Database) -> dict[tuple[Kind, str], str]:
    with database.read() as tx:
        between = history.entries_between(tx, 0, tx.head.version)
        assert not isinstance(between, history.TooLarge)
        return {(one.kind, one.id): one.body for one in between if one.body is not None}


def there(database: Database) -> dict[tuple[Kind, str], str | None]:
    with database.read() as tx:
        return {(one.kind, one.id): one.body for one in entries.all(tx)}


def test_a_writer_that_is_killed_leaves_all_of_its_change_or_nothing(database_url: str, tmp_path: Path) -> None:
    files = [written(tmp_path, "odd.jsonl", "5/minute"), written(tmp_path, "even.jsonl", "6/minute")]
    database = Database(database_url)
    # How long it takes when nobody is killed tells where in it the others are.
    with run(database_url, files[1]) as process:
        ready_s = time.monotonic()
        assert process.wait(START_TIMEOUT_S) == 0
    whole_s = time.monotonic() - ready_s
    seen = head(database)
    for nth in range(KILLS):
        with run(database_url, files[nth % 2]) as process:
            time.sleep(whole_s * random.uniform(0.05, 1.05))
            process.kill()
        # What it sent last is still being done or undone; the lock is free when that is over.
        with database.write():
            pass

        limits = {json.loads(body or "")["limit"] for body in there(database).values()}
        assert len(limits) == 1, "a state between two versions"
        assert len(names(database)) == RULES
        assert head(database) in (seen, seen + 1)
        seen = head(database)
        assert there(database) == log_replayed(database)
        assert [one.version for one in versions(database)] == list(range(seen, 0, -1))

    # Nobody holds a lock, nothing staged is in the way, and the mirror catches up with whatever was done.
    changes = Changes(database)
    changes.create(Kind.RULE, rule("after"), by="ann")
    with open(files[0], "rb") as file:
        changes.apply_lines(file, prune=True, by="ann")
    assert names(database) == [f"r{nth:05}" for nth in range(RULES)]
    assert winners(changes, org="17") == ["r00017"]
    database.close()
