"""A node's HTTP server in this process, on a clock of the test's own, and clients that see every byte of it."""

from __future__ import annotations

import json
import re
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

import httpx

from headgate._core import Engine, FakeClock, Server

# How long anything may take before a test gives up waiting; nothing is asserted about how fast it was.
PATIENCE_S = 30.0
START_S = 1_760_000_000.0
RULES: list[dict[str, Any]] = [
    {"name": "per-user", "by": "user", "limit": "5/minute"},
    {"name": "per-org", "by": "org", "limit": "2/minute"},
    {"name": "banned", "match": {"user": "mallory"}, "action": "block"},
]


def eventually(what: Callable[[], Any]) -> Any:
    """The first true answer of `what`."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        answer = what()
        if answer:
            return answer
        time.sleep(0.01)
    raise AssertionError(f"waited {PATIENCE_S} s in vain")


@dataclass(frozen=True)
class Reply:
    version: str
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Wire:
    """A connection on which requests are written by hand."""

    def __init__(self, connected: socket.socket) -> None:
        self.socket = connected
        self.socket.settimeout(PATIENCE_S)
        self.stream = connected.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.stream.close()
        self.socket.close()

    def reset(self) -> None:
        """Ends it as a crashed client would: at once, with what was under way thrown away."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def send(self, data: bytes | str) -> None:
        self.socket.sendall(data.encode() if isinstance(data, str) else data)

    def ask(self, method: str, path: str, body: str = "", *headers: str) -> None:
        self.send(request(method, path, body, *headers))

    def reply(self, method: str = "GET") -> Reply:
        version, status, _ = self.stream.readline().decode("ascii").split(" ", 2)
        headers: dict[str, str] = {}
        while line := self.stream.readline().decode("ascii").strip():
            name, value = line.split(":", 1)
            assert name.lower() not in headers
            headers[name.lower()] = value.strip()
        length = 0 if method == "HEAD" or status == "100" else int(headers["content-length"])
        return Reply(version, int(status), headers, self.stream.read(length))

    def rest(self) -> bytes:
        """Everything until the server ends the connection, politely or not."""
        try:
            return self.stream.read()
        except ConnectionError:
            return b""


def request(method: str, path: str, body: str = "", *headers: str) -> str:
    lines = [f"{method} {path} HTTP/1.1", "host: node", *headers]
    if body:
        lines.append(f"content-length: {len(body.encode())}")
    return "\r\n".join(lines) + "\r\n\r\n" + body


@dataclass
class Node:
    """A server with its engine; the clients of its first address."""

    engine: Engine
    clock: FakeClock
    server: Server
    wires: list[Wire] = field(default_factory=list)
    clients: list[httpx.Client] = field(default_factory=list)

    @classmethod
    def bound(cls, rules: list[dict[str, Any]] | None = None, **options: Any) -> Node:
        """Bound, not yet answering."""
        clock = FakeClock(START_S)
        engine = Engine(clock=clock)
        engine.load_rules(json.dumps({"rules": RULES if rules is None else rules}))
        return cls(engine, clock, Server(engine, **options))

    def end(self) -> None:
        for client in self.clients:
            client.close()
        for wire in self.wires:
            wire.close()
        self.server.drain(0.0)

    def connect(self) -> Wire:
        address = next(iter(self.server.addresses().values()))
        if address.startswith("unix:"):
            connected = socket.socket(socket.AF_UNIX)
            try:
                connected.connect(address.removeprefix("unix:"))
            except OSError:
                connected.close()
                raise
        else:
            host, port = address.rsplit(":", 1)
            connected = socket.create_connection((host, int(port)), PATIENCE_S)
        self.wires.append(Wire(connected))
        return self.wires[-1]

    def client(self) -> httpx.Client:
        address = next(iter(self.server.addresses().values()))
        uds = address.removeprefix("unix:") if address.startswith("unix:") else None
        # Loading certificates that plain HTTP never looks at would take longer than the tests.
        transport = httpx.HTTPTransport(uds=uds, verify=False)
        url = "http://node" if uds else f"http://{address}"
        self.clients.append(httpx.Client(transport=transport, base_url=url, timeout=PATIENCE_S, trust_env=False))
        return self.clients[-1]

    def is_healthy(self) -> bool:
        with self.connect() as wire:
            wire.ask("GET", "/healthz")
            return wire.reply().status == 200

    def refuses_connections(self) -> bool:
        try:
            self.connect().close()
        except (ConnectionRefusedError, FileNotFoundError):
            return True
        return False

    def metrics(self) -> dict[str, float]:
        with self.connect() as wire:
            wire.ask("GET", "/metrics")
            return parse_metrics(wire.reply().body.decode())

    def decisions(self) -> dict[str, float]:
        """Every number that tells of decisions."""
        counted = ("headgate_decisions_total", "headgate_rule_decisions_total", "headgate_keys")
        return {sample: value for sample, value in self.metrics().items() if sample.startswith(counted)}

    def decided(self) -> float:
        samples = self.metrics().items()
        return sum(value for sample, value in samples if sample.startswith("headgate_decisions_total"))

    def remaining(self, user: str = "42") -> int | None:
        return self.engine.peek(user=user, cost=0).remaining


NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
SAMPLE = re.compile(rf"({NAME})(?:\{{{LABEL}(?:,{LABEL})*\}})? (\S+)")
HEAD = re.compile(rf"# (HELP|TYPE) ({NAME}) (.+)")
KINDS = ("counter", "gauge", "histogram", "summary", "untyped")


def parse_metrics(text: str) -> dict[str, float]:
    """Prometheus' text format, read strictly: each family described once and before its samples, none twice."""
    assert text.endswith("\n")
    described: dict[str, list[str]] = {}
    samples: dict[str, float] = {}
    family = ""
    for line in text.splitlines():
        head = HEAD.fullmatch(line)
        if head is not None:
            family = head[2]
            described.setdefault(family, []).append(head[1])
            assert head[1] == "HELP" or head[3] in KINDS, line
            continue
        sample = SAMPLE.fullmatch(line)
        assert sample is not None, line
        assert sample[1] == family, f"{line} stands under {family}"
        name = line.rsplit(" ", 1)[0]
        assert name not in samples, line
        samples[name] = float(sample[2])
    assert all(heads == ["HELP", "TYPE"] for heads in described.values()), described
    return samples
