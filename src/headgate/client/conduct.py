"""How a client behaves: when each request is sent, and whether a refused one is sent again.

No I/O and no clock: a transport asks a `Trip` what to do next, tells it the time, sleeps and sends.
One `Conduct` serves any number of threads and tasks; what is done under its lock is short.
"""

from __future__ import annotations

import math
import random
import threading
from bisect import bisect_left, insort
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from types import TracebackType
from typing import Self

from headgate.client.allowance import Allowance
from headgate.client.answer import Answer, read_answer
from headgate.client.budget import RetryBudget
from headgate.client.options import RetryOptions
from headgate.client.origin import Origin, Origins
from headgate.errors import ConfigError

TOO_MANY_REQUESTS = 429
IDEMPOTENCY_KEY = "idempotency-key"
# Other credentials are counted for themselves. Only their hash is kept.
CREDENTIALS = ("authorization", "x-api-key")
# A server that says "at once" again and again is asked ever more slowly: 0.1 s, 0.2 s, 0.4 s, ...
BACK_OFF_FIRST_S = 0.1
# Those who hold look again after a part of their wait, at most this often: the server may have said more meanwhile.
HOLD_PART = 0.25
HOLD_S = 1.0
# Rounding must not make a wait of nothing at all.
WAIT_S_MIN = 0.001
# A refusal's body is read, so that its connection can be used again; one that is longer or slower is cut off instead.
REFUSAL_BYTES_MAX = 65_536
REFUSAL_READ_S_MAX = 1.0


@dataclass(frozen=True, slots=True)
class RetryReport:
    """What became of one request. Beside its answer as `response.extensions["headgate"]`.

    attempts   how often it was sent
    waited_s   how long it was held back in all, before the first attempt too
    gave_up    None, or why a refusal was handed over: `method`, `body`, `attempts`, `wait` or `budget`
    """

    attempts: int
    waited_s: float
    gave_up: str | None = None


class Conduct:
    """`draw` gives numbers from 0 to 1: how much of the jitter a request gets."""

    def __init__(self, options: RetryOptions | None = None, draw: Callable[[], float] = random.random) -> None:
        options = RetryOptions() if options is None else options
        if not isinstance(options, RetryOptions):
            raise ConfigError(f"options: expected RetryOptions(...), not {options!r}")
        self.options = options
        self.draw = draw
        self.lock = threading.Lock()
        self.budget = RetryBudget(options)
        self.origins = Origins(options.origins_max)
        self.tickets = count()

    def begin(
        self, method: str, address: tuple[object, ...], path: str, headers: Mapping[str, str], *, can_replay: bool
    ) -> Trip:
        """`address` names the server; `can_replay` says whether the body can be sent a second time."""
        credentials = hash(tuple(_lasting(headers.get(name)) for name in CREDENTIALS))
        may_repeat = method in self.options.methods or IDEMPOTENCY_KEY in headers
        never = None if may_repeat and can_replay else "body" if may_repeat else "method"
        return Trip(self, (*address, credentials), method, path, never)


class Trip:
    """One request, from before its first attempt until its answer is handed over. Leave it with `with`."""

    def __init__(self, conduct: Conduct, key: object, method: str, path: str, never: str | None) -> None:
        self._conduct = conduct
        self._options = conduct.options
        self._method, self._path = method, path
        self._never = never
        self._jitter = conduct.options.jitter * conduct.draw()
        with conduct.lock:
            self._ticket = next(conduct.tickets)
            self._origin: Origin = conduct.origins.get(key)
        self._queued: list[Allowance] = []
        self._taken: list[Allowance] | None = None
        self._retry_at_s: float | None = None
        self._attempts = 0
        self._sent_at_s = -math.inf
        self._waited_s = 0.0
        self._gave_up: str | None = None

    def wait_s(self, now_s: float) -> float:
        """Seconds to sleep, then ask again. 0: send now."""
        with self._conduct.lock:
            wait_s = self._still_s(now_s)
            if wait_s <= 0:
                self._leave(now_s)
                return 0.0
            self._waited_s += wait_s
            return wait_s

    def must_repeat(self, status: int, headers: Mapping[str, str], now_s: float, wall_now_s: float) -> bool:
        """Whether the request is to be sent again, after `wait_s`; otherwise its answer is the caller's."""
        answer = read_answer(headers, wall_now_s)
        with self._conduct.lock:
            self._land()
            self._origin.learn(self._method, self._path, answer, now_s, is_success=200 <= status <= 299)
            wait_s = self._told_to_wait_s(status, answer)
            if wait_s is None:
                self._origin.everywhere.lift(self._sent_at_s, now_s)
                return False
            self._origin.refuse(answer, wait_s, self._sent_at_s, now_s)
            self._gave_up = self._reason_to_give_up(wait_s, now_s)
            return self._gave_up is None

    def report(self) -> RetryReport:
        return RetryReport(self._attempts, self._waited_s, self._gave_up)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # However it ended, also by cancellation: nobody holds for a request that is no longer there.
        with self._conduct.lock:
            self._land()
            self._leave_queues()

    def _still_s(self, now_s: float) -> float:
        patience_s = self._patience_s()
        own_s = 0.0 if self._retry_at_s is None else min(self._retry_at_s - now_s, patience_s)
        if own_s > 0:
            return max(own_s, WAIT_S_MIN)
        # Who waited by order has had its jitter.
        jitter = self._jitter if self._retry_at_s is None else 0.0
        held_s = min(self._held_s(now_s, jitter), patience_s)
        # What may not be waited out is sent at once: the server's refusal is a better answer than one made up here.
        if held_s <= 0 or self._held_s(now_s) > patience_s:
            return 0.0
        self._queue()
        return min(max(held_s, WAIT_S_MIN), max(HOLD_S, HOLD_PART * held_s))

    def _held_s(self, now_s: float, jitter: float = 0.0) -> float:
        if not self._options.pace:
            return 0.0
        below = self._options.pace_below
        return max(
            allowance.free_at_s(self._ticket, now_s, jitter=jitter, below=below) - now_s
            for allowance in self._allowances()
        )

    def _allowances(self) -> list[Allowance]:
        return self._origin.allowances(self._method, self._path)

    def _patience_s(self) -> float:
        return min(self._options.wait_max_s, self._options.total_wait_max_s - self._waited_s)

    def _told_to_wait_s(self, status: int, answer: Answer) -> float | None:
        if status not in self._options.statuses:
            return None
        if status != TOO_MANY_REQUESTS:
            return answer.retry_after_s
        named_s = answer.named_wait_s()
        return self._options.unnamed_wait_s if named_s is None else named_s

    def _reason_to_give_up(self, told_s: float, now_s: float) -> str | None:
        """None: `_retry_at_s` is set, and a retry is taken from the budget."""
        if self._never is not None:
            return self._never
        if self._attempts >= self._options.attempts_max:
            return "attempts"
        patience_s = self._patience_s()
        if max(told_s, self._held_s(now_s)) > patience_s:
            return "wait"
        if not self._conduct.budget.spend(now_s):
            return "budget"
        wait_s = max(told_s, BACK_OFF_FIRST_S * 2 ** (self._attempts - 1))
        self._retry_at_s = now_s + min(wait_s * (1 + self._jitter), patience_s)
        return None

    def _queue(self) -> None:
        for allowance in self._allowances():
            if not any(allowance is queued for queued in self._queued):
                insort(allowance.queue, self._ticket)
                self._queued.append(allowance)

    def _leave_queues(self) -> None:
        for allowance in self._queued:
            del allowance.queue[bisect_left(allowance.queue, self._ticket)]
        self._queued = []

    def _leave(self, now_s: float) -> None:
        self._leave_queues()
        if self._attempts == 0:
            self._conduct.budget.earn(now_s)
        self._attempts += 1
        self._sent_at_s = now_s
        of_route = self._origin.allowances_of_route(self._method, self._path)
        for allowance in of_route:
            allowance.take(now_s)
        self._taken = of_route
        self._origin.unknown_in_flight += not of_route

    def _land(self) -> None:
        if self._taken is None:
            return
        for allowance in self._taken:
            allowance.in_flight -= 1
        self._origin.unknown_in_flight -= not self._taken
        self._taken = None


def _lasting(credential: str | bytes | None) -> str | None:
    """A signature (Digest, AWS, OAuth 1) is new with every request: of a list of parameters only the scheme counts."""
    text = credential.decode("latin-1") if isinstance(credential, bytes) else credential
    return text.partition(" ")[0] if text is not None and "," in text else text
