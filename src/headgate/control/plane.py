"""A control plane, put together: database, use cases, publishing, fleet, API. Everything but its door."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headgate.control.changes import Changes
from headgate.control.cuts import Cuts
from headgate.control.epochs import Epochs
from headgate.control.fleet import Fleet
from headgate.control.head import Head
from headgate.control.ledger import Ledger
from headgate.control.local_feed import LocalFeed
from headgate.control.publisher import Publisher
from headgate.control.region import Shared
from headgate.control.snapshots import Snapshots
from headgate.control.sweep import Sweep
from headgate.control.tokens import first_token
from headgate.errors import ConfigError, StorageDown
from headgate.feed.codec import check_key
from headgate.storage.sql import Database

_AGAIN_S = 1.0


@dataclass(frozen=True, slots=True)
class PlaneOptions:
    """`feed_key` authenticates what nodes are sent; without one only the node of this process is sent anything.
    `regions` are names and brokers. `key_secret` is what API keys are hashed under."""

    database: str
    feed_key: bytes | None = field(default=None, repr=False)
    key_secret: bytes | None = field(default=None, repr=False)
    regions: Mapping[str, str] = field(default_factory=dict, repr=False)
    # Metrics and health on the API's own address.
    own_health: bool = True


class ControlPlane:
    """`open` or `open_later`, then what `make_app` gives may be served; `close` at the end."""

    def __init__(self, options: PlaneOptions, log: Any) -> None:
        if options.regions and options.feed_key is None:
            raise ConfigError(
                "regions are published to with a feed key: give feed_key_file (openssl rand -hex 32 > FILE)"
            )
        self._log = log
        self._stopping = threading.Event()
        self._opening: threading.Thread | None = None
        self.database = Database(options.database)
        key = check_key(options.feed_key) if options.feed_key is not None else secrets.token_bytes(32)
        self.key = key
        ledger = Ledger(self.database)
        self._head = Head(ledger, log=log)
        self._snapshots = Snapshots(ledger, key, log=log)
        cuts, epochs = Cuts(ledger, key), Epochs(ledger, self._head, log=log)
        shared = Shared(ledger, self._head, cuts, self._snapshots, epochs, log)
        self.changes = Changes(self.database, key_secret=options.key_secret, committed=self._head.committed)
        self.feed = LocalFeed(self._head, cuts, self._snapshots, epochs)
        self.fleet = Fleet(self.database, self._head, log=log)
        self._publisher = Publisher(
            options.regions, shared, key=key, heard=self.fleet.heard, hurried=lambda: self.fleet.is_awaited
        )
        self.fleet.attach(self._publisher.status, self._publisher.wake)
        self._sweep = Sweep(self.database, self.changes, log=log)
        self._parts = (self._head, self._publisher, self.fleet, self._sweep)
        self._options = options

    def make_app(self) -> Any:
        """The admin API, an ASGI application. Made apart from the rest: what it stands on takes a while to load."""
        from headgate.control.api import Services
        from headgate.control.api import make_app as made

        services = Services(
            database=self.database,
            changes=self.changes,
            fleet=self.fleet,
            feed=self.feed,
            feed_key=self._options.feed_key,
            own_health=self._options.own_health,
        )
        return made(services)

    def open(self) -> str | None:
        """Brings the database up to date and starts what runs beside the API. Gives the text of the first token when
        there was none at all: it is kept nowhere. Raises StorageDown, or ConfigError for a newer release's database."""
        state = self.database.schema_state()
        if state == "newer":
            raise ConfigError(f"{self.database.place} was written by a newer release of Headgate; use that one")
        if state != "current":
            self.database.migrate()
            self._log.info("the database is up to date", database=self.database.place, was=state)
        token = first_token(self.database)
        for part in self._parts:
            part.start()
        return token

    def open_later(self, opened: Callable[[str | None], None]) -> None:
        """`open`, tried until the database answers; meanwhile the API says that it does not."""
        self._opening = threading.Thread(
            target=lambda: self._open_until_it_does(opened), name="headgate-opening", daemon=True
        )
        self._opening.start()

    def close(self) -> None:
        self._stopping.set()
        if self._opening is not None:
            self._opening.join()
        for part in reversed(self._parts):
            part.stop()
        self._snapshots.close()
        self.database.close()

    def _open_until_it_does(self, opened: Callable[[str | None], None]) -> None:
        is_told = False
        while not self._stopping.is_set():
            try:
                return opened(self.open())
            except StorageDown as error:
                if not is_told:
                    self._log.error("the database does not answer; trying again until it does", error=str(error))
                is_told = True
            except ConfigError as error:
                self._log.error("the control plane cannot use its database; trying again", error=str(error))
                self._stopping.wait(10 * _AGAIN_S)
            self._stopping.wait(_AGAIN_S)
