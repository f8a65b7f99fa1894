"""Whatever is done to a broker, in whatever order, nodes converge on what the database says."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headgate.feed.codec import encode_delta
from headgate.feed.entry import Entry, Kind, Position
from headgate.storage.sql import Database
from headgate.storage.streams import PREFIX, Broker
from tests.feed.plane import KEY, Plane, rule, running, truth
from tests.feed.toy_node import ToyNode
from tests.servers.server import Server

SOON_S = 30.0
STREAM, POINTER, PULSE = f"{PREFIX}:deltas", f"{PREFIX}:snapshot", f"{PREFIX}:pulse"


class World:
    """A control plane, its broker, a node that follows, and somebody who may do anything to the broker."""

    def __init__(self, plane: Plane, server: Server, folder: Path) -> None:
        self.plane, self.server, self.folder = plane, server, folder
        self.broker = Broker(server.url, key=KEY)
        self.node = ToyNode(self.broker, KEY, folder / "node.hgs")
        self.copies: dict[bytes, bytes] = {}
        self.serial = 0

    def change(self) -> None:
        self.serial += 1
        self.plane.put(rule(f"r{self.serial % 5}", f"{self.serial}/minute"))

    def follow(self) -> None:
        self.check(self.node)

    def copy(self) -> None:
        self.copies = {name: self.server.command("DUMP", name) for name in self.server.command("KEYS", "*")}

    def put_back_copy(self) -> None:
        self.server.command("FLUSHALL")
        for name, raw in self.copies.items():
            if raw is not None:
                self.server.command("RESTORE", name, 0, raw, "REPLACE")

    def flush(self) -> None:
        self.server.command("FLUSHALL")

    def trim(self) -> None:
        if self._is_stream():
            self.server.command("XTRIM", STREAM, "MAXLEN", "1")

    def empty(self) -> None:
        if self._is_stream():
            self.server.command("XTRIM", STREAM, "MAXLEN", "0")

    def delete_one(self) -> None:
        found = self.server.command("XRANGE", STREAM, "-", "+") if self._is_stream() else []
        if found:
            self.server.command("XDEL", STREAM, found[len(found) // 2][0])

    def forge(self) -> None:
        head, _ = truth(self.plane.database)
        to = Position(head.epoch, head.version + 50)
        raw = encode_delta(b"f" * 32, head, to, 1, [Entry(Kind.RULE, "evil", "{}")])
        if self._is_stream() or not self.server.command("EXISTS", STREAM):
            # Refused after an earlier forgery that still stands.
            with contextlib.suppress(redis.ResponseError):
                self.server.command("XADD", STREAM, f"{to.version}-0", "d", raw)

    def replace_stream(self) -> None:
        self.server.command("SET", STREAM, "x")

    def replace_pointer(self) -> None:
        self.server.command("SET", POINTER, "x" * 200)

    def lose_part(self) -> None:
        pointer = self.broker.state().pointer
        if pointer is not None:
            self.server.command("DEL", f"{pointer.name}0")

    def lose_pulse(self) -> None:
        self.server.command("DEL", PULSE)

    def check(self, node: ToyNode) -> None:
        position, bodies = truth(self.plane.database)
        node.reach(position, SOON_S)
        assert node.bodies == bodies

    def _is_stream(self) -> bool:
        return bool(self.server.command("TYPE", STREAM) == b"stream")


STEPS: tuple[Callable[[World], None], ...] = (
    World.change,
    World.follow,
    World.copy,
    World.put_back_copy,
    World.flush,
    World.trim,
    World.empty,
    World.delete_one,
    World.forge,
    World.replace_stream,
    World.replace_pointer,
    World.lose_part,
    World.lose_pulse,
)


@pytest.fixture(scope="module")
def world(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("faults")
    path = folder / "headgate.db"
    path.write_bytes(sqlite_template.read_bytes())
    database = Database(f"sqlite:///{path}")
    with pytest.MonkeyPatch.context() as patched, Server() as server:
        patched.setattr("headgate.control.region.AUDIT_EVERY_S", 0.05)
        patched.setattr("headgate.control.region.BACK_OFF_MAX_S", 0.2)
        with running(database, folder / "snapshots", {"eu": server.url}) as plane:
            world = World(plane, server, folder)
            yield world
            world.broker.close()
    database.close()


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=st.lists(st.sampled_from(STEPS), min_size=2, max_size=8))
def test_nodes_converge_whatever_is_done_to_the_broker(world: World, steps: list[Callable[[World], None]]) -> None:
    # The last change may come before the fault: what was lost is put back without waiting for another.
    world.change()
    world.follow()
    for step in steps:
        step(world)
    newcomer = ToyNode(world.broker, KEY, world.folder / "newcomer.hgs")
    world.check(world.node)
    world.check(newcomer)
    assert (Kind.RULE, "evil") not in newcomer.bodies
    epochs = {world.node.position.epoch, truth(world.plane.database)[0].epoch}
    assert len(epochs) == 1, "nothing that was done to a broker makes the database begin a new epoch"
