"""Every kind of store, started once and only if a test asks for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.conformance.stores import Store, one
from tests.servers.binaries import flavours
from tests.servers.cluster import SHARDS, Cluster
from tests.servers.sentinel import Sentinels
from tests.servers.server import Server

EVERY_STORE = ("memory", "valkey", "unix", "redis", "sentinel", "cluster", "ring")
MAIN_STORES = ("memory", "valkey", "cluster")
SHARED_STORES = tuple(name for name in EVERY_STORE if name != "memory")
RING_SERVERS = 3


@pytest.fixture(scope="session")
def valkey_server() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture(scope="session")
def memory_store() -> Store:
    return Store("memory", "memory://")


@pytest.fixture(scope="session")
def valkey_store(valkey_server: Server) -> Store:
    return one("valkey", valkey_server)


@pytest.fixture(scope="session")
def unix_store(valkey_server: Server) -> Store:
    return one("unix", valkey_server, valkey_server.unix_url)


@pytest.fixture(scope="session")
def redis_store() -> Iterator[Store]:
    redis = next(flavour for flavour in flavours() if flavour.name == "redis")
    with Server(redis.require()) as server:
        yield one("redis", server)


@pytest.fixture(scope="session")
def sentinel_store() -> Iterator[Store]:
    with Sentinels() as sentinels:
        yield Store("sentinel", sentinels.url, lambda: [sentinels.primary])


@pytest.fixture(scope="session")
def cluster_store() -> Iterator[Store]:
    with Cluster(replicas=1) as cluster:
        yield Store("cluster", cluster.url, lambda: [cluster.primary(shard) for shard in range(SHARDS)])


@pytest.fixture(scope="session")
def ring_store() -> Iterator[Store]:
    with ExitStack() as open_servers:
        servers = [open_servers.enter_context(Server()) for _ in range(RING_SERVERS)]
        yield Store("ring", f"redis+ring://{','.join(server.address for server in servers)}", lambda: servers)


def _store(request: pytest.FixtureRequest) -> Store:
    store: Store = request.getfixturevalue(f"{request.param}_store")
    store.flush()
    return store


@pytest.fixture(params=EVERY_STORE)
def store(request: pytest.FixtureRequest) -> Store:
    """Any store, empty."""
    return _store(request)


@pytest.fixture(params=MAIN_STORES)
def main_store(request: pytest.FixtureRequest) -> Store:
    """One of each sort, for what takes long."""
    return _store(request)


@pytest.fixture(params=SHARED_STORES)
def shared_store(request: pytest.FixtureRequest) -> Store:
    return _store(request)


@pytest.fixture
def single(request: pytest.FixtureRequest) -> Store:
    """One server, for what concerns the limiter's side and not the store's kind."""
    store: Store = request.getfixturevalue("valkey_store")
    store.flush()
    return store


@pytest.fixture
def own_server() -> Iterator[Server]:
    """One that a test may stop, fill or reconfigure."""
    with Server() as server:
        yield server
