"""The fleet: which nodes there are, what they enforce, and waiting until they all enforce a change.

Heartbeats come through the regions' brokers, over HTTP, and through the database (from other control planes, and from
nodes that read it). All control planes show the same, a few seconds apart.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from headgate.control.head import Head
from headgate.control.heartbeats import Heartbeats, Known, merged
from headgate.control.region import RegionStatus
from headgate.errors import HeadgateError
from headgate.feed.entry import Position
from headgate.storage.sql import Database, entries, fleet, outbox
from headgate.storage.sql.transaction import Transaction

WRITE_EVERY_S = 1.0
LOOK_EVERY_S = 0.1
BEHIND_SHOWN_MAX = 1_000
_JOIN_S = 15.0


class Fleet:
    def __init__(self, database: Database, head: Head, *, log: Any) -> None:
        self._database = database
        self._head = head
        self._log = log
        self._heartbeats = Heartbeats()
        self._heard = threading.Condition()
        self._waiters = 0
        self._regions: Callable[[], list[RegionStatus]] = list
        self._wake: Callable[[], None] = lambda: None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="headgate-fleet", daemon=True)

    def attach(self, regions: Callable[[], list[RegionStatus]], wake: Callable[[], None]) -> None:
        """To the publisher: how its regions are, and what makes them look at heartbeats at once."""
        self._regions = regions
        self._wake = wake

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        with self._heard:
            self._heard.notify_all()
        if self._thread.is_alive():
            self._thread.join(_JOIN_S)

    @property
    def is_awaited(self) -> bool:
        """Whether somebody waits for nodes now."""
        return self._waiters > 0

    def beat(self, heartbeat: Mapping[str, Any]) -> None:
        """Straight from a node."""
        if self._heartbeats.take(heartbeat, datetime.now(UTC), is_fresh=True):
            self._tell()

    def heard(self, region: str, notes: Mapping[str, Mapping[str, Any]]) -> list[str]:
        """What lies in a region's broker. Gives the nodes that may be forgotten there."""
        now = datetime.now(UTC)
        # A node need not know what we call its region.
        news = [
            self._heartbeats.take({**note, "region": note.get("region") or region}, now, is_fresh=False, place=region)
            for note in notes.values()
        ]
        if any(news):
            self._tell()
        return [name for name in self._heartbeats.forget(now) if name in notes]

    def status(self) -> dict[str, Any]:
        """For `GET /fleet`. Raises StorageDown."""
        now = datetime.now(UTC)
        with self._database.read() as tx:
            nodes = merged(self._heartbeats.all(), fleet.all(tx))
            regions = self._region_rows(tx, now)
            head = tx.head
        return {
            "head": str(head),
            "nodes": [_node_row(node, head, now) for node in nodes],
            "regions": regions,
        }

    def wait(self, position: Position, timeout: float) -> dict[str, Any]:
        """As soon as all live nodes enforce it, or when the time is over. Raises StorageDown."""
        end_s = time.monotonic() + timeout
        with self._heard:
            self._waiters += 1
        try:
            self._wake()
            while True:
                reached = self._reached(position)
                left_s = end_s - time.monotonic()
                if reached["done"] or left_s <= 0 or self._stopping.is_set():
                    return reached
                with self._heard:
                    self._heard.wait(min(left_s, LOOK_EVERY_S))
        finally:
            with self._heard:
                self._waiters -= 1

    def _reached(self, position: Position) -> dict[str, Any]:
        now = datetime.now(UTC)
        with self._database.read() as tx:
            rows = fleet.all(tx)
        live = [node for node in merged(self._heartbeats.all(), rows) if node.is_alive(now)]
        behind = [node for node in live if node.position < position]
        return {
            "version": str(position),
            "live": len(live),
            "behind": [
                {"id": node.id, "region": node.region, "position": str(node.position)}
                for node in behind[:BEHIND_SHOWN_MAX]
            ],
            "done": not behind,
        }

    def _region_rows(self, tx: Transaction, now: datetime) -> list[dict[str, Any]]:
        ours = {region.name: region for region in self._regions()}
        rows = {}
        for row in outbox.regions(tx):
            live = ours.get(row.name)
            told = max(row.position, live.position) if live is not None and live.position is not None else row.position
            waiting = outbox.pending(tx, row.name, 1) if told < tx.head else []
            rows[row.name] = {
                "name": row.name,
                "published": str(told),
                "at": _moment(row.published),
                "behind": _behind(told, tx.head),
                "lag_s": round((now - waiting[0].at).total_seconds(), 3) if waiting else 0.0,
                "error": live.error if live is not None else row.error,
            }
        for name, live in ours.items():
            if name not in rows:
                published = None if live.position is None else str(live.position)
                shown = {"name": name, "published": published, "at": None}
                rows[name] = {**shown, "behind": _behind(live.position, tx.head), "lag_s": 0.0, "error": live.error}
        return [rows[name] for name in sorted(rows)]

    def _tell(self) -> None:
        with self._heard:
            self._heard.notify_all()

    def _run(self) -> None:
        is_told = False
        while not self._stopping.wait(WRITE_EVERY_S):
            try:
                self._write()
                is_told = False
            # Whatever a heartbeat holds, the next ones are written.
            except Exception as error:
                if not is_told and not isinstance(error, HeadgateError):
                    self._log.error("heartbeats could not be written", error=repr(error))
                is_told = True

    def _write(self) -> None:
        self._heartbeats.forget(datetime.now(UTC))
        nodes, used = self._heartbeats.to_write(), self._heartbeats.take_used_keys()
        if not nodes and not used:
            return
        with self._database.aside() as tx:
            fleet.put(tx, [node.as_beat() for node in nodes])
            if used:
                entries.mark_used(tx, used, datetime.now(UTC))
        self._heartbeats.wrote(nodes)


def _node_row(node: Known, head: Position, now: datetime) -> dict[str, Any]:
    return {
        **node.body,
        "id": node.id,
        "region": node.region,
        "position": str(node.position),
        "behind": _behind(node.position, head),
        "lag_ms": node.body.get("lag_ms"),
        "seen": _moment(node.seen),
        "alive": node.is_alive(now),
        "store": node.body.get("store"),
    }


def _behind(position: Position | None, head: Position) -> int:
    """How many versions; of another epoch, all of them, and at least one."""
    if position is None or position.epoch < head.epoch:
        return max(1, head.version)
    return max(0, head.version - position.version) if position.epoch == head.epoch else 0


def _moment(at: datetime | None) -> str | None:
    return None if at is None else at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
