"""Its operation: tokens and calls of the admin API, regions and nodes, and when a key was last used."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from headgate.storage.sql.moments import Moment

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_NAME = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
_SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    with op.batch_alter_table("keys") as keys:
        keys.add_column(sa.Column("last_used", Moment))
    op.create_table(
        "publications",
        sa.Column("region", _NAME, primary_key=True),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("published", Moment),
        sa.Column("error", sa.Text),
        sa.Column("failed", Moment),
    )
    op.create_table(
        "tokens",
        sa.Column("id", _NAME, primary_key=True),
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
    op.create_table(
        "calls",
        sa.Column("id", _SERIAL, primary_key=True, autoincrement=True),
        sa.Column("at", Moment, nullable=False),
        sa.Column("who", sa.Text),
        sa.Column("method", sa.Text, nullable=False),
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("status", sa.Integer, nullable=False),
        sa.Column("address", sa.Text),
        sa.Column("why", sa.Text),
    )
    op.create_index("calls_by_time", "calls", ["at"])
    op.create_index("calls_by_who", "calls", ["who", "id"])
    op.create_index("calls_by_status", "calls", ["status", "id"])
    op.create_table(
        "fleet",
        sa.Column("node", _NAME, primary_key=True),
        sa.Column("region", sa.Text),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("seen", Moment, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
    )


def downgrade() -> None:
    for table in ("fleet", "calls", "tokens", "publications"):
        op.drop_table(table)
    with op.batch_alter_table("keys") as keys:
        keys.drop_column("last_used")
