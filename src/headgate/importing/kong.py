"""Kong's rate limiting plugins as rules.

Of all instances of a plugin Kong runs one for a request, the most specific. Rules that count by the same facts compete
in the same way, by priority. Those that count by other facts do not, so where a more specific instance counts by
something else, a rule that never refuses stands beside it for each `by` that it displaces.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from headgate.errors import ConfigError
from headgate.importing.imported import Imported
from headgate.importing.kong_file import SCOPES, Kong, Route, read_files
from headgate.importing.kong_notes import Used, general, memberships
from headgate.importing.kong_places import Place, places
from headgate.importing.kong_policy import ADVANCED, SIMPLE, Policy, read_policy
from headgate.importing.source import read_source
from headgate.importing.wording import COUNT_MAX, DEFAULT_PRIORITY, Names, fitting

# From the most specific: what each is for. Kong runs the first that there is.
PRECEDENCE: tuple[set[str], ...] = (
    {"consumer", "route", "service"},
    {"consumer_group", "route", "service"},
    {"consumer", "route"},
    {"consumer", "service"},
    {"consumer_group", "route"},
    {"consumer_group", "service"},
    {"route", "service"},
    {"consumer"},
    {"consumer_group"},
    {"route"},
    {"service"},
    set(),
)
# Instances that are for everybody are repeated at each route within another; this bounds what comes of it.
RULES_MAX = 100_000
# A step of precedence leaves room for a rule within it: one path that is counted apart.
_STEP = 2
_HEIGHT = _STEP * (len(PRECEDENCE) + 1)
_WHOM = ("consumer", "consumer_group")
_MATCHED = {"consumer": "user", "consumer_group": "tier"}
_NEVER = f"{COUNT_MAX:_}/second"


@dataclass(frozen=True, slots=True)
class _Instance:
    """A plugin that is read: for whom, and what it does. Without a policy it stands for Kong doing nothing."""

    scope: dict[str, str | None]
    policy: Policy | None
    where: str

    @property
    def step(self) -> int:
        if self.policy is None:
            return 0
        named = {name for name in SCOPES if self.scope[name] is not None}
        return len(PRECEDENCE) - PRECEDENCE.index(named)

    @property
    def is_placed(self) -> bool:
        """Whether it needs to know where a request goes."""
        each = self.policy is not None and self.policy.each_service
        return each or self.scope["route"] is not None or self.scope["service"] is not None

    def is_for(self, route: Route) -> bool:
        return self.scope["route"] in (None, route.name) and self.scope["service"] in (None, route.service)

    @property
    def is_for_all(self) -> bool:
        """Whether it runs for everybody who comes where it is."""
        return self.policy is not None and all(self.scope[name] is None for name in _WHOM)

    def title(self, names: Sequence[str] = SCOPES) -> str:
        if self.policy is None:
            return "kong/none"
        told = [f"{name}={self.scope[name]}" for name in names if self.scope[name] is not None]
        return "kong/" + (" ".join(told) or "global")


@dataclass(eq=False, slots=True)
class _Rule:
    """A rule in the making. `by` of None: nothing is counted, only others are kept away."""

    instance: _Instance
    place: Place | None
    priority: int
    by: tuple[str, ...] | None
    path: str | None = None

    def meets(self, other: _Rule) -> bool:
        """Whether some request may match both."""
        mine, theirs = self.instance.scope, other.instance.scope
        same_whom = all(None in (mine[name], theirs[name]) or mine[name] == theirs[name] for name in _WHOM)
        if not same_whom or (self.path and other.path and self.path != other.path):
            return False
        if self.place is None or other.place is None or self.place.route is other.place.route:
            return True
        return other.place in self.place.near


def read_kong(paths: Sequence[str | os.PathLike[str]]) -> Imported:
    """Raises FileError, naming every mistake, if a file is not what Kong would read."""
    sources = [read_source(path) for path in paths]
    file = sources[0].file if sources else ""
    kong = read_files(sources)
    instances = _instances(kong)
    for source in sources:
        source.finish()
    document: dict[str, Any] = {"rules": _Maker(instances, list(kong.routes.values())).rules()}
    told = [note for source in sources for note in source.notes]
    used = Used.of([(item.scope, item.policy) for item in instances if item.policy is not None])
    overrides, notes = memberships(kong.members, used, file)
    if overrides:
        document["overrides"] = overrides
    has_paths = any(path for route in kong.routes.values() for path in route.paths)
    return Imported(document, (*told, *notes, *general(used, file, has_paths=has_paths)))


def _instances(kong: Kong) -> list[_Instance]:
    found: dict[tuple[str | None, ...], _Instance] = {}
    ours = (SIMPLE, ADVANCED)
    on = [plugin.kind in ours and plugin.source.flag(plugin.node, "enabled") is not False for plugin in kong.plugins]
    kinds = {plugin.kind for plugin, is_on in zip(kong.plugins, on, strict=True) if is_on}
    for plugin, is_on in zip(kong.plugins, on, strict=True):
        source, node = plugin.source, plugin.node
        if plugin.kind not in ours:
            if "rate" in plugin.kind and "limit" in plugin.kind:
                source.note("cannot", node, f"`{plugin.kind}` is not imported; only {SIMPLE} and {ADVANCED} are")
            continue
        if not is_on:
            source.note("note", node, "this plugin is switched off, and was left out")
            continue
        if plugin.kind == ADVANCED and SIMPLE in kinds:
            what = f"{ADVANCED} runs beside {SIMPLE} there, and rules of both would compete; import one kind at a time"
            source.note("cannot", node, what)
            continue
        policy = read_policy(plugin)
        named = {name for name in SCOPES if plugin.scope[name] is not None}
        if named not in PRECEDENCE:
            source.note("cannot", node, f"a plugin for {' and '.join(sorted(named))} at once never runs; left out")
        elif policy is not None:
            instance = _Instance(plugin.scope, policy, source.where(node))
            first = found.setdefault(tuple(plugin.scope.values()), instance)
            if first is not instance:
                source.wrong(node, f"{first.where} is for the same; Kong has one instance of a plugin for each")
    return list(found.values())


class _Pool:
    """Rules as others meet them. Of those that differ in nothing that matters to a rule without a consumer one is kept,
    and so for each consumer: there may be thousands of them."""

    def __init__(self, rules: Iterable[_Rule]) -> None:
        self._any: dict[object, _Rule] = {}
        self._of: dict[str | None, dict[object, _Rule]] = defaultdict(dict)
        for rule in rules:
            key = (rule.by, rule.priority, rule.instance.scope["consumer_group"], rule.path)
            self._any.setdefault(key, rule)
            self._of[rule.instance.scope["consumer"]].setdefault(key, rule)

    def facing(self, rule: _Rule) -> Iterator[_Rule]:
        consumer = rule.instance.scope["consumer"]
        if consumer is None:
            yield from self._any.values()
        else:
            yield from self._of.get(None, {}).values()
            yield from self._of.get(consumer, {}).values()


class _Maker:
    def __init__(self, instances: list[_Instance], routes: list[Route]) -> None:
        self._names = Names()
        unplaced = [item for item in instances if not item.is_placed]
        own = {route.name: [item for item in instances if item.is_placed and item.is_for(route)] for route in routes}
        self._all = [rule for item in unplaced for rule in _made(item, None)]
        self._everywhere = _Pool(self._all)
        self._at: dict[Place, _Pool] = {}
        for place in places(routes, lambda route: _signature(own[route.name], route)):
            here = own[place.route.name] + (unplaced if place.height else [])
            least = max((item.step for item in here if item.is_for_all), default=0)
            if place.height and not least:
                here.append(_Instance(dict.fromkeys(SCOPES), None, ""))
            rules = [rule for item in here if item.step >= least for rule in _made(item, place)]
            self._all += rules
            self._at[place] = _Pool(rules)
            if len(self._all) > RULES_MAX:
                raise ConfigError(f"this would be more than {RULES_MAX:,} rules; import fewer routes at a time")
        self._anywhere = _Pool(self._all)

    def rules(self) -> list[dict[str, Any]]:
        made = []
        for rule in self._all:
            if rule.by is not None:
                made.append(self._counting(rule))
            made += [self._standing_in(rule, by) for by in sorted(self._displaced(rule))]
        return made

    def _displaced(self, rule: _Rule) -> set[tuple[str, ...]]:
        """What lower rules count by that would apply beside this one."""
        pools = [self._anywhere]
        if rule.place is not None:
            pools = [self._everywhere, *(self._at[place] for place in (rule.place, *rule.place.near))]
        others = (other for pool in pools for other in pool.facing(rule))
        lower = [other for other in others if other.priority < rule.priority and rule.meets(other)]
        return {other.by for other in lower if other.by is not None and other.by != rule.by}

    def _counting(self, rule: _Rule) -> dict[str, Any]:
        policy, place = rule.instance.policy, rule.place
        assert policy is not None
        shared = rule.instance.title(("route", "service")) if policy.counter is None else f"kong/{policy.counter}"
        if policy.each_service and not rule.by and place is not None:
            shared += f" of service={place.route.service}"
        if rule.path is not None:
            shared += f" path={rule.path}"
        name = self._names.take(_title(rule))
        return {
            "name": name,
            **_matching(rule),
            "by": _by(rule.by or ()),
            **policy.outcome,
            **({"priority": rule.priority} if len(self._all) > 1 else {}),
            **({"counter": fitting(shared)} if shared != name else {}),
        }

    def _standing_in(self, rule: _Rule, by: tuple[str, ...]) -> dict[str, Any]:
        shown = ", ".join(by) or "global"
        what = f"Never refuses. Kong runs its most specific plugin alone; this keeps less specific ones by {shown} away"
        return {
            "name": self._names.take(f"{_title(rule)} not by {shown}"),
            "description": what,
            **_matching(rule),
            "by": _by(by),
            "algorithm": "fixed_window",
            "limit": _NEVER,
            "priority": rule.priority,
        }


def _made(item: _Instance, place: Place | None) -> Iterator[_Rule]:
    """The rules of an instance at a place: one, and one more where a single path is counted apart."""
    priority = DEFAULT_PRIORITY + _STEP * item.step + (0 if place is None else _HEIGHT * place.height)
    policy = item.policy
    if policy is None:
        yield _Rule(item, place, priority, None)
        return
    if policy.path is None:
        # A route without a service is counted by address.
        is_lost = policy.each_service and place is not None and place.route.service is None
        yield _Rule(item, place, priority, ("ip",) if is_lost else policy.by)
        return
    yield _Rule(item, place, priority, ("ip",))
    if place is None or place.has(policy.path):
        yield _Rule(item, place, priority + 1, (), policy.path)


def _signature(own: list[_Instance], route: Route) -> tuple[object, ...]:
    """What rules a route has of its own."""
    each = route.service if any(item.policy is not None and item.policy.each_service for item in own) else None
    return (*(item.where for item in own), each) if own else ()


def _title(rule: _Rule) -> str:
    title = rule.instance.title()
    if rule.place is not None and rule.instance.scope["route"] is None:
        title += f" at route={rule.place.route.name}"
    return title if rule.path is None else f"{title} path={rule.path}"


def _matching(rule: _Rule) -> dict[str, Any]:
    whom = {_MATCHED[name]: rule.instance.scope[name] for name in _WHOM if rule.instance.scope[name] is not None}
    match: dict[str, Any] = {**whom, **({} if rule.place is None else rule.place.match)}
    if rule.path is not None:
        match["endpoint"] = rule.path
    return {"match": match} if match else {}


def _by(by: tuple[str, ...]) -> str | list[str]:
    return "global" if not by else by[0] if len(by) == 1 else list(by)
