"""The least a round trip to a store can cost an event loop: ready-made bytes, no client library, many at once."""

import asyncio
from collections import deque
from typing import Self

from tests.servers.ports import HOST

PING = b"PING\r\n"
PONG = b"+PONG\r\n"


class _Line(asyncio.Protocol):
    """One connection: answers come in the order of the questions."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        for _ in range(data.count(PONG)):
            self._waiting.popleft().set_result(None)

    def ping(self) -> asyncio.Future[None]:
        assert self.transport is not None
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        self.transport.write(PING)
        return future


class Pings:
    """As many connections as there are requests at once, as a pool would have; each takes its turn."""

    def __init__(self, lines: list[_Line]) -> None:
        self._lines = deque(lines)

    @classmethod
    async def connect(cls, port: int, connections: int) -> Self:
        loop = asyncio.get_running_loop()
        return cls([(await loop.create_connection(_Line, HOST, port))[1] for _ in range(connections)])

    async def ping(self) -> None:
        line = self._lines.popleft()
        self._lines.append(line)
        await line.ping()

    async def close(self) -> None:
        for line in self._lines:
            assert line.transport is not None
            line.transport.close()
        await asyncio.sleep(0)
