"""Several publishers, publishers that die, and databases that go back in time."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.feed.entry import Kind, Position
from headgate.storage.sql import Database
from headgate.storage.streams import PREFIX, Broker
from tests.feed.plane import KEY, Plane, put, rule, running, truth
from tests.feed.toy_node import ToyNode
from tests.servers.server import Server
from tests.servers.waiting import wait_for

SOON_S = 30.0
WRITERS = 3
CHANGES_EACH = 40


pytestmark = pytest.mark.usefixtures("quick_audits")


@pytest.fixture
def node(server: Server, tmp_path: Path) -> Iterator[ToyNode]:
    broker = Broker(server.url, key=KEY)
    yield ToyNode(broker, KEY, tmp_path / "node.hgs")
    broker.close()


def assert_has_the_truth(node: ToyNode, database: Database) -> None:
    position, bodies = truth(database)
    node.reach(position, SOON_S)
    assert node.bodies == bodies


def test_two_publishers_neither_double_nor_skip_a_version(
    database_url: str, server: Server, tmp_path: Path, node: ToyNode
) -> None:
    databases = [Database(database_url), Database(database_url)]
    regions = {"eu": server.url}
    with (
        running(databases[0], tmp_path / "one", regions) as one,
        running(databases[1], tmp_path / "two", regions) as two,
    ):
        assert_has_the_truth(node, databases[0])

        def write(plane: Plane, who: int) -> None:
            for n in range(CHANGES_EACH):
                plane.put(rule(f"w{who}.{n % 7}", f"{n + 1}/minute"))

        writers = [threading.Thread(target=write, args=((one, two)[n % 2], n)) for n in range(WRITERS)]
        for writer in writers:
            writer.start()
        # The toy node refuses any delta that does not follow what it has.
        while any(writer.is_alive() for writer in writers):
            node.step(50)
        for writer in writers:
            writer.join()
        assert_has_the_truth(node, databases[0])
        assert node.position.version == WRITERS * CHANGES_EACH
        assert node.snapshots == 1
        ids = [entry_id for entry_id, _ in server.command("XRANGE", f"{PREFIX}:deltas", "-", "+")]
        assert len(set(ids)) == len(ids)
        assert [int(entry_id.split(b"-")[0]) for entry_id in ids] == [position.version for position in node.seen]
    for database in databases:
        database.close()


def test_another_control_planes_change_is_published_without_being_told(
    database: Database, server: Server, tmp_path: Path, node: ToyNode
) -> None:
    with running(database, tmp_path / "snapshots", {"eu": server.url}):
        assert_has_the_truth(node, database)
        put(database, rule("by another"))
        assert_has_the_truth(node, database)


def test_a_database_gone_back_in_time_begins_a_new_epoch(
    sqlite_url: str, server: Server, tmp_path: Path, node: ToyNode
) -> None:
    path = Path(sqlite_url.removeprefix("sqlite:///"))
    database = Database(sqlite_url)
    with running(database, tmp_path / "snapshots", {"eu": server.url}) as plane:
        plane.put(rule("kept"))
        assert_has_the_truth(node, database)
    _copy(database, path, tmp_path / "backup.db")
    with running(database, tmp_path / "snapshots", {"eu": server.url}) as plane:
        plane.put(rule("lost"))
        plane.put(rule("lost too"))
        assert_has_the_truth(node, database)
    before = node.position
    database.close()
    for suffix in ("", "-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)
    shutil.copy(tmp_path / "backup.db", path)

    restored = Database(sqlite_url)
    with running(restored, tmp_path / "snapshots", {"eu": server.url}) as plane:
        wait_for("a new epoch", lambda: truth(restored)[0].epoch > before.epoch, SOON_S)
        assert_has_the_truth(node, restored)
        assert set(node.bodies) == {(Kind.RULE, "kept")}
        plane.put(rule("new"))
        assert_has_the_truth(node, restored)
        assert node.position == Position(node.position.epoch, 2)
    restored.close()


def test_a_replaced_database_is_published_although_its_versions_are_smaller(
    tmp_path: Path, sqlite_url: str, postgres_url: str, server: Server, node: ToyNode
) -> None:
    old, new = Database(postgres_url), Database(sqlite_url)
    with running(old, tmp_path / "snapshots", {"eu": server.url}) as plane:
        for n in range(5):
            plane.put(rule(f"old{n}"))
        assert_has_the_truth(node, old)
    put(new, rule("new"))
    # Whichever of the two was made last.
    with running(new, tmp_path / "snapshots", {"eu": server.url}):
        wait_for("the new one is ahead", lambda: truth(new)[0] > node.position, SOON_S)
        assert_has_the_truth(node, new)
    old.close()
    new.close()


def test_two_databases_on_one_broker_are_told_to_whoever_looks(
    sqlite_url: str, postgres_url: str, server: Server, tmp_path: Path
) -> None:
    databases = [Database(sqlite_url), Database(postgres_url)]
    for database in databases:
        put(database, rule("a"))
    regions = {"eu": server.url}
    with (
        running(databases[0], tmp_path / "one", regions) as one,
        running(databases[1], tmp_path / "two", regions) as two,
    ):

        def told() -> str | None:
            errors = [plane.publisher.status()[0].error or "" for plane in (one, two)]
            return next((error for error in errors if "same broker" in error), None)

        wait_for("the contest is shown", told, SOON_S)
    for database in databases:
        database.close()


_PUBLISH = """
import sys
from pathlib import Path
from headgate.storage.sql import Database
from tests.feed.plane import running, rule
database = Database(sys.argv[1])
with running(database, Path(sys.argv[2]), {"eu": sys.argv[3]}) as plane:
    for n in range(100_000):
        plane.put(rule(f"r{n % 100}", f"{n + 1}/minute"))
        print(n, flush=True)
"""


def test_a_publisher_killed_at_any_moment_leaves_nothing_unpublished(
    database_url: str, server: Server, tmp_path: Path, node: ToyNode
) -> None:
    database = Database(database_url)
    for _ in range(2):
        command = [sys.executable, "-c", _PUBLISH, database_url, str(tmp_path / "killed"), server.url]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ.copy())
        try:
            assert process.stdout is not None
            for _ in range(30):
                assert process.stdout.readline()
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
    with running(database, tmp_path / "killed", {"eu": server.url}):
        assert_has_the_truth(node, database)
        # What a killed process left on the disk does not stay there.
        assert len(list((tmp_path / "killed").iterdir())) <= 1
    database.close()


def _copy(database: Database, path: Path, to: Path) -> None:
    with database.connect() as connection:
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.copy(path, to)
