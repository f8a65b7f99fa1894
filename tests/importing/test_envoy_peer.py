"""The same calls to envoyproxy/ratelimit and to a node that imported its files: any configurations, one answer.

Left out is what is said to differ: calls of which a part is refused (all or nothing), what a shadow limit shows, and
descriptors that are one and the same there once their keys and values are joined.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import pytest
import yaml

from headgate._core import Engine
from headgate._core import Server as Node
from headgate.importing.envoy import read_envoy
from tests.grpc.client import Answer, Client, Descriptor, Status, first_address
from tests.importing.envoy_cases import JOINED, configuration, descriptor
from tests.integration.http_node import PATIENCE_S
from tests.model.ratelimit import Configured, Entries, look_up
from tests.servers.ratelimit import SUBDIRECTORY, Ratelimit, ratelimit
from tests.servers.server import Server

SEED = 7
DOMAINS = 60
CALLS = 25
# Windows that hardly end while this runs.
UNITS = ["day", "week", "month", "year"]
PLENTY = [1_000, 2_000, 3_000, 0]
FEW = [0, 1, 2, 3]


@pytest.fixture(scope="module")
def configured() -> dict[str, Any]:
    """Every second domain has so much that nothing is refused, save where the limit is nothing."""
    random = Random(SEED)
    return {f"d{nth}": configuration(random, [PLENTY, FEW][nth % 2], UNITS) for nth in range(DOMAINS)}


@pytest.fixture(scope="module")
def both(
    configured: dict[str, list[dict[str, Any]]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[Client]]:
    binary, folder = ratelimit().require(), tmp_path_factory.mktemp("ratelimit")
    files = {
        f"{domain}.yaml": yaml.safe_dump({"domain": domain, "descriptors": descriptors}, allow_unicode=True)
        for domain, descriptors in configured.items()
    }
    with Server() as store, Ratelimit(binary, folder, store, files) as peer:
        engine = Engine(store=store.url, store_deadline=PATIENCE_S)
        engine.load_rules(json.dumps(read_envoy([folder / SUBDIRECTORY]).document))
        node = Node(engine, listen="127.0.0.1:0")
        node.start()
        with Client(first_address(node)) as ours, Client(peer.address) as theirs:
            yield [ours, theirs.share_messages(ours)]
        node.drain(0.0)


def told_of(status: Status, is_shadow: bool) -> Any:
    """What both have to say alike of a descriptor."""
    if is_shadow or not status.limit:
        return status.code
    return status.code, status.limit, status.unit, status.remaining


def is_shadow(descriptors: Sequence[Configured], entries: Entries) -> bool:
    found = look_up(descriptors, entries)
    return found is not None and found.is_shadow


def is_joined(entries: Entries) -> bool:
    return any(value == JOINED for _, value in entries)


def test_one_descriptor_is_answered_alike(configured: dict[str, Any], both: list[Client]) -> None:
    random = Random(SEED)
    for domain, descriptors in configured.items():
        pool = [entries for entries in (descriptor(random) for _ in range(8)) if not is_joined(entries)]
        for _ in range(CALLS):
            entries = random.choice(pool)
            hides = is_shadow(descriptors, entries)
            answers = [client.ask(Descriptor(entries), domain=domain) for client in both]
            ours, theirs = [(answer.code, told_of(answer.statuses[0], hides)) for answer in answers]
            assert ours == theirs, (domain, descriptors, entries)


def test_several_descriptors_meet_the_same_limits(configured: dict[str, Any], both: list[Client]) -> None:
    random = Random(SEED + 1)
    for domain, descriptors in list(configured.items())[::2]:
        for _ in range(CALLS):
            call = [descriptor(random) for _ in range(random.randint(2, 4))]
            ours, theirs = [client.ask(*map(Descriptor, call), domain=domain) for client in both]
            assert ours.code == theirs.code, (domain, descriptors, call)
            if theirs.code == "OK":
                assert limits(ours, descriptors, call) == limits(theirs, descriptors, call), (domain, descriptors, call)


def limits(answer: Answer, descriptors: Sequence[Configured], call: Sequence[Entries]) -> list[Any]:
    told = zip(answer.statuses, call, strict=True)
    return [None if is_shadow(descriptors, entries) else (status.limit, status.unit) for status, entries in told]
