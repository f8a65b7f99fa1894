"""A server that answers what it was told to, and remembers what it was asked."""

from __future__ import annotations

import http.server
import json
import socket
import socketserver
import ssl
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Said:
    """One answer. `cut` closes the connection so many bytes before its end; `early` answers before the body is read."""

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: int = 0
    early: bool = False
    silent: bool = False


@dataclass(frozen=True)
class Heard:
    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


@dataclass
class Scripted:
    url: str
    heard: list[Heard] = field(default_factory=list)
    answers: list[Said] = field(default_factory=list)


@contextmanager
def scripted(*answers: Said, socket_path: Path | None = None, tls: ssl.SSLContext | None = None) -> Iterator[Scripted]:
    script = Scripted("", answers=list(answers))
    release = threading.Event()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            said = script.answers.pop(0) if script.answers else Said(500, problem(500, "nothing more was expected"))
            size = 0 if said.early else int(self.headers.get("Content-Length", 0))
            body = self.rfile.read(size)
            headers = {name.lower(): value for name, value in self.headers.items()}
            script.heard.append(Heard(self.command, self.path, headers, body))
            if said.silent:
                release.wait()
                return
            raw = said.body if isinstance(said.body, bytes) else json.dumps(said.body).encode()
            self.send_response(said.status)
            for name, value in said.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw[: len(raw) - said.cut])
            self.close_connection = True

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

        def address_string(self) -> str:
            return "somebody"

    class TcpServer(socketserver.ThreadingTCPServer):
        daemon_threads = True

        def get_request(self) -> tuple[socket.socket, Any]:
            try:
                return super().get_request()
            except ssl.SSLError as error:  # a client that does not trust us; to the server's loop it is no request
                raise OSError(str(error)) from None

    class UnixServer(socketserver.ThreadingUnixStreamServer):
        daemon_threads = True

        def get_request(self) -> tuple[socket.socket, Any]:
            connection, _ = super().get_request()
            return connection, ("local", 0)

    if socket_path is None:
        tcp = TcpServer(("127.0.0.1", 0), Handler)
        if tls is not None:
            tcp.socket = tls.wrap_socket(tcp.socket, server_side=True)
        server: socketserver.BaseServer = tcp
        script.url = f"http{'s' if tls else ''}://127.0.0.1:{tcp.socket.getsockname()[1]}"
    else:
        server = UnixServer(str(socket_path), Handler)
        script.url = f"unix://{socket_path}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield script
    finally:
        release.set()
        server.shutdown()
        server.server_close()
        thread.join()


def problem(status: int, detail: str, *errors: tuple[str, str]) -> dict[str, Any]:
    mistakes: Sequence[dict[str, str]] = [{"path": path, "message": message} for path, message in errors]
    return {"type": "about:blank", "title": "No", "status": status, "detail": detail, "errors": mistakes}
