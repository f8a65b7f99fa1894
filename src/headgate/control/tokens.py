"""Tokens of the admin API: who may look, who may change rules, who may do everything.

A token is `hga_<id>_<secret>`: the id finds its row, 256 bits of secret make it good. The database keeps a SHA-256 of
the whole text (a secret of that length needs no slower hash), so neither a backup nor a reader of the database can use
one.
"""

from __future__ import annotations

import enum
import hashlib
import hmac
import re
import secrets
import string
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from headgate.errors import ConfigError, StorageDown
from headgate.storage.sql import Database, tokens
from headgate.storage.sql.tokens import TokenRow

_LETTERS = string.ascii_lowercase + string.digits
_SECRET_LETTERS = string.ascii_letters + string.digits
_ID_CHARS = 12
# 43 of 62 letters: 256 bits.
_SECRET_CHARS = 43
_FORM = re.compile(rf"hga_([a-z][a-z0-9]{{{_ID_CHARS - 1}}})_[A-Za-z0-9]{{{_SECRET_CHARS}}}")

NAME_BYTES_MAX = 128
FIRST_NAME = "first"
# Who makes changes that nobody asked for: expired blocks, the first token.
OWN_NAME = "headgate"
# A token revoked through another control plane is good here for at most this long.
CACHE_S = 1.0
CACHED_MAX = 10_000
LIST_TIMEOUT_S = 2.0
# When a token was last used is told to about a minute.
USED_EVERY = timedelta(minutes=1)


class Role(enum.IntEnum):
    """What a token may do; each may do what those before it may."""

    VIEWER = 1
    EDITOR = 2
    ADMIN = 3

    @property
    def word(self) -> str:
        return self.name.lower()

    @classmethod
    def of(cls, word: str) -> Role:
        return cls[word.upper()]


class Refusal(enum.Enum):
    """Why somebody is not let in: for the record of calls. A client is told less."""

    MISSING = "no token"
    MALFORMED = "malformed token"
    UNKNOWN = "unknown token"
    EXPIRED = "expired token"
    REVOKED = "revoked token"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who a good token belongs to. `name` is what history calls them."""

    id: str
    name: str
    role: Role
    expires: datetime | None = None


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token at the only moment its text is known."""

    row: TokenRow
    text: str = field(repr=False)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def new_token(name: str, role: Role, *, by: str, expires: datetime | None = None) -> NewToken:
    token_id = secrets.choice(string.ascii_lowercase) + "".join(secrets.choice(_LETTERS) for _ in range(_ID_CHARS - 1))
    text = f"hga_{token_id}_" + "".join(secrets.choice(_SECRET_LETTERS) for _ in range(_SECRET_CHARS))
    row = TokenRow(
        id=token_id,
        name=name,
        role=role.word,
        hash=digest(text),
        created=datetime.now(UTC),
        created_by=by,
        expires=expires,
        revoked=None,
        revoked_by=None,
    )
    return NewToken(row, text)


def first_token(database: Database) -> str | None:
    """The text of a first token for everything, when there is none at all; None when there is one already.

    Under the lock of the database, so that two control planes that start at once make one."""
    made = new_token(FIRST_NAME, Role.ADMIN, by=OWN_NAME)
    with database.write() as tx:
        return made.text if tokens.add_first(tx, made.row) else None


def state(row: TokenRow, now: datetime) -> str:
    """`revoked`, `expired` or `active`, in that order."""
    if row.revoked is not None and row.revoked <= now:
        return "revoked"
    if row.expires is not None and row.expires <= now:
        return "expired"
    return "active"


class Doorman:
    """Knows callers by their tokens. A row is remembered for a second at most; one revoked here is forgotten."""

    def __init__(
        self,
        database: Database,
        *,
        used: Callable[[str, datetime], None] = lambda *_: None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`used` is told now and then that a token was, and must not wait."""
        self._database = database
        self._used = used
        self._now = now
        self._lock = threading.Lock()
        self._known: dict[str, tuple[TokenRow, float]] = {}
        # Counts what was forgotten: a row read before that must not be remembered after it.
        self._forgotten = 0
        self._listing = threading.Lock()
        self._listed_s = float("-inf")
        self._hashes: frozenset[str] = frozenset()

    def remembered(self, text: str | None) -> Caller | None:
        """A caller known a moment ago, without asking the database."""
        token_id = _token_id(text)
        if text is None or token_id is None:
            return None
        with self._lock:
            row, since = self._known.get(token_id, (None, 0.0))
        if row is None or self._now() - since > CACHE_S:
            return None
        found = _judge(row, text)
        return found if isinstance(found, Caller) else None

    def admit(self, text: str | None) -> Caller | Refusal:
        """Raises StorageDown when the database does not answer, or has no tables yet."""
        if not text:
            return Refusal.MISSING
        token_id = _token_id(text)
        if token_id is None:
            return Refusal.MALFORMED
        asked, forgotten = self._now(), self._forgotten
        try:
            with self._database.read() as tx:
                row = tokens.get(tx, token_id)
        except ConfigError as error:
            raise StorageDown(str(error)) from None
        if row is None:
            return Refusal.UNKNOWN
        found = _judge(row, text)
        if isinstance(found, Caller):
            with self._lock:
                if len(self._known) >= CACHED_MAX:
                    self._known.clear()
                if forgotten == self._forgotten:
                    self._known[token_id] = (row, asked)
            at = datetime.now(UTC)
            if row.last_used is None or at - row.last_used > USED_EVERY:
                self._used(token_id, at)
        return found

    def holds_one(self, text: str | None) -> bool:
        """Whether this is a token that was made and not revoked, at the price of one question a second however many
        ask: for callers whose address is shared with somebody who guesses. `admit` has the last word.

        Raises StorageDown."""
        if text is None or _token_id(text) is None:
            return False
        with self._listing:
            if self._now() - self._listed_s > CACHE_S:
                # Also when it fails: a database that is away is asked no more often.
                self._listed_s = self._now()
                try:
                    with self._database.read(timeout_s=LIST_TIMEOUT_S) as tx:
                        self._hashes = tokens.good_hashes(tx)
                except ConfigError as error:
                    raise StorageDown(str(error)) from None
            return digest(text) in self._hashes

    def forget(self, token_id: str) -> None:
        with self._lock:
            self._forgotten += 1
            self._known.pop(token_id, None)


def _token_id(text: str | None) -> str | None:
    found = _FORM.fullmatch(text) if text else None
    return found[1] if found else None


def _judge(row: TokenRow, text: str) -> Caller | Refusal:
    # The secret first: who does not know it learns nothing of the row.
    if not hmac.compare_digest(row.hash, digest(text)):
        return Refusal.UNKNOWN
    standing = state(row, datetime.now(UTC))
    if standing == "revoked":
        return Refusal.REVOKED
    if standing == "expired":
        return Refusal.EXPIRED
    return Caller(row.id, row.name, Role.of(row.role), row.expires)
