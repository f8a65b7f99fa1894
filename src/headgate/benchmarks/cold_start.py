"""`headgate bench cold-start`: a node that finds its rules on disk, and everything else away."""

from __future__ import annotations

import http.client
import json
import secrets
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from headgate.benchmarks.children import HOST, BenchError, child, free_port, headgate, memory_mb, wait_for
from headgate.benchmarks.propagation import Progress
from headgate.benchmarks.rule_sets import entries
from headgate.feed.codec import write_snapshot
from headgate.feed.entry import Position

ROUNDS = 3
READY_S_MAX = 120.0


def cold_start(rules: int, rounds: int = ROUNDS, progress: Progress = lambda _: None) -> dict[str, Any]:
    """From the start of the process to the first `/readyz` that says 200."""
    with tempfile.TemporaryDirectory(prefix="hg-bench-") as name:
        folder = Path(name)
        snapshot, key_file = folder / "rules.hgs", folder / "feed.key"
        key = secrets.token_hex(32)
        key_file.write_text(key)
        with snapshot.open("wb") as file:
            now_us = time.time_ns() // 1000
            write_snapshot(file, key.encode(), Position(now_us, 1), now_us, entries(rules))
        found = []
        for number in range(rounds):
            found.append(_start(folder, snapshot, key_file, rules))
            progress(number + 1)
        return {
            "rules": rules,
            "ready_s": round(statistics.median(seconds for seconds, _ in found), 2),
            "ready_max_s": round(max(seconds for seconds, _ in found), 2),
            "rounds": rounds,
            "snapshot_mb": round(snapshot.stat().st_size / 1e6, 1),
            "peak_mb": max(peak_mb for _, peak_mb in found),
        }


def _start(folder: Path, snapshot: Path, key_file: Path, rules: int) -> tuple[float, float]:
    """Seconds until it is ready, and the most memory it had."""
    port, log = free_port(), folder / "node.log"
    # Nothing listens there.
    command = headgate("node", "--rules", f"redis://{HOST}:{free_port()}", "--feed-key-file", str(key_file))
    command += ["--feed-snapshot", str(snapshot), "--listen", f"{HOST}:{port}", "--grpc", ""]
    start_s = time.monotonic()
    with child(command, log, cwd=folder) as process:
        wait_for("the node", lambda: _is_ready(port, rules), process, log, READY_S_MAX)
        return time.monotonic() - start_s, memory_mb(process.pid) or 0.0


def _is_ready(port: int, rules: int) -> bool:
    line = http.client.HTTPConnection(HOST, port, timeout=5.0)
    try:
        line.request("GET", "/readyz")
        answer = line.getresponse()
        told = json.loads(answer.read())
    except (OSError, http.client.HTTPException):
        return False
    finally:
        line.close()
    if answer.status == 200 and told["rules"] != rules:
        raise BenchError(f"the node is ready with {told['rules']} rules, not {rules}")
    return answer.status == 200
