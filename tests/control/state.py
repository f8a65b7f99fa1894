"""What a database holds, in few words."""

from __future__ import annotations

import json
from typing import Any

from headgate.control.changes import Changes
from headgate.feed import Kind
from headgate.storage.sql import Database, Stored, entries, history


def rule(name: str, limit: str = "5/minute", **more: Any) -> dict[str, Any]:
    return {"name": name, "by": "user", "limit": limit} | more


def bodies(database: Database, *kinds: Kind) -> dict[tuple[Kind, str], dict[str, Any]]:
    with database.read() as tx:
        return {(one.kind, one.id): json.loads(one.body or "null") for one in entries.all(tx, kinds or None)}


def names(database: Database, kind: Kind = Kind.RULE) -> list[str]:
    return sorted(id for _, id in bodies(database, kind))


def stored(database: Database, kind: Kind, id: str) -> Stored:
    with database.read() as tx:
        found = entries.get(tx, kind, id)
    assert found is not None
    return found


def head(database: Database) -> int:
    with database.read() as tx:
        return tx.head.version


def versions(database: Database) -> list[history.Version]:
    with database.read() as tx:
        return history.versions(tx, limit=1_000)


def winners(changes: Changes, **facts: Any) -> list[str]:
    """Which rules the mirror would count a request by."""
    with changes.mirror.held():
        with changes.database.read() as tx:
            changes.mirror.follow(tx)
        found = changes.mirror.explain(facts)
    return [one["rule"] for one in found["candidates"] if one["outcome"] == "wins"]
