"""A client with an address of its own, whose requests go out exactly as written."""

from __future__ import annotations

import http.client
import itertools
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.servers.ports import HOST

# How long anything may take before a test gives up waiting.
PATIENCE_S = 60.0
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes
    took_s: float

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def seen(self) -> Seen:
        """What the application saw; fails when the answer is not the application's."""
        found = self.json()
        return Seen(found["method"], found["path"], found["headers"], found["body"])


@dataclass(frozen=True)
class Seen:
    method: str
    path: str
    headers: list[list[str]]
    body: str

    def header(self, name: str) -> str | None:
        """As an application sees it that takes underscores for dashes."""
        values = [value for key, value in self.headers if key.replace("_", "-") == name.lower()]
        assert len(values) <= 1, values
        return values[0] if values else None


@dataclass
class Client:
    """Each is a machine of its own, as far as the proxy can see: it connects from its own loopback address."""

    port: int
    ip: str = field(default_factory=lambda: _next_address())

    def get(self, path: str = "/", headers: Mapping[str, str] | None = None) -> Answer:
        return self.ask("GET", path, headers)

    def login(self, headers: Mapping[str, str] | None = None, path: str = "/login") -> Answer:
        return self.ask("POST", path, headers, b"name=x")

    def ask(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes | None = None
    ) -> Answer:
        connection = http.client.HTTPConnection(HOST, self.port, PATIENCE_S, source_address=(self.ip, 0))
        start_s = time.monotonic()
        try:
            connection.request(method, path, body, dict(headers or {}))
            answer = connection.getresponse()
            body = answer.read()
        finally:
            connection.close()
        seen = {name.lower(): value for name, value in answer.getheaders()}
        assert len(seen) == len(answer.getheaders()), f"a header came twice: {answer.getheaders()}"
        return Answer(answer.status, seen, body, time.monotonic() - start_s)


def _next_address() -> str:
    number = next(_numbers)
    return f"127.77.{number // 250}.{number % 250 + 1}"
