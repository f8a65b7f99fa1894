"""A control plane for a measurement: `headgate control` as a process of its own, and a caller of its API."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import secrets
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from headgate.benchmarks.children import HOST, BenchError, child, headgate, wait_for
from headgate.errors import ConfigError
from headgate.feed.entry import Position

REGION = "bench"
ANSWER_TIMEOUT_S = 60.0
# A server ends connections that have been idle for some seconds; a new one is made before that.
IDLE_S_MAX = 2.0
_TRIES_MAX = 20
_BODY_SHOWN_CHARS = 500


@dataclass(frozen=True, slots=True)
class Plane:
    """A running one. `feed_key` is for nodes."""

    address: str
    pid: int
    key_file: Path
    token: str = field(repr=False)
    feed_key: bytes = field(repr=False)

    @property
    def url(self) -> str:
        return f"http://{self.address}"


@contextlib.contextmanager
def control_plane(folder: Path, *, database: str | None = None, broker: str | None = None) -> Iterator[Plane]:
    """On SQLite in `folder`, unless a database is given; that one must be empty."""
    url = database or f"sqlite:///{folder / 'control.db'}"
    token = _prepare(url)
    key_file, ready, log = folder / "feed.key", folder / "control.json", folder / "control.log"
    key = secrets.token_hex(32)
    key_file.write_text(key)
    key_file.chmod(0o600)
    command = headgate("control", "--control", f"{HOST}:0", "--database", url, "--feed-key-file", str(key_file))
    command += ["--ready-file", str(ready), "--log-level", "warning"]
    if broker is not None:
        command += ["--regions", f"{REGION}={broker}"]
    # Its snapshots go with the rest.
    with child(command, log, cwd=folder, env={**os.environ, "TMPDIR": str(folder)}) as process:
        wait_for("the control plane", ready.exists, process, log)
        address = json.loads(ready.read_text())["control"]
        plane = Plane(address, process.pid, key_file, token, key.encode())
        with contextlib.closing(Api(plane)) as api:
            wait_for("the control plane", lambda: api.call("GET", "/readyz").status == 200, process, log)
        yield plane


def _prepare(url: str) -> str:
    """Tables, and a token. Raises ConfigError for a database that is not empty: what is measured is written there."""
    from headgate.control.tokens import first_token
    from headgate.storage.sql import Database

    database = Database(url)
    try:
        if database.schema_state() != "empty":
            raise ConfigError(f"{database.place} is not empty; measure with a database of its own")
        database.migrate()
        token = first_token(database)
    finally:
        database.close()
    assert token is not None, "an empty database has no token"
    return token


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def version(self) -> int:
        """Of the change that was made."""
        return Position.parse(self.headers["x-headgate-version"]).version


class Api:
    """One connection, kept open while it is used."""

    def __init__(self, plane: Plane, timeout_s: float = ANSWER_TIMEOUT_S) -> None:
        host, _, port = plane.address.rpartition(":")
        self._line = http.client.HTTPConnection(host, int(port), timeout=timeout_s)
        self._headers = {"Authorization": f"Bearer {plane.token}"}
        self._used_s = time.monotonic()

    def call(self, method: str, path: str, body: object = None, *, media: str = "application/json") -> Answer:
        """The answer, whatever its status."""
        raw = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = self._headers if raw is None else {**self._headers, "Content-Type": media}
        if time.monotonic() - self._used_s > IDLE_S_MAX:
            self._line.close()
        try:
            self._line.request(method, path, body=raw, headers=headers)
            answer = self._line.getresponse()
            return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        except (OSError, http.client.HTTPException) as error:
            self._line.close()
            raise BenchError(f"{method} {path}: {error or type(error).__name__}") from None
        finally:
            self._used_s = time.monotonic()

    def change(self, method: str, path: str, body: object = None, *, media: str = "application/json") -> Answer:
        """A change that must be made. The API limits its callers: then it is asked again, and the wait is the
        caller's."""
        for _ in range(_TRIES_MAX):
            answer = self.call(method, path, body, media=media)
            if answer.status < 300:
                return answer
            if answer.status != 429:
                break
            time.sleep(float(answer.headers.get("retry-after", "1")))
        said = answer.body.decode(errors="replace")[:_BODY_SHOWN_CHARS]
        raise BenchError(f"{method} {path}: answered {answer.status}: {said}")

    def put_rule(self, rule: Mapping[str, Any]) -> Answer:
        return self.change("PUT", f"/api/v1/rules/{quote(str(rule['name']))}", rule)

    def add_block(self, ip: str, why: str = "measuring") -> Answer:
        return self.change("POST", "/api/v1/blocks", {"ip": ip, "for": "1h", "why": why})

    def close(self) -> None:
        self._line.close()
