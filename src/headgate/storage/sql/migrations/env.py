"""What alembic asks for. The connection, and the transaction around everything, are `Database.migrate`'s."""

from __future__ import annotations

from alembic import context

from headgate.storage.sql.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,
    # Begun and committed by the caller, together with its lock.
    transactional_ddl=False,
)
context.run_migrations()
