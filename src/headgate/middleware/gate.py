"""What every middleware has: a limiter, and how requests are known, priced and answered."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, NamedTuple, TypedDict, cast

import headgate._core as _core
from headgate.errors import ConfigError
from headgate.identity import IdentityOptions
from headgate.limiter import MEMORY_STORE, Facts, Limiter
from headgate.middleware.patterns import Patterns
from headgate.middleware.views import Response
from headgate.model import RulesSource

# Who is asking, in an application's own words: a user's id, facts, or nobody.
Who = str | int | Mapping[str, Any] | None
Identify = Callable[[Any], Who | Awaitable[Who]]
When = Callable[[Response], object]
CostOf = int | Callable[[Any], int]

HEADER_FAMILIES = ("x-ratelimit", "ietf")
# Where an ASGI middleware leaves its gate for limits on what it does not decide about: exempt paths, WebSockets.
GATE = "headgate.gate"
PROBLEM = "application/problem+json"
_FACTS = frozenset({"user", "tier", "org", "api_key", "ip", "region", "descriptors"})
# As the engine says it of a path as it came, and of one among other facts.
_TOO_LONG = ("path: at most", "path: must be")


class Refusal(NamedTuple):
    """An answer that the application never sees the request of."""

    status: int
    content_type: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()


class Options(TypedDict, total=False):
    """What every middleware takes beside its limiter; `Gate` has the defaults."""

    rules: RulesSource | None
    store: str
    identity: IdentityOptions | None
    identify: Identify | None
    cost: CostOf
    exempt: Sequence[str]
    when: When | None
    headers: Sequence[str]
    problem: bool
    jitter: float


class Gate:
    """One for each middleware; it is given the middleware's own arguments."""

    def __init__(
        self,
        limiter: Limiter | None = None,
        *,
        rules: RulesSource | None = None,
        store: str = MEMORY_STORE,
        identity: IdentityOptions | None = None,
        identify: Identify | None = None,
        cost: CostOf = 1,
        exempt: Sequence[str] = (),
        when: When | None = None,
        headers: Sequence[str] = HEADER_FAMILIES,
        problem: bool = False,
        jitter: float = 0.1,
    ) -> None:
        if limiter is None:
            limiter = Limiter(rules, store=store, identity=identity)
        elif rules is not None or store != MEMORY_STORE or identity is not None:
            raise ConfigError("give a `limiter`, or `rules`, `store` and `identity` to make one of; not both")
        elif not isinstance(limiter, Limiter):
            raise TypeError(f"limiter: expected a headgate.Limiter, got {type(limiter).__name__}")
        for name, function in (("identify", identify), ("when", when)):
            if function is not None and not callable(function):
                raise TypeError(f"{name}: expected a function, got {type(function).__name__}")
        check_cost(cost)
        self.limiter = limiter
        self.identify = identify
        self.cost: Any = cost
        self.has_cost_function = callable(cost)
        self.when = when
        self.exempt = Patterns(exempt)
        # Asked for every request, and a frame costs more than the question.
        self.has_exempt = bool(self.exempt)
        self.answers = make_answers(headers, problem, jitter)

    def cost_of(self, request: Any) -> int:
        return cast(int, self.cost(request) if self.has_cost_function else self.cost)

    def is_exempt(self, raw_path: str) -> bool:
        return self.has_exempt and self.exempt.match(raw_path)

    def checked(self, who: object) -> Who:
        """What the application's own function said, if it may say that."""
        if who is None or isinstance(who, str):
            return who
        if isinstance(who, Mapping):
            if not _FACTS.issuperset(who):
                unknown, expected = sorted(set(who) - _FACTS)[0], ", ".join(sorted(_FACTS))
                raise ConfigError(f"identify: {unknown!r} is not a fact; expected any of {expected}")
            return who if isinstance(who, dict) else dict(who)
        if isinstance(who, int) and not isinstance(who, bool):
            return who
        raise TypeError(f"identify: expected a user's id, a dict of facts or None, got {type(who).__name__}")

    def own_facts(self, who: Who, ip: Callable[[], str | None]) -> Facts:
        """What the application's own function says, as facts. The address stands where it names none."""
        who = self.checked(who)
        facts: dict[str, Any]
        if who is None:
            facts = {}
        elif isinstance(who, Mapping):
            facts = {name: value for name, value in who.items() if value is not None}
        else:
            facts = {"user": who}
        if "ip" not in facts and (address := ip()) is not None:
            facts["ip"] = address
        return cast(Facts, facts)

    def refusal(self, steps: list[tuple[_core.Decision, str | None]]) -> Refusal:
        status = steps[-1][0].status
        return Refusal(status, self.answers.content_type, self.answers.body(steps))


def check_cost(cost: object) -> None:
    if not callable(cost) and (isinstance(cost, bool) or not isinstance(cost, int)):
        raise TypeError(f"cost: expected a whole number or a function, got {type(cost).__name__}")


def make_answers(headers: Sequence[str], problem: bool, jitter: float) -> _core.Answers:
    families = [headers] if isinstance(headers, str) else list(headers)
    try:
        return _core.Answers(families=families, jitter=jitter, problem=problem)
    except ValueError as error:
        raise ConfigError(str(error).replace("families:", "headers:")) from None


def problem(status: int, detail: str) -> Refusal:
    """A request that cannot be decided about, as a node's own doors answer it."""
    title = HTTPStatus(status).phrase.capitalize() if status != HTTPStatus.UNAUTHORIZED else "Unauthorized"
    body = {"type": "about:blank", "title": title, "status": status, "detail": detail}
    return Refusal(status, PROBLEM, json.dumps(body, separators=(",", ":")).encode())


def unauthorized(identity: _core.Identity) -> Refusal:
    """Credentials that are not good. Says what was wrong with them and nothing of them."""
    refusal = problem(HTTPStatus.UNAUTHORIZED, identity.error or "")
    return refusal._replace(headers=(("WWW-Authenticate", 'Bearer error="invalid_token"'),))


def not_decidable(error: ValueError) -> Refusal:
    """Facts of a request that cannot be, such as a path without end."""
    text = str(error)
    status = HTTPStatus.REQUEST_URI_TOO_LONG if text.startswith(_TOO_LONG) else HTTPStatus.BAD_REQUEST
    return problem(status, text)
