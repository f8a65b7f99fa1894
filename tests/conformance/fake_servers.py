"""What may listen at a store's address without being a store."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from tests.servers.ports import HOST, free_port


class _Http(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        self.rfile.readline()
        body = b"what?"
        self.wfile.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))


class _OldRedis(socketserver.StreamRequestHandler):
    """Answers whole commands; knows no more of them than a client meets before it learns the version."""

    def handle(self) -> None:
        while words := self._command():
            if words[0].upper() == b"INFO":
                info = b"# Server\r\nredis_version:6.2.14\r\nredis_mode:standalone\r\nrole:master\r\n"
                self.wfile.write(b"$%d\r\n%s\r\n" % (len(info), info))
            elif words[0].upper() == b"SCRIPT":
                self.wfile.write(b"-ERR Error compiling script (new function): user_script:1: unexpected symbol\r\n")
            else:
                self.wfile.write(b"+OK\r\n")

    def _command(self) -> list[bytes]:
        head = self.rfile.readline()
        if not head.startswith(b"*"):
            return []
        words = []
        for _ in range(int(head[1:])):
            length = int(self.rfile.readline()[1:])
            words.append(self.rfile.read(length + 2)[:length])
        return words


class _Silent(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        self.rfile.read()


class _Threads(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hangs up is none."""


@contextmanager
def _serving(handler: type[socketserver.StreamRequestHandler]) -> Iterator[str]:
    with _Threads((HOST, free_port()), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield f"{HOST}:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def http_server() -> AbstractContextManager[str]:
    return _serving(_Http)


def old_redis() -> AbstractContextManager[str]:
    return _serving(_OldRedis)


def silent_server() -> AbstractContextManager[str]:
    return _serving(_Silent)
