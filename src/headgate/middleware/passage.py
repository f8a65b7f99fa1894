"""One request on its way through: who it is from, and what was decided about it step by step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Unpack, cast

import headgate._core as _core
from headgate.errors import RateLimited
from headgate.limiter import Facts, Limiter
from headgate.middleware.views import Response, decoded
from headgate.reservation import Reservation

if TYPE_CHECKING:
    from headgate.middleware.gate import Gate, When, Who


class Passage:
    """Found at `scope["headgate"]` and `environ["headgate"]`.

    The rules are the first step; limits of a route are further ones. A refused step is the last, and what the steps
    before it spent is given back: one refusal spends nothing anywhere.
    """

    # These are of the class, and so cost a request nothing, until they are another.
    # Whether something depends on the response.
    settles = False
    _who: Who | Facts = None
    _facts: Facts | None = None
    # What was spent after the first step.
    _further: list[tuple[Limiter, _core.Decision, When | None]] | None = None

    def __init__(
        self,
        gate: Gate,
        identity: _core.Identity | None,
        who: Who | Facts = None,
        decision: _core.Decision | None = None,
    ) -> None:
        self.gate = gate
        self.steps: list[tuple[_core.Decision, str | None]] = [] if decision is None else [(decision, None)]
        # Whether a middleware took the first step, puts the headers on the response, and settles.
        self.is_answered_by_middleware = decision is not None
        self._identity = identity
        if who is not None:
            self._who = who
        if gate.when is not None and decision is not None:
            self.settles = True

    @property
    def limiter(self) -> Limiter:
        return self.gate.limiter

    @property
    def facts(self) -> Facts:
        """What is known of who is asking."""
        if self._facts is None:
            identity = self._identity
            if self._who is not None or self.gate.identify is not None:
                who = cast("Who", self._who)
                self._facts = self.gate.own_facts(who, lambda: None if identity is None else identity.ip)
            else:
                self._facts = cast(Facts, {} if identity is None else identity.facts())
        return self._facts

    @property
    def decision(self) -> _core.Decision | None:
        """The one that binds: a refusal, else the one with the smallest part left. None before the first."""
        return self.steps[_core.binding_position(self.steps)][0] if self.steps else None

    def reserve(self, **more: Unpack[Facts]) -> Reservation:
        """`Limiter.reserve` for whoever is asking: `async with passage.reserve(path="/v1/chat", cost=4000) as held`."""
        asked: Facts = {**self.facts, **more}
        return self.gate.limiter.reserve(**asked)

    def add(self, limiter: Limiter, decision: _core.Decision, name: str | None, when: When | None) -> None:
        """Take a further step. Raises RateLimited for a refusal, when everything before it has been given back."""
        self.steps.append((decision, name))
        if not decision.allowed:
            self.give_back()
            raise RateLimited(decision)
        if self._further is None:
            self._further = []
        self._further.append((limiter, decision, when))
        self.settles = self.settles or when is not None

    def refused(self, decision: _core.Decision) -> None:
        """The application was refused something itself: that is a step too, and the last."""
        if not self.steps or self.steps[-1][0] is not decision:
            self.steps.append((decision, None))
            self.give_back()

    def give_back(self) -> None:
        """Return what every step spent: sent to a shared store, and not waited for."""
        for limiter, decision, _ in self._charges():
            limiter.refund(decision, wait=False)
        self.settles = False

    def settle(self, status: int, headers: Iterable[tuple[str, str]] = ()) -> None:
        """The response is known: what counts only some responses is given back for others. Once."""
        if not self.settles:
            return
        self.settles = False
        response = Response(status, list(headers))
        for limiter, decision, when in self._charges():
            if when is not None and not when(response):
                limiter.refund(decision, wait=False)

    def settle_asgi(self, message: Mapping[str, Any]) -> None:
        self.settle(message["status"], decoded(message.get("headers", ())))

    def _charges(self) -> Iterator[tuple[Limiter, _core.Decision, When | None]]:
        if self.is_answered_by_middleware:
            yield self.gate.limiter, self.steps[0][0], self.gate.when
        yield from self._further or ()

    def headers(self) -> dict[str, str]:
        """Rate headers for the response, as of now."""
        return self.gate.answers.headers(self.steps)

    def __repr__(self) -> str:
        return f"<Passage {self.decision!r}>"


def of(raw: Any) -> Passage | None:
    """The passage of a scope or environ, if a middleware is there."""
    found = raw.get("headgate")
    return found if isinstance(found, Passage) else None
