"""What a node tells the control plane of itself, as JSON."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from typing import Any

from headgate import __version__
from headgate.upkeep.feed.taking import Enforcer, Taken

USED_KEYS_SENT = 1000
USED_KEYS_KEPT = 10_000
# A heartbeat may take the place of the one before it ere anybody has read that: what it tells is told for this long.
USED_KEYS_TOLD_S = 4.0
_SHARD_FIELDS = ("name", "breaker", "connected")


@dataclass(frozen=True, slots=True)
class Node:
    """Which one it is."""

    id: str
    region: str | None


class Heartbeats:
    """Makes them. Keys that were used are told for a while after a heartbeat arrived: rather twice than never."""

    def __init__(self, limiter: Enforcer, node: Node) -> None:
        self._limiter = limiter
        self._node = node
        # Each with when it was first told, on the monotonic clock.
        self._used: dict[str, float | None] = {}

    def make(self, taken: Taken, source: str, stale_s: float, at_us: int) -> str:
        for used in self._limiter.take_used_keys(USED_KEYS_SENT):
            if len(self._used) < USED_KEYS_KEPT:
                self._used[used] = None
        return json.dumps(
            {
                "id": self._node.id,
                "region": self._node.region,
                "position": str(taken.position),
                "version": __version__,
                "lag_ms": None if taken.lag_ms is None else round(taken.lag_ms, 1),
                "at_us": at_us,
                "pid": os.getpid(),
                "source": source,
                "stale_s": round(stale_s, 1),
                "rules": self._limiter.rule_count(),
                "store": _store(self._limiter.store_status()),
                "used_keys": list(self._used)[:USED_KEYS_SENT],
                "refused": [{"kind": kind, "id": name, "message": words[:200]} for kind, name, words in taken.refused],
            }
        )

    def arrived(self, heartbeat: str) -> None:
        now_s = time.monotonic()
        for told in json.loads(heartbeat)["used_keys"]:
            first_s = self._used.get(told)
            if first_s is None:
                self._used[told] = now_s
            elif now_s - first_s > USED_KEYS_TOLD_S:
                del self._used[told]


def _store(status: str) -> dict[str, Any]:
    """Of each shard, what concerns the fleet; no shards for counters in memory."""
    shards = (json.loads(status) or {}).get("shards") or []
    return {"shards": [{name: shard.get(name) for name in _SHARD_FIELDS} for shard in shards]}
