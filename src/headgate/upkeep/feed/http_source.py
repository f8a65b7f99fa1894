"""The control plane's own feed over HTTP: no broker needed. Changes are waited for by long polls."""

from __future__ import annotations

import http.client
import os
from urllib.parse import urlencode, urlsplit

from headgate.errors import ConfigError, FeedError
from headgate.feed.codec import feed_token, snapshot_position
from headgate.feed.entry import Position
from headgate.setting_values import without_password
from headgate.upkeep.feed.http_line import HttpLine
from headgate.upkeep.feed.source import (
    DELTA_BYTES_MAX,
    SNAPSHOT_BYTES_MAX,
    Answer,
    Deltas,
    Nothing,
    Pulse,
    SourceError,
    TakeSnapshot,
)

WAIT_S = 10.0
ANSWER_TIMEOUT_S = 5.0
SNAPSHOT_TIMEOUT_S = 600.0
# A control plane may have to write one first.
SNAPSHOT_SILENT_S = 30.0
# A control plane whose database is away goes on answering; what it knows grows old.
FRESH_S = 5
_LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")
_CHUNK_BYTES = 1024 * 1024
_SMALL_BYTES = 64 * 1024
_HEAD_BYTES = 64


class HttpSource:
    """Two connections that stay open: one waits for changes while the other carries heartbeats and tries."""

    # The control plane itself answers, from its database.
    proves = True
    wait_s = WAIT_S
    # Python answers there, for all nodes.
    beat_least_s = 0.25

    def __init__(self, url: str, *, key: bytes) -> None:
        try:
            parts = urlsplit(url)
            where = (parts.scheme, parts.hostname, parts.port)
        except ValueError:
            raise ConfigError(f"{without_password(url)}: this is no URL of a control plane") from None
        if not where[1] or parts.query or parts.fragment or parts.username is not None:
            raise ConfigError(
                f"{without_password(url)}: expected https://HOST[:PORT][/PREFIX] of a control plane, with no password "
                "or options in it (nodes show the feed key)"
            )
        self.name = str(without_password(url))
        self.is_overheard = where[0] == "http" and where[1] not in _LOCAL_HOSTS
        self._path = parts.path.rstrip("/") + "/feed/v1"
        headers = {"Authorization": f"Bearer {feed_token(key)}"}
        self._reading = HttpLine(where[0] == "https", where[1], where[2], headers)
        self._telling = HttpLine(where[0] == "https", where[1], where[2], headers)

    def connect(self) -> None:
        with self._telling.ask("GET", f"{self._path}/deltas?wait=0&since=0.0", ANSWER_TIMEOUT_S) as answer:
            # Of nothing there is no delta to go on from: a gap is the right answer.
            if answer.status not in (200, 204, 410):
                raise self._refusal(answer)
            self._telling.read(answer, DELTA_BYTES_MAX)

    def snapshot(self, to_path: str) -> Position:
        where = f"{self._path}/snapshot"
        with self._reading.ask("GET", where, SNAPSHOT_TIMEOUT_S, silent_s=SNAPSHOT_SILENT_S) as answer:
            if answer.status != 200:
                raise self._refusal(answer)
            self._save(answer, to_path)
        with open(to_path, "rb") as file:
            try:
                return snapshot_position(file.read(_HEAD_BYTES))
            except FeedError as error:
                raise SourceError(f"what it gave is refused: {error}") from None

    def changes(self, after: Position, wait_s: float) -> Answer:
        query = urlencode({"since": str(after), "wait": f"{wait_s:g}"})
        with self._reading.ask("GET", f"{self._path}/deltas?{query}", wait_s + ANSWER_TIMEOUT_S) as answer:
            if answer.status == 200:
                return Deltas((self._reading.read(answer, DELTA_BYTES_MAX),))
            if answer.status == 204:
                self._reading.read(answer, _SMALL_BYTES)
                return Nothing(is_proof=_age_s(answer) <= FRESH_S)
            if answer.status == 410:
                self._reading.read(answer, _SMALL_BYTES)
                return TakeSnapshot(f"the control plane has no deltas from {after} on")
            raise self._refusal(answer)

    def pulse(self) -> Pulse | None:
        return None

    def beat(self, heartbeat: str) -> None:
        with self._telling.ask("POST", f"{self._path}/heartbeat", ANSWER_TIMEOUT_S, heartbeat.encode()) as answer:
            if not 200 <= answer.status < 300:
                raise self._refusal(answer)
            self._telling.read(answer, _SMALL_BYTES)

    def close(self) -> None:
        self._reading.close()
        self._telling.close()

    def _save(self, answer: http.client.HTTPResponse, to_path: str) -> None:
        size = 0
        with open(os.open(to_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            while chunk := answer.read(_CHUNK_BYTES):
                size += len(chunk)
                if size > SNAPSHOT_BYTES_MAX:
                    raise SourceError(f"its snapshot is larger than {SNAPSHOT_BYTES_MAX} bytes")
                file.write(chunk)

    def _refusal(self, answer: http.client.HTTPResponse) -> SourceError:
        if answer.status in (401, 403):
            return SourceError(f"answered {answer.status}: is the feed key here the one of the control plane?")
        if answer.status == 404:
            return SourceError("answered 404: this is no control plane, or it has no feed (is its feed key set?)")
        return SourceError(f"answered {answer.status}")


def _age_s(answer: http.client.HTTPResponse) -> int:
    """Since the control plane last asked its database."""
    text = answer.headers.get("Age", "0")
    return int(text) if text.isdecimal() else 0
