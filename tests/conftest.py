"""What every folder of tests may ask for. Nothing is started, or even imported, before it is asked for."""

from __future__ import annotations

from tests.servers.postgres_fixtures import (
    database,
    database_url,
    postgres,
    postgres_url,
    sqlite_template,
    sqlite_url,
)

__all__ = ["database", "database_url", "postgres", "postgres_url", "sqlite_template", "sqlite_url"]
