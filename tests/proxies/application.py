"""The application behind a proxy: it tells what reached it."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.servers.closing import Closing
from tests.servers.ports import HOST, free_port

# A client asks for the application's own answer with it.
WANTED_STATUS = "X-Wanted-Status"


class Application(Closing):
    """Answers every request with its method, path, headers and body as JSON."""

    def __init__(self) -> None:
        self.port = free_port()
        self._server = _Server((HOST, self.port), _Echo)
        self._thread = threading.Thread(target=self._server.serve_forever, name="application", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Also twice."""
        self._server.shutdown()
        self._server.server_close()
        self._server.hang_up()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    """Knows its connections: the base class would go on answering on those it has."""

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self._connections: list[socket.socket] = []
        super().__init__(address, handler)

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        self._connections.append(connection)
        return connection, address

    def hang_up(self) -> None:
        for connection in self._connections:
            # Most are closed already.
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class _Echo(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body are written apart; without this the second would wait 40 ms for the first.
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = [[name.lower(), value] for name, value in self.headers.items()]
        seen = {"method": self.command, "path": self.path, "headers": headers, "body": body.decode()}
        answer = json.dumps(seen).encode()
        self.send_response(int(self.headers.get(WANTED_STATUS) or 200))
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def do_POST(self) -> None:
        self.do_GET()

    def log_message(self, format: str, *args: object) -> None:
        pass
