"""A TCP proxy before one server, to make a network misbehave.

In a thread of its own here. For benchmarks, which must not share Python's lock with it, it runs as a process too:
`python -m tests.servers.proxy --target 127.0.0.1:6379 --delay-ms 5` prints its port and runs until it is killed.
"""

from __future__ import annotations

import argparse
import asyncio
import selectors
import ssl
import threading
from collections.abc import Callable, Coroutine
from typing import Any

from tests.servers.closing import Closing
from tests.servers.flow import Road
from tests.servers.ports import HOST, free_port
from tests.servers.proxied_connection import Connection, End, Network

ANSWER_TIMEOUT_S = 10
BACKLOG = 256
ACCEPT_ROUNDS = 3


class Proxy(Closing):
    """Listens at once. Every method's effect is there when it returns; use as a context manager or `close()` it.

    While the server itself is down clients are accepted and then reset; only `refuse()` refuses them.
    """

    def __init__(
        self, target_port: int, *, port: int | None = None, delay_s: float = 0, tls: ssl.SSLContext | None = None
    ) -> None:
        self.port = port or free_port()
        self.accepted = 0
        """Connections ever accepted."""
        self._network = Network(Road(delay_s), Road(delay_s), target_port=target_port)
        self._connections: set[Connection] = set()
        self._tls = tls
        self._listener: asyncio.Server | None = None
        # epoll rounds every delay up to a whole millisecond; select does not, and is good for some 500 connections.
        self._loop = asyncio.SelectorEventLoop(selectors.SelectSelector())
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"proxy-{self.port}", daemon=True)
        self._thread.start()
        try:
            self.listen()
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> str:
        return f"{'rediss' if self._tls else 'redis'}://{HOST}:{self.port}"

    @property
    def connections(self) -> int:
        """Clients connected now."""
        return sum(connection.has_client for connection in self._connections.copy())

    @property
    def requests(self) -> Road:
        """`.bytes` and `.chunks` delivered to the server over all connections; `.delay_s` of this way alone."""
        return self._network.requests

    @property
    def replies(self) -> Road:
        return self._network.replies

    @property
    def cuts(self) -> int:
        """How often `cut_after` has struck."""
        return self._network.cuts

    @property
    def delay_s(self) -> float:
        """What each way takes, for bytes that arrive from now on."""
        return self.requests.delay_s

    @delay_s.setter
    def delay_s(self, delay_s: float) -> None:
        self.requests.delay_s = self.replies.delay_s = delay_s

    def listen(self) -> None:
        """Again, after `refuse()`."""
        self._run(self._listen())

    def refuse(self, *, keep_connections: bool = False) -> None:
        """New connections are refused and, as when a server dies, those there are reset."""
        self._run(self._stop_listening())
        if not keep_connections:
            self.reset_connections()

    def reset_connections(self) -> None:
        self._run(self._reset_connections())

    def cut_after(self, reply_bytes: int, *, reset: bool = True) -> None:
        """Lets so many more bytes of replies through, then, once, resets or closes the connection they came by."""

        def arm() -> None:
            self._network.cut_at_bytes = self.replies.bytes + reply_bytes
            self._network.cut_resets = reset

        self._do(arm)

    def blackhole_replies(self) -> None:
        """Requests arrive and are carried out; nothing comes back. Connecting still succeeds."""
        self._do(lambda: self._open_roads(requests=True, replies=False))

    def blackhole(self) -> None:
        """Nothing arrives either way. Connecting still succeeds, for the kernel does that."""
        self._do(lambda: self._open_roads(requests=False, replies=False))

    def heal(self, *, deliver_late: bool = True) -> None:
        """No delay, no cut, no black hole, and listening.

        What a black hole held back arrives now, as TCP would resend it; otherwise all connections are reset first.
        """

        def mend() -> None:
            self.delay_s, self._network.cut_at_bytes = 0, None
            self._open_roads(requests=True, replies=True)

        if not deliver_late:
            self.reset_connections()
        self._do(mend)
        self.listen()

    def close(self) -> None:
        if self._loop.is_closed():
            return
        self.refuse()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(ANSWER_TIMEOUT_S)
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(ANSWER_TIMEOUT_S)

    def _do(self, action: Callable[[], None]) -> None:
        async def act() -> None:
            action()

        self._run(act())

    async def _listen(self) -> None:
        if self._listener is None:
            self._listener = await self._loop.create_server(
                self._accept, HOST, self.port, backlog=BACKLOG, ssl=self._tls, reuse_address=True
            )

    async def _stop_listening(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    async def _reset_connections(self) -> None:
        # A connection already accepted is made known by the loop's next rounds.
        for _ in range(ACCEPT_ROUNDS):
            await asyncio.sleep(0)
        doomed = self._connections.copy()
        while doomed & self._connections:
            for connection in doomed:
                connection.reset()
            # Sockets are closed by the loop's next rounds, not by the call.
            await asyncio.sleep(0)

    def _accept(self) -> End:
        self.accepted += 1
        return Connection(self._network, self._connections).client

    def _open_roads(self, *, requests: bool, replies: bool) -> None:
        self.requests.is_open, self.replies.is_open = requests, replies
        for connection in self._connections.copy():
            connection.move()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.servers.proxy", description="Delay a server's traffic.")
    parser.add_argument("--target", required=True, metavar="HOST:PORT", help=f"only {HOST} is possible")
    parser.add_argument("--port", type=int, help="the port to listen on (default: a free one)")
    parser.add_argument("--delay-ms", type=float, default=0, help="what each way takes")
    options = parser.parse_args()
    host, _, target_port = options.target.rpartition(":")
    if host != HOST:
        parser.error(f"--target: the host must be {HOST}, not {host!r}")
    with Proxy(int(target_port), port=options.port, delay_s=options.delay_ms / 1_000) as proxy:
        print(proxy.port, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
