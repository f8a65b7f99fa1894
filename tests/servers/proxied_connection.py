"""One client's connection through a proxy, and the network all of them share."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.servers.flow import Flow, Road
from tests.servers.ports import HOST

CLOSES_WITH_RESET = struct.pack("ii", 1, 0)


@dataclass
class Network:
    requests: Road = field(default_factory=Road)
    replies: Road = field(default_factory=Road)
    cut_at_bytes: int | None = None
    """The connection whose reply reaches this many bytes, of all replies ever delivered, is cut there."""
    cut_resets: bool = True
    cuts: int = 0
    target_port: int = 0


class Connection:
    """`living` holds it from the moment its client is connected until both its sockets are closed."""

    def __init__(self, network: Network, living: set[Connection]) -> None:
        self._network = network
        self._living = living
        requests = Flow(network.requests, self._deliver_request, lambda: self._server.close())
        replies = Flow(network.replies, self._deliver_reply, lambda: self.client.close())
        self.client = End(sends=requests, receives=replies, on_made=self._client_made, on_lost=self._end_lost)
        self._server = End(sends=replies, receives=requests, on_made=lambda: None, on_lost=self._end_lost)
        self._flows = (requests, replies)
        self._connecting: asyncio.Task[None] | None = None

    @property
    def has_client(self) -> bool:
        return self.client.is_open

    def move(self) -> None:
        """After a road was opened."""
        for flow in self._flows:
            flow.move()

    def reset(self) -> None:
        if self._connecting is not None:
            self._connecting.cancel()
        self.client.reset()
        self._server.reset()

    def _client_made(self) -> None:
        self._living.add(self)
        self._connecting = asyncio.get_running_loop().create_task(self._connect())
        # Not the task's own `finally`: one that is cancelled before its first step never comes to that.
        self._connecting.add_done_callback(self._connect_ended)

    async def _connect(self) -> None:
        try:
            await asyncio.get_running_loop().create_connection(lambda: self._server, HOST, self._network.target_port)
        except OSError:
            self.client.reset()

    def _connect_ended(self, _: asyncio.Task[None]) -> None:
        self._connecting = None
        self._end_lost()

    def _deliver_request(self, data: bytes) -> None:
        _count(self._network.requests, data)
        self._server.write(data)

    def _deliver_reply(self, data: bytes) -> None:
        network = self._network
        room = None if network.cut_at_bytes is None else network.cut_at_bytes - network.replies.bytes
        let_through = data[:room]
        _count(network.replies, let_through)
        self.client.write(let_through)
        if room is not None and len(data) >= room:
            network.cut_at_bytes = None
            network.cuts += 1
            self._cut()

    def _cut(self) -> None:
        for flow in self._flows:
            flow.drop()
        if self._network.cut_resets:
            self.reset()
        else:
            self.client.close()
            self._server.close()

    def _end_lost(self) -> None:
        if not (self._connecting or self.client.is_open or self._server.is_open):
            self._living.discard(self)


class End(asyncio.Protocol):
    """One of a connection's two sockets."""

    def __init__(
        self, *, sends: Flow, receives: Flow, on_made: Callable[[], None], on_lost: Callable[[], None]
    ) -> None:
        self._sends = sends
        self._receives = receives
        self._on_made = on_made
        self._on_lost = on_lost
        self._transport: asyncio.Transport | None = None
        self._socket: socket.socket

    @property
    def is_open(self) -> bool:
        return self._transport is not None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._socket = transport.get_extra_info("socket")
        self._sends.sent_by(transport)
        self._receives.set_writable(True)
        self._on_made()

    def data_received(self, data: bytes) -> None:
        self._sends.put(data)

    def connection_lost(self, _error: Exception | None) -> None:
        self._transport = None
        self._sends.end()
        self._receives.drop()
        self._on_lost()

    def pause_writing(self) -> None:
        self._receives.set_writable(False)

    def resume_writing(self) -> None:
        self._receives.set_writable(True)

    def write(self, data: bytes) -> None:
        if self._transport is not None and data:
            self._transport.write(data)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def reset(self) -> None:
        if self._transport is not None:
            # Under TLS the socket may have been closed a round before we hear of it.
            with contextlib.suppress(OSError):
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, CLOSES_WITH_RESET)
            self._transport.abort()


def _count(road: Road, data: bytes) -> None:
    road.bytes += len(data)
    road.chunks += bool(data)
