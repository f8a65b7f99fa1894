"""A node that has what was imported from envoyproxy/ratelimit, asked as Envoy asks."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from headgate._core import Engine, FakeClock, Server
from headgate.importing.envoy import read_envoy
from headgate.importing.imported import Imported
from tests.grpc.client import Answer, Client, Descriptor, first_address
from tests.integration.http_node import PATIENCE_S, START_S


def imported(folder: Path, *files: str) -> Imported:
    """Texts as files of a folder, read as one."""
    for nth, text in enumerate(files):
        (folder / f"{nth}.yaml").write_text(textwrap.dedent(text))
    return read_envoy([folder])


@dataclass(frozen=True)
class Asked:
    """A node and its clock; a descriptor is written `key=value,key=value`."""

    client: Client
    clock: FakeClock
    domain: str

    def ask(self, *descriptors: str, domain: str | None = None, hits: int = 0) -> Answer:
        return self.client.ask(*map(described, descriptors), domain=domain or self.domain, hits=hits)

    def admitted(self, *descriptors: str, of: int) -> int:
        """How many of so many calls pass."""
        return sum(self.ask(*descriptors).code == "OK" for _ in range(of))


def described(text: str) -> Descriptor:
    pairs = [entry.partition("=") for entry in text.split(",")]
    return Descriptor([(key, value) for key, _, value in pairs])


@contextmanager
def serving(found: Imported, domain: str = "", store: str | None = None) -> Iterator[Asked]:
    clock = FakeClock(START_S)
    engine = Engine(clock=clock) if store is None else Engine(store=store, store_deadline=PATIENCE_S)
    engine.load_rules(json.dumps(found.document))
    server = Server(engine, listen="127.0.0.1:0")
    server.start()
    client = Client(first_address(server))
    try:
        yield Asked(client, clock, domain)
    finally:
        client.close()
        server.drain(0.0)
