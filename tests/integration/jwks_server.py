"""A server of key sets that can rotate them, fail, hang, send a byte now and then, and send people elsewhere."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Callable
from typing import Self

Answer = Callable[[http.server.BaseHTTPRequestHandler], None]


def text(body: str, status: int = 200) -> Answer:
    def answer(handler: http.server.BaseHTTPRequestHandler) -> None:
        raw = body.encode()
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(raw)))
        handler.end_headers()
        handler.wfile.write(raw)

    return answer


def redirect(where: str) -> Answer:
    def answer(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.send_response(302)
        handler.send_header("Location", where)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    return answer


def nothing(_: http.server.BaseHTTPRequestHandler) -> None:
    """Ends the connection without a word."""


class JwksServer:
    """`answer` is what the next request gets; `asked` counts them."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.asked = 0
        self.ending = threading.Event()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked += 1
                try:
                    outer.answer(self)
                except OSError:
                    self.close_connection = True

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/jwks.json"

    def hang(self, _: http.server.BaseHTTPRequestHandler) -> None:
        """Takes the request and says nothing."""
        self.ending.wait()

    def drip(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        """Never silent for long, never done."""
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        while not self.ending.wait(0.02):
            handler.wfile.write(b"x")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ending.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
