"""A key set behind a URL: fetched by a thread of its own, never while a request waits.

Every five minutes; sooner when a token names a key that is not known, but never twice within half a minute, so that
made-up key names cannot drive us against somebody's server; ever more rarely while it fails.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from headgate.setting_values import without_password
from headgate.upkeep.fetch import FetchError, fetch

_LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")

# The key set or None, and what is wrong or None. Raises ValueError for a set that is of no use.
Use = Callable[[str | None, str | None], None]


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds, all of them."""

    refresh_s: float = 300.0
    least_s: float = 30.0
    timeout_s: float = 5.0
    look_s: float = 1.0
    # Part of a wait that is left to chance, so that nodes started together do not ask together.
    jitter: float = 0.1


class JwksUrl:
    """`start` waits for the first answer for as long as one fetch may take, and goes on without it."""

    def __init__(
        self, url: str, use: Use, wants_keys: Callable[[], bool], log: Any, timing: Timing | None = None
    ) -> None:
        self.url = url
        self._use = use
        self._wants_keys = wants_keys
        self._log = log
        self._timing = timing or Timing()
        self._stopping = threading.Event()
        self._first = threading.Event()
        self._failures = 0
        self._thread = threading.Thread(target=self._run, name="headgate-jwks", daemon=True)

    def start(self) -> None:
        where = urlsplit(self.url)
        if where.scheme == "http" and where.hostname not in _LOCAL_HOSTS:
            self._log.warning("keys are fetched without TLS: whoever is in between can make tokens", url=self._shown())
        self._thread.start()
        if not self._first.wait(self._timing.timeout_s):
            self._log.warning("the key set has not come yet; its tokens are refused until it has", url=self._shown())

    def stop(self) -> None:
        self._stopping.set()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._fetch_once()
            self._first.set()
            self._wait(time.monotonic())

    def _fetch_once(self) -> None:
        try:
            self._use(fetch(self.url, self._timing.timeout_s), None)
        except (FetchError, ValueError) as error:
            self._fail(str(error))
        # A mistake of ours must not end the thread: keys would never change again.
        except Exception as error:
            self._fail(f"{type(error).__name__}: {error}")
        else:
            self._failures = 0

    def _fail(self, error: str) -> None:
        self._failures += 1
        self._use(None, f"{self._shown()}: {error}")

    def _wait(self, fetched_s: float) -> None:
        """Until the next fetch is due or wanted."""
        timing = self._timing
        due_s = self._due_s()
        wanted = False
        while not self._stopping.wait(timing.look_s):
            passed_s = time.monotonic() - fetched_s
            wanted = self._wants_keys() or wanted
            if passed_s >= due_s or (wanted and not self._failures and passed_s >= timing.least_s):
                return

    def _due_s(self) -> float:
        timing = self._timing
        wait_s = timing.refresh_s
        if self._failures:
            wait_s = min(wait_s, timing.least_s * 2.0 ** min(self._failures - 1, 20))
        return wait_s * (1 + timing.jitter * random.random())

    def _shown(self) -> object:
        return without_password(self.url)
