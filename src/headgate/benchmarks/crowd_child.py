"""Some of the nodes of a `Crowd`, in a process of their own: each a limiter with a follower and its own connections.

Commands come as JSON lines on stdin and are answered on stdout. All times are of CLOCK_MONOTONIC, which is the same for
every process of a machine.
"""

from __future__ import annotations

import bisect
import json
import sys
import threading
import time
from array import array
from typing import Any

from headgate.benchmarks.spread import quantile
from headgate.feed.entry import Position
from headgate.limiter import Limiter
from headgate.upkeep.feed import Follower, make_sources

FIRST_S = 60.0
POLL_S = 30.0
MAX_KEYS = 10_000
# Of one node: at ten deltas a second, more than an hour.
TAKEN_MAX = 50_000
CHECKED_USERS = 5_000
CHECKS_AT_ONCE = 50
CHECK_PAUSE_S = 0.001


class Arrivals:
    """When one node enforced which version. A node that went from 3 to 7 has 4 to 7 since that moment."""

    def __init__(self, arrived: threading.Condition) -> None:
        self._arrived = arrived
        self._versions: list[int] = []
        self._times_ns: list[int] = []

    def note(self, position: Position) -> None:
        now_ns = time.monotonic_ns()
        with self._arrived:
            if len(self._versions) < TAKEN_MAX and (not self._versions or position.version > self._versions[-1]):
                self._versions.append(position.version)
                self._times_ns.append(now_ns)
            self._arrived.notify_all()

    @property
    def newest(self) -> int:
        return self._versions[-1] if self._versions else -1

    def reached_ns(self, version: int) -> int:
        return self._times_ns[bisect.bisect_left(self._versions, version)]


class Silence:
    """A log for nobody: what goes wrong shows in the figures. Errors are kept, to be told with them."""

    def __init__(self) -> None:
        self.errors: list[str] = []

    def info(self, event: str, **details: Any) -> None:
        pass

    def warning(self, event: str, **details: Any) -> None:
        if len(self.errors) < 100:
            self.errors.append(f"{event}: {details}")

    error = warning


class Nodes:
    def __init__(self, urls: str, key: bytes, first: int, count: int) -> None:
        self._arrived = threading.Condition()
        self._log = Silence()
        self._arrivals = [Arrivals(self._arrived) for _ in range(count)]
        self._limiters = [Limiter(max_keys=MAX_KEYS) for _ in range(count)]
        self._followers = [
            Follower(
                limiter,
                make_sources(urls, key=key, poll_s=POLL_S),
                key=key,
                snapshot_path=None,
                node_id=f"bench-{first + nth}",
                region="bench",
                log=self._log,
                on_change=arrivals.note,
            )
            for nth, (limiter, arrivals) in enumerate(zip(self._limiters, self._arrivals, strict=True))
        ]

    def start(self) -> None:
        for follower in self._followers:
            follower.start()
        for follower in self._followers:
            follower.first(FIRST_S)

    def reached(self, versions: list[int], timeout_s: float) -> dict[str, Any]:
        """For each version when the last of these nodes had it; waits for that."""
        highest = max(versions)

        def have() -> bool:
            return all(arrivals.newest >= highest for arrivals in self._arrivals)

        with self._arrived:
            if not self._arrived.wait_for(have, timeout_s):
                behind = sum(arrivals.newest < highest for arrivals in self._arrivals)
                return {"behind": behind, "errors": self._log.errors[-3:]}
            return {"last_ns": [max(node.reached_ns(version) for node in self._arrivals) for version in versions]}

    def refusing(self, ip: str) -> int:
        """How many of them refuse a request from there: that a change has arrived is to mean that it is enforced."""
        return sum(not limiter.check(ip=ip, path="/").allowed for limiter in self._limiters)

    def checks(self, seconds: float) -> dict[str, float]:
        """Of the first node, a few at a time with a pause between, each timed; callers are many and most meet a
        rule."""
        check, clock = self._limiters[0].check, time.perf_counter_ns
        users = [f"u{number}" for number in range(CHECKED_USERS)]
        times_ns = array("Q")
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            for number in range(CHECKS_AT_ONCE):
                user = users[(len(times_ns) * 7 + number) % CHECKED_USERS]
                start_ns = clock()
                check(user=user, ip="192.0.2.1", path="/api/v1/orders")
                times_ns.append(clock() - start_ns)
            time.sleep(CHECK_PAUSE_S)
        parts = (("p50_us", 0.5), ("p99_us", 0.99), ("p999_us", 0.999))
        return {name: quantile(times_ns, part) / 1000 for name, part in parts}

    def stop(self) -> None:
        for follower in self._followers:
            threading.Thread(target=follower.stop, daemon=True).start()


def main() -> None:
    asked = json.loads(sys.stdin.readline())
    nodes = Nodes(asked["urls"], asked["key"].encode(), asked["first"], asked["count"])
    nodes.start()
    _say({"ready": True})
    for line in sys.stdin:
        asked = json.loads(line)
        if "reached" in asked:
            _say(nodes.reached(asked["reached"], asked["timeout_s"]))
        elif "checks_s" in asked:
            _say(nodes.checks(asked["checks_s"]))
        else:
            _say({"refusing": nodes.refusing(asked["refused"])})
    # Whoever asked is gone.
    nodes.stop()


def _say(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
