"""`headgate serve`, from start to drain: the control plane first, then the node that follows it."""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
import os
import secrets
import tempfile
import threading
from typing import Any

from headgate.control.plane import ControlPlane, PlaneOptions
from headgate.control.process import plane_options, show_first_token
from headgate.embedded.local_source import LocalSource
from headgate.embedded.rules_file import AppliedFile, WatchedRules, apply_starter
from headgate.errors import ConfigError
from headgate.feed.places import is_feed
from headgate.identity import read_secret
from headgate.node.process import answer, configured_log
from headgate.node.rules_from import FeedRules
from headgate.settings import Settings
from headgate.upkeep.rules_file import STARTER_FILE

_SQLITE = "sqlite:///"
_SECRET_BYTES = 32


def run(settings: Settings, *, ready_file: str | None = None) -> int:
    """Serve until told to stop; gives the exit code. Raises HeadgateError for rules, settings or a database that cannot
    be used and OSError for an address that cannot be bound, before anything is answered."""
    assert settings.database is not None
    if settings.rules is not None and is_feed(settings.rules):
        raise ConfigError(
            "`headgate serve` has a control plane of its own; to follow another one use `headgate node --rules URL`"
        )
    if settings.upstream is not None and settings.admin is None:
        raise ConfigError(
            "with an upstream every request to the listening address goes there: give --admin HOST:PORT as well, where "
            "health, metrics and the control plane are answered"
        )
    log = configured_log(settings)
    options = _with_secret(plane_options(settings, settings.database), settings, log)
    plane = ControlPlane(options, log)
    with tempfile.TemporaryDirectory(prefix="headgate-") as folder:
        # Only this process reaches the API here; others come in by the node's door, which waits for it.
        api = _Api(plane, os.path.join(folder, "control.sock"), log)
        try:
            token = plane.open()
            rules = _rules(settings, plane, options, log)
            api.start()
            if token is not None:
                show_first_token(token)
            return answer(settings, rules, log, ready_file=ready_file, control=api.path)
        finally:
            api.stop()
            plane.close()


class _Api:
    """The admin API, loaded while the node answers already."""

    def __init__(self, plane: ControlPlane, path: str, log: Any) -> None:
        self.path = path
        self._plane = plane
        self._log = log
        self._server: Any = None
        self._thread = threading.Thread(target=self._start, name="headgate-control-start", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        if self._thread.ident is not None:
            self._thread.join()
        if self._server is not None:
            self._server.stop()

    def _start(self) -> None:
        try:
            from headgate.control.web_server import WebServer

            self._server = WebServer(self._plane.make_app(), uds=self.path)
            self._server.start()
        # The node answers without it; whoever asks for it is told that it is not there.
        except Exception as error:
            self._log.error("the admin API could not be started", error=f"{type(error).__name__}: {error}")


def _rules(settings: Settings, plane: ControlPlane, options: PlaneOptions, log: Any) -> WatchedRules:
    file = None if settings.rules is None else AppliedFile(plane, settings.rules)
    if file is not None:
        file.apply()
    elif _is_empty(plane):
        apply_starter(plane)
        log.info("no rules were given; using the starter rules", copy_from=str(STARTER_FILE), give="--rules FILE")
    secret = None if settings.api_keys is not None else options.key_secret
    feed = FeedRules([LocalSource(plane)], key=plane.key, settings=settings, snapshot_path=None, secret=secret)
    return WatchedRules(feed, file, settings.rules_poll_s)


def _is_empty(plane: ControlPlane) -> bool:
    with plane.database.read() as tx:
        return tx.head.version == 0


def _with_secret(options: PlaneOptions, settings: Settings, log: Any) -> PlaneOptions:
    """On SQLite, what is hashed and authenticated with is made beside the database unless it is given."""
    path = settings.database or ""
    if not path.startswith(_SQLITE) or options.key_secret is not None:
        return dataclasses.replace(options, own_health=False)
    secret = _made_secret(f"{path.removeprefix(_SQLITE)}.secret", log)
    derived = hmac.digest(secret, b"headgate api keys", hashlib.sha256)
    return dataclasses.replace(options, key_secret=derived, own_health=False)


def _made_secret(path: str, log: Any) -> bytes:
    """Readable by its owner only, from the first moment."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        secret = read_secret(path)
        if len(secret) < _SECRET_BYTES:
            raise ConfigError(f"{path}: is too weak: {len(secret)} bytes, expected {_SECRET_BYTES}") from None
        return secret
    except OSError as error:
        raise ConfigError(f"{path}: cannot be made: {error.strerror or error}") from None
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        text = secrets.token_hex(_SECRET_BYTES)
        file.write(text + "\n")
    log.info("made a secret for API keys; keep it with the database", file=path)
    return text.encode()
