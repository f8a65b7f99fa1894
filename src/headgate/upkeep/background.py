"""Keeps the limiter of a running application up to date, in a thread of its own."""

from __future__ import annotations

import logging
import os
import threading
import weakref
from typing import TYPE_CHECKING

from headgate.limiter import Limiter
from headgate.upkeep.jwks import JwksUrl
from headgate.upkeep.rules_file import RulesFile
from headgate.upkeep.watched_files import WatchedFiles

if TYPE_CHECKING:
    from headgate.upkeep.feed.program import Feed, FollowedFeed

_LOOK_EVERY_S = 1.0
_READY_S = 10.0
_logger = logging.getLogger("headgate")
_making = threading.Lock()


class Upkeep:
    """Takes over what changes in the limiter's rules file and keys file within a second, and fetches its key set; or
    follows a control plane.

    What is wrong is refused, what was there goes on, and the log says so. Whoever starts it stops it; the last to stop
    it ends the thread, and so does the end of the limiter or the program. A forked child starts its own.
    """

    def __init__(self, limiter: Limiter) -> None:
        self._limiter = weakref.ref(limiter)
        self._lock = threading.Lock()
        self._users = 0
        self._running: _Running | None = None
        self._feed: Feed | None = None

    @classmethod
    def of(cls, limiter: Limiter) -> Upkeep:
        """The one of this limiter, made at first use."""
        with _making:
            if not isinstance(limiter._upkeep, Upkeep):
                limiter._upkeep = cls(limiter)
            return limiter._upkeep

    def follow(
        self,
        urls: str,
        *,
        key: bytes,
        snapshot: str | None = None,
        poll_s: float = 30.0,
        node_id: str | None = None,
        region: str | None = None,
    ) -> None:
        """Before `start`: the limiter's rules come from a control plane, and the program is one of its nodes.

        urls      where from, best first, by comma: `redis://…`, `https://…`, `postgresql://…`, `sqlite:///…`, a `.hgs`
        key       the feed key, the same as the control plane's
        snapshot  a file to keep the rules in, for a start with everything else away
        poll_s    seconds between looks at a database that cannot tell of changes
        node_id   what the fleet calls this process; made up unless given
        Raises ConfigError for a source or a key that can never work.
        """
        from headgate.upkeep.feed.program import Feed

        feed = Feed(urls, key, snapshot, poll_s, node_id, region)
        feed.check()
        self._feed = feed

    def start(self) -> None:
        """Does not wait for anything."""
        limiter = self._limiter()
        with self._lock:
            self._users += 1
            if limiter is not None and (self._running is None or self._running.pid != os.getpid()):
                self._running = _Running(limiter, self._feed)
                self._running.start(limiter)

    def wait_until_ready(self) -> None:
        """Until the key set and a control plane's rules have come, for as long as that may take; at once when there are
        none to wait for."""
        running = self._running
        if running is not None:
            running.ready.wait(_READY_S)

    def stop(self) -> None:
        with self._lock:
            self._users = max(0, self._users - 1)
            if self._users == 0 and self._running is not None:
                self._running.stop()
                self._running = None


class _Running:
    """One process's thread. It must not be what keeps a limiter alive."""

    def __init__(self, limiter: Limiter, feed: Feed | None = None) -> None:
        self.pid = os.getpid()
        self._feed = feed
        self._followed: FollowedFeed | None = None
        self.ready = threading.Event()
        self._limiter = weakref.ref(limiter)
        self._stopping = threading.Event()
        self._rules = WatchedFiles()
        self._keys = WatchedFiles()
        self._jwks: JwksUrl | None = None
        self._thread = threading.Thread(target=self._run, name="headgate-upkeep", daemon=True)

    def start(self, limiter: Limiter) -> None:
        self._follow_rules(limiter)
        identity = limiter.identity_options
        if identity is not None:
            self._keys = WatchedFiles(*identity.files)
            self._keys.remember()
        if identity is not None and identity.jwks_url is not None:
            self._jwks = JwksUrl(identity.jwks_url, self._use_jwks, self._wants_keys, _Log())
        if self._rules.paths or self._keys.paths or self._jwks is not None or self._feed is not None:
            self._thread.start()
        else:
            self.ready.set()

    def stop(self) -> None:
        self._stopping.set()
        if self._jwks is not None:
            self._jwks.stop()
        if self._followed is not None:
            self._followed.stop()

    def _run(self) -> None:
        if self._jwks is not None:
            self._jwks.start()
        self._start_feed()
        self.ready.set()
        while not self._stopping.wait(_LOOK_EVERY_S):
            limiter = self._limiter()
            if limiter is None:
                return self.stop()
            self._follow_rules(limiter)
            if self._rules.changed():
                self._reload_rules(limiter)
            if self._keys.changed():
                self._reload_keys(limiter)
            del limiter

    def _start_feed(self) -> None:
        limiter = self._limiter()
        if self._feed is None or limiter is None:
            return
        from headgate.upkeep.feed.program import FollowedFeed

        self._followed = FollowedFeed(limiter, self._feed)
        del limiter
        self._followed.start(_READY_S)
        if self._stopping.is_set():
            self._followed.stop()

    def _follow_rules(self, limiter: Limiter) -> None:
        """The program may have given the limiter another file meanwhile."""
        paths = [] if limiter.rules_path is None else [limiter.rules_path]
        if self._rules.paths != paths:
            self._rules = WatchedFiles(*paths)
            self._rules.remember()

    def _reload_rules(self, limiter: Limiter) -> None:
        path = self._rules.paths[0]
        outcome = RulesFile(limiter, path).reload()
        if outcome.error is None:
            _logger.info("rules reloaded: %d rules from %s", limiter.rule_count(), path)
        else:
            _logger.error("rules refused; the old ones go on: %s", outcome.error)

    def _reload_keys(self, limiter: Limiter) -> None:
        try:
            limiter._apply_identity()
        # Whatever a file does to us, the application goes on with what it has.
        except Exception as error:
            _logger.error("keys refused; the old ones go on: %s", error)
        else:
            _logger.info("keys reloaded from %s", ", ".join(self._keys.paths))

    def _use_jwks(self, text: str | None, error: str | None) -> None:
        limiter = self._limiter()
        if limiter is None:
            self.stop()
        elif error is not None:
            _logger.error("the key set could not be fetched; the keys that are there stay: %s", error)
        elif text is not None:
            limiter._apply_identity(text)

    def _wants_keys(self) -> bool:
        limiter = self._limiter()
        return limiter is not None and limiter._wants_keys()


class _Log:
    """Events with details, as lines of the program's own log."""

    def warning(self, event: str, **details: object) -> None:
        _logger.warning("%s (%s)", event, ", ".join(f"{name}: {value}" for name, value in details.items()))
