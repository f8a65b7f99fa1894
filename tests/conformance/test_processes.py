"""Forks, and how an interpreter ends: whatever was under way, at once and without a word."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

import pytest

from tests.conformance import programs
from tests.conformance.stores import Store
from tests.servers.server import Server

END_TIMEOUT_S = 60
QUICKLY_S = 20
"""A clean end takes milliseconds; one that waits for something takes for ever."""

FORKS = {
    "fork_after_use": 1,
    "fork_after_async_use": 1,
    "fork_before_use": 1,
    "fork_of_a_fork": 2,
    "forked_child_that_exits_as_usual": 1,
    "multiprocessing_by_fork": 4,
    "fork_beside_busy_threads": programs.BUSY_FORKS,
}
ENDINGS = (
    "idle_at_exit",
    "never_used",
    "async_checks_under_way_at_exit",
    "deleted_with_checks_under_way",
    "thread_waiting_at_exit",
)


def start(program: str, url: str) -> subprocess.Popen[str]:
    # From Python 3.12 on a fork beside running threads is warned of: these programs are about just that.
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-m", programs.__name__, program, url]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def said_in_the_end(process: subprocess.Popen[str]) -> list[Any]:
    """What it said; that it ended well, in time and in silence is asserted."""
    start_s = time.monotonic()
    with process:
        try:
            out, errors = process.communicate("\n", timeout=END_TIMEOUT_S)
        finally:
            process.kill()
    assert (process.returncode, errors) == (0, "")
    assert time.monotonic() - start_s < QUICKLY_S
    return [json.loads(line) for line in out.splitlines()]


def run(program: str, url: str) -> list[Any]:
    return said_in_the_end(start(program, url))


@pytest.mark.parametrize("program", FORKS)
def test_parent_and_children_all_ask_the_store(single: Store, program: str) -> None:
    said = run(program, single.url)
    ends = [value for value in said if value[0] == "child"]
    answers = [value for value in said if value[0] != "child"]
    assert ends == [["child", 0]] * FORKS[program]
    assert sorted(answers) == [["store", 100 - used] for used in range(len(answers), 0, -1)]


def test_a_fork_asks_the_cluster_too(cluster_store: Store) -> None:
    cluster_store.flush()
    assert run("fork_after_use", cluster_store.url) == [["store", 99], ["store", 98], ["child", 0], ["store", 97]]


@pytest.mark.parametrize("program", ENDINGS)
def test_an_interpreter_ends_quietly(single: Store, program: str) -> None:
    said = run(program, single.url)
    assert said == ([] if program == "never_used" else [["store", 99]])


@pytest.mark.parametrize("program", ["async_checks_under_way_at_exit", "thread_waiting_at_exit"])
def test_an_interpreter_ends_quietly_with_the_cluster_too(cluster_store: Store, program: str) -> None:
    cluster_store.flush()
    assert run(program, cluster_store.url) == [["store", 99]]


def test_an_interpreter_ends_quietly_while_the_server_hangs(own_server: Server) -> None:
    process = start("hung_server_at_exit", own_server.url)
    assert process.stdout is not None
    assert json.loads(process.stdout.readline()) == ["store", 99]
    own_server.stop_signal()
    assert said_in_the_end(process) == []
    own_server.cont()


def test_a_limiter_that_is_gone_leaves_no_thread(single: Store) -> None:
    assert run("deleted", single.url) == [["store", 99], 0]
