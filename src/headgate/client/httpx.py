"""Transports for httpx that wait when they are told to."""

from __future__ import annotations

try:
    import httpx
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"headgate.client needs {error.name}, which is not installed. Run: pip install 'headgate[client]'. "
        "For httpx2 there is headgate.client.httpx2, for requests headgate.client.requests.",
        name=error.name,
    ) from error

from headgate.client.transports import AsyncRetryingTransport, RetryingTransport


class RetryTransport(
    RetryingTransport[httpx.BaseTransport, httpx.Request, httpx.Response],
    httpx.BaseTransport,
):
    """Wraps `transport` (by default a plain `httpx.HTTPTransport`): `httpx.Client(transport=RetryTransport())`.

    `clock` is of this machine alone and never goes back, `wall_clock` is seconds since 1970; these, `sleep` and `draw`
    (numbers from 0 to 1, for jitter) are there for tests.
    """

    _request, _base, _plain = httpx.Request, httpx.BaseTransport, httpx.HTTPTransport
    _whole_body, _failure = httpx.ByteStream, httpx.HTTPError


class AsyncRetryTransport(
    AsyncRetryingTransport[httpx.AsyncBaseTransport, httpx.Request, httpx.Response],
    httpx.AsyncBaseTransport,
):
    """The same for `httpx.AsyncClient`. Waiting never blocks the event loop and may be cancelled at any time."""

    _request, _base, _plain = httpx.Request, httpx.AsyncBaseTransport, httpx.AsyncHTTPTransport
    _whole_body, _failure = httpx.ByteStream, httpx.HTTPError
