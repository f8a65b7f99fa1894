"""Kong's declarative files: what is in them, nested or at the top, with references followed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from headgate.importing.source import Source, present
from headgate.importing.wording import text_problem
from headgate.model.nodes import Entry, Mapping, Node, Scalar

SCOPES = ("route", "service", "consumer", "consumer_group")
_ANY_OF = ("services", "routes", "plugins", "consumers", "consumer_groups")
_VERSION = "_format_version"
# Since this version a regular expression is marked by `~`; before, any unusual character made one.
_MARKED_SINCE = 3.0
_PLAIN_PATH = re.compile(r"[A-Za-z0-9._~/%-]*\Z")
_NOT_IN_PATTERNS = frozenset("{}*?#")
_METHOD = re.compile(r"[A-Za-z]{1,32}\Z")
_KINDS = ("hosts", "headers", "paths", "methods", "snis")
_ELSEWHERE = ("hosts", "headers", "snis", "sources", "destinations")


@dataclass(frozen=True, slots=True)
class Route:
    """A route as far as rules can know it. `kinds` says which kinds of things it tests: Kong tries first who tests most
    of them, and among those goes by the kinds in this order."""

    name: str
    service: str | None
    paths: tuple[str, ...]
    methods: tuple[str, ...]
    kinds: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Plugin:
    """A plugin where it was found. `scope` names, for each of SCOPES, what it is for."""

    source: Source
    node: Mapping
    kind: str
    scope: dict[str, str | None]


@dataclass(slots=True)
class Kong:
    """All files together."""

    routes: dict[str, Route] = field(default_factory=dict)
    plugins: list[Plugin] = field(default_factory=list)
    members: dict[str, list[str]] = field(default_factory=dict)


def read_files(sources: Iterable[Source]) -> Kong:
    sources = list(sources)
    found = _Reader()
    for source in sources:
        found.gather(source)
    return found.kong()


@dataclass(slots=True)
class _Found:
    """What was written, and whose it is: the name of what it is nested in, by kind; empty at the top."""

    source: Source
    node: Mapping
    owner: dict[str, str]


class _Reader:
    def __init__(self) -> None:
        self._entities: dict[str, list[_Found]] = {scope: [] for scope in SCOPES}
        self._plugins: list[_Found] = []
        self._marked: dict[str, bool] = {}
        self._shared: dict[str, Mapping] = {}
        # For each kind, every way to refer to one: by id, by name.
        self._known: dict[str, dict[str, str]] = {scope: {} for scope in SCOPES}
        self._off: set[str] = set()

    def gather(self, source: Source) -> None:
        root = source.mapping(source.root, "Kong's declarative file")
        if root is None:
            return
        if not any(name in root.entries for name in (_VERSION, *_ANY_OF)):
            source.wrong(root, f"this is no declarative file of Kong: it has none of {_VERSION}, {', '.join(_ANY_OF)}")
            return
        self._marked[source.file] = _version(source, root) >= _MARKED_SINCE
        shared = present(root, "_plugin_configs")
        if isinstance(shared, Mapping):
            for name, entry in shared.entries.items():
                config = source.mapping(entry.node, "a shared configuration")
                if config is not None:
                    self._shared[name] = config
        self._within(source, root, {})

    def _within(self, source: Source, mapping: Mapping, owner: dict[str, str]) -> None:
        """What stands in this mapping, and in turn what stands in that: services have routes, and all have plugins."""
        self._plugins += (_Found(source, node, owner) for node in source.mappings_of(mapping, "plugins"))
        for scope in SCOPES:
            # A group's `consumers` are links, and so are a consumer's `groups`: see _memberships.
            if not owner or (scope == "route" and "service" in owner):
                for node in source.mappings_of(mapping, f"{scope}s"):
                    name = self._named(source, scope, node)
                    if name is not None:
                        self._entities[scope].append(_Found(source, node, owner))
                        self._within(source, node, {scope: name})

    def _named(self, source: Source, scope: str, node: Mapping) -> str | None:
        keys = ("username", "custom_id", "id") if scope == "consumer" else ("name", "id")
        named = [text for key in keys if (text := source.text(node, key)) is not None]
        if not named:
            if scope in ("consumer", "consumer_group"):
                source.wrong(node, f"a {scope} needs a `{keys[0]}`")
                return None
            named = [f"line {node.line}"]
        problem = text_problem(named[0])
        if problem:
            source.wrong(node, f"its name cannot be used: {problem}")
            return None
        for alias in named:
            self._known[scope].setdefault(alias, named[0])
        if scope == "service" and source.flag(node, "enabled") is False:
            self._off.add(named[0])
        return named[0]

    def kong(self) -> Kong:
        made = Kong()
        for found in self._entities["route"]:
            route = self._route(found)
            if route is not None:
                made.routes[route.name] = route
        for plugin in self._plugins:
            self._add(made, plugin)
        for member, group in self._memberships():
            groups = made.members.setdefault(member, [])
            if group not in groups:
                groups.append(group)
        return made

    def _add(self, made: Kong, found: _Found) -> None:
        source, node = found.source, found.node
        kind = source.text(node, "name")
        if kind is None:
            source.wrong(node, "a plugin needs a `name`")
            return
        scope: dict[str, str | None] = {}
        for name in SCOPES:
            scope[name] = found.owner.get(name)
            given = present(node, name)
            if given is not None:
                scope[name] = self._referred(source, name, given)
                if scope[name] is None:
                    return
        made.plugins.append(Plugin(source, self._with_shared(source, node), kind, scope))

    def _with_shared(self, source: Source, node: Mapping) -> Mapping:
        """decK lets plugins share a configuration: `_config` names it, and what stands in `config` goes before it."""
        named = source.text(node, "_config")
        if named is None:
            return node
        base = self._shared.get(named)
        if base is None:
            source.wrong(node, f"`_config: {named}` names nothing in `_plugin_configs`")
            return node
        own = present(node, "config")
        entries = {**base.entries, **(own.entries if isinstance(own, Mapping) else {})}
        config = Mapping(node.line, node.column, entries)
        return Mapping(node.line, node.column, {**node.entries, "config": Entry(node.line, node.column, config)})

    def _referred(self, source: Source, scope: str, node: Node) -> str | None:
        """Whom a reference means: a name or id, or a mapping with one."""
        at = node
        if isinstance(node, Mapping):
            keys = ("username", "custom_id", "name", "id")
            at = next((found for key in keys if (found := present(node, key)) is not None), node)
        if not isinstance(at, Scalar) or not isinstance(at.value, str | int) or isinstance(at.value, bool):
            source.wrong(node, f"`{scope}` must be a name or an id")
            return None
        named = str(at.value)
        known = self._known[scope].get(named)
        if known is None and scope == "consumer":
            source.note("note", at, f"the consumer `{named}` is in none of these files; taken for the id of a user")
            return named
        if known is None:
            source.note("cannot", at, f"the {scope} `{named}` is in none of these files; its plugin is left out")
        return known

    def _route(self, found: _Found) -> Route | None:
        source, node = found.source, found.node
        name = self._named(source, "route", node)
        service = found.owner.get("service")
        given = present(node, "service")
        if given is not None:
            service = self._referred(source, "service", given)
        if name is None or service in self._off:
            return None
        if present(node, "expression") is not None:
            source.note("cannot", node, f"the route `{name}` is an expression; its plugins are left out")
            return None
        paths, methods = source.texts_of(node, "paths"), source.texts_of(node, "methods")
        for method, at in methods:
            if not _METHOD.match(method):
                source.wrong(at, "each of `methods` must be a method such as GET")
        plain = [_trimmed(path) for path, at in paths if self._plain(source, path, at)]
        if paths and not plain:
            return None
        elsewhere = [key for key in _ELSEWHERE if present(node, key) is not None]
        if elsewhere:
            words = " and ".join(elsewhere)
            if not paths and not methods:
                source.note(
                    "cannot", node, f"the route `{name}` is known by its {words} alone; its plugins are left out"
                )
                return None
            source.note("differs", node, f"the route `{name}` tests {words} as well; its rules apply whatever they are")
        kinds = tuple(present(node, key) is not None for key in _KINDS)
        return Route(name, service, tuple(dict.fromkeys(plain)), tuple(text.upper() for text, _ in methods), kinds)

    def _plain(self, source: Source, path: str, at: Node) -> bool:
        is_pattern = path.startswith("~") or (not self._marked[source.file] and not _PLAIN_PATH.match(path))
        if is_pattern:
            source.note(
                "cannot", at, f"the path `{path}` is a regular expression; write the rule with `{{name}}` and `*`"
            )
        elif not path.startswith("/"):
            source.wrong(at, f"the path `{path}` must begin with `/`")
        elif _NOT_IN_PATTERNS & set(path) or text_problem(f"{path}/*"):
            source.note("cannot", at, f"the path `{path}` is too long for a rule, or has a character it cannot have")
        else:
            return True
        return False

    def _memberships(self) -> Iterator[tuple[str, str]]:
        """Who is in which group: told by the consumer (decK), by the group (Kong), or by neither."""
        for found in self._entities["consumer"]:
            name = self._named(found.source, "consumer", found.node)
            for group in found.source.list_of(found.node, "groups"):
                known = self._referred(found.source, "consumer_group", group)
                if name is not None and known is not None:
                    yield name, known
        for found in self._entities["consumer_group"]:
            group_name = self._named(found.source, "consumer_group", found.node)
            for member in found.source.list_of(found.node, "consumers"):
                user = self._referred(found.source, "consumer", _linked(member))
                if user is not None and group_name is not None:
                    yield user, group_name


def _linked(node: Node) -> Node:
    """Whom a group's member names: `consumer: bob`, or it is the consumer itself."""
    return (present(node, "consumer") or node) if isinstance(node, Mapping) else node


def _version(source: Source, root: Mapping) -> float:
    node = present(root, _VERSION)
    if node is None:
        return _MARKED_SINCE
    try:
        return float(str(node.value)) if isinstance(node, Scalar) else float("nan")
    except ValueError:
        source.wrong(node, f'`{_VERSION}` must be a version such as "3.0"')
        return _MARKED_SINCE


def _trimmed(path: str) -> str:
    """Without slashes at the end; the root is empty: it is the beginning of every path."""
    return re.sub("/{2,}", "/", path).rstrip("/")
