"""A store that is away, or has forgotten: the rules' policies decide, and then it is asked again."""

from __future__ import annotations

import asyncio
import json

import pytest

from headgate import Limiter
from headgate._core import Decision
from tests.conformance.stores import PATIENT_S, Store
from tests.servers.ports import free_port
from tests.servers.server import Server
from tests.servers.waiting import wait_for

RECOVERY_TIMEOUT_S = 60
POLICIES = [
    {"name": name, "match": {"endpoint": f"/{name}"}, "by": "user", "limit": "5/minute", "on_store_failure": name}
    for name in ("open", "closed", "local")
]


def kinds(limiter: Limiter) -> list[str]:
    return [event["kind"] for event in json.loads(limiter.store_status())["events"]]


def test_forgotten_scripts_are_told_again_without_a_caller_noticing(shared_store: Store) -> None:
    limiter = shared_store.limiter()
    assert limiter.check_limit("k", 9, 60).remaining == 8
    for left in (7, 6):
        for server in shared_store.holders():
            server.command("SCRIPT", "FLUSH")
        decision = limiter.check_limit("k", 9, 60)
        assert (decision.path, decision.remaining) == ("store", left)
    assert "script_reloaded" in kinds(limiter)
    assert "breaker_opened" not in kinds(limiter)


def test_forgotten_scripts_are_told_again_under_way(shared_store: Store) -> None:
    """Many at once, each of which finds the script missing."""
    limiter = shared_store.limiter()

    async def ask() -> list[Decision]:
        await limiter.acheck_limit("warm", 1_000, 60)
        for server in shared_store.holders():
            server.command("SCRIPT", "FLUSH")
        return await asyncio.gather(*(limiter.acheck_limit("k", 50, 60) for _ in range(100)))

    decisions = asyncio.run(ask())
    assert {decision.path for decision in decisions} == {"store"}
    assert sum(decision.allowed for decision in decisions) == 50


@pytest.mark.parametrize("verb", ["refund", "commit", "reset", "peek"])
def test_every_verb_survives_forgotten_scripts(single: Store, verb: str) -> None:
    limiter = single.limiter()
    decision = limiter.check_limit("k", 9, 60, cost=4)
    single.holders()[0].command("SCRIPT", "FLUSH")
    match verb:
        case "refund":
            assert limiter.refund(decision) == 4
        case "commit":
            assert limiter.commit(decision, 1) == 3
        case "reset":
            assert limiter.reset_limit("k", 9, 60) == 1
        case _:
            assert limiter.peek_limit("k", 9, 60, cost=0).remaining == 5
    left = {"refund": 9, "commit": 8, "reset": 9, "peek": 5}[verb]
    assert limiter.peek_limit("k", 9, 60, cost=0).remaining == left


def test_a_store_that_is_away_at_the_start_is_used_when_it_appears() -> None:
    port = free_port()
    limiter = Limiter(POLICIES, store=f"redis://127.0.0.1:{port}", store_deadline=PATIENT_S)
    told = {name: limiter.check(user="42", path=f"/{name}") for name in ("open", "closed", "local")}
    assert {name: (decision.path, decision.allowed) for name, decision in told.items()} == {
        "open": ("fallback_open", True),
        "closed": ("fallback_closed", False),
        "local": ("fallback_local", True),
    }
    assert told["closed"].status == 503
    assert all(decision.degraded for decision in told.values())
    with Server(port=port):
        recovered = lambda: limiter.check(user="43", path="/open").path == "store"  # noqa: E731
        wait_for("the store is asked", recovered, RECOVERY_TIMEOUT_S, limiter.store_status)
        decision = limiter.check(user="44", path="/closed")
        assert (decision.path, decision.degraded, decision.remaining) == ("store", False, 4)
    assert "shard_returned" in kinds(limiter)


def test_a_cluster_that_is_away_at_the_start_is_no_error() -> None:
    limiter = Limiter(store=f"redis+cluster://127.0.0.1:{free_port()}", on_store_failure="closed")
    assert limiter.check_limit("k", 5, 60).path == "fallback_closed"


def test_sentinels_that_are_away_at_the_start_are_no_error() -> None:
    limiter = Limiter(store=f"redis+sentinel://127.0.0.1:{free_port()}/mymaster", on_store_failure="closed")
    assert limiter.check_limit("k", 5, 60).path == "fallback_closed"


def test_a_restarted_server_is_asked_again(own_server: Server) -> None:
    limiter = Limiter(store=own_server.url, store_deadline=PATIENT_S, refused_memory=False)
    assert limiter.check_limit("k", 5, 60).path == "store"
    own_server.restart()
    wait_for("the store is asked", lambda: limiter.check_limit("k", 5, 60).path == "store", RECOVERY_TIMEOUT_S)
