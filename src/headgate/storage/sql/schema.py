"""The tables, as the code sees them. The migrations make them; a test holds the two together.

A kind of entry has a table of its own. `body` is the truth, its canonical JSON text; the columns beside it are taken
from it, for look-ups and for people with psql. Nothing here is written while a request is checked.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from headgate.feed import Kind
from headgate.storage.sql.moments import Moment

metadata = sa.MetaData()

# Sorted by bytes on either database: pages go on where they left off, and no locale's upgrade breaks an index.
Name = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
# SQLite counts up only in a column that is exactly INTEGER.
Serial = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def _entries(table: str, key: str, *columns: sa.Column[object], indexes: tuple[sa.Index, ...] = ()) -> sa.Table:
    return sa.Table(
        table,
        metadata,
        sa.Column(key, Name, key="id", primary_key=True),
        sa.Column("body", sa.Text, nullable=False),
        *columns,
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("created", Moment, nullable=False),
        sa.Column("created_by", sa.Text, nullable=False),
        sa.Column("updated", Moment, nullable=False),
        sa.Column("updated_by", sa.Text, nullable=False),
        *indexes,
    )


def _given(index: str, column: str) -> sa.Index:
    """Of the rows that have it, in the order pages are read in."""
    given = sa.text(f"{column} IS NOT NULL")
    return sa.Index(index, column, "id", postgresql_where=given, sqlite_where=given)


# One row. Whoever changes anything holds it locked until the change is committed.
ledger = sa.Table(
    "ledger",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("epoch", sa.BigInteger, nullable=False),
    sa.Column("version", sa.BigInteger, nullable=False),
    # PostgreSQL's own name for its history: another one after a recovery to a point in time, or a promoted standby.
    sa.Column("timeline", sa.Text),
    sa.CheckConstraint("id = 1", name="ledger_has_one_row"),
)

versions = sa.Table(
    "versions",
    metadata,
    sa.Column("version", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("epoch", sa.BigInteger, nullable=False),
    sa.Column("at", Moment, nullable=False),
    sa.Column("who", sa.Text, nullable=False),
    sa.Column("why", sa.Text),
    sa.Column("verb", sa.Text, nullable=False),
    sa.Column("changes", sa.BigInteger, nullable=False),
    sa.Column("bytes", sa.BigInteger, nullable=False),
)

log = sa.Table(
    "log",
    metadata,
    sa.Column("version", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("kind", sa.SmallInteger, primary_key=True, autoincrement=False),
    sa.Column("id", Name, primary_key=True),
    sa.Column("before", sa.Text),
    sa.Column("after", sa.Text),
    sa.Index("log_of_entry", "kind", "id", "version"),
)

outbox = sa.Table(
    "outbox",
    metadata,
    sa.Column("version", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("epoch", sa.BigInteger, nullable=False),
    sa.Column("at", Moment, nullable=False),
    sa.Column("changes", sa.BigInteger, nullable=False),
    sa.Column("bytes", sa.BigInteger, nullable=False),
    sa.Column("urgent", sa.Boolean, nullable=False),
)

rules = _entries(
    "rules",
    "name",
    sa.Column("enabled", sa.Boolean, nullable=False),
    sa.Column("action", sa.Text, nullable=False),
    sa.Column("priority", sa.Integer, nullable=False),
    sa.Column("group_name", sa.Text),
    indexes=(
        sa.Index("rules_by_enabled", "enabled", "id"),
        sa.Index("rules_by_action", "action", "id"),
        _given("rules_by_group", "group_name"),
    ),
)

# What rules match, a row a value: every filter of a listing is one look-up here.
rule_facts = sa.Table(
    "rule_facts",
    metadata,
    sa.Column("fact", Name, primary_key=True),
    sa.Column("value", Name, primary_key=True),
    sa.Column("rule", Name, primary_key=True),
    sa.Index("rule_facts_by_rule", "rule"),
)

tiers = _entries("tiers", "name", sa.Column("description", sa.Text))

overrides = _entries(
    "overrides",
    "id",
    sa.Column("principal", sa.Text, nullable=False),
    sa.Column("value", sa.Text, nullable=False),
    sa.Column("tier", sa.Text),
    sa.Column("blocked", sa.Boolean, nullable=False),
    indexes=(_given("overrides_by_tier", "tier"), sa.Index("overrides_by_blocked", "blocked", "id")),
)

keys = _entries(
    "keys",
    "id",
    sa.Column("hash", sa.Text, nullable=False),
    sa.Column("name", sa.Text),
    sa.Column("user_id", sa.Text),
    sa.Column("org_id", sa.Text),
    sa.Column("tier", sa.Text),
    sa.Column("expires", Moment),
    sa.Column("revoked", Moment),
    sa.Column("revoked_by", sa.Text),
    sa.Column("last_used", Moment),
    indexes=(
        sa.Index("keys_by_hash", "hash", unique=True),
        _given("keys_by_user", "user_id"),
        _given("keys_by_org", "org_id"),
        _given("keys_by_tier", "tier"),
    ),
)

blocks = _entries(
    "blocks",
    "id",
    sa.Column("what", sa.Text, nullable=False),
    sa.Column("value", sa.Text, nullable=False),
    sa.Column("until", Moment),
    sa.Column("why", sa.Text),
    indexes=(sa.Index("blocks_by_value", "what", "value", "id"), _given("blocks_by_until", "until")),
)

switches = _entries("switches", "id")

# How far each region has been told.
publications = sa.Table(
    "publications",
    metadata,
    sa.Column("region", Name, primary_key=True),
    sa.Column("epoch", sa.BigInteger, nullable=False),
    sa.Column("version", sa.BigInteger, nullable=False),
    sa.Column("published", Moment),
    sa.Column("error", sa.Text),
    sa.Column("failed", Moment),
)

tokens = sa.Table(
    "tokens",
    metadata,
    sa.Column("id", Name, primary_key=True),
    sa.Column("hash", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("role", sa.Text, nullable=False),
    sa.Column("created", Moment, nullable=False),
    sa.Column("created_by", sa.Text, nullable=False),
    sa.Column("expires", Moment),
    sa.Column("revoked", Moment),
    sa.Column("revoked_by", sa.Text),
    sa.Column("last_used", Moment),
)

# Every call of the admin API that changed something or was not allowed.
calls = sa.Table(
    "calls",
    metadata,
    sa.Column("id", Serial, primary_key=True, autoincrement=True),
    sa.Column("at", Moment, nullable=False),
    sa.Column("who", sa.Text),
    sa.Column("method", sa.Text, nullable=False),
    sa.Column("path", sa.Text, nullable=False),
    sa.Column("status", sa.Integer, nullable=False),
    sa.Column("address", sa.Text),
    sa.Column("why", sa.Text),
    sa.Index("calls_by_time", "at"),
    sa.Index("calls_by_who", "who", "id"),
    sa.Index("calls_by_status", "status", "id"),
)

# The last heartbeat of each node.
fleet = sa.Table(
    "fleet",
    metadata,
    sa.Column("node", Name, primary_key=True),
    sa.Column("region", sa.Text),
    sa.Column("epoch", sa.BigInteger, nullable=False),
    sa.Column("version", sa.BigInteger, nullable=False),
    sa.Column("seen", Moment, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
)

TABLES: dict[Kind, sa.Table] = {
    Kind.RULE: rules,
    Kind.OVERRIDE: overrides,
    Kind.BLOCK: blocks,
    Kind.KEY: keys,
    Kind.SWITCH: switches,
    Kind.TIER: tiers,
}

_BOOK_KEEPING = frozenset({"id", "body", "version", "created", "created_by", "updated", "updated_by", "last_used"})

# The columns of each kind that are taken from its body.
DERIVED: dict[Kind, tuple[str, ...]] = {
    kind: tuple(column.key for column in table.columns if column.key not in _BOOK_KEEPING)
    for kind, table in TABLES.items()
}
