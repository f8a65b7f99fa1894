"""Asking a control plane over HTTP, with the standard library alone: the command needs no extra to ask one.

Nothing is retried and no redirect is followed: a change is sent once, to the address that was named. Proxies of the
environment are not used, since the token would pass through them.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from headgate import __version__
from headgate.cli.control_connection import Address, Connection, readable, reason
from headgate.cli.control_errors import ControlRefused, ControlUnreachable

API = "/api/v1"
ANSWER_TIMEOUT_S = 60.0
ANSWER_BYTES_MAX = 64 * 2**20
PROBLEM_BYTES_MAX = 2**20
CHUNK_BYTES = 64 * 1024
PAGE_ITEMS = 1_000
JSON = "application/json"
LINES = "application/x-ndjson"
_STRANGER = "what answers there is not a Headgate control plane"

Query = Mapping[str, str | int | bool | None]


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: the decoded body, and the headers by lower-case name."""

    status: int
    headers: Mapping[str, str]
    body: Any

    @property
    def position(self) -> str | None:
        """`epoch.version` of the configuration after a change."""
        return self.headers.get("x-headgate-version")


class Control:
    """A control plane that is asked. Not for several threads; every request has a connection of its own, so nothing is
    left behind when one is cut short."""

    def __init__(self, url: str, token: str, *, timeout_s: float = ANSWER_TIMEOUT_S) -> None:
        self.address = Address.parse(url)
        self._token = token
        self._timeout_s = timeout_s

    def __repr__(self) -> str:
        return f"Control({self.address.text!r})"

    def get(self, path: str, query: Query | None = None, *, timeout_s: float | None = None) -> Answer:
        return self.send("GET", path, query=query, timeout_s=timeout_s)

    def send(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        query: Query | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> Answer:
        """One request and its answer. Raises ControlRefused for anything but success."""
        raw = None if body is None else json.dumps(body, allow_nan=False).encode()
        sent = {"Content-Type": JSON} if raw is not None else {}
        with self._connected(timeout_s) as connection:
            self._begin(connection, method, path, query, {**sent, **(headers or {})}, len(raw or b""))
            if raw:
                self._write(connection, raw)
            return self._answered(self._response(connection))

    def upload(
        self,
        path: str,
        chunks: Iterable[bytes],
        size: int,
        *,
        query: Query | None = None,
        content_type: str = LINES,
        timeout_s: float | None = None,
    ) -> Answer:
        """Send a body of `size` bytes as it is read. An answer that comes before the end (a mistake in the first lines)
        ends the sending."""
        with self._connected(timeout_s) as connection:
            self._begin(connection, "POST", path, query, {"Content-Type": content_type}, size)
            try:
                for chunk in chunks:
                    if connection.sock is None or readable(connection.sock):
                        break
                    connection.send(chunk)
            except (BrokenPipeError, ConnectionResetError):
                pass  # what the other side said before it closed is a better reason than that it closed
            except OSError as error:
                raise self._unreachable(error) from None
            return self._answered(self._response(connection))

    def download(self, path: str, query: Query | None = None, *, timeout_s: float | None = None) -> Iterator[bytes]:
        """A body of any size, piece by piece. Ends with an error when it was cut short."""
        with self._connected(timeout_s) as connection:
            self._begin(connection, "GET", path, query, {}, 0)
            response = self._response(connection)
            if response.status != http.HTTPStatus.OK:
                self._answered(response)
            try:
                while chunk := response.read(CHUNK_BYTES):
                    yield chunk
                _check_whole(response)
            except (OSError, http.client.HTTPException) as error:
                raise self._unreachable(error) from None

    def pages(self, path: str, query: Query | None = None, *, limit: int) -> tuple[list[dict[str, Any]], bool]:
        """The first `limit` items of a list, and whether there are more."""
        found: list[dict[str, Any]] = []
        cursor: str | None = None
        while True:
            wanted = min(PAGE_ITEMS, limit - len(found))
            page = self.get(path, {**(query or {}), "limit": wanted, "cursor": cursor}).body
            if not isinstance(page, dict) or not isinstance(page.get("items"), list):
                raise ControlUnreachable(self.address.text, _STRANGER)
            found += page["items"]
            cursor = page.get("next")
            # A page without items is the last, whatever it says: nobody is asked for ever.
            if cursor is None or not page["items"] or len(found) >= limit:
                return found[:limit], cursor is not None or len(found) > limit

    def _connected(self, timeout_s: float | None) -> Connection:
        return Connection(self.address, timeout_s or self._timeout_s)

    def _begin(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        query: Query | None,
        headers: Mapping[str, str],
        size: int,
    ) -> None:
        target = f"{self.address.prefix}{API}{path}"
        shown = {name: _query_text(value) for name, value in (query or {}).items() if value is not None}
        if shown:
            target += "?" + urlencode(shown)
        try:
            connection.putrequest(method, target, skip_accept_encoding=True)
            connection.putheader("Authorization", f"Bearer {self._token}")
            connection.putheader("Accept", f"{JSON}, application/problem+json, */*")
            connection.putheader("User-Agent", f"headgate/{__version__}")
            connection.putheader("Connection", "close")
            for name, value in headers.items():
                connection.putheader(name, value)
            if size or method != "GET":
                connection.putheader("Content-Length", str(size))
            connection.endheaders()
        except (BrokenPipeError, ConnectionResetError):
            pass
        except OSError as error:
            raise self._unreachable(error) from None

    def _write(self, connection: http.client.HTTPConnection, raw: bytes) -> None:
        try:
            connection.send(raw)
        except (BrokenPipeError, ConnectionResetError):
            pass
        except OSError as error:
            raise self._unreachable(error) from None

    def _response(self, connection: http.client.HTTPConnection) -> http.client.HTTPResponse:
        try:
            return connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error, asked=True) from None

    def _answered(self, response: http.client.HTTPResponse) -> Answer:
        headers = {name.lower(): value for name, value in response.getheaders()}
        well = response.status < http.HTTPStatus.MULTIPLE_CHOICES
        bound = ANSWER_BYTES_MAX if well else PROBLEM_BYTES_MAX
        try:
            raw = response.read(bound + 1)
            if len(raw) <= bound:
                _check_whole(response)
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error, asked=True) from None
        if not well:
            raise ControlRefused.read(self.address.text, response.status, headers, raw[:bound])
        if len(raw) > bound:
            raise ControlUnreachable(self.address.text, f"the answer is larger than {bound // 2**20} MiB")
        try:
            return Answer(response.status, headers, json.loads(raw) if raw else None)
        except ValueError:
            raise ControlUnreachable(self.address.text, _STRANGER) from None

    def _unreachable(self, error: Exception, *, asked: bool = False) -> ControlUnreachable:
        return ControlUnreachable(self.address.text, reason(error), asked=asked)


def path_of(*parts: str, verb: str = "") -> str:
    """`("rules", "a/b", verb="enable")` as `/rules/a%2Fb:enable`: what people chose is never taken for syntax."""
    return "/" + "/".join(quote(part, safe="") for part in parts) + (f":{verb}" if verb else "")


def _query_text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _check_whole(response: http.client.HTTPResponse) -> None:
    """A body read in pieces ends quietly where the connection does; what was announced tells whether it was the end."""
    if response.length:
        raise http.client.IncompleteRead(b"", response.length)
