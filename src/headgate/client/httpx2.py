"""Transports for httpx2 that wait when they are told to."""

from __future__ import annotations

try:
    import httpx2
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"headgate.client.httpx2 needs {error.name}, which is not installed. Run: pip install 'headgate[client2]'. "
        "For httpx there is headgate.client.httpx, for requests headgate.client.requests.",
        name=error.name,
    ) from error

from headgate.client.transports import AsyncRetryingTransport, RetryingTransport


class RetryTransport(
    RetryingTransport[httpx2.BaseTransport, httpx2.Request, httpx2.Response],
    httpx2.BaseTransport,
):
    """Wraps `transport` (by default a plain `httpx2.HTTPTransport`): `httpx2.Client(transport=RetryTransport())`.

    `clock` is of this machine alone and never goes back, `wall_clock` is seconds since 1970; these, `sleep` and `draw`
    (numbers from 0 to 1, for jitter) are there for tests.
    """

    _request, _base, _plain = httpx2.Request, httpx2.BaseTransport, httpx2.HTTPTransport
    _whole_body, _failure = httpx2.ByteStream, httpx2.HTTPError


class AsyncRetryTransport(
    AsyncRetryingTransport[httpx2.AsyncBaseTransport, httpx2.Request, httpx2.Response],
    httpx2.AsyncBaseTransport,
):
    """The same for `httpx2.AsyncClient`. Waiting never blocks the event loop and may be cancelled at any time."""

    _request, _base, _plain = httpx2.Request, httpx2.AsyncBaseTransport, httpx2.AsyncHTTPTransport
    _whole_body, _failure = httpx2.ByteStream, httpx2.HTTPError
