"""A reservation: spend first, settle when the real cost is known."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

import headgate._core as _core


class Reservation:
    """What `Limiter.reserve` spent, to be settled once by `commit` or `refund`.

    Works with `with` and `async with`. Entering never raises on a refusal: look at `allowed`. Leaving without having
    settled keeps everything spent, unless an exception escaped: then everything is returned.

    Made where an event loop runs, with a shared store, it is decided by `async with`, which awaits the store; settling
    is then sent and not waited for, and gives 0.
    """

    __slots__ = ("_ask", "_decision", "_engine", "_settled_by", "_waits")

    def __init__(
        self, engine: _core.Engine, check: Callable[[], _core.Decision], ask: Callable[[], Awaitable[_core.Decision]]
    ) -> None:
        self._engine = engine
        self._settled_by: str | None = None
        self._waits = not (engine.is_shared and _in_event_loop())
        self._ask = ask
        self._decision = check() if self._waits else None

    @property
    def decision(self) -> _core.Decision:
        if self._decision is None:
            raise RuntimeError("this reservation is not decided yet; enter it with `async with`")
        return self._decision

    @property
    def allowed(self) -> bool:
        return self.decision.allowed

    def __bool__(self) -> bool:
        return self.decision.allowed

    def commit(self, actual: int) -> int:
        """Settle at the real cost. What was reserved beyond it is returned; what it exceeds is spent regardless.
        Gives the engine's count of what was returned."""
        if not self.decision.allowed:
            raise RuntimeError("this reservation was refused and spent nothing; look at `allowed` before commit")
        self._settle("committed")
        return self._engine.commit(self.decision, actual, wait=self._waits)

    def refund(self) -> int:
        """Return everything. Gives the largest amount returned to one limit; 0 for a refused reservation."""
        if not self.decision.allowed:
            return 0
        self._settle("refunded")
        return self._engine.refund(self.decision, wait=self._waits)

    def _settle(self, how: str) -> None:
        if self._settled_by is not None:
            raise RuntimeError(f"this reservation was already {self._settled_by}; a reservation is settled once")
        self._settled_by = how

    def __enter__(self) -> Self:
        if self._decision is None:
            raise RuntimeError("where an event loop runs, a reservation on a shared store is entered with `async with`")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None and self._settled_by is None:
            self.refund()

    async def __aenter__(self) -> Self:
        if self._decision is None:
            self._decision = await self._ask()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)

    def __repr__(self) -> str:
        if self._decision is None:
            return "<Reservation undecided>"
        state = self._settled_by or ("open" if self.decision.allowed else "refused")
        return f"<Reservation {state} {self.decision!r}>"


def _in_event_loop() -> bool:
    # A program that never loaded asyncio runs no loop.
    asyncio = sys.modules.get("asyncio")
    return asyncio is not None and asyncio._get_running_loop() is not None
