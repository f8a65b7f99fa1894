"""`headgate node --upstream …` as a process, and what clients and operators see of it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import httpx

from tests.gateway.upstream import Upstream
from tests.gateway.wire import Reply, Wire
from tests.grpc.node_process import NodeProcess
from tests.integration.http_node import PATIENCE_S, parse_metrics
from tests.servers.ports import HOST

# Everybody has a limit that nobody reaches, so that every answer tells of one; few is for those who want to be refused.
RULES: list[dict[str, Any]] = [
    {"name": "everybody", "by": "ip", "limit": "100000000/hour"},
    {"name": "few", "match": {"endpoint": "/few/*"}, "by": "user", "limit": "3/hour"},
    {"name": "closed", "match": {"endpoint": "/closed"}, "action": "block"},
]
# The one address of this machine that is taken for a proxy of ours.
TRUSTED = "127.0.0.9"
SENTINEL = "/sentinel"
_LABELS = re.compile(r'(\w+)="([^"]*)"')


class Gate(NodeProcess):
    def __init__(
        self, folder: Path, upstreams: str | Upstream, *flags: str, rules: list[dict[str, Any]] | None = None
    ) -> None:
        self.url_of_upstream = upstreams if isinstance(upstreams, str) else upstreams.url
        given = ["--upstream", self.url_of_upstream, "--trusted-proxies", f"{TRUSTED}/32", *flags]
        super().__init__(folder, *given, rules=RULES if rules is None else rules)
        self._wires: list[Wire] = []

    def wire(self, source: str = HOST) -> Wire:
        self._wires.append(Wire.to(self.port("http"), source))
        return self._wires[-1]

    def hang_up(self) -> None:
        """Ends the connections of all clients so far."""
        while self._wires:
            self._wires.pop().close()

    def close(self) -> None:
        self.hang_up()
        super().close()

    def get(self, target: str = "/", *fields: str, source: str = HOST) -> Reply:
        """One request on a connection of its own."""
        with Wire.to(self.port("http"), source) as wire:
            return wire.get(target, *fields)

    def says(self, raw: bytes, source: str = HOST) -> Reply:
        with Wire.to(self.port("http"), source) as wire:
            wire.send(raw)
            return wire.answer()

    @property
    def url(self) -> str:
        return f"http://{self.address('http')}"

    def client(self, http2: bool = False) -> httpx.Client:  # type: ignore[override]
        transport = httpx.HTTPTransport(verify=False, http1=not http2, http2=http2)
        return httpx.Client(transport=transport, base_url=self.url, timeout=PATIENCE_S, trust_env=False)

    def samples(self, name: str, **labels: str) -> float:
        """The sum of a metric's samples that have these labels."""
        found = parse_metrics(self.admin("/metrics").text).items()
        return sum(value for sample, value in found if _fits(sample, name, labels.items()))

    def failures(self, reason: str) -> float:
        return self.samples("headgate_upstream_failures_total", reason=reason)

    def busy(self) -> float:
        return self.samples("headgate_upstream_connections", state="busy")


def _fits(sample: str, name: str, labels: Iterable[tuple[str, str]]) -> bool:
    return sample.split("{")[0] == name and set(labels) <= set(_LABELS.findall(sample))
