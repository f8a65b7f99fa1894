"""HTTP as uvicorn speaks it, with bounds on patience: its own waits for ever for the rest of a request's head, and for
a client to read its answer. Who holds connections without using them must not keep others out.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

# From being connected, or from the last answer, to the end of the next request's head.
HEAD_S = 15.0
# How long a client may read nothing of an answer that is waiting for it.
READ_S = 60.0


class PatientProtocol(H11Protocol):
    """One connection."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._head_timer: asyncio.TimerHandle | None = None
        self._read_timer: asyncio.TimerHandle | None = None
        self._idle_since_s = self.loop.time()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_head()
        self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        _cancel(self._head_timer)
        _cancel(self._read_timer)
        super().connection_lost(exc)

    def handle_events(self) -> None:
        super().handle_events()
        if self._is_busy:
            _cancel(self._head_timer)

    def on_response_complete(self) -> None:
        # Before the rest, which may begin the next request at once.
        self._await_head()
        super().on_response_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        _cancel(self._read_timer)
        self._read_timer = self.loop.call_later(READ_S, self._end)

    def resume_writing(self) -> None:
        _cancel(self._read_timer)
        super().resume_writing()

    @property
    def _is_busy(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _await_head(self) -> None:
        self._idle_since_s = self.loop.time()
        _cancel(self._head_timer)
        self._head_timer = self.loop.call_later(HEAD_S, self._end_if_idle)

    def _end_if_idle(self) -> None:
        if not self._is_busy:
            self._end()

    def _end(self) -> None:
        """At once: what it was sent and does not read would keep it open."""
        if self.transport is not None:
            self.transport.abort()

    def _make_room(self) -> None:
        """When there are as many as may be, whoever has been idle longest gives way to who comes."""
        if self.limit_concurrency is None or len(self.connections) < self.limit_concurrency:
            return
        idle = [one for one in self.connections if isinstance(one, PatientProtocol) and not one._is_busy]
        oldest = min(idle, key=lambda one: one._idle_since_s, default=None)
        if oldest is not None and oldest is not self:
            # It is counted until its end is noticed, and must not be in the way of the request that comes now.
            self.connections.discard(oldest)
            oldest._end()


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
