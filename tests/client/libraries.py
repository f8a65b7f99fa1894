"""httpx and httpx2 with our transports: whoever speaks the one speaks the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import httpx
import httpx2

import headgate.client.httpx
import headgate.client.httpx2
from headgate.client import RetryOptions, RetryReport
from tests.client.limited_app import PATIENCE_S


@dataclass(frozen=True)
class Library:
    """`http` is the library, `ours` what we have for it."""

    http: Any
    ours: Any

    def client(self, options: RetryOptions | None = None, connections_max: int = 10, **more: Any) -> Any:
        inner = self.http.HTTPTransport(limits=self.http.Limits(max_connections=connections_max))
        return self.http.Client(transport=self.ours.RetryTransport(inner, options, **more), timeout=PATIENCE_S)

    def async_client(
        self, options: RetryOptions | None = None, connections_max: int = 10, **more: Any
    ) -> tuple[Any, Any]:
        """The transport and its client."""
        inner = self.http.AsyncHTTPTransport(limits=self.http.Limits(max_connections=connections_max))
        transport = self.ours.AsyncRetryTransport(inner, options, **more)
        return transport, self.http.AsyncClient(transport=transport, timeout=PATIENCE_S)


LIBRARIES = {
    "httpx": Library(httpx, headgate.client.httpx),
    "httpx2": Library(httpx2, headgate.client.httpx2),
}


def report(response: Any) -> RetryReport:
    found = response.extensions["headgate"]
    assert isinstance(found, RetryReport)
    return found
