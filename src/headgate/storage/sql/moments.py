"""Times in the database: aware, in UTC, to the microsecond, on either kind of it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.types import TypeDecorator, TypeEngine

_FORM = "%Y-%m-%dT%H:%M:%S.%fZ"


class Moment(TypeDecorator[datetime]):
    """`timestamptz` on PostgreSQL; on SQLite, which has no such type, a text of fixed width that sorts as times do."""

    impl = sa.Text
    cache_ok = True

    def load_dialect_impl(self, dialect: sa.Dialect) -> TypeEngine[Any]:
        kind: TypeEngine[Any] = sa.TIMESTAMP(timezone=True) if dialect.name == "postgresql" else sa.Text()
        return dialect.type_descriptor(kind)

    def process_bind_param(self, value: datetime | None, dialect: sa.Dialect) -> Any:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value} says no time zone")
        utc = value.astimezone(UTC)
        return utc if dialect.name == "postgresql" else text_of(utc)

    def process_result_value(self, value: Any, dialect: sa.Dialect) -> datetime | None:  # noqa: ARG002
        if value is None or isinstance(value, datetime):
            return value.astimezone(UTC) if value else None
        return datetime.fromisoformat(value)


def text_of(utc: datetime) -> str:
    # strftime does not pad years below 1000 everywhere.
    return f"{utc.year:04d}{utc.strftime(_FORM[2:])}"


def now() -> datetime:
    return datetime.now(UTC)


def moment_of(text: object) -> datetime | None:
    """A time as bodies hold it, RFC 3339 with or without a time of day; None for none."""
    if text is None:
        return None
    when = datetime.fromisoformat(str(text))
    return when.astimezone(UTC) if when.tzinfo else when.replace(tzinfo=UTC)


def microseconds(when: datetime) -> int:
    whole = when - datetime(1970, 1, 1, tzinfo=UTC)
    return (whole.days * 86_400 + whole.seconds) * 1_000_000 + whole.microseconds
