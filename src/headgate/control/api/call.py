"""One call to the API: who makes it, what it stands on, what it brings."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.from_thread
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message

from headgate.control.api.call_counts import CallCounts
from headgate.control.api.cursors import Cursors
from headgate.control.api.limits import ApiLimits
from headgate.control.api.problems import Problem, unprocessable
from headgate.control.api.recorder import Recorder
from headgate.control.api.services import Services
from headgate.control.api.strict_json import read_json
from headgate.control.api.turns import AllTurns
from headgate.control.tokens import Caller, Doorman
from headgate.errors import ConfigError, StorageDown
from headgate.feed import Position

# For probes, which come back soon.
PROBE_S = 2.0
BODY_BYTES_MAX = 1024 * 1024
# Whoever sends slowly holds a thread, and a turn that others wait for: how long it may be silent, how fast it must come
# beyond that, and how long what is read whole may take in all.
SILENT_S = 30.0
SLOWEST_BYTES_S = 4 * 1024
BODY_S = 300.0
JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"


@dataclass(frozen=True, slots=True)
class Inside:
    """What all calls share: the services, and what the API keeps of its own."""

    services: Services
    doorman: Doorman
    limits: ApiLimits
    cursors: Cursors
    counts: CallCounts
    recorder: Recorder
    turns: AllTurns = field(default_factory=AllTurns)
    # Looks at the feed that are under way, on the event loop, by what is looked for.
    looks: dict[object, asyncio.Future[object]] = field(default_factory=dict)

    def head(self) -> Position:
        """Where the log ends. Raises StorageDown."""
        try:
            with self.services.database.read(timeout_s=PROBE_S) as tx:
                return tx.head
        except ConfigError as error:
            # Its tables are still to be made.
            raise StorageDown(str(error)) from None


@dataclass(frozen=True, slots=True)
class Call:
    """Bodies are read from the worker thread that answers: a call that is refused first never has its body read."""

    request: Request
    inside: Inside
    caller: Caller

    @property
    def services(self) -> Services:
        return self.inside.services

    def object(self, *, optional: bool = False, media: tuple[str, ...] = (JSON,)) -> dict[str, Any]:
        """The body, which must be one JSON object. Raises Problem: 400, 413, 415, 422."""
        raw = self.raw(BODY_BYTES_MAX)
        if not raw and optional:
            return {}
        self.check_media(media)
        value = read_json(raw)
        if not isinstance(value, dict):
            raise unprocessable("the body must be a JSON object", ("", f"expected an object, not {_named(value)}"))
        return value

    def check_media(self, media: tuple[str, ...]) -> str:
        """The media type of the body, among those that are taken here."""
        given = self.request.headers.get("content-type", "")
        kind, *parameters = [part.strip().lower() for part in given.split(";")]
        plain = all(part.replace('"', "") in ("", "charset=utf-8") for part in parameters)
        if kind not in media or not plain:
            raise Problem(
                415,
                f"send the body as {' or '.join(media)} in UTF-8, and say so with Content-Type",
                headers={"Accept": ", ".join(media)},
            )
        return kind

    @property
    def is_small(self) -> bool:
        """Whether the body says of itself that it is no larger than those of other routes."""
        size = self._told_bytes
        return size is not None and size <= BODY_BYTES_MAX

    @property
    def _told_bytes(self) -> int | None:
        told = self.request.headers.get("content-length", "")
        return int(told) if told.isdecimal() and told.isascii() else None

    def raw(self, bytes_max: int) -> bytes:
        """All of the body, if it is not larger than that."""
        if (self._told_bytes or 0) > bytes_max:
            raise too_large(bytes_max)
        parts, size, ends = [], 0, time.monotonic() + BODY_S
        for part in self.chunks():
            size += len(part)
            if size > bytes_max:
                raise too_large(bytes_max)
            if time.monotonic() > ends:
                raise Problem(408, f"the body did not come within {BODY_S:g} s", headers={"Connection": "close"})
            parts.append(part)
        return b"".join(parts)

    def chunks(self) -> Iterator[bytes]:
        """The body as it comes. Each piece is taken from the connection only when it is asked for, so a slow reader
        slows the sender down. A client that goes away raises `ClientDisconnect` here, one that only seems to be there a
        Problem (408): it holds a thread, and a turn that others wait for."""
        more, size, waited_s = True, 0, 0.0
        while more:
            begun_s = time.monotonic()
            message = anyio.from_thread.run(received, self.request, SILENT_S + size / SLOWEST_BYTES_S - waited_s)
            waited_s += time.monotonic() - begun_s
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            more = message.get("more_body", False)
            if part := message.get("body", b""):
                size += len(part)
                yield part


async def received(request: Request, left_s: float | None = None) -> Message:
    """The next piece of a body. Raises Problem (408) when a client is silent for too long: one that uploads fast has
    time in store, and may be silent for no longer all the same."""
    try:
        with anyio.fail_after(SILENT_S if left_s is None else min(max(0.0, left_s), SILENT_S)):
            return await request.receive()
    except TimeoutError:
        words = "the rest of the body did not come in time; nothing was changed. Send it again"
        raise Problem(408, words, headers={"Connection": "close"}) from None


def too_large(bytes_max: int) -> Problem:
    amount = f"{bytes_max // 2**20} MiB" if bytes_max >= 2**20 else f"{bytes_max // 2**10} KiB"
    return Problem(413, f"the body is larger than {amount}; send less at once, or rules one a line to /api/v1/apply")


def _named(value: Any) -> str:
    names = {list: "an array", str: "a text", bool: "a boolean", int: "a number", float: "a number"}
    return names.get(type(value), "null")
