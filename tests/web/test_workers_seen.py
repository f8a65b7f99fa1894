"""How a worker looks for others: by a lock on a file that anybody on the machine may have prepared."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate import Limiter
from headgate.middleware import workers

PATIENCE_S = 20.0
TOGETHER_S = 0.5


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[int, int | None]]:
    """As in a process that has not looked yet."""
    fresh: dict[int, int | None] = {}
    monkeypatch.setattr(workers, "_held", fresh)
    yield fresh
    for descriptor in fresh.values():
        if descriptor is not None:
            os.close(descriptor)


def test_threads_that_look_at_once_do_not_take_each_other_for_workers(
    held: dict[int, int | None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    together = threading.Barrier(2)

    def lock_path() -> str:
        with contextlib.suppress(threading.BrokenBarrierError):
            together.wait(TOGETHER_S)
        return str(tmp_path / "lock")

    monkeypatch.setattr(workers, "_lock_path", lock_path)
    limiter = Limiter()
    threads = [threading.Thread(target=workers.look, args=(limiter,)) for _ in range(2)]
    with caplog.at_level(logging.WARNING, "headgate"):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
    assert caplog.messages == []
    assert list(held) == [os.getpid()]


def test_a_pipe_where_the_lock_should_be_keeps_nobody_waiting(
    held: dict[int, int | None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Temporary folders are everybody's, and a pipe that nobody reads is opened for ever."""
    pipe = tmp_path / "lock"
    os.mkfifo(pipe)
    monkeypatch.setattr(workers, "_lock_path", lambda: str(pipe))
    looking = threading.Thread(target=workers.look, args=(Limiter(),))
    looking.start()
    looking.join(PATIENCE_S / 4)
    is_stuck = looking.is_alive()
    # Whoever waits to write goes on when somebody reads.
    os.close(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK))
    looking.join(PATIENCE_S)
    assert not is_stuck
    assert held == {os.getpid(): None}
