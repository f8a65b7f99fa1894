"""`AsyncRetryTransport` under real clients of httpx and httpx2, against a real server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from headgate.client import RetryOptions
from tests.client.libraries import Library, report
from tests.client.limited_app import PATIENCE_S, Served

REFUSAL = (429, {"retry-after": "0"}, b"refused")


def test_many_tasks_get_through_and_see_no_429(served: Served, library: Library) -> None:
    url = served.limited("10/second")

    async def main() -> list[int]:
        _, client = library.async_client()
        async with client:
            return [answer.status_code for answer in await asyncio.gather(*(client.get(url) for _ in range(25)))]

    assert asyncio.run(main()) == [200] * 25
    assert served.app.answered[200] == 25


def test_waiting_does_not_block_the_event_loop(served: Served, library: Library) -> None:
    served.app.script = [(429, {"retry-after": "1"}, b"")]
    beats = 0

    async def heart() -> None:
        nonlocal beats
        while True:
            await asyncio.sleep(0.01)
            beats += 1

    async def main() -> Any:
        _, client = library.async_client()
        async with client:
            beating = asyncio.create_task(heart())
            answer = await client.get(f"{served.url}/script")
            beating.cancel()
            return answer

    assert report(asyncio.run(main())).attempts == 2
    # A second has a hundred; a loop that was blocked has next to none.
    assert beats >= 5


@pytest.mark.parametrize("when", ["waiting", "holding", "sending"])
def test_a_cancelled_request_leaves_nothing_behind(served: Served, library: Library, when: str) -> None:
    async def main() -> None:
        asleep = asyncio.Event()

        async def sleep(seconds: float) -> None:
            asleep.set()
            await asyncio.sleep(PATIENCE_S)

        transport, client = library.async_client(connections_max=1, sleep=sleep)
        async with client:
            url = f"{served.url}/script"
            if when == "sending":
                served.app.delay_s = 1.0
            else:
                served.app.script = [(429, {"retry-after": "30"}, b"")]
            if when == "holding":
                assert (await client.post(url)).status_code == 429
            request = asyncio.create_task(client.get(url))
            while not (served.app.bodies if when == "sending" else asleep.is_set()):
                await asyncio.sleep(0.01)
            request.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await request
            assert request.cancelled()
            served.app.delay_s = 0.0
            # The only connection is free, and nobody holds or flies any more.
            assert (await client.get(served.url, headers={"x-api-key": "another"})).status_code == 200
            for origin in transport._conduct.origins.all():
                assert (origin.unknown_in_flight, origin.everywhere.queue) == (0, [])

    asyncio.run(main())


def test_an_empty_budget_hands_the_refusal_over_with_its_body(served: Served, library: Library) -> None:
    served.app.script = [REFUSAL] * 10

    async def main() -> Any:
        _, client = library.async_client(RetryOptions(budget_max=1, budget_per_s=0.0, budget_part=0.0))
        async with client:
            return await client.get(f"{served.url}/script")

    answer = asyncio.run(main())
    assert (answer.status_code, answer.text, report(answer).gave_up) == (429, "refused", "budget")


def test_a_body_that_is_a_stream_is_sent_once(served: Served, library: Library) -> None:
    async def parts() -> AsyncIterator[bytes]:
        yield b"once"

    served.app.script = [REFUSAL]

    async def main() -> Any:
        _, client = library.async_client()
        async with client:
            return await client.put(f"{served.url}/script", content=parts())

    answer = asyncio.run(main())
    assert (answer.status_code, report(answer).gave_up) == (429, "body")
    assert served.app.bodies == [b"once"]


@pytest.mark.parametrize(("size", "connections"), [(10, 1), (4_000_000, 3)])
def test_refused_connections_are_used_again_unless_their_bodies_are_enormous(
    served: Served, library: Library, size: int, connections: int
) -> None:
    served.app.script = [(429, {"retry-after": "0"}, b"x" * size)] * 2

    async def main() -> Any:
        _, client = library.async_client(connections_max=1)
        async with client:
            return await client.get(f"{served.url}/script")

    answer = asyncio.run(main())
    assert (answer.status_code, report(answer).attempts) == (200, 3)
    assert len(served.app.peers) == connections
