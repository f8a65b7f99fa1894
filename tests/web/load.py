"""Many clients of a web server at once, and what each was answered."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.servers.waiting import wait_for
from tests.web.servers import ASK_TIMEOUT_S, READY, WebServer

WORKERS_TIMEOUT_S = 30
PAUSE_S = 0.005


@dataclass(frozen=True)
class Answer:
    start_s: float
    took_s: float
    status: int
    told: dict[str, Any] = field(default_factory=dict)
    user: str = ""

    @property
    def is_by_store(self) -> bool:
        return self.told.get("path") == "store"


def statuses(answers: Sequence[Answer]) -> Counter[int]:
    return Counter(answer.status for answer in answers)


def client_for(server: WebServer, connections: int) -> httpx.AsyncClient:
    limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
    return httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=ASK_TIMEOUT_S, limits=limits)


async def ask(client: httpx.AsyncClient, path: str, user: str) -> Answer:
    start_s = time.monotonic()
    response = await client.get(path, headers={"x-user": user})
    took_s = time.monotonic() - start_s
    told = response.json() if response.headers.get("content-type") == "application/json" else {}
    return Answer(start_s, took_s, response.status_code, told, user)


def ask_at_once(server: WebServer, path: str, users: Sequence[str], concurrent: int) -> list[Answer]:
    """One request for each of the users named, so many under way at any time."""

    async def run() -> list[Answer]:
        answers: list[Answer] = []
        pile = iter(users)

        async def worker() -> None:
            # A client each: connections are spread over the server's workers.
            async with client_for(server, 1) as client:
                answers.extend([await ask(client, path, user) for user in pile])

        await asyncio.gather(*(worker() for _ in range(concurrent)))
        return answers

    return asyncio.run(run())


async def keep_asking(server: WebServer, path: str, clients: int, until: asyncio.Event) -> list[Answer]:
    """Until told to stop, each client as a user of its own."""
    answers: list[Answer] = []

    async def one(user: str) -> None:
        async with client_for(server, 1) as client:
            while not until.is_set():
                answers.append(await ask(client, path, user))
                await asyncio.sleep(PAUSE_S)

    await asyncio.gather(*(one(f"user-{number}") for number in range(clients)))
    return answers


@contextlib.contextmanager
def each_worker(server: WebServer, count: int) -> Iterator[dict[int, httpx.Client]]:
    """A connection to each of them, by its pid. Which worker takes a connection is the kernel's choice: so connections
    are made until there is one to each."""
    with contextlib.ExitStack() as stack:
        clients: dict[int, httpx.Client] = {}

        def seen() -> bool:
            client = stack.enter_context(server.client())
            clients[client.get(READY).json()["pid"]] = client
            return len(clients) == count

        wait_for(f"all {count} workers", seen, WORKERS_TIMEOUT_S, lambda: f"{set(clients)}\n{server.log()}")
        yield clients
