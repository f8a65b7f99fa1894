"""Limitador as its documents describe it, slowly: every limit whose conditions hold and whose variables are there
applies, each with a counter of its own; one that is full refuses, and then nothing is counted.

Windows lie on the clock, which is how imported limits count: the one difference that is left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Limit:
    namespace: str
    max_value: int
    seconds: int
    conditions: tuple[tuple[str, str], ...]
    variables: tuple[str, ...]

    def applies(self, namespace: str, values: Mapping[str, str]) -> bool:
        holds = all(values.get(key) == value for key, value in self.conditions)
        return namespace == self.namespace and holds and all(name in values for name in self.variables)


@dataclass
class Limitador:
    limits: list[Limit]
    used: Counter[object] = field(default_factory=Counter)

    def check(self, namespace: str, values: Mapping[str, str], now: int) -> bool:
        met = [limit for limit in self.limits if limit.applies(namespace, values)]
        # The same limit written twice has one counter.
        counters = {self._counter(limit, values, now) for limit in met}
        if any(self.used[self._counter(limit, values, now)] + 1 > limit.max_value for limit in met):
            return False
        self.used.update(counters)
        return True

    def _counter(self, limit: Limit, values: Mapping[str, str], now: int) -> object:
        counted = tuple((name, values[name]) for name in sorted(set(limit.variables)))
        return (limit.namespace, limit.seconds, frozenset(limit.conditions), counted, now // limit.seconds)
