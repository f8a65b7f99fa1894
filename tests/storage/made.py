"""Entries and changes for tests, made shortly."""

from __future__ import annotations

from typing import Any

from headgate.feed import Entry, Kind
from headgate.storage.sql import Changed, Database, Transaction, canonical, entries


def rule(name: str, **fields: Any) -> str:
    return canonical({"name": name, "by": "user", "limit": "5/minute", **fields})


def put_rule(name: str, before: str | None = None, **fields: Any) -> Changed:
    return Changed(Kind.RULE, name, before, rule(name, **fields))


def put(kind: Kind, entry_id: str, before: str | None = None, **body: Any) -> Changed:
    return Changed(kind, entry_id, before, canonical(body))


def gone(kind: Kind, entry_id: str, before: str) -> Changed:
    return Changed(kind, entry_id, before, None)


def change(database: Database, *changes: Changed, who: str = "ada", why: str | None = None, verb: str = "apply") -> int:
    with database.write() as tx:
        return tx.commit_version(who, why, verb, changes)


def state(tx: Transaction) -> dict[tuple[Kind, str], str | None]:
    return {(entry.kind, entry.id): entry.body for entry in entries.all(tx)}


def names(found: list[Any]) -> list[str]:
    return [one.id for one in found]


def rule_entry(name: str, **fields: Any) -> Entry:
    return Entry(Kind.RULE, name, rule(name, **fields))
