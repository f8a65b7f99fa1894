"""Many connections, and connections that are suddenly gone."""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Iterator

import pytest

from tests.grpc import wire
from tests.grpc.client import Client, by
from tests.hostile import http2
from tests.hostile.conftest import Start, Survivor
from tests.hostile.http2 import Raw
from tests.integration.http_node import eventually

REQUEST = wire.rate_limit_request("edge", [("user", "gone")])
IDLE_WANTED = 10_000
# Left for the files of the tests and of the node themselves.
SPARE_FILES = 500
# Measured: 14 of a silent one, 26 of one that greeted.
KB_EACH_MAX = 64


@contextlib.contextmanager
def many_files(wanted: int) -> Iterator[int]:
    """How many more may be opened, here and in what is started from here."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    raised = max(soft, min(hard, wanted + SPARE_FILES))
    resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
    try:
        yield min(wanted, raised - SPARE_FILES)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("kind", ["silent", "greeted"])
def test_ten_thousand_idle_connections_and_a_call_is_still_answered(
    start: Start, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with many_files(IDLE_WANTED) as count:
        if count < IDLE_WANTED:
            with capsys.disabled():
                print(f"\nonly {count} connections: no more files may be opened here (ulimit -Hn)")
        node = start("--max-connections", str(count + 100), "--header-timeout-s", "600", "--idle-timeout-s", "600")
        survivor = Survivor(node)
        before_mb = node.memory_mb()
        idle: list[Raw] = []
        try:
            idle.extend(Raw.to(survivor.port, hello=kind == "greeted") for _ in range(count))
            if kind == "greeted":
                for raw in idle:
                    raw.frame()
            assert node.open_files() >= count
            assert survivor.client.ask(by(user="honest")).code == "OK"
            with Client(node.address("grpc")).share_messages(survivor.client) as newcomer:
                assert newcomer.ask(by(user="new")).code == "OK"
            assert (node.memory_mb() - before_mb) * 1_024 / count < KB_EACH_MAX
        finally:
            for raw in idle:
                raw.socket.close()
        survivor.assert_well(before_mb + KB_EACH_MAX * count / 1_024)


def test_past_the_most_connections_newcomers_are_turned_away_and_let_in_again(start: Start) -> None:
    survivor = Survivor(start("--max-connections", "20"))
    held = [Raw.to(survivor.port) for _ in range(30)]
    eventually(lambda: survivor.node.open_files() <= survivor.open_files + 20)
    assert survivor.client.ask(by(user="honest")).code == "OK"
    for raw in held:
        raw.socket.close()
    survivor.assert_well()


def moments() -> dict[str, bytes]:
    greeting, whole = http2.PREFACE + http2.settings(), http2.call(1, REQUEST)
    return {
        "at once": b"",
        "in the preface": http2.PREFACE[:7],
        "after the greeting": greeting,
        "in a head": greeting + whole[:15],
        "in a message": greeting + whole[:-5],
        "before the answer": greeting + whole,
        "in a watch": greeting + http2.call(1, b"", "/grpc.health.v1.Health/Watch"),
    }


@pytest.mark.parametrize("moment", moments())
def test_clients_that_crash_leave_nothing_behind(survivor: Survivor, moment: str) -> None:
    for _ in range(100):
        raw = Raw.to(survivor.port, hello=False)
        raw.send(moments()[moment])
        raw.abort()


def test_clients_that_crash_while_answers_come_leave_nothing_behind(survivor: Survivor) -> None:
    for _ in range(50):
        raw = Raw.to(survivor.port)
        raw.send(b"".join(http2.call(2 * nth + 1, REQUEST) for nth in range(50)))
        raw.socket.recv(100)
        raw.abort()
