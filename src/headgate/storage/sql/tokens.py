"""Tokens of the admin API: rows in, rows out. Of a token only its hash is kept."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import datetime

import sqlalchemy as sa

from headgate.storage.sql import schema
from headgate.storage.sql.columns import check_text, is_storable
from headgate.storage.sql.transaction import Transaction, WriteTransaction

# One more than a page holds: whether it comes says whether there is another page.
PAGE_ROWS_MAX = 1_001
TEXT_BYTES_MAX = 256
HASHES_MAX = 100_000


@dataclass(frozen=True, slots=True)
class TokenRow:
    id: str
    hash: str = field(repr=False)
    name: str
    role: str
    created: datetime
    created_by: str
    expires: datetime | None = None
    revoked: datetime | None = None
    revoked_by: str | None = None
    last_used: datetime | None = None


def add(tx: Transaction, token: TokenRow) -> None:
    for name in ("id", "hash", "name", "role", "created_by"):
        check_text(getattr(token, name), f"{name} of a token", TEXT_BYTES_MAX)
    tx.execute(schema.tokens.insert(), asdict(token))


def count(tx: Transaction) -> int:
    found: int = tx.execute(sa.select(sa.func.count()).select_from(schema.tokens)).scalar_one()
    return found


def add_first(tx: WriteTransaction, token: TokenRow) -> bool:
    """Only if there is none yet. Under THE lock, so that of two control planes starting at once one makes it."""
    if tx.execute(sa.select(sa.exists(sa.select(schema.tokens.c.id)))).scalar_one():
        return False
    add(tx, token)
    return True


def get(tx: Transaction, token_id: str) -> TokenRow | None:
    if not is_storable(token_id):
        return None
    row = tx.execute(sa.select(schema.tokens).where(schema.tokens.c.id == token_id)).one_or_none()
    return None if row is None else TokenRow(**row._mapping)


def page(tx: Transaction, *, limit: int, after: str | None = None) -> list[TokenRow]:
    """By id, those after `after`."""
    found = sa.select(schema.tokens).order_by(schema.tokens.c.id).limit(min(limit, PAGE_ROWS_MAX))
    if after is not None:
        if not is_storable(after):
            return []
        found = found.where(schema.tokens.c.id > after)
    return [TokenRow(**row._mapping) for row in tx.execute(found)]


def good_hashes(tx: Transaction) -> frozenset[str]:
    """Of the tokens that have not been revoked; as many as anybody has."""
    table = schema.tokens.c
    found = sa.select(table.hash).where(table.revoked.is_(None)).order_by(table.created.desc()).limit(HASHES_MAX)
    return frozenset(tx.execute(found).scalars())


def has_another(tx: Transaction, token_id: str, role: str, now: datetime) -> bool:
    """Whether there is a good token of that role beside this one."""
    table = schema.tokens.c
    is_good = sa.and_(table.revoked.is_(None), sa.or_(table.expires.is_(None), table.expires > now))
    others = sa.select(table.id).where(table.id != token_id, table.role == role, is_good)
    return bool(tx.execute(sa.select(sa.exists(others))).scalar_one())


def revoke(tx: Transaction, token_id: str, at: datetime, by: str) -> bool:
    """False when there is no such token, or it was revoked already; the first revocation stays."""
    if not is_storable(token_id):
        return False
    table = schema.tokens.c
    ended = sa.update(schema.tokens).where(table.id == token_id, table.revoked.is_(None))
    return tx.execute(ended.values(revoked=at, revoked_by=by)).rowcount == 1


def mark_used(tx: Transaction, token_id: str, at: datetime) -> None:
    table = schema.tokens.c
    newer = sa.or_(table.last_used.is_(None), table.last_used < at)
    tx.execute(sa.update(schema.tokens).where(table.id == token_id, newer).values(last_used=at))
