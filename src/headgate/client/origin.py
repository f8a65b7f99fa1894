"""What is known of one server: its policies, and which of them apply to which paths."""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeVar

from headgate.client.allowance import Allowance
from headgate.client.answer import Answer

POLICIES_MAX = 64
ROUTES_MAX = 256
ROUTE_DEPTH_MAX = 8
ROUTE_CHARS_MAX = 256

Route = tuple[str, str]
K = TypeVar("K")
V = TypeVar("V")


class Origin:
    """One server as one caller sees it.

    A policy that applies to `/login` must not slow down `/items`. Which policies apply is learnt from answers, by
    method and path. A path not seen before is taken to be like its neighbours: `/users/7` like the last of `/users`.
    """

    def __init__(self) -> None:
        # Holds everything: a refusal that names no policy.
        self.everywhere = Allowance()
        # Requests on their way that no policy was known for.
        self.unknown_in_flight = 0
        self._allowances: OrderedDict[str, Allowance] = OrderedDict()
        self._routes: OrderedDict[Route, tuple[str, ...]] = OrderedDict()

    def allowances(self, method: str, path: str) -> list[Allowance]:
        return [self.everywhere, *self.allowances_of_route(method, path)]

    def allowances_of_route(self, method: str, path: str) -> list[Allowance]:
        for prefix in reversed(prefixes(path)):
            names = self._routes.get((method, prefix))
            if names is not None:
                return [self._allowances[name] for name in names if name in self._allowances]
        return []

    def learn(self, method: str, path: str, answer: Answer, now_s: float, *, is_success: bool) -> None:
        names = tuple(policy.name for policy in answer.policies)
        # An answer without policies says nothing of its neighbours, and one that is an error, from a cache or without
        # news (304) may come from somebody who knows no policies.
        if names or (self._routes and is_success and not answer.is_cached):
            routes = prefixes(path)
            for prefix in routes if names else routes[-1:]:
                _put(self._routes, (method, prefix), names, ROUTES_MAX)
        for policy in answer.policies:
            allowance = self._allowances.get(policy.name) or Allowance()
            _put(self._allowances, policy.name, allowance, POLICIES_MAX)
            allowance.tell(policy, self.unknown_in_flight, now_s)

    def refuse(self, answer: Answer, wait_s: float, sent_at_s: float, now_s: float) -> None:
        refusing = [policy for policy in answer.refusing() if policy.name in self._allowances]
        for policy in refusing:
            # Without a Retry-After each has a time of its own.
            own_s = policy.more_in_s if answer.retry_after_s is None and policy.remaining == 0 else None
            self._allowances[policy.name].refuse(wait_s if own_s is None else own_s, sent_at_s, now_s)
        if not refusing:
            self.everywhere.refuse(wait_s, sent_at_s, now_s)


class Origins:
    """The servers a transport speaks to; the least recently used is forgotten first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._origins: OrderedDict[object, Origin] = OrderedDict()

    def get(self, key: object) -> Origin:
        origin = self._origins.get(key) or Origin()
        _put(self._origins, key, origin, self._most)
        return origin

    def all(self) -> list[Origin]:
        return list(self._origins.values())


def prefixes(path: str) -> list[str]:
    """`/a/b` is in ``, `/a`, `/a/b`: the shortest first."""
    parts = path[:ROUTE_CHARS_MAX].strip("/").split("/")[:ROUTE_DEPTH_MAX]
    found = [""]
    for part in parts:
        if part:
            found.append(f"{found[-1]}/{part}")
    return found


def _put(cache: OrderedDict[K, V], key: K, value: V, most: int) -> None:
    cache[key] = value
    cache.move_to_end(key)
    while len(cache) > most:
        cache.popitem(last=False)
