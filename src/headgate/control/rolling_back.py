"""The state of long ago, as a new version; and what lies between two states."""

from __future__ import annotations

import difflib
import heapq
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from typing import Any

from headgate.control.applying import Intent
from headgate.control.bulk import FEW, BulkVerbs
from headgate.control.change import Outcome, Wanted
from headgate.control.errors import NoSuchVersion
from headgate.errors import StorageDown
from headgate.feed import Entry, Kind, Position
from headgate.storage.sql import Changed, Transaction, bulk, canonical, entries, history

# Keys stay as they are: a revoked key must not come back to life.
ROLLED_BACK = (Kind.RULE, Kind.OVERRIDE, Kind.BLOCK, Kind.SWITCH, Kind.TIER)
DIFFERENCES_MAX = 1_000
# How often a large rollback begins anew because others changed something meanwhile.
_TRIES = 3


class _Many(Exception):
    """Too many for the ordinary way."""


class _Moved(Exception):
    """Somebody changed something between reading and locking."""


@dataclass(frozen=True, slots=True)
class Diff:
    """What brings the one version to the other, by kind and id. `more` says that it was cut."""

    since: int
    to: int
    changes: tuple[Changed, ...]
    more: bool


class HistoryVerbs(BulkVerbs):
    def rollback(self, version: int, *, by: str, why: str | None = None, dry_run: bool = False) -> Outcome:
        """Everything but keys as it was at `version`, as a new version; 0 is the empty beginning."""
        intent = Intent(by, "rollback", why or f"back to version {version}", dry_run)

        def plan(tx: Transaction) -> Sequence[Wanted]:
            check_version(tx, version)
            found = list(islice(history.bodies_at(tx, version, ROLLED_BACK), FEW + 1))
            if len(found) > FEW:
                raise _Many
            found = [one for one in found if not _is_of_a_key(tx, one)]
            return [Wanted(one.kind, one.id, None if one.before is None else json.loads(one.before)) for one in found]

        try:
            return self._run(plan, intent)
        except _Many:
            return self._roll_back_many(version, intent)

    def diff(self, since: int, to: int, *, limit: int = DIFFERENCES_MAX) -> Diff:
        """Raises NoSuchVersion. From the newer to the older is as good as the other way."""
        with self.database.read() as tx:
            check_version(tx, since)
            check_version(tx, to)
            found = list(islice(history.bodies_at(tx, min(since, to), upto=max(since, to)), limit + 1))
        changes = tuple(_without_hashes(one if since <= to else _reversed(one)) for one in found[:limit])
        return Diff(since, to, changes, len(found) > limit)

    def _roll_back_many(self, version: int, intent: Intent) -> Outcome:
        for _ in range(_TRIES):
            with self.database.read() as tx:
                seen = tx.head

                def fill(staging: bulk.Staging, tx: Transaction = tx) -> None:
                    staging.put(state_at(tx, version, ROLLED_BACK))

                def check(head: Position, seen: Position = seen) -> None:
                    if head != seen:
                        raise _Moved

                try:
                    return self._merge(fill, intent, ROLLED_BACK, {}, check)
                except _Moved:
                    continue
        raise StorageDown("others keep changing the configuration; try again in a moment")


def check_version(tx: Transaction, version: int) -> None:
    if not 0 <= version <= tx.head.version:
        raise NoSuchVersion(version, tx.head.version)


def state_at(tx: Transaction, version: int, kinds: Sequence[Kind]) -> Iterator[Entry]:
    """Everything as it was, as a stream: what there is now, with what has changed since put back."""
    changed = (one for one in history.bodies_at(tx, version, kinds) if not _is_of_a_key(tx, one))
    since = ((int(one.kind), one.id.encode(), 0, one.before) for one in changed)
    now = ((int(one.kind), one.id.encode(), 1, one.body) for one in entries.all(tx, kinds))
    for (kind, id), found in groupby(heapq.merge(since, now, key=_order), key=lambda one: one[:2]):
        _, _, _, body = next(found)
        if body is not None:
            yield Entry(Kind(kind), id.decode(), body)


def _is_of_a_key(tx: Transaction, change: Changed) -> bool:
    """Limits that were made with a key stay while the key does."""
    principal, _, key = change.id.partition(":")
    if change.kind is not Kind.OVERRIDE or change.before is not None or principal != "api_key":
        return False
    return entries.get(tx, Kind.KEY, key) is not None


def unified(change: Changed) -> str:
    """One change as people read it: lines taken away and added."""
    before, after = (_pretty(text) for text in (change.before, change.after))
    name = f"{change.kind.word} {change.id}"
    return "\n".join(difflib.unified_diff(before, after, name, name, lineterm=""))


def _pretty(text: str | None) -> list[str]:
    return [] if text is None else json.dumps(json.loads(text), indent=2, ensure_ascii=False).splitlines()


def _order(one: tuple[int, bytes, int, Any]) -> tuple[int, bytes, int]:
    return one[:3]


def _reversed(change: Changed) -> Changed:
    return Changed(change.kind, change.id, change.after, change.before)


def _without_hashes(change: Changed) -> Changed:
    """Nobody needs a key's hash to see what became of it."""
    if change.kind is not Kind.KEY:
        return change
    return Changed(change.kind, change.id, _without_hash(change.before), _without_hash(change.after))


def _without_hash(text: str | None) -> str | None:
    if text is None:
        return None
    return canonical({name: value for name, value in json.loads(text).items() if name != "hash"})
