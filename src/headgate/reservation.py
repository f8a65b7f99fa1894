"""A reservation: spend first, settle when the real cost is known."""

from __future__ import annotations

from types import TracebackType
from typing import Self

import headgate._core as _core


class Reservation:
    """What `Limiter.reserve` spent, to be settled once by `commit` or `refund`.

    Works with `with` and `async with`. Entering never raises on a refusal: look at `allowed`. Leaving without having
    settled keeps everything spent, unless an exception escaped: then everything is returned.
    """

    __slots__ = ("_engine", "_settled_by", "decision")

    decision: _core.Decision

    def __init__(self, engine: _core.Engine, decision: _core.Decision) -> None:
        self._engine = engine
        self._settled_by: str | None = None
        self.decision = decision

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
        return self._engine.commit(self.decision, actual)

    def refund(self) -> int:
        """Return everything. Gives the largest amount returned to one limit; 0 for a refused reservation."""
        if not self.decision.allowed:
            return 0
        self._settle("refunded")
        return self._engine.refund(self.decision)

    def _settle(self, how: str) -> None:
        if self._settled_by is not None:
            raise RuntimeError(f"this reservation was already {self._settled_by}; a reservation is settled once")
        self._settled_by = how

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None and self._settled_by is None:
            self.refund()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)

    def __repr__(self) -> str:
        state = self._settled_by or ("open" if self.decision.allowed else "refused")
        return f"<Reservation {state} {self.decision!r}>"
