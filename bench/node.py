"""A node to measure: on free ports of 127.0.0.1 and a Unix socket, stopped when the benchmark is done."""

import json
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.http_servers import START_S_MAX, stopping
from bench.player import SERVER_CORE
from bench.processes import OUT, REPOSITORY, pin
from bench.rls_messages import PLENTY
from bench.rule_sets import PATH
from bench.store_limiter import PATIENT_DEADLINE_S

# What a check that was decided where it was meant to be says of its path.
DECIDED_BY = "store"


@dataclass(frozen=True)
class Node:
    pid: int
    http_port: int
    grpc_port: int
    socket_path: str

    def metrics(self) -> dict[str, float]:
        """From a door that has them also where the HTTP address is a gateway."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.grpc_port}/metrics", timeout=5) as answer:
            lines = answer.read().decode().splitlines()
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[:1] != "#")}

    def require_decided(self) -> None:
        """A request that was decided by a fallback, or that met no rule, would be timed as a very fast one."""
        decided = {
            re.sub(r'.*path="(\w+)".*', r"\1", name): count
            for name, count in self.metrics().items()
            if name.startswith("headgate_decisions_total") and count
        }
        if set(decided) != {DECIDED_BY}:
            raise RuntimeError(f"not every request was decided by its counters: {decided}")


def rls_rules(algorithm: str | None = None) -> list[dict[str, Any]]:
    """Five rules, one for each descriptor of the benchmarks' request."""
    shape: dict[str, Any] = {"limit": f"{PLENTY}/hour"}
    if algorithm is not None:
        shape = {"limit": [{"limit": f"{PLENTY}/hour", "algorithm": algorithm}]}
    rules: list[dict[str, Any]] = [
        {"name": f"by-{by}".replace("_", "-"), "by": by, **shape} for by in ("user", "org", "ip", "api_key")
    ]
    return [*rules, {"name": "by-endpoint", "match": {"endpoint": PATH}, "by": "endpoint", **shape}]


@contextmanager
def node(
    rules: Sequence[dict[str, Any]],
    *options: str,
    store: str = "memory://",
    threads: int = 0,
    pinned: bool = False,
    patient: bool = True,
) -> Iterator[Node]:
    """As it comes, but for the deadline: where rates are measured, an answer must not be lost to whatever else the
    machine does."""
    OUT.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="hg-bench-") as folder:
        ready, rules_file, socket_path = (Path(folder) / name for name in ("ready.json", "rules.json", "node.sock"))
        rules_file.write_text(json.dumps({"rules": list(rules)}))
        command = [str(Path(sys.executable).with_name("headgate")), "node", "--http", "127.0.0.1:0"]
        command += ["--grpc", "127.0.0.1:0", "--uds", str(socket_path), "--rules", str(rules_file)]
        command += ["--store", store, *(("--store-deadline-ms", str(PATIENT_DEADLINE_S * 1000)) if patient else ())]
        command += ["--threads", str(threads), "--ready-file", str(ready), *options]
        with (OUT / "node.log").open("a") as log:
            process = subprocess.Popen(command, cwd=REPOSITORY, stdout=log, stderr=log, text=True)
        with stopping(process):
            addresses = _wait_until_ready(process, ready)
            if pinned:
                pin(process.pid, SERVER_CORE)
            http_port, grpc_port = (int(addresses[name].rpartition(":")[2]) for name in ("http", "grpc"))
            yield Node(process.pid, http_port, grpc_port, str(socket_path))


def _wait_until_ready(process: subprocess.Popen[str], ready: Path) -> dict[str, str]:
    deadline = time.monotonic() + START_S_MAX
    while not ready.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the node did not start; its log is {OUT / 'node.log'}")
        time.sleep(0.02)
    addresses: dict[str, str] = json.loads(ready.read_text())
    return addresses
