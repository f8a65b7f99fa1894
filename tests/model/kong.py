"""Kong's rate-limiting plugin as its documents describe it, slowly: one route is found for a request, then the one most
specific instance of the plugin that there is for it, and that one counts in windows on the clock."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

PRECEDENCE = [
    ("consumer", "route", "service"),
    ("group", "route", "service"),
    ("consumer", "route"),
    ("consumer", "service"),
    ("group", "route"),
    ("group", "service"),
    ("route", "service"),
    ("consumer",),
    ("group",),
    ("route",),
    ("service",),
    (),
]
WINDOWS_S = {"second": 1, "minute": 60, "hour": 3_600}


@dataclass(frozen=True)
class Route:
    name: str
    service: str | None
    paths: tuple[str, ...]
    methods: tuple[str, ...]

    def weight(self, path: str, method: str) -> tuple[int, int] | None:
        """How well it matches; None if it does not. Whole segments: requests here have no others."""
        longest = max((len(own) for own in self.paths if own == "/" or f"{path}/".startswith(f"{own}/")), default=0)
        if (self.paths and not longest) or (self.methods and method not in self.methods):
            return None
        return bool(self.paths) + bool(self.methods), longest


@dataclass(frozen=True)
class Plugin:
    """`scope` has a name for some of route, service, consumer, group."""

    scope: tuple[tuple[str, str], ...]
    limit_by: str
    limits: tuple[tuple[str, int], ...]
    path: str | None = None


@dataclass(frozen=True)
class Request:
    path: str
    method: str
    ip: str
    consumer: str | None


@dataclass
class Kong:
    routes: list[Route]
    plugins: list[Plugin]
    groups: dict[str, str] = field(default_factory=dict)
    used: Counter[object] = field(default_factory=Counter)

    def route(self, request: Request) -> Route | None:
        found = [(route.weight(request.path, request.method), -nth) for nth, route in enumerate(self.routes)]
        best = max(((weight, nth) for weight, nth in found if weight is not None), default=None)
        return None if best is None else self.routes[-best[1]]

    def check(self, request: Request, now: int) -> bool:
        route = self.route(request)
        assert route is not None
        plugin = self._plugin(request, route)
        if plugin is None:
            return True
        identifier = self._identifier(plugin, request, route)
        scope = dict(plugin.scope)
        counters = [
            ((scope.get("route"), scope.get("service"), identifier, period, now // WINDOWS_S[period]), count)
            for period, count in plugin.limits
        ]
        if any(self.used[counter] >= count for counter, count in counters):
            return False
        self.used.update(counter for counter, _ in counters)
        return True

    def _plugin(self, request: Request, route: Route) -> Plugin | None:
        group = None if request.consumer is None else self.groups.get(request.consumer)
        here = {"route": route.name, "service": route.service, "consumer": request.consumer, "group": group}
        for named in PRECEDENCE:
            wanted = {name: here[name] for name in named}
            for plugin in self.plugins:
                if dict(plugin.scope) == wanted:
                    return plugin
        return None

    def _identifier(self, plugin: Plugin, request: Request, route: Route) -> object:
        known: dict[str, str | None] = {
            "consumer": request.consumer,
            "service": route.service,
            "path": request.path if request.path == plugin.path else None,
            "ip": None,
        }
        found = known[plugin.limit_by]
        if found is not None:
            return plugin.limit_by, found
        # There, an address that stands in for a consumer meets the same address counted as such; here it does not.
        return "in place of a consumer" if plugin.limit_by == "consumer" else "ip", request.ip
