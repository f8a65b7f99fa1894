"""The configuration: entries of every kind, their log, and what is still to be published."""

from __future__ import annotations

import time

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from headgate.storage.sql.moments import Moment

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_NAME = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
_TABLES = (
    "switches",
    "blocks",
    "keys",
    "overrides",
    "tiers",
    "rule_facts",
    "rules",
    "outbox",
    "log",
    "versions",
    "ledger",
)


def upgrade() -> None:
    _ledger()
    _history()
    _rules()
    _entries("tiers", "name", sa.Column("description", sa.Text))
    _entries(
        "overrides",
        "id",
        sa.Column("principal", sa.Text, nullable=False),
        sa.Column("value", sa.Text, nullable=False),
        sa.Column("tier", sa.Text),
        sa.Column("blocked", sa.Boolean, nullable=False),
    )
    _given("overrides_by_tier", "overrides", "tier", "id")
    op.create_index("overrides_by_blocked", "overrides", ["blocked", "id"])
    _keys()
    _entries(
        "blocks",
        "id",
        sa.Column("what", sa.Text, nullable=False),
        sa.Column("value", sa.Text, nullable=False),
        sa.Column("until", Moment),
        sa.Column("why", sa.Text),
    )
    op.create_index("blocks_by_value", "blocks", ["what", "value", "id"])
    _given("blocks_by_until", "blocks", "until", "id")
    _entries("switches", "id")


def downgrade() -> None:
    for table in _TABLES:
        op.drop_table(table)


def _ledger() -> None:
    ledger = op.create_table(
        "ledger",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("timeline", sa.Text),
        sa.CheckConstraint("id = 1", name="ledger_has_one_row"),
    )
    op.bulk_insert(ledger, [{"id": 1, "epoch": time.time_ns() // 1_000, "version": 0}])


def _history() -> None:
    op.create_table(
        "versions",
        sa.Column("version", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("at", Moment, nullable=False),
        sa.Column("who", sa.Text, nullable=False),
        sa.Column("why", sa.Text),
        sa.Column("verb", sa.Text, nullable=False),
        sa.Column("changes", sa.BigInteger, nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "log",
        sa.Column("version", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("kind", sa.SmallInteger, primary_key=True, autoincrement=False),
        sa.Column("id", _NAME, primary_key=True),
        sa.Column("before", sa.Text),
        sa.Column("after", sa.Text),
    )
    op.create_index("log_of_entry", "log", ["kind", "id", "version"])
    op.create_table(
        "outbox",
        sa.Column("version", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("at", Moment, nullable=False),
        sa.Column("changes", sa.BigInteger, nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("urgent", sa.Boolean, nullable=False),
    )


def _rules() -> None:
    _entries(
        "rules",
        "name",
        sa.Column("enabled", sa.Boolean, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("priority", sa.Integer, nullable=False),
        sa.Column("group_name", sa.Text),
    )
    op.create_index("rules_by_enabled", "rules", ["enabled", "name"])
    op.create_index("rules_by_action", "rules", ["action", "name"])
    _given("rules_by_group", "rules", "group_name", "name")
    op.create_table(
        "rule_facts",
        sa.Column("fact", _NAME, primary_key=True),
        sa.Column("value", _NAME, primary_key=True),
        sa.Column("rule", _NAME, primary_key=True),
    )
    op.create_index("rule_facts_by_rule", "rule_facts", ["rule"])


def _keys() -> None:
    _entries(
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
    )
    op.create_index("keys_by_hash", "keys", ["hash"], unique=True)
    _given("keys_by_user", "keys", "user_id", "id")
    _given("keys_by_org", "keys", "org_id", "id")
    _given("keys_by_tier", "keys", "tier", "id")


def _entries(table: str, key: str, *columns: sa.Column[object]) -> None:
    op.create_table(
        table,
        sa.Column(key, _NAME, primary_key=True),
        sa.Column("body", sa.Text, nullable=False),
        *columns,
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("created", Moment, nullable=False),
        sa.Column("created_by", sa.Text, nullable=False),
        sa.Column("updated", Moment, nullable=False),
        sa.Column("updated_by", sa.Text, nullable=False),
    )


def _given(index: str, table: str, column: str, key: str) -> None:
    given = sa.text(f"{column} IS NOT NULL")
    op.create_index(index, table, [column, key], postgresql_where=given, sqlite_where=given)
