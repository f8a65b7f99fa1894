"""Headgate killed or hung: each proxy does what its example says it will, and limits again when Headgate is back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.proxies.client import Answer, Client
from tests.proxies.example import TIMEOUT_S
from tests.proxies.fronts import EACH_PROXY, TRAEFIK_DIRECTLY, Front
from tests.proxies.stack import Stack
from tests.proxies.test_refusals import LOGINS, RATE_HEADERS
from tests.proxies.tokens import bearer
from tests.servers.ports import HOST, free_port
from tests.servers.waiting import wait_for

# Twenty times what the examples allow a hung node; a proxy that waits for ever is still found.
HUNG_MAX_S = 20 * TIMEOUT_S
RECOVERY_TIMEOUT_S = 60.0
Starter = Callable[..., Stack]


@pytest.fixture
def start() -> Iterator[Starter]:
    stacks: list[Stack] = []

    def starter(front: Front, **options: Any) -> Stack:
        stacks.append(Stack(front, **options))
        return stacks[-1]

    yield starter
    for stack in stacks:
        stack.close()


def _goes_on_uncounted(client: Client, logins: list[Answer]) -> None:
    assert [login.status for login in logins] == [200] * len(logins)
    assert [login.seen.body for login in logins] == ["name=x"] * len(logins)
    assert not any(login.headers.keys() & (RATE_HEADERS | {"retry-after"}) for login in logins)
    # Nobody vouches for the client now, least of all the client.
    lying = client.get("/", {**bearer("42"), "X-Headgate-User": "root"})
    assert lying.seen.header("X-Headgate-User") is None


def _limits_again(stack: Stack) -> None:
    client = stack.client()
    wait_for("a refusal", lambda: client.login().status == 429, RECOVERY_TIMEOUT_S, stack.log_tail)


@pytest.mark.parametrize("front", EACH_PROXY, ids=str)
def test_a_killed_node_leaves_the_door_open_until_it_is_back(start: Starter, front: Front) -> None:
    stack = start(front)
    client = stack.client()
    stack.node.kill9()
    _goes_on_uncounted(client, [client.login() for _ in range(LOGINS + 2)])
    stack.node.restart()
    _limits_again(stack)


@pytest.mark.parametrize("front", EACH_PROXY, ids=str)
def test_a_hung_node_costs_its_time_out_and_leaves_the_door_open_until_it_goes_on(start: Starter, front: Front) -> None:
    stack = start(front, is_patient=False)
    client = stack.client()
    stack.node.hang()
    logins = [client.login() for _ in range(LOGINS + 2)]
    _goes_on_uncounted(client, logins)
    assert max(login.took_s for login in logins) < HUNG_MAX_S
    stack.node.go_on()
    _limits_again(stack)


@pytest.mark.parametrize("front", EACH_PROXY, ids=str)
def test_turned_round_a_killed_or_hung_node_closes_the_door_until_it_is_back(start: Starter, front: Front) -> None:
    stack = start(front, is_patient=False, is_closed=True)
    client = stack.client()
    stack.node.hang()
    refused = client.get("/")
    assert refused.status == front.hung_status
    assert refused.took_s < HUNG_MAX_S
    stack.node.go_on()
    wait_for("an answer again", lambda: client.get("/").status == 200, RECOVERY_TIMEOUT_S, stack.log_tail)
    stack.node.kill9()
    assert client.get("/").status == front.down_status
    stack.node.restart()
    wait_for("an answer again", lambda: client.get("/").status == 200, RECOVERY_TIMEOUT_S, stack.log_tail)
    _limits_again(stack)


@pytest.mark.parametrize("front", EACH_PROXY, ids=str)
def test_a_lost_store_is_each_rules_own_affair_and_opens_no_door(start: Starter, front: Front) -> None:
    stack = start(front, node_flags=("--store", f"redis://{HOST}:{free_port()}"))
    client = stack.client()
    refused = client.login()
    assert (refused.status, refused.headers["x-headgate-rule"]) == (front.storeless_status, "login")
    assert int(refused.headers["retry-after"]) > 0
    assert client.get("/").status == 200


def test_traefik_asking_headgate_directly_closes_the_door_when_it_is_down(start: Starter) -> None:
    stack = start(TRAEFIK_DIRECTLY)
    stack.node.kill9()
    assert stack.client().get("/").status == 500


@pytest.mark.parametrize("front", EACH_PROXY, ids=str)
def test_an_application_that_is_down_is_not_taken_for_a_node_that_is(start: Starter, front: Front) -> None:
    stack = start(front)
    client = stack.client()
    stack.application.close()
    assert [client.login().status // 100 for _ in range(LOGINS)] == [5] * LOGINS
    assert client.login().status == 429
