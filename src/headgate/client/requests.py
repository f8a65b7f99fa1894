"""An adapter for requests that waits when it is told to."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

try:
    import requests
    import requests.adapters
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"headgate.client.requests needs {error.name}, which is not installed. Run: pip install 'headgate[requests]'",
        name=error.name,
    ) from error

import urllib3.exceptions

from headgate.client.conduct import REFUSAL_BYTES_MAX, REFUSAL_READ_S_MAX, Conduct, RetryReport, Trip
from headgate.client.options import RetryOptions

ATTRIBUTE = "headgate"


class RetryAdapter(requests.adapters.HTTPAdapter):
    """`session.mount("https://", RetryAdapter())`.

    Other arguments are those of `requests.adapters.HTTPAdapter`. `clock`, `wall_clock`, `sleep` and `draw` are there
    for tests, and are the usual ones again after unpickling.
    """

    __attrs__ = [*requests.adapters.HTTPAdapter.__attrs__, "options"]  # noqa: RUF012  # Declared so by requests.

    def __init__(
        self,
        options: RetryOptions | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
        sleep: Callable[[float], object] = time.sleep,
        draw: Callable[[], float] = random.random,
        **adapter: Any,
    ) -> None:
        self.options = RetryOptions() if options is None else options
        self._conduct = Conduct(self.options, draw)
        self._clock, self._wall_clock, self._sleep = clock, wall_clock, sleep
        super().__init__(**adapter)

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[misc]  # The stubs leave it out.
        self._conduct = Conduct(self.options)
        self._clock, self._wall_clock, self._sleep = time.monotonic, time.time, time.sleep

    def send(self, request: requests.PreparedRequest, *args: Any, **kwargs: Any) -> requests.Response:
        with self._trip(request) as trip:
            while True:
                while (wait_s := trip.wait_s(self._clock())) > 0:
                    self._sleep(wait_s)
                response = super().send(request, *args, **kwargs)
                if not trip.must_repeat(response.status_code, response.headers, self._clock(), self._wall_clock()):
                    setattr(response, ATTRIBUTE, trip.report())
                    return response
                self._drop(response)

    def _drop(self, response: requests.Response) -> None:
        until_s = self._clock() + REFUSAL_READ_S_MAX
        # `read` waits for all it is asked for, however slowly it comes; before urllib3 2 there is nothing else.
        read_some: Callable[[int], bytes] = getattr(response.raw, "read1", response.raw.read)
        read = 0
        with contextlib.suppress(urllib3.exceptions.HTTPError, OSError), contextlib.closing(response):
            while read <= REFUSAL_BYTES_MAX and self._clock() <= until_s and (some := read_some(REFUSAL_BYTES_MAX)):
                read += len(some)

    def _trip(self, request: requests.PreparedRequest) -> Trip:
        url = urlsplit(request.url or "")
        can_replay = request.body is None or isinstance(request.body, bytes | str)
        address = (url.scheme, url.netloc.rpartition("@")[2])
        return self._conduct.begin(
            (request.method or "").upper(), address, url.path, request.headers, can_replay=can_replay
        )


def report_of(response: requests.Response) -> RetryReport | None:
    """What became of the request; None for an answer that did not come through a `RetryAdapter`."""
    return getattr(response, ATTRIBUTE, None)
