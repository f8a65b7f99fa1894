"""What the transports of httpx and httpx2 do: wait when they are told to.

The two libraries have the same classes under other names. `headgate.client.httpx` and `headgate.client.httpx2` say
which; everything else is here, once.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import anyio

from headgate.client.conduct import REFUSAL_BYTES_MAX, REFUSAL_READ_S_MAX, Conduct, Trip
from headgate.client.options import RetryOptions
from headgate.errors import ConfigError

EXTENSION = "headgate"


class Url(Protocol):
    @property
    def scheme(self) -> str: ...
    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int | None: ...
    @property
    def path(self) -> str: ...


class Request(Protocol):
    method: str

    @property
    def url(self) -> Url: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    @property
    def stream(self) -> object: ...


class Response(Protocol):
    status_code: int
    extensions: dict[str, Any]

    @property
    def headers(self) -> Mapping[str, str]: ...
    @property
    def stream(self) -> object: ...
    def close(self) -> None: ...
    async def aclose(self) -> None: ...


RequestT = TypeVar("RequestT", bound=Request)
ResponseT = TypeVar("ResponseT", bound=Response)


class Sending(Protocol):
    """What is asked of a transport within."""

    def handle_request(self, request: Any, /) -> Any: ...
    def close(self) -> None: ...
    def __enter__(self) -> object: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None: ...


class AsyncSending(Protocol):
    """What is asked of a transport within."""

    async def handle_async_request(self, request: Any, /) -> Any: ...
    async def aclose(self) -> None: ...
    async def __aenter__(self) -> object: ...
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None: ...


TransportT = TypeVar("TransportT", bound=Sending)
AsyncTransportT = TypeVar("AsyncTransportT", bound=AsyncSending)


class OfLibrary:
    """What a library calls the things that are looked at here."""

    _request: ClassVar[type[Request]]
    _base: ClassVar[type[object]]
    _plain: ClassVar[Callable[[], Any]]
    # Any other body is read from where it stands, and may not be there a second time.
    _whole_body: ClassVar[type[object]]
    _failure: ClassVar[type[Exception]]

    _conduct: Conduct

    def _within(self, transport: Any) -> Any:
        if transport is None:
            return type(self)._plain()
        if not isinstance(transport, self._base):
            expected = f"{_library(self._base)}.{self._base.__name__}"
            raise ConfigError(f"transport: expected one that is a {expected}, not {transport!r}")
        return transport

    def _trip(self, request: Request) -> Trip:
        if not isinstance(request, self._request):
            mine, other = _library(self._request), _library(type(request))
            raise TypeError(
                f"this {type(self).__name__} is for {mine} and was given to a client of {other}. "
                f"Take the one of headgate.client.{other}."
            )
        url = request.url
        address = (url.scheme, url.host, url.port)
        can_replay = isinstance(request.stream, self._whole_body)
        return self._conduct.begin(request.method, address, url.path, request.headers, can_replay=can_replay)


class RetryingTransport(OfLibrary, Generic[TransportT, RequestT, ResponseT]):
    """`clock` is of this machine alone and never goes back, `wall_clock` is seconds since 1970; these, `sleep` and
    `draw` (numbers from 0 to 1, for jitter) are there for tests.
    """

    def __init__(
        self,
        transport: TransportT | None = None,
        options: RetryOptions | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
        sleep: Callable[[float], object] = time.sleep,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._transport: TransportT = self._within(transport)
        self._conduct = Conduct(options, draw)
        self._clock, self._wall_clock, self._sleep = clock, wall_clock, sleep

    def handle_request(self, request: RequestT) -> ResponseT:
        with self._trip(request) as trip:
            while True:
                while (wait_s := trip.wait_s(self._clock())) > 0:
                    self._sleep(wait_s)
                response: ResponseT = self._transport.handle_request(request)
                if not trip.must_repeat(response.status_code, response.headers, self._clock(), self._wall_clock()):
                    return _reported(response, trip)
                self._drop(response)

    def _drop(self, response: ResponseT) -> None:
        until_s = self._clock() + REFUSAL_READ_S_MAX
        assert isinstance(response.stream, Iterable)
        with contextlib.suppress(self._failure), contextlib.closing(response):
            read = 0
            for chunk in response.stream:
                read += len(chunk)
                if read > REFUSAL_BYTES_MAX or self._clock() > until_s:
                    break

    def close(self) -> None:
        self._transport.close()

    def __enter__(self) -> Self:
        self._transport.__enter__()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        self._transport.__exit__(exc_type, exc_value, traceback)


class AsyncRetryingTransport(OfLibrary, Generic[AsyncTransportT, RequestT, ResponseT]):
    """The same for async clients. Waiting never blocks the event loop and may be cancelled at any time."""

    def __init__(
        self,
        transport: AsyncTransportT | None = None,
        options: RetryOptions | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[object]] = anyio.sleep,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._transport: AsyncTransportT = self._within(transport)
        self._conduct = Conduct(options, draw)
        self._clock, self._wall_clock, self._sleep = clock, wall_clock, sleep

    async def handle_async_request(self, request: RequestT) -> ResponseT:
        with self._trip(request) as trip:
            while True:
                while (wait_s := trip.wait_s(self._clock())) > 0:
                    await self._sleep(wait_s)
                response: ResponseT = await self._transport.handle_async_request(request)
                if not trip.must_repeat(response.status_code, response.headers, self._clock(), self._wall_clock()):
                    return _reported(response, trip)
                await self._drop(response)

    async def _drop(self, response: ResponseT) -> None:
        assert isinstance(response.stream, AsyncIterable)
        with contextlib.suppress(self._failure):
            async with contextlib.aclosing(response):
                read = 0
                with anyio.move_on_after(REFUSAL_READ_S_MAX):
                    async for chunk in response.stream:
                        read += len(chunk)
                        if read > REFUSAL_BYTES_MAX:
                            break

    async def aclose(self) -> None:
        await self._transport.aclose()

    async def __aenter__(self) -> Self:
        await self._transport.__aenter__()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        await self._transport.__aexit__(exc_type, exc_value, traceback)


def _reported(response: ResponseT, trip: Trip) -> ResponseT:
    response.extensions = {**response.extensions, EXTENSION: trip.report()}
    return response


def _library(kind: type[object]) -> str:
    return kind.__module__.partition(".")[0]
