"""The real publisher, a real broker and the real limiter: whatever is done to the broker, the truth is enforced."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate import Limiter
from headgate.feed.codec import encode_delta
from headgate.feed.entry import Entry, Kind, Position
from headgate.storage.sql import Database
from headgate.storage.streams import PREFIX
from tests.feed.following import Following, following
from tests.feed.plane import KEY, Plane, rule, running, truth
from tests.servers.server import Server

CHANGES = 12


@pytest.fixture
def database(sqlite_url: str) -> Iterator[Database]:
    database = Database(sqlite_url)
    yield database
    database.close()


@pytest.fixture
def plane(database: Database, server: Server, tmp_path: Path) -> Iterator[Plane]:
    server.command("FLUSHALL")
    folder = tmp_path / "snapshots"
    folder.mkdir()
    with running(database, folder, {"eu": server.url}) as plane:
        yield plane


def flush(server: Server, head: Position) -> None:
    server.command("FLUSHALL")


def trim(server: Server, head: Position) -> None:
    server.command("XTRIM", f"{PREFIX}:deltas", "MAXLEN", "=", "0")


def lose_the_snapshot(server: Server, head: Position) -> None:
    server.command("DEL", f"{PREFIX}:snapshot")


def forge(server: Server, head: Position) -> None:
    to = Position(head.epoch, head.version + 1)
    raw = encode_delta(b"f" * 32, head, to, 1, [Entry(Kind.RULE, "forged", rule("forged")[2])])
    # Refused by the server when the publisher was quicker, which is as well.
    script = "return redis.pcall('XADD', KEYS[1], ARGV[1], 'd', ARGV[2])"
    server.command("EVAL", script, 1, f"{PREFIX}:deltas", f"{to.version}-0", raw)


def restart(server: Server, head: Position) -> None:
    server.restart()


FAULTS = [flush, trim, lose_the_snapshot, forge, restart]


def enforces_the_truth(node: Following, database: Database) -> None:
    head, bodies = truth(database)
    node.reaches(head)
    wanted = {name for kind, name in bodies if kind is Kind.RULE}
    assert node.limiter.rule_count() == len(wanted)


def test_the_limiter_has_the_truth_after_every_fault(plane: Plane, server: Server, database: Database) -> None:
    chance = random.Random(7)
    with following(server.url, limiter=Limiter(), key=KEY) as node:
        for fault in FAULTS * 2:
            fault(server, plane.put(rule(f"before-{fault.__name__}")))
            for number in range(CHANGES):
                plane.put(rule(f"r{chance.randrange(8)}", f"{number + 1}/minute"))
            enforces_the_truth(node, database)
        assert "forged" not in str(node.log)


def test_a_database_gone_back_in_time_is_followed(
    plane: Plane, server: Server, database: Database, tmp_path: Path
) -> None:
    """As by point-in-time recovery: smaller versions, other rules, and nodes that have seen more."""
    kept = tmp_path / "kept.hgs"
    with following(server.url, kept, limiter=Limiter(), key=KEY) as node:
        for number in range(5):
            plane.put(rule(f"r{number}"))
        enforces_the_truth(node, database)
        with database.write() as tx:
            tx.new_epoch()
        plane.put(rule("after"))
        enforces_the_truth(node, database)
        position = node.position
    with following("redis://127.0.0.1:1", kept, limiter=Limiter(), key=KEY) as node:
        assert node.position == position
        assert node.limiter.rule_count() == 6


def test_a_node_started_in_the_middle_of_a_burst_catches_up(plane: Plane, server: Server, database: Database) -> None:
    for number in range(40):
        plane.put(rule(f"r{number}"))
    with following(server.url, limiter=Limiter(), key=KEY) as node:
        for number in range(40, 80):
            plane.put(rule(f"r{number}"))
        enforces_the_truth(node, database)
