"""httpx and httpx2 look alike and are not the same: types and errors tell them apart."""

from __future__ import annotations

import asyncio
import re

import httpx
import httpx2
import pytest

import headgate.client
import headgate.client.httpx2
from headgate import ConfigError
from headgate.client import RetryOptions


def test_each_client_takes_its_own_transport_and_types_agree() -> None:
    """Checked by mypy too: nothing here is Any."""
    options = RetryOptions(attempts_max=1)
    answering = httpx.MockTransport(lambda _: httpx.Response(200))
    with httpx.Client(transport=headgate.client.RetryTransport(answering, options)) as client:
        answer: httpx.Response = client.get("http://api.test/")
    answering2 = httpx2.MockTransport(lambda _: httpx2.Response(200))
    with httpx2.Client(transport=headgate.client.httpx2.RetryTransport(answering2, options)) as client2:
        answer2: httpx2.Response = client2.get("http://api.test/")
    assert (answer.status_code, answer2.status_code) == (200, 200)

    async def main() -> tuple[httpx.Response, httpx2.Response]:
        transport = headgate.client.AsyncRetryTransport(answering, options)
        transport2 = headgate.client.httpx2.AsyncRetryTransport(answering2, options)
        async with (
            httpx.AsyncClient(transport=transport) as client,
            httpx2.AsyncClient(transport=transport2) as client2,
        ):
            return await client.get("http://api.test/"), await client2.get("http://api.test/")

    assert [answer.status_code for answer in asyncio.run(main())] == [200, 200]


def test_a_transport_given_to_the_other_librarys_client_says_which_to_take() -> None:
    transport = headgate.client.RetryTransport()
    message = (
        "this RetryTransport is for httpx and was given to a client of httpx2. Take the one of headgate.client.httpx2."
    )
    with (
        httpx2.Client(transport=transport) as client,  # type: ignore[arg-type]
        pytest.raises(TypeError, match=re.escape(message)),
    ):
        client.get("http://127.0.0.1:1/")


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        (RetryOptions(), "transport: expected one that is a httpx.BaseTransport, not RetryOptions("),
        (httpx.AsyncHTTPTransport(), "transport: expected one that is a httpx.BaseTransport, not <httpx.AsyncHTTP"),
        (httpx2.HTTPTransport(), "transport: expected one that is a httpx.BaseTransport, not <httpx2."),
        (httpx.HTTPTransport, "transport: expected one that is a httpx.BaseTransport, not <class"),
    ],
    ids=["options", "async", "the other library's", "a class"],
)
def test_what_is_no_transport_is_said_when_it_is_given(wrong: object, expected: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(expected)):
        headgate.client.RetryTransport(wrong)  # type: ignore[arg-type]


def test_options_that_are_none_are_said_when_they_are_given() -> None:
    with pytest.raises(ConfigError, match=re.escape("options: expected RetryOptions(...), not {'attempts_max': 3}")):
        headgate.client.AsyncRetryTransport(None, {"attempts_max": 3})  # type: ignore[arg-type]
