"""Time is the store's: nodes whose clocks are wrong decide alike."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

from headgate import Limiter
from tests.conformance import programs
from tests.conformance.stores import PATIENT_S, Store
from tests.model.limits import MINUTE_US, SECOND_US

SKEWS_S = (-10, 0, 10)
# Shorter than the clocks differ: a node that went by its own would see another window.
WINDOW = "15s"
WINDOW_S = 15.0
COMPILE_TIMEOUT_S = 60
END_TIMEOUT_S = 20
HOUR_US = 60 * MINUTE_US


class Node:
    """A limiter in a process whose wall clock is off."""

    def __init__(self, url: str, shim: Path, skew_s: int) -> None:
        self.skew_s = skew_s
        environment = os.environ | {"LD_PRELOAD": str(shim), "CLOCK_SKEW_S": str(skew_s)}
        command = [sys.executable, "-m", programs.__name__, "answer_lines", url]
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.communicate(timeout=END_TIMEOUT_S)

    def check(self, key: str, algorithm: str) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{key} 1 {WINDOW} {algorithm}\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("a wrong clock takes a C compiler and Linux")
    source, library = Path(__file__).with_name("skewed_clock.c"), tmp_path_factory.mktemp("clock") / "skewed.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"]
    subprocess.run(command, check=True, timeout=COMPILE_TIMEOUT_S)
    return library


@pytest.fixture
def nodes(valkey_store: Store, shim: Path) -> Iterator[list[Node]]:
    with ExitStack() as running:
        yield [running.enter_context(Node(valkey_store.url, shim, skew_s)) for skew_s in SKEWS_S]


def test_nodes_whose_clocks_differ_share_windows(valkey_store: Store, nodes: list[Node]) -> None:
    valkey_store.flush()
    for node in nodes:
        path, _, _, node_time_s = node.check("warm", "gcra")
        assert path == "store"
        assert abs(node_time_s - time.time() - node.skew_s) < 5, "the process has the right time after all"
    for algorithm in ("sliding_window", "gcra", "sliding_log"):
        for first in nodes:
            key = f"{algorithm}{first.skew_s}"
            assert first.check(key, algorithm)[:2] == ["store", True]
            for other in nodes:
                path, allowed, retry_after_s, _ = other.check(key, algorithm)
                assert (path, allowed) == ("store", False)
                assert 0 < retry_after_s <= WINDOW_S


def test_the_end_of_an_aligned_window_is_the_stores(single: Store) -> None:
    limiters = [Limiter(store=single.url, store_deadline=PATIENT_S) for _ in range(2)]
    for limiter in [*limiters, *limiters]:
        before_us = server_time_us(single)
        decision = limiter.check_limit("k", 1_000, "1 hour", algorithm="fixed_window")
        after_us = server_time_us(single)
        assert decision.path == "store"
        assert decision.reset_after is not None
        # When the store decided, by what it said is left of the hour.
        decided_us = (before_us // HOUR_US + 1) * HOUR_US - round(decision.reset_after * SECOND_US)
        if before_us // HOUR_US == after_us // HOUR_US:
            assert before_us <= decided_us <= after_us


def server_time_us(store: Store) -> int:
    seconds, micros = store.holders()[0].command("TIME")
    return int(seconds) * SECOND_US + int(micros)
