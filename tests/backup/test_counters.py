"""A store's snapshots, as the page configures and copies them: for quotas that must outlive it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate import Limiter
from tests.backup.page import Places, commands, options
from tests.servers.server import Server
from tests.servers.waiting import wait_for

SOON_S = 30.0
SECTION = "Counters"


@pytest.fixture
def store() -> Iterator[Server]:
    args = [word for name, value in options(SECTION).items() for word in (f"--{name}", *value.split())]
    with Server(args=args) as server:
        yield server


def spend(store: Server, cost: int) -> int:
    """What has been used of the quota then."""
    decision = Limiter(store=store.url, store_deadline=SOON_S).check_limit("user_42:mail", "100/day", cost=cost)
    assert decision.path == "store"
    assert decision.remaining is not None
    return 100 - decision.remaining


def used(store: Server) -> int:
    return spend(store, 0)


def test_a_quota_of_a_day_comes_back_with_the_copy(store: Server) -> None:
    assert spend(store, 30) == 30
    copy, stop, back, start = commands(SECTION)
    assert (stop, start) == ("systemctl stop valkey", "systemctl start valkey")
    with tempfile.TemporaryDirectory(prefix="hg-backups-") as backups:
        shell = Places({"/var/lib/valkey": str(store.folder), "/var/backups/headgate": backups})
        _snapshot(store)
        shell.run(copy)
        store.kill9()
        (store.folder / "dump.rdb").unlink()
        store.restart()
        assert used(store) == 0
        store.kill9()
        shell.run(back)
        store.restart()
        assert used(store) == 30


def test_a_killed_store_has_its_last_snapshot(store: Server) -> None:
    assert spend(store, 30) == 30
    _snapshot(store)
    store.restart()
    assert used(store) == 30


def _snapshot(store: Server) -> None:
    """What the server does by itself every 15 minutes."""
    store.command("BGSAVE")
    dump = Path(store.folder / "dump.rdb")
    wait_for("the snapshot", lambda: dump.exists() and b"rdb_bgsave_in_progress:0" in store.command("INFO"), SOON_S)
