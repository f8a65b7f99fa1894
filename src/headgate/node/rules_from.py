"""Where a node's rules come from: a file it watches, or a control plane it follows."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Sequence
from typing import Any, Protocol

import headgate._core as _core
from headgate.errors import ConfigError, HeadgateError
from headgate.feed.places import is_feed
from headgate.identity import read_secret
from headgate.limiter import Limiter
from headgate.running.chores import Chore
from headgate.settings import Settings
from headgate.upkeep.feed.follower import Follower
from headgate.upkeep.feed.source import Source
from headgate.upkeep.feed.urls import make_sources, shown_sources
from headgate.upkeep.rules_file import STARTER_FILE, RulesFile

# What a start waits for a control plane before it gives up.
FIRST_S = 15.0


class RulesFrom(Protocol):
    """`load` once, before anything is answered; `chores` while answering; `stop` at the end."""

    @property
    def place(self) -> str:
        """As it may be shown."""

    def load(self, limiter: Limiter, log: Any) -> None:
        """Raises HeadgateError when there are no rules to begin with."""

    def chores(self, limiter: Limiter, server: _core.Server, log: Any) -> Sequence[Chore]: ...

    def stop(self) -> None: ...


class FileRules:
    """A file, or a folder of envoyproxy/ratelimit's: changes are taken over when they are saved, and on SIGHUP."""

    def __init__(self, path: str, poll_s: float) -> None:
        self.place = path
        self._poll_s = poll_s
        self._file: RulesFile | None = None

    def load(self, limiter: Limiter, log: Any) -> None:
        self._file = RulesFile(limiter, self.place)
        self._file.load()
        self._tell(log)

    def chores(self, limiter: Limiter, server: _core.Server, log: Any) -> Sequence[Chore]:
        return [Chore(lambda asked: self._look(limiter, server, log, asked), self._poll_s)]

    def stop(self) -> None:
        """Nothing runs."""

    def _look(self, limiter: Limiter, server: _core.Server, log: Any, asked: bool) -> None:
        assert self._file is not None
        outcome = self._file.reload() if asked else self._file.poll()
        if outcome is None:
            return
        server.set_rules_error(outcome.error)
        state = {"rules": limiter.rule_count(), "version": limiter.rules_version(), "file": self.place}
        if outcome.error is None:
            log.info("rules reloaded", **state)
            self._tell(log)
        else:
            log.error("rules refused; the old ones go on", error=outcome.error, **state)

    def _tell(self, log: Any) -> None:
        """What of another limiter's files is not as it was there; the rest is for `headgate rules import` to say."""
        assert self._file is not None
        left_out = [note for note in self._file.notes if note.level == "cannot"]
        if left_out:
            first = left_out[0]
            log.warning("not all could be taken over", places=len(left_out), first=first.where, what=first.what)


class FeedRules:
    """A control plane, through any of several sources; a copy on disk when all of them are away."""

    def __init__(
        self,
        sources: Sequence[Source],
        *,
        key: bytes,
        settings: Settings,
        snapshot_path: str | None,
        secret: bytes | None,
    ) -> None:
        self.place = shown_sources(sources)
        self._sources = sources
        self._key = key
        self._settings = settings
        self._snapshot_path = snapshot_path
        self._secret = secret
        self._follower: Follower | None = None

    def load(self, limiter: Limiter, log: Any) -> None:
        if self._secret is not None:
            try:
                limiter.take_keys_from_feed(self._secret)
            except ValueError as error:
                raise ConfigError(str(error)) from None
        self._follower = Follower(
            limiter,
            self._sources,
            key=self._key,
            snapshot_path=self._snapshot_path,
            node_id=self._settings.node_id or f"{socket.gethostname()}-{secrets.token_hex(3)}",
            region=self._settings.region,
            log=log,
        )
        self._follower.start()
        try:
            self._follower.first(FIRST_S)
        except HeadgateError:
            self._follower.stop()
            raise

    def chores(self, limiter: Limiter, server: _core.Server, log: Any) -> Sequence[Chore]:  # noqa: ARG002
        return []

    def stop(self) -> None:
        if self._follower is not None:
            self._follower.stop()


def rules_from(settings: Settings) -> RulesFrom:
    """As settings say. Raises ConfigError."""
    if settings.rules is None or not is_feed(settings.rules):
        return FileRules(settings.rules or str(STARTER_FILE), settings.rules_poll_s)
    if settings.feed_key_file is None:
        raise ConfigError(
            "rules that a control plane sends are authenticated: give feed_key_file, the same as the control plane's"
        )
    key = read_secret(settings.feed_key_file)
    return FeedRules(
        make_sources(settings.rules, key=key, poll_s=settings.feed_poll_s),
        key=key,
        settings=settings,
        snapshot_path=settings.feed_snapshot,
        secret=feed_key_secret(settings),
    )


def feed_key_secret(settings: Settings) -> bytes | None:
    """What API keys of the feed are hashed under; None when keys come from a file, or not at all."""
    if settings.api_key_secret_file is None or settings.api_keys is not None:
        return None
    return read_secret(settings.api_key_secret_file)
