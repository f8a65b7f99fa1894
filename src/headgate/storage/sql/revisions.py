"""Which tables a database has. Alembic is slow to import and rarely needed, so the state is found out without it."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import sqlalchemy as sa

SchemaState = Literal["empty", "old", "current", "newer"]

# In order; a test holds them together with the files.
REVISIONS = ("0001", "0002")
HEAD = REVISIONS[-1]
BASE = "base"
SCRIPTS = Path(__file__).with_name("migrations")
# Anything, so long as no other program on the same server takes the same.
ADVISORY_LOCK = 0x48_47_41_54_45  # HGATE
VERSION_TABLE = "alembic_version"


def state_of(connection: sa.Connection) -> SchemaState:
    if not sa.inspect(connection).has_table(VERSION_TABLE):
        return "empty"
    found = connection.execute(sa.text(f"SELECT version_num FROM {VERSION_TABLE}")).scalars().all()
    if not found:
        return "empty"
    if list(found) == [HEAD]:
        return "current"
    return "old" if all(revision in REVISIONS for revision in found) else "newer"


def migrate(connection: sa.Connection, revision: str) -> None:
    """Up or down to `revision`, within the transaction that was begun on the connection."""
    from alembic import command
    from alembic.config import Config
    from alembic.runtime.migration import MigrationContext

    config = Config()
    config.set_main_option("script_location", str(SCRIPTS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    current = MigrationContext.configure(connection).get_current_revision() or BASE
    order = (BASE, *REVISIONS)
    if order.index(revision) >= order.index(current):
        command.upgrade(config, revision)
    else:
        command.downgrade(config, revision)
