"""A throttle for Django REST framework.

    class Burst(HeadgateThrottle):
        limit = "60/minute"

    class Items(APIView):
        throttle_classes = [Burst]

Headers are put on the response with `HeadgateMiddleware` and without it. The body of a refusal is REST framework's own.
"""

from __future__ import annotations

from typing import Any, ClassVar

from rest_framework.throttling import BaseThrottle

import headgate._core as _core
from headgate.errors import ConfigError, RateLimited
from headgate.limiter import Limiter
from headgate.middleware import django_requests as requests
from headgate.middleware import django_settings
from headgate.middleware.gate import CostOf, When
from headgate.middleware.passage import Passage, of
from headgate.middleware.route_limit import By, RouteLimit

__all__ = ["HeadgateThrottle"]

_RETRY_AFTER = "Retry-After"


class HeadgateThrottle(BaseThrottle):
    """A limit on views: the class's own `limit`; else that of its `scope`, from `settings.HEADGATE["throttles"]`; else
    the view's `headgate_limit`; else that of the view's `throttle_scope`. Without any of them all requests pass.

    limit      `"5/minute"`, `"100/second burst 200"`
    scope      names a limit in the settings
    by         `user` (else the address), `ip`, `org`, `api_key`, `global`, several of them, or a method of the request
    cost       a whole number, or a method of the request
    when       a static method of the response: where it gives false, what was spent is given back. Needs the middleware
    name       names the counters; unless given, views that share the class, the scope or the view's class share them
    algorithm  as `Limiter.check_limit` takes it
    limiter    which counters; those of `settings.HEADGATE` unless said
    """

    limit: ClassVar[str | None] = None
    scope: ClassVar[str | None] = None
    by: By = "user"
    cost: CostOf = 1
    when: When | None = None
    name: ClassVar[str | None] = None
    algorithm: ClassVar[str | None] = None
    limiter: ClassVar[Limiter | None] = None

    _wait: float | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # A mistake in the limit should stop the program where it is written, not at the first request.
        if cls.limit is not None:
            _core.check_limit_arguments(cls.limit, None, 1, cls.algorithm, None)

    def allow_request(self, request: Any, view: Any) -> bool:
        route_limit = self._route_limit(view)
        if route_limit is None:
            return True
        passage = self._passage(request)
        requests.with_user(passage.facts, request.user)
        if passage.steps and not passage.steps[-1][0].allowed:
            # REST framework asks every throttle for its wait, though one has refused.
            is_allowed = self._look(route_limit, passage, request)
        else:
            is_allowed = self._spend(route_limit, passage, request)
        # Of a response without a middleware, these are the headers.
        view.headers.update(passage.headers())
        return is_allowed

    def wait(self) -> float | None:
        """Seconds, as `Retry-After` tells them; None when waiting never helps."""
        return self._wait

    def _spend(self, route_limit: RouteLimit, passage: Passage, request: Any) -> bool:
        try:
            route_limit.check(passage, request)
        except RateLimited:
            self._wait = _told_wait(passage)
            return False
        return True

    def _look(self, route_limit: RouteLimit, passage: Passage, request: Any) -> bool:
        decision = route_limit.peek(passage, request)
        if decision is None or decision.allowed:
            return True
        if _is_longer(decision.retry_after, passage.steps[-1][0].retry_after):
            passage.steps[-1] = (decision, route_limit.policy)
        self._wait = _told_wait(passage)
        return False

    def _passage(self, request: Any) -> Passage:
        """The request's, begun here where no middleware has, or the rules left it alone."""
        django_request = request._request
        found = of(requests.raw(django_request))
        if found is None:
            gate = django_settings.project_gate()
            django_settings.meet(gate)
            identity = requests.identify(gate, django_request)
            facts = None if gate.identify is None else requests.facts_of(gate, django_request, identity)
            found = requests.keep(django_request, Passage(gate, identity, facts))
        if self.when is not None and not found.is_answered_by_middleware:
            raise ConfigError("a throttle's `when` needs HeadgateMiddleware, which sees the response")
        return found

    def _route_limit(self, view: Any) -> RouteLimit | None:
        limit, name, policy = self._chosen(view)
        if limit is None:
            return None
        made = RouteLimit(
            limit,
            by=self.by,
            cost=self.cost,
            when=self.when,
            name=self.name or name,
            algorithm=self.algorithm,
            limiter=self.limiter,
        )
        if self.name is None:
            # What clients see need not tell where the code is.
            made.policy = policy
        return made

    def _chosen(self, view: Any) -> tuple[str | None, str, str]:
        """The limit, what its counters are named after, and what its policy is called."""
        if self.limit is not None:
            return self.limit, _place(type(self)), self.limit.replace(" ", "")
        scope = self.scope
        if scope is None and (limit := getattr(view, "headgate_limit", None)) is not None:
            return limit, _place(type(view)), str(limit).replace(" ", "")
        scope = scope or getattr(view, "throttle_scope", None)
        if scope is None:
            return None, "", ""
        return django_settings.throttle_limit(scope), f"throttle:{scope}", scope


def _place(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _told_wait(passage: Passage) -> float | None:
    told = passage.headers().get(_RETRY_AFTER)
    return None if told is None else float(told)


def _is_longer(one_s: float | None, other_s: float | None) -> bool:
    """None is for ever."""
    return other_s is not None and (one_s is None or one_s > other_s)
