"""An upstream that plays what a test tells it to, byte by byte, and remembers every byte it was sent."""

from __future__ import annotations

import contextlib
import io
import select
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.gateway import strict
from tests.gateway.strict import Head, Message
from tests.integration.http_node import PATIENCE_S, eventually
from tests.servers.closing import Closing
from tests.servers.ports import HOST, free_port

RECORDED_BYTES_MAX = 4 * 2**20
BACKLOG = 4096
QUIET_S = 0.001


class _Recorded(io.RawIOBase):
    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self.got = bytearray()
        self.is_waiting = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self.is_waiting = True
        size = self._socket.recv_into(buffer)
        self.is_waiting = False
        if len(self.got) < RECORDED_BYTES_MAX:
            self.got += buffer[:size]
        return size


class Line:
    """One connection from the gateway."""

    def __init__(self, connected: socket.socket) -> None:
        self.is_open = True
        self.use(connected)

    def use(self, connected: socket.socket) -> None:
        """From the beginning, or once TLS is agreed on."""
        connected.settimeout(PATIENCE_S)
        self.socket = connected
        self._recorded = _Recorded(connected)
        self.stream = io.BufferedReader(self._recorded)

    @property
    def raw(self) -> bytes:
        return bytes(self._recorded.got)

    @property
    def is_quiet(self) -> bool:
        """It was read to the last byte that came."""
        return not self.is_open or (self._recorded.is_waiting and not _has_come(self.socket))

    def forget(self) -> None:
        self._recorded.got.clear()

    def finish(self, head: Head) -> Message:
        return strict.finish(self.stream, head)

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def answer(self, body: bytes = b"ok", status: str = "200 OK", *fields: str) -> None:
        self.send(answer(body, status, *fields))

    def heard_the_end(self) -> bool:
        """Waits until the gateway has ended the connection, politely or not."""
        try:
            while self.stream.read1(65_536):
                pass
        except (ConnectionError, ValueError):
            return True
        except TimeoutError:
            return False
        return True

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self.is_open = False

    def reset(self) -> None:
        """As a crashed server ends it, with what was under way thrown away."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()
        self.is_open = False


def _has_come(waiting: socket.socket) -> bool:
    try:
        return bool(select.select([waiting], [], [], 0)[0])
    except (OSError, ValueError):
        return False


Play = Callable[[Line, Head], None]


def answer(body: bytes = b"ok", status: str = "200 OK", *fields: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *fields]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


class Upstream(Closing):
    """Each connection has a thread, which hands every head it reads to `play`; that does the rest."""

    def __init__(self, path: Path | None = None, tls: ssl.SSLContext | None = None, port: int | None = None) -> None:
        self._path, self._tls = path, tls
        self.port = port or free_port()
        self.play: Play = self.answer_all
        self.messages: list[Message] = []
        self.mistakes: list[BaseException] = []
        self.lines: list[Line] = []
        self._lock = threading.Lock()
        self.listen()

    @property
    def url(self) -> str:
        if self._path is not None:
            return f"unix:{self._path}"
        return f"https://localhost:{self.port}" if self._tls else f"http://{HOST}:{self.port}"

    @property
    def targets(self) -> list[str]:
        return [message.head.target for message in self.messages]

    @property
    def only(self) -> Message:
        """The one request there has been."""
        (message,) = self.messages
        return message

    def answer_all(self, line: Line, head: Head) -> None:
        self.take(line, head)
        line.answer()

    def take(self, line: Line, head: Head) -> Message:
        """The whole request, counted among those seen."""
        message = line.finish(head)
        with self._lock:
            self.messages.append(message)
        return message

    def begin(self) -> None:
        """What was so far is forgotten; connections that wait in a pool are left there."""
        self.play = self.answer_all
        with self._lock:
            self.messages.clear()
            self.mistakes.clear()
            self.lines = [line for line in self.lines if line.is_open]
            for line in self.lines:
                line.forget()

    def raw(self) -> bytes:
        """Whatever came since the beginning, on all connections."""
        return b"".join(line.raw for line in list(self.lines))

    def settle(self) -> None:
        """Waits until everything that was sent to it was read."""
        eventually(self._is_quiet)

    def _is_quiet(self) -> bool:
        """Looked at twice: a thread is not yet counted as busy with what it was handed this moment."""
        looks = []
        for _ in range(2):
            looks += [not _has_come(self._listener), *(line.is_quiet for line in list(self.lines))]
            time.sleep(QUIET_S)
        return all(looks)

    def hang_up(self) -> None:
        """Ends every connection."""
        for line in list(self.lines):
            line.close()

    def has_no_line(self) -> bool:
        return not any(line.is_open for line in self.lines)

    def listen(self) -> None:
        """At once; also again after `refuse`."""
        self._listener = socket.socket(socket.AF_INET if self._path is None else socket.AF_UNIX)
        if self._path is None:
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._listener.bind((HOST, self.port))
        else:
            self._path.unlink(missing_ok=True)
            self._listener.bind(str(self._path))
        self._listener.listen(BACKLOG)
        threading.Thread(target=self._accept, args=(self._listener,), name="upstream", daemon=True).start()

    def refuse(self) -> None:
        """From now on connections are refused, and those there were are ended."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.hang_up()

    def close(self) -> None:
        self.refuse()

    def assert_well(self) -> None:
        """Nothing that reached it was other than strict HTTP."""
        assert not self.mistakes, self.mistakes

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                line = Line(listener.accept()[0])
                with self._lock:
                    self.lines.append(line)
                threading.Thread(target=self._serve, args=(line,), name="line", daemon=True).start()

    def _serve(self, line: Line) -> None:
        try:
            if self._path is None:
                line.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                line.use(self._tls.wrap_socket(line.socket, server_side=True))
            while line.is_open and (head := strict.request_head(line.stream)) is not None:
                self.play(line, head)
        except (OSError, ValueError, strict.Ended):
            pass
        except BaseException as mistake:
            self.mistakes.append(mistake)
        finally:
            line.close()

    def wait_for(self, count: int) -> list[Message]:
        """Until so many requests have come."""
        eventually(lambda: len(self.messages) >= count)
        return self.messages
