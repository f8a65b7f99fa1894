"""A node of its own: a process with a limiter that does what it is told, a JSON line at a time.

`python -m tests.faults.node URL DEADLINE_S` answers `{"do": "status"}` with what its store is like and
`{"do": "check", …}` with when each check that passed began and ended.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from headgate import Limiter

PROJECT = Path(__file__).parents[2]
END_TIMEOUT_S = 10
PAUSE_S = 0.002


class Node:
    """Use as a context manager; the process ends with it."""

    def __init__(self, url: str, *, store_deadline_s: float = 2.0) -> None:
        command = [sys.executable, "-m", "tests.faults.node", url, str(store_deadline_s)]
        pipe = subprocess.PIPE
        self._popen = subprocess.Popen(
            command, cwd=PROJECT, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        self._popen.stdin.close()
        try:
            self._popen.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()
        self._popen.stdout.close()

    def tell(self, **order: Any) -> None:
        assert self._popen.stdin is not None
        self._popen.stdin.write(json.dumps(order) + "\n")
        self._popen.stdin.flush()

    def hear(self) -> Any:
        assert self._popen.stdout is not None
        return json.loads(self._popen.stdout.readline())

    def status(self) -> dict[str, Any]:
        self.tell(do="status")
        said: dict[str, Any] = self.hear()
        return said


def check(limiter: Limiter, keys: list[str], limit: int, window_s: float, until_s: float) -> dict[str, Any]:
    """Asks for all keys over and over; the clock is the machine's, so that nodes' moments can be compared."""
    passed: dict[str, list[tuple[float, float]]] = {key: [] for key in keys}
    paths: Counter[str] = Counter()
    while True:
        for key in keys:
            start_s = time.monotonic()
            decision = limiter.check_limit(key, limit, window_s)
            paths[decision.path] += 1
            if decision.allowed:
                passed[key].append((start_s, time.monotonic()))
        if time.monotonic() > until_s:
            return {"passed": passed, "paths": paths}
        time.sleep(PAUSE_S)


def main() -> None:
    url, deadline_s = sys.argv[1:]
    limiter = Limiter(store=url, store_deadline=float(deadline_s), on_store_failure="local")
    for line in sys.stdin:
        order = json.loads(line)
        if order.pop("do") == "check":
            print(json.dumps(check(limiter, **order)), flush=True)
        else:
            print(limiter.store_status(), flush=True)


if __name__ == "__main__":
    main()
