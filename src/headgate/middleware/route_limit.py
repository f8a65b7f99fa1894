"""A limit written beside a route: `limit("10/second", by="user")`. Every framework's `limit` is one of these."""

from __future__ import annotations

import functools
import hashlib
import inspect
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import headgate._core as _core
from headgate.errors import ConfigError
from headgate.limiter import Facts, Limiter
from headgate.middleware.gate import CostOf, Gate, When, check_cost
from headgate.middleware.passage import Passage

By = str | Sequence[str] | Callable[[Any], Any]

_NAMES = ("user", "api_key", "org", "ip", "global")
# Facts that a client's address stands in for.
_PERSONAL = ("user", "api_key")
_KEY_BYTES_MAX = 1024
_NAME_BYTES_MAX = 256

# How many limits without a name each module has written so far.
_written: Counter[str] = Counter()


class RouteLimit:
    """One of these is one limit, wherever it is used: routes that share it share its counters.

    Counters are named after the module it is written in and what it says, so that every worker, and every worker
    after a restart, names them alike. A `name` is kept when the code moves.
    """

    def __init__(
        self,
        limit: int | str,
        window: float | str | None = None,
        *,
        by: By = "user",
        cost: CostOf = 1,
        when: When | None = None,
        name: str | None = None,
        algorithm: str | None = None,
        burst: int | None = None,
        limiter: Limiter | None = None,
    ) -> None:
        check_cost(cost)
        # A mistake in the limit should stop the program where it is written, not at the first request.
        _core.check_limit_arguments(limit, window, 1 if callable(cost) else cost, algorithm, burst)
        if when is not None and not callable(when):
            raise TypeError(f"when: expected a function of the response, got {type(when).__name__}")
        if name is not None and not 0 < len(name.encode()) <= _NAME_BYTES_MAX:
            raise ConfigError(f"name: must be 1 to {_NAME_BYTES_MAX} bytes long")
        self.by = by if callable(by) else _facts_of(by)
        self.cost = cost
        self.when = when
        self.limiter = limiter
        self._gate: Gate | None = None
        self._quota = (limit, window, algorithm, burst)
        text = limit if isinstance(limit, str) else f"{limit}/{window}"
        self.policy = name or text.replace(" ", "")
        self._counter = name if name is not None else _counter_name(text, self.by)

    def own_gate(self) -> Gate:
        """For requests that no middleware has seen."""
        if self._gate is None:
            self._gate = Gate(self.limiter) if self.limiter is not None else _default_gate()
        return self._gate

    def subject_of_facts(self, passage: Passage) -> str | None:
        """Whom it counts; None where it does not apply."""
        assert not callable(self.by)
        if len(self.by) == 1:
            return _part(self.by[0], passage.facts, passage.limiter)
        parts = [_part(fact, passage.facts, passage.limiter) for fact in self.by]
        return None if None in parts else "|".join(part for part in parts if part is not None)

    def subject_of(self, value: object, passage: Passage) -> str | None:
        """Whom it counts, by what the application's own `by` gave."""
        if value is None:
            return _part("user", {"ip": passage.facts.get("ip")}, passage.limiter)
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise TypeError(f"by: expected a text or a whole number, got {type(value).__name__}")
        return f"by:{_escaped(str(value))}"

    def check(self, passage: Passage, request: Any) -> None:
        """Take this step. Raises RateLimited for a refusal."""
        subject = self._subject(passage, request)
        if subject is not None:
            limiter = self.limiter or passage.limiter
            limit, window, algorithm, burst = self._quota
            cost = self._cost_of(request)
            decision = limiter.check_limit(self._key(subject), limit, window, cost, algorithm, burst)
            passage.add(limiter, decision, self.policy, self.when)

    def peek(self, passage: Passage, request: Any) -> _core.Decision | None:
        """As `check` would answer, and nothing is spent; None where it does not apply."""
        subject = self._subject(passage, request)
        if subject is None:
            return None
        limiter = self.limiter or passage.limiter
        limit, window, algorithm, burst = self._quota
        return limiter.peek_limit(self._key(subject), limit, window, self._cost_of(request), algorithm, burst)

    def _subject(self, passage: Passage, request: Any) -> str | None:
        if not callable(self.by):
            return self.subject_of_facts(passage)
        value = self.by(request)
        if inspect.isawaitable(value):
            raise TypeError("by: an async function needs an async view")
        return self.subject_of(value, passage)

    async def acheck(self, passage: Passage, request: Any) -> None:
        """`check` for async code."""
        if callable(self.by):
            value = self.by(request)
            if inspect.isawaitable(value):
                value = await value
            subject = self.subject_of(value, passage)
        else:
            subject = self.subject_of_facts(passage)
        if subject is not None:
            limiter = self.limiter or passage.limiter
            limit, window, algorithm, burst = self._quota
            cost = self._cost_of(request)
            decision = await limiter.acheck_limit(self._key(subject), limit, window, cost, algorithm, burst)
            passage.add(limiter, decision, self.policy, self.when)

    def _cost_of(self, request: Any) -> int:
        return self.cost(request) if callable(self.cost) else self.cost

    def _key(self, subject: str) -> str:
        key = f"{self._counter}|{subject}"
        if len(key) * 4 <= _KEY_BYTES_MAX or len(key.encode()) <= _KEY_BYTES_MAX:
            return key
        digest = hashlib.blake2b(subject.encode(), digest_size=16).hexdigest()
        return f"{self._counter}|#{digest}"


@functools.cache
def _default_gate() -> Gate:
    """Counters of this process, for limits that are given none."""
    return Gate(Limiter())


def _facts_of(by: str | Sequence[str]) -> tuple[str, ...]:
    facts = (by,) if isinstance(by, str) else tuple(by)
    for fact in facts:
        if fact not in _NAMES:
            raise ConfigError(f"by: {fact!r} is not one of {', '.join(_NAMES)}; or give a function of the request")
    if not facts or len(set(facts)) != len(facts) or ("global" in facts and len(facts) > 1):
        raise ConfigError("by: name each fact once, and `global` alone")
    return facts


def _part(fact: str, facts: Facts, limiter: Limiter) -> str | None:
    if fact == "global":
        return "global"
    value = facts.get(fact)
    if value is None and fact in _PERSONAL:
        fact, value = "ip", facts.get("ip")
    if value is None:
        # A server that names no address, as test clients: better one counter for all than none.
        return "anonymous" if fact == "ip" else None
    text = _core.counted_ip(limiter, str(value)) if fact == "ip" else str(value)
    return f"{fact}:{_escaped(text)}"


def _escaped(text: str) -> str:
    """So that two parts never look like one. Half of a surrogate pair, as JSON may hold it, cannot be written."""
    if not text.isascii():
        text = text.encode("utf-8", "backslashreplace").decode()
    return text.replace("%", "%25").replace("|", "%7C") if "|" in text or "%" in text else text


def _counter_name(text: str, by: tuple[str, ...] | Callable[[Any], Any]) -> str:
    counted = getattr(by, "__qualname__", type(by).__name__) if callable(by) else "+".join(by)
    stem = f"{_module_outside()}:{text}:{counted}"
    _written[stem] += 1
    nth = _written[stem]
    return stem if nth == 1 else f"{stem}#{nth}"


def _module_outside() -> str:
    """The module that writes the limit: the first outside this package."""
    frame = sys._getframe(1)
    while True:
        module = str(frame.f_globals.get("__name__", ""))
        if not module.startswith("headgate.middleware") or frame.f_back is None:
            # Two programs that share a store are both `__main__`; their files have names.
            file = frame.f_globals.get("__file__")
            return Path(file).stem if module == "__main__" and file else module
        frame = frame.f_back
