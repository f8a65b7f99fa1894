"""A driver's errors end here: what means that the database is away becomes StorageDown, without any secret in it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import sqlalchemy.exc as sae

from headgate.errors import ConfigError, StorageDown

_WORDS_MAX = 300
_NO_TABLES = "has no tables of Headgate, or older ones; `headgate control` makes them when it starts"


@contextmanager
def told_plainly(place: str, password: str | None) -> Iterator[None]:
    """Around everything that touches the database. Mistakes of ours (a wrong statement) pass unchanged."""
    try:
        yield
    except sae.TimeoutError:
        raise StorageDown(f"{place}: every connection is in use; try again in a moment") from None
    except sae.DBAPIError as error:
        raise _translated(error.orig, place, password) or error from None
    except (psycopg.Error, sqlite3.Error) as error:
        raise _translated(error, place, password) or error from None


def _translated(error: BaseException | None, place: str, password: str | None) -> Exception | None:
    words = _words(error, password)
    if isinstance(error, psycopg.errors.UndefinedTable | psycopg.errors.UndefinedColumn):
        return ConfigError(f"{place}: {_NO_TABLES}")
    if isinstance(error, sqlite3.OperationalError) and words.startswith(("no such table", "no such column")):
        return ConfigError(f"{place}: {_NO_TABLES}")
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        return ConfigError(f"{place}: its user may not do what Headgate needs: {words}")
    if isinstance(error, psycopg.errors.LockNotAvailable) or _is_busy(error):
        return StorageDown(f"{place}: another change is being made and takes long; try again in a moment")
    if isinstance(error, psycopg.errors.QueryCanceled):
        return StorageDown(f"{place}: the database took too long to answer")
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError | psycopg.errors.InternalError):
        return StorageDown(f"{place}: the database does not answer: {words}")
    # A file that is damaged, or none of SQLite's, raises the class itself.
    if isinstance(error, sqlite3.OperationalError) or type(error) is sqlite3.DatabaseError:
        return StorageDown(f"{place}: the database cannot be used: {words}")
    return None


def _is_busy(error: BaseException | None) -> bool:
    code = getattr(error, "sqlite_errorcode", 0) if isinstance(error, sqlite3.OperationalError) else 0
    return code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _words(error: BaseException | None, password: str | None) -> str:
    words = " ".join(str(error).split())
    if password:
        words = words.replace(password, "***")
    return words[:_WORDS_MAX]
