"""`headgate bench`, in small: that it measures what it says it does. How fast things are is for `make bench`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from headgate.benchmarks import burst as bursts
from headgate.benchmarks.burst import Load, burst
from headgate.benchmarks.propagation import Fleet
from headgate.benchmarks.rule_sets import rules
from headgate.benchmarks.spread import quantile, spread
from headgate.limiter import Limiter
from tests.servers.postgres import Postgres

TIMEOUT_S = 240
COMMAND = (sys.executable, "-m", "headgate", "bench")


def measure(*words: str) -> dict[str, Any]:
    done = subprocess.run([*COMMAND, *words, "--json"], capture_output=True, timeout=TIMEOUT_S, check=False, text=True)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("feed", ["redis", "http"])
def test_propagation_is_measured_at_every_node(feed: str) -> None:
    found = measure("propagation", "--nodes", "3", "--changes", "3", "--feed", feed)
    assert (found["nodes"], found["changes"], found["feed"]) == (3, 3, feed)
    # The control plane has answered before the last node has the change, or while it gets it.
    assert 0 < found["p50_ms"] <= found["p99_ms"] <= found["max_ms"]
    assert found["answered_p50_ms"] > 0


def test_a_burst_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bursts, "RULES", 1_000)
    monkeypatch.setattr(bursts, "CHECK_ROUNDS", 1)
    monkeypatch.setattr(bursts, "CHECK_ROUND_S", 0.2)
    monkeypatch.setattr(bursts, "BLOCK_EVERY_S", 0.2)
    found = burst(Fleet(3), Load(500, 1.0))
    assert (found["nodes"], found["changes"]) == (3, 500)
    assert found["blocks"] >= 1
    assert 0 < found["block_p50_ms"] <= found["block_max_ms"]
    assert found["converged_ms"] >= 0
    assert found["checks_p99_ratio"] > 0
    assert found["control_peak_mb"] > 0


def test_a_cold_start_has_all_rules() -> None:
    found = measure("cold-start", "--rules", "1000", "--rounds", "1")
    assert found["rules"] == 1000
    assert found["ready_s"] > 0


def test_rules_are_applied_to_the_database_that_is_given_and_it_must_be_empty(postgres: Postgres) -> None:
    url = postgres.empty_database()
    found = measure("bulk-apply", "--rules", "3000", "--database", url)
    assert (found["rules"], found["database"]) == (3000, "postgresql")
    assert postgres.execute("SELECT count(*) FROM rules", url.rsplit("/", 1)[1]) == [(3000,)]
    again = subprocess.run(
        [*COMMAND, "bulk-apply", "--database", url], capture_output=True, timeout=TIMEOUT_S, check=False, text=True
    )
    assert again.returncode == 2
    assert "is not empty" in again.stderr


def test_a_page_is_compared_with_one_among_few_rules() -> None:
    found = measure("page", "--rules", "2000")
    assert (found["rules"], found["few_rules"]) == (2000, 1000)
    assert found["ratio"] == max(found["first_ratio"], found["middle_ratio"], found["filtered_ratio"])


def test_what_was_started_ends_with_it(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    process = subprocess.Popen(
        [*COMMAND, "propagation", "--nodes", "1", "--changes", "10000"],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _until(lambda: len(_children(process.pid)) >= 3)
        started = _children(process.pid)
        process.send_signal(signal.SIGTERM)
        process.wait(TIMEOUT_S)
    finally:
        process.kill()
    _until(lambda: not any(_is_alive(pid) for pid in started))
    assert list(tmp_path.iterdir()) == []


def test_the_rules_to_measure_with_are_good_ones() -> None:
    limiter = Limiter(rules={"rules": [json.loads(body) for _, body in rules(100)]})
    assert limiter.rule_count() == 100


def test_a_quantile_is_one_of_the_values() -> None:
    assert quantile([3.0, 1.0, 2.0, 4.0], 0.5) == 2.0
    assert quantile([1.0], 0.99) == 1.0
    assert spread([1.0, 2.0, 9.0], "block_") == {"block_p50_ms": 2.0, "block_p99_ms": 9.0, "block_max_ms": 9.0}
    assert spread([]) == {}


def _children(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def _until(is_so: Any) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)
