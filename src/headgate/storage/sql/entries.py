"""Reading entries: one, a page, or all of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

import sqlalchemy as sa

from headgate.errors import ConfigError
from headgate.feed import Entry, Kind
from headgate.storage.sql import schema
from headgate.storage.sql.columns import BLOCKED_BY, FACTS, PRINCIPALS, is_storable, networks_of, spelled
from headgate.storage.sql.moments import now
from headgate.storage.sql.rows import IDS_A_STATEMENT
from headgate.storage.sql.transaction import Transaction

# One more than a page holds: whether it comes says whether there is another page.
PAGE_ROWS_MAX = 1_001

_KEY_STATES = ("active", "expired", "revoked")


@dataclass(frozen=True, slots=True)
class Stored:
    """An entry as the database has it. `text` is its canonical body; `version` is the change that last touched it."""

    kind: Kind
    id: str
    text: str
    version: int
    created: datetime
    created_by: str
    updated: datetime
    updated_by: str
    last_used: datetime | None = None

    @property
    def body(self) -> dict[str, Any]:
        """Read anew each time: the caller's own."""
        body: dict[str, Any] = json.loads(self.text)
        return body


def get(tx: Transaction, kind: Kind, entry_id: str) -> Stored | None:
    if not is_storable(entry_id):
        return None
    table = schema.TABLES[kind]
    row = tx.execute(_columns(table).where(table.c.id == entry_id)).one_or_none()
    return None if row is None else _stored(kind, row)


def get_many(tx: Transaction, kind: Kind, ids: Iterable[str]) -> dict[str, Stored]:
    """Those that are there, by id: a few questions however many ids there are."""
    table = schema.TABLES[kind]
    wanted = [entry_id for entry_id in ids if is_storable(entry_id)]
    found: dict[str, Stored] = {}
    for at in range(0, len(wanted), IDS_A_STATEMENT):
        some = wanted[at : at + IDS_A_STATEMENT]
        rows = tx.execute(_columns(table).where(table.c.id.in_(some)))
        found |= {row.id: _stored(kind, row) for row in rows}
    return found


def page(
    tx: Transaction,
    kind: Kind,
    *,
    limit: int,
    after: str | None = None,
    filters: Mapping[str, str] | None = None,
    search: str | None = None,
) -> list[Stored]:
    """Those whose ids come after `after`, in the order of their ids. `search` is a part of the id, in any case.

    Raises ConfigError for a filter the kind does not have. A filter costs one look-up in an index, a search reads ids
    until the page is full.
    """
    found = query(kind, limit=limit, after=after, filters=filters, search=search)
    return [] if found is None else [_stored(kind, row) for row in tx.execute(found)]


def query(
    kind: Kind, *, limit: int, after: str | None, filters: Mapping[str, str] | None, search: str | None
) -> sa.Select[Any] | None:
    """What `page` asks; None when nothing can be found."""
    table = schema.TABLES[kind]
    wanted = {name: value for name, value in (filters or {}).items() if value is not None}
    facts = {name: wanted[name] for name in FACTS if name in wanted} if kind is Kind.RULE else {}
    conditions = [_condition(kind, name, value) for name, value in wanted.items() if name not in facts]
    if any(not is_storable(text) for text in (*wanted.values(), after or "", search or "")):
        return None
    if facts:
        # Ids first, from the facts alone: the planner cannot be led to walk through all rules instead.
        chosen, by_id = _rules_with(facts, conditions)
    else:
        chosen, by_id = _columns(table).where(*conditions), table.c.id
    if after is not None:
        chosen = chosen.where(by_id > after)
    if search:
        chosen = chosen.where(by_id.icontains(search, autoescape=True))
    chosen = chosen.order_by(by_id).limit(min(limit, PAGE_ROWS_MAX))
    if not facts:
        return chosen
    return _columns(table).where(table.c.id.in_(chosen.scalar_subquery())).order_by(table.c.id)


def all(tx: Transaction, kinds: Iterable[Kind] | None = None) -> Iterator[Entry]:
    """Every entry, kind by kind, as a stream."""
    for kind in Kind if kinds is None else sorted(kinds):
        table = schema.TABLES[kind]
        for row in tx.stream(sa.select(table.c.id, table.c.body).order_by(table.c.id)):
            yield Entry(kind, *row)


def all_stored(tx: Transaction, kind: Kind) -> Iterator[Stored]:
    """Every entry of a kind with who made it and when, as a stream."""
    table = schema.TABLES[kind]
    for row in tx.stream(_columns(table).order_by(table.c.id)):
        yield _stored(kind, row)


def count(tx: Transaction, kind: Kind) -> int:
    found: int = tx.execute(sa.select(sa.func.count()).select_from(schema.TABLES[kind])).scalar_one()
    return found


def tiers(tx: Transaction) -> frozenset[str]:
    return frozenset(tx.execute(sa.select(schema.tiers.c.id)).scalars())


def tier_users(tx: Transaction, tier: str, limit: int) -> list[str]:
    """What names the tier, as `rule NAME` and `override ID`."""
    if not is_storable(tier):
        return []
    facts = schema.rule_facts.c
    named = sa.select(facts.rule).where(facts.fact == "tier", facts.value == tier).order_by(facts.rule).limit(limit)
    users = [f"rule {name}" for name in tx.execute(named).scalars()]
    given = schema.overrides.c
    having = sa.select(given.id).where(given.tier == tier).order_by(given.id).limit(limit - len(users))
    return users + [f"override {entry_id}" for entry_id in tx.execute(having).scalars()]


def tiers_named(tx: Transaction) -> frozenset[str]:
    """Every tier that any rule or override names, known or not."""
    facts, given = schema.rule_facts.c, schema.overrides.c
    by_rules = sa.select(facts.value).where(facts.fact == "tier").distinct()
    by_overrides = sa.select(given.tier).where(given.tier.is_not(None)).distinct()
    return frozenset(tx.execute(by_rules).scalars()) | frozenset(tx.execute(by_overrides).scalars())


def mark_used(tx: Transaction, key_ids: Iterable[str], at: datetime) -> None:
    """When keys were last used; no change of the configuration, so no version."""
    ids = sorted({key_id for key_id in key_ids if is_storable(key_id)})
    known = schema.keys.c
    for start in range(0, len(ids), PAGE_ROWS_MAX):
        some = ids[start : start + PAGE_ROWS_MAX]
        newer = sa.or_(known.last_used.is_(None), known.last_used < at)
        # A key that is being changed this moment is left for the next time: nobody waits, least of all for each other.
        free = sa.select(known.id).where(known.id.in_(some), newer).with_for_update(skip_locked=True)
        tx.execute(sa.update(schema.keys).where(known.id.in_(free)).values(last_used=at))


@cache
def _columns(table: sa.Table) -> sa.Select[Any]:
    c = table.c
    last_used = c.last_used if "last_used" in c else sa.null().label("last_used")
    return sa.select(c.id, c.body, c.version, c.created, c.created_by, c.updated, c.updated_by, last_used)


def _stored(kind: Kind, row: sa.Row[*tuple[Any, ...]]) -> Stored:
    return Stored(kind, *row)


def _rules_with(
    facts: Mapping[str, str], conditions: list[sa.ColumnElement[bool]]
) -> tuple[sa.Select[Any], sa.ColumnElement[str]]:
    """The names of rules that match all the facts and of whose rows all the conditions are true."""
    (first, value), *others = facts.items()
    table = schema.rule_facts.alias("first_fact")
    chosen = sa.select(table.c.rule).where(_fact(table, first, value))
    for number, (name, other) in enumerate(others):
        also = schema.rule_facts.alias(f"fact_{number}")
        chosen = chosen.where(sa.exists().where(_fact(also, name, other), also.c.rule == table.c.rule))
    if conditions:
        row = sa.select(schema.rules.c.id).where(schema.rules.c.id == table.c.rule, *conditions)
        chosen = chosen.where(sa.exists(row.correlate(table)))
    # A rule may match an address by several of its ranges.
    return (chosen.distinct() if first == "ip" else chosen), table.c.rule


def _fact(table: sa.FromClause, name: str, value: str) -> sa.ColumnElement[bool]:
    if name == "ip":
        return sa.and_(table.c.fact == name, table.c.value.in_(networks_of(value)))
    return sa.and_(table.c.fact == name, table.c.value == spelled(name, value))


def _condition(kind: Kind, name: str, value: str) -> sa.ColumnElement[bool]:
    table = schema.TABLES[kind].c
    match kind, name:
        case Kind.RULE, "group":
            return table.group_name == value
        case Kind.RULE, "action":
            return table.action == value
        case Kind.RULE, "enabled":
            return table.enabled == _truth(name, value)
        case Kind.OVERRIDE, _ if name in PRINCIPALS:
            return table.id == f"{name}:{value}"
        case Kind.OVERRIDE, "tier":
            return table.tier == value
        case Kind.OVERRIDE, "blocked":
            return table.blocked == _truth(name, value)
        case Kind.KEY, ("user" | "org"):
            return table[f"{name}_id"] == value
        case Kind.KEY, "tier":
            return table.tier == value
        case Kind.KEY, "state":
            return _key_state(value)
        case Kind.BLOCK, _ if name in BLOCKED_BY:
            return sa.and_(table.what == name, table.value == spelled(name, value))
        case Kind.BLOCK, "active":
            active = sa.or_(table.until.is_(None), table.until > now())
            return active if _truth(name, value) else sa.not_(active)
    raise ConfigError(f"a {kind.word} cannot be looked up by {name!r}")


def _key_state(value: str) -> sa.ColumnElement[bool]:
    table, at = schema.keys.c, now()
    revoked = sa.and_(table.revoked.is_not(None), table.revoked <= at)
    expired = sa.and_(table.expires.is_not(None), table.expires <= at)
    match value:
        case "revoked":
            return revoked
        case "expired":
            return sa.and_(expired, sa.not_(revoked))
        case "active":
            return sa.and_(sa.not_(revoked), sa.not_(expired))
    raise ConfigError(f"state: {value[:60]!r} is none of {', '.join(_KEY_STATES)}")


def _truth(name: str, value: str) -> bool:
    if value not in ("true", "false"):
        raise ConfigError(f"{name}: {value[:60]!r} is neither true nor false")
    return value == "true"
