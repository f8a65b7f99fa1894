"""One small document over HTTP, bounded in every way: time in all, size, and where it may be sent on to."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from headgate import __version__

BYTES_MAX = 1024 * 1024
_REDIRECTS_MAX = 5


class FetchError(Exception):
    """What went wrong, in words for a log."""


def fetch(url: str, timeout_s: float) -> str:
    """The text behind a URL. Raises FetchError."""
    with _deadline(timeout_s) as deadline:
        opener = urllib.request.build_opener(_Redirects(), _Http(deadline), _Https(deadline))
        headers = {"Accept": "application/json", "User-Agent": f"headgate/{__version__}"}
        try:
            with opener.open(urllib.request.Request(url, headers=headers), timeout=timeout_s) as answer:
                raw: bytes = answer.read(BYTES_MAX + 1)
        except urllib.error.HTTPError as error:
            error.close()
            raise FetchError(f"answered {error.code}") from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise FetchError(_words(error, deadline, timeout_s)) from None
    if deadline.is_over:
        raise FetchError(f"did not answer within {timeout_s:g} s")
    if len(raw) > BYTES_MAX:
        raise FetchError(f"sent more than {BYTES_MAX // 1024} KiB")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise FetchError("sent something that is not UTF-8 text") from None


def _words(error: Exception, deadline: _Deadline, timeout_s: float) -> str:
    reason = getattr(error, "reason", error)
    if deadline.is_over or isinstance(reason, TimeoutError):
        return f"did not answer within {timeout_s:g} s"
    return f"cannot be fetched: {reason}"


class _Deadline:
    """Ends connections when time is up: a server that sends a byte now and then meets no time-out of a socket."""

    def __init__(self) -> None:
        self.is_over = False
        self._sockets: list[socket.socket] = []
        self._lock = threading.Lock()

    def watch(self, connected: socket.socket) -> None:
        with self._lock:
            self._sockets.append(connected)
        if self.is_over:
            self.end()

    def end(self) -> None:
        self.is_over = True
        with self._lock:
            for connected in self._sockets:
                with contextlib.suppress(OSError):
                    # The plain one beneath TLS: its own `shutdown` would wait for the other side.
                    socket.socket.shutdown(connected, socket.SHUT_RDWR)


@contextlib.contextmanager
def _deadline(timeout_s: float) -> Iterator[_Deadline]:
    deadline = _Deadline()
    timer = threading.Timer(timeout_s, deadline.end)
    timer.daemon = True
    timer.start()
    try:
        yield deadline
    finally:
        timer.cancel()


class _Http(urllib.request.HTTPHandler):
    def __init__(self, deadline: _Deadline) -> None:
        super().__init__()
        self._deadline = deadline

    def http_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_watched(http.client.HTTPConnection, self._deadline), request)


class _Https(urllib.request.HTTPSHandler):
    def __init__(self, deadline: _Deadline) -> None:
        super().__init__()
        self._deadline = deadline

    def https_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_watched(http.client.HTTPSConnection, self._deadline), request)


def _watched(kind: type[http.client.HTTPConnection], deadline: _Deadline) -> Any:
    class Watched(kind):  # type: ignore[valid-type, misc]
        def connect(self) -> None:
            super().connect()
            deadline.watch(self.sock)

    return Watched


class _Redirects(urllib.request.HTTPRedirectHandler):
    """To the same scheme only: from https to http would undo TLS, and to a file would read ours."""

    max_redirections = _REDIRECTS_MAX

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        if urlsplit(newurl).scheme != urlsplit(req.full_url).scheme:
            raise urllib.error.URLError("redirects to another scheme")
        return super().redirect_request(req, fp, code, msg, headers, newurl)
