"""What each policy lets through while the store is away: SEMANTICS 5.1 and 5.2, with one node and with several."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from typing import Any

import httpx
import pytest

from headgate import Limiter
from headgate._core import Server as HttpServer
from tests.faults.conftest import Recorder
from tests.faults.load import BUSY_LIMIT, Load
from tests.faults.measure import Row, admitted, assert_promises, row, under, while_broken
from tests.faults.node import Node
from tests.faults.store import wait_breaker
from tests.servers.server import Server
from tests.servers.waiting import wait_for

BEFORE_S = 0.5
OUTAGE_S = 1.0
TIMEOUT_S = 20
NODES = 4
WINDOW_S = 2.0
EVER_S = 3_600
CLASSES = {"abuse": "fallback_closed", "paid": "fallback_open", "free": "fallback_local"}


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


def kill_under_load(server: Server, policy: str) -> Load:
    limiter = Limiter(store=server.url, on_store_failure=policy)
    with Load(limiter) as load:
        load.run_for(BEFORE_S)
        with load.breaking():
            server.kill9()
        load.run_for(OUTAGE_S)
    assert_promises(load, policy)
    assert any(sample.degraded for sample in while_broken(load))
    return load


def test_open_lets_everything_through(server: Server, record: Recorder) -> None:
    load = kill_under_load(server, "open")
    assert all(sample.allowed for sample in while_broken(load) if sample.path != "refused_memory")
    record(row("store killed, policy `open`", load, "not tried"))


def test_closed_lets_nothing_through_and_says_to_come_back_in_a_second(server: Server, record: Recorder) -> None:
    load = kill_under_load(server, "closed")
    assert not any(sample.allowed for sample in while_broken(load))
    record(row("store killed, policy `closed`", load, "not tried", f"{under(load):,} refused for want of a store"))


def test_local_lets_one_and_a_half_times_the_limit_through_and_refuses_no_one_below_it(
    server: Server, record: Recorder
) -> None:
    """The only node's share is the whole of it: 2.5 × in the window of the loss."""
    load = kill_under_load(server, "local")
    passed = admitted([sample for sample in load.samples if sample.degraded])
    assert passed <= 1.5 * BUSY_LIMIT
    assert admitted(load.samples) <= 2.5 * BUSY_LIMIT
    assert under(load) == 0
    record(row("store killed, policy `local`, one node", load, "not tried"))


def test_closed_is_503_with_retry_after_1_at_every_door(server: Server) -> None:
    rule = {"name": "login", "by": "user", "limit": "5/minute", "on_store_failure": "closed"}
    limiter = Limiter([rule], store=server.url)
    server.kill9()
    http = HttpServer(limiter, listen="127.0.0.1:0", threads=1)
    http.start()
    try:
        with httpx.Client(base_url=f"http://{http.addresses()['http']}", trust_env=False) as client:
            said = client.post("/v1/check", json={"user": "42"}).json()
    finally:
        http.drain(1.0)
    answer = {"allowed": False, "status": 503, "retry_after": 1, "path": "fallback_closed", "degraded": True}
    assert said.items() >= answer.items()
    decision = limiter.check(user="42")
    assert (decision.status, decision.path, decision.degraded) == (503, "fallback_closed", True)
    assert decision.headers(jitter=0)["Retry-After"] == "1"


def test_a_rules_class_chooses_its_policy(server: Server) -> None:
    """SEMANTICS 5.2."""
    rules = [
        {"name": name, "match": {"tier": name}, "by": "user", "limit": "5/minute", "class": name} for name in CLASSES
    ]
    rules.append({"name": "plain", "match": {"tier": "plain"}, "by": "user", "limit": "5/minute"})
    limiter = Limiter(rules, store=server.url)
    server.kill9()
    limiter.check(user="42", tier="paid")
    wait_breaker(limiter, "open")
    paths = {tier: limiter.check(user="42", tier=tier).path for tier in (*CLASSES, "plain")}
    assert paths == CLASSES | {"plain": "fallback_open"}


@contextlib.contextmanager
def nodes_of(server: Server, count: int) -> Iterator[list[Node]]:
    """So many nodes that know of each other."""
    with contextlib.ExitStack() as stack:
        nodes = [stack.enter_context(Node(server.url)) for _ in range(count)]
        # Each is asked each time: a node that nobody asks anything has not said that it is there.
        wait_for("all have met", lambda: {node.status()["nodes"] for node in nodes} == {count}, TIMEOUT_S)
        yield nodes


def have_lost_the_store(nodes: Sequence[Node]) -> None:
    def all_open() -> bool:
        return all(node.status()["shards"][0]["breaker"] == "open" for node in nodes)

    wait_for("all breakers are open", all_open, TIMEOUT_S)


def ask_all(nodes: Sequence[Node], **order: Any) -> list[dict[str, Any]]:
    for node in nodes:
        node.tell(do="check", **order)
    return [node.hear() for node in nodes]


def most_in_a_window(spans_s: Sequence[tuple[float, float]]) -> int:
    """The most checks that certainly were decided within one window: begun after its start, ended before its end."""
    return max(
        sum(first_s <= start_s and end_s < first_s + WINDOW_S for start_s, end_s in spans_s) for first_s, _ in spans_s
    )


def test_four_nodes_without_a_store_stay_within_one_and_a_half_times_the_limit(
    server: Server, record: Recorder
) -> None:
    """2.5 × in the window of the loss, 1.5 × from the next window on; exactly the limit before."""
    limit, lost_after_s, outage_s = 40, 2.5, 5.0
    with nodes_of(server, NODES) as nodes:
        start_s = time.monotonic()
        for node in nodes:
            order = {"keys": ["k"], "limit": limit, "window_s": WINDOW_S, "until_s": start_s + lost_after_s + outage_s}
            node.tell(do="check", **order)
        time.sleep(lost_after_s)
        lost_s = time.monotonic()
        server.kill9()
        answers = [node.hear() for node in nodes]
    spans_s = [(start_s, end_s) for answer in answers for start_s, end_s in answer["passed"]["k"]]
    assert {path for answer in answers for path in answer["paths"]} == {"store", "refused_memory", "fallback_local"}
    with_store = most_in_a_window([span_s for span_s in spans_s if span_s[1] < lost_s])
    at_loss = most_in_a_window(spans_s)
    later = most_in_a_window([span_s for span_s in spans_s if span_s[0] >= lost_s + WINDOW_S])
    assert with_store <= limit
    assert at_loss <= 2.5 * limit
    assert limit / 2 <= later <= 1.5 * limit
    asked = sum(sum(answer["paths"].values()) for answer in answers)
    by_policy = sum(answer["paths"]["fallback_local"] for answer in answers)
    admission = (
        f"{with_store / limit:.2f} × the limit before, {at_loss / limit:.2f} × in the window of the loss, "
        f"{later / limit:.2f} × from the next on"
    )
    record(
        Row(
            f"store killed, policy `local`, {NODES} nodes",
            before_p50_ms=None,
            before_p99_ms=None,
            during_p50_ms=None,
            during_p99_ms=None,
            asked=asked,
            answered=asked,
            by_policy=by_policy,
            admission=admission,
            recovery="not tried",
        )
    )


@pytest.mark.parametrize(("limit", "passes"), [(1, 1), (2, 3), (40, 60)])
def test_however_small_the_limit_the_nodes_together_pass_one_and_a_half_times_it(
    server: Server, limit: int, passes: int
) -> None:
    """With less than one for each node, a subject's own nodes admit one each: as many as there are to pass."""
    keys = [f"k{number}" for number in range(12)]
    with nodes_of(server, NODES) as nodes:
        server.kill9()
        have_lost_the_store(nodes)
        until_s = time.monotonic() + 0.3
        answers = ask_all(nodes, keys=keys, limit=limit, window_s=EVER_S, until_s=until_s)
    assert {path for answer in answers for path in answer["paths"]} == {"fallback_local"}
    for key in keys:
        assert sum(len(answer["passed"][key]) for answer in answers) == passes, key
    if passes < NODES:
        choices = {tuple(bool(answer["passed"][key]) for answer in answers) for key in keys}
        assert len(choices) > 1, "every subject has nodes of its own"
