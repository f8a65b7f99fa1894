"""envoyproxy/ratelimit's configuration as rules that match whole descriptors (SEMANTICS 7.4)."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from headgate.errors import FileError, Mistake
from headgate.importing.envoy_folder import envoy_files, passed_over
from headgate.importing.envoy_tree import Descriptor, Level, Limit, reachable, read_domain
from headgate.importing.imported import Imported, Note
from headgate.importing.source import Source, read_source
from headgate.importing.wording import NAME_BYTES_MAX, RESERVED

REPLACES_MAX = 256
_HASH_CHARS = 8

DIFFERS = (
    "a call that is refused spends nothing here; there each of its counters is spent, and refused hits count too",
    "a counter that several descriptors of one call meet is spent once here, with the largest addend; there once each",
)
DIFFERS_SHADOW = "a limit in shadow mode counts and never refuses, and the answer does not show it; there it does"

Rule = dict[str, Any]


def read_envoy(paths: Sequence[str | os.PathLike[str]]) -> Imported:
    """Files, and folders of them, as rules. Raises FileError naming every mistake, and ConfigError where there is none
    to read."""
    sources: list[Source] = []
    mistakes: list[Mistake] = []
    for path in envoy_files(paths):
        try:
            sources.append(read_source(path))
        except FileError as error:
            mistakes += error.mistakes
    imported = convert(sources, mistakes, ", ".join(os.fspath(path) for path in paths))
    notes = [Note("cannot", os.fspath(file), words) for file, words in passed_over(paths)]
    return replace(imported, notes=(*notes, *imported.notes))


def convert(sources: Sequence[Source], mistakes: Sequence[Mistake] = (), where: str = "") -> Imported:
    """What was read, as rules. Raises FileError if anything was wrong, in `mistakes` or now."""
    domains: dict[str, Level] = {}
    found = list(mistakes)
    for source in sources:
        with suppress(FileError):  # More mistakes than anybody reads: the first are enough.
            read_domain(source, domains)
        found += source.mistakes
    if found:
        raise FileError(found)
    taken: set[str] = set()
    rules = [rule for name, level in domains.items() for rule in _Domain(name, taken).rules(level)]
    notes = [note for source in sources for note in source.notes]
    has_shadow = any(rule.get("action") == "shadow" for rule in rules)
    notes += [Note("differs", where, words) for words in (*DIFFERS, *([DIFFERS_SHADOW] if has_shadow else []))]
    return Imported({"rules": rules}, tuple(notes))


@dataclass(frozen=True, slots=True)
class _Placed:
    """A descriptor and those it stands in, outermost first."""

    path: tuple[Descriptor, ...]
    name: str

    @property
    def limit(self) -> Limit | None:
        return self.path[-1].limit


class _Domain:
    """One tree, made a list of rules. `taken` are the names of all domains' rules so far: `a/b` may have a `c`, and `a`
    a `b` that has one."""

    def __init__(self, name: str, taken: set[str]) -> None:
        self._name = name
        self._taken = taken

    def rules(self, level: Level) -> list[Rule]:
        placed = list(self._placed(level, ()))
        named: dict[str, list[str]] = {}
        for one in placed:
            if one.limit is not None and one.limit.name is not None:
                named.setdefault(one.limit.name, []).append(one.name)
        return [self._rule(one, named) for one in placed]

    def _placed(self, level: Level, above: tuple[Descriptor, ...]) -> Iterator[_Placed]:
        for _, item in reachable(level):
            path = (*above, item)
            # Without a limit and with nothing below, a descriptor is there to be let pass.
            if item.limit is not None or not item.below:
                yield _Placed(path, self._free_name(path))
            yield from self._placed(item, path)

    def _free_name(self, path: Sequence[Descriptor]) -> str:
        """Readable, stable, and no other's: `messaging/message_type=marketing/to_number`."""
        parts = [self._name, *(one.key if one.value is None else f"{one.key}={one.value}" for one in path)]
        name = "/".join(parts)
        if name.startswith(RESERVED):
            name = "envoy/" + name
        if len(name.encode()) > NAME_BYTES_MAX or name in self._taken:
            digest = hashlib.sha256("\0".join([self._name, *(one.text for one in path)]).encode()).hexdigest()
            room = NAME_BYTES_MAX - _HASH_CHARS - 1
            name = f"{name.encode()[:room].decode(errors='ignore')}~{digest[:_HASH_CHARS]}"
        self._taken.add(name)
        return name

    def _rule(self, placed: _Placed, named: dict[str, list[str]]) -> Rule:
        exact = {"domain": self._name, "entries": [_entry(one) for one in placed.path]}
        rule: Rule = {"name": placed.name, "match": {"descriptor_exact": exact}}
        limit = placed.limit
        if limit is None:
            return rule | {"action": "allow"}
        rule |= _decided(limit, placed.path[-1])
        replaced = _replaced(limit, placed.path[-1], named)
        return rule | ({"replaces": replaced} if replaced else {})


def _entry(item: Descriptor) -> dict[str, Any]:
    entry: dict[str, Any] = {"key": item.key}
    if item.value is not None:
        entry["value"] = item.value
    return entry | ({"shared": True} if item.is_shared else {})


def _decided(limit: Limit, item: Descriptor) -> Rule:
    """What becomes of a descriptor that meets a limit."""
    never_refuses = limit.is_shadow or limit.is_quota
    if limit.unit is None:
        return {"action": "allow"}
    if limit.is_quota:
        words = "`quota_mode` is shadow mode here: it counts and never refuses, but no metadata tells that it is spent"
        item.source.note("differs", item.at.entries["quota_mode"], words)
    if limit.count == 0 and never_refuses:
        words = "a limit of 0 that never refuses: the descriptor passes, and nothing is counted"
        item.source.note("differs", item.at, words)
        return {"action": "allow"}
    if limit.count == 0:
        return {"action": "block", "response": {"status": 429}}
    text = f"{limit.count}/{limit.unit}"
    written: Any = text if limit.name is None else {"limit": text, "label": limit.name}
    counted: Rule = {"limit": written, "algorithm": "fixed_window"}
    return counted | ({"action": "shadow"} if never_refuses else {})


def _replaced(limit: Limit, item: Descriptor, named: dict[str, list[str]]) -> list[str]:
    """The rules whose limits have a name that this one replaces."""
    rules: dict[str, None] = {}
    for name in limit.replaces:
        if name not in named:
            item.source.note("note", item.at, f"replaces `{name}`, and no limit of this domain is called that")
        rules |= dict.fromkeys(named.get(name, ()))
    if len(rules) > REPLACES_MAX:
        words = (
            f"replaces {len(rules):,} limits; a rule replaces at most {REPLACES_MAX}, so the others are not replaced"
        )
        item.source.note("cannot", item.at, words)
    return list(rules)[:REPLACES_MAX]
