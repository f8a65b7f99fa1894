"""Rules as code: files and folders of rules read as one document that remembers where everything stood.

Whatever is wrong in it, seen here or by the control plane, is told with file, line and column.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import headgate._core as _core
from headgate.cli.control_errors import ControlRefused, FieldMistake
from headgate.errors import ConfigError, Mistake, Path, RulesFileError
from headgate.model import Document, read_document
from headgate.model.document import BULK_SUFFIX

SUFFIXES = (".yaml", ".yml", ".json")
FILES_MAX = 10_000
_LISTS = ("rules", "overrides")
_KNOWN = frozenset({"rules", "tiers", "overrides"})
_LINE_PATH = re.compile(r"line ([0-9]+)(?:[:.] ?(.*))?\Z", re.DOTALL)
_SENT_PATH = re.compile(r"(rules|overrides)\[([0-9]{1,9})\](?:\.(.*))?\Z", re.DOTALL)


def check_rules_name(file: str) -> None:
    """What a file of rules is written as goes by its name, as it does when it is read."""
    if not file.endswith((*SUFFIXES, BULK_SUFFIX)):
        raise ConfigError(f"{file}: expected a name that ends in .yaml, .json or {BULK_SUFFIX}")


@dataclass(frozen=True, slots=True)
class Written:
    """One entry of a list, and where it was written."""

    document: Document
    nth: int
    value: Any


@dataclass(frozen=True, slots=True)
class RulesSource:
    """All documents as one. `places` has, for each list, who wrote the nth entry."""

    files: tuple[str, ...]
    body: dict[str, Any]
    places: dict[str, list[Written]]

    def mistake(self, path: Path, message: str) -> Mistake:
        """A mistake in the whole, with its place in the file it came from."""
        if len(path) >= 2 and path[0] in self.places and isinstance(path[1], int):
            written = self.places[str(path[0])]
            if 0 <= path[1] < len(written):
                entry = written[path[1]]
                return entry.document.mistake((path[0], entry.nth, *path[2:]), message)
        return Mistake(self.files[0] if len(self.files) == 1 else None, None, None, path, message)

    def located(self, refused: ControlRefused) -> ControlRefused:
        """What the control plane refused, with places in the files instead of positions in what was sent."""
        return ControlRefused(refused.status, refused.detail, tuple(self._located(item) for item in refused.mistakes))

    def _located(self, item: FieldMistake) -> FieldMistake:
        found = _SENT_PATH.match(item.path)
        if found is None:
            return item
        path: Path = (found[1], int(found[2]), *((found[3],) if found[3] else ()))
        mistake = self.mistake(path, item.message)
        if mistake.file is None:
            return item
        return FieldMistake("", str(mistake))


def located_in_lines(file: str, refused: ControlRefused) -> ControlRefused:
    """The same for a bulk file, whose lines the control plane counts."""
    mistakes = tuple(_in_line(file, mistake) for mistake in refused.mistakes)
    return ControlRefused(refused.status, f"{file}: {refused.detail}" if refused.detail else "", mistakes)


def _in_line(file: str, mistake: FieldMistake) -> FieldMistake:
    found = _LINE_PATH.match(mistake.path)
    if found is None:
        return mistake
    return FieldMistake(f"{file}:{found[1]}" + (f": {found[2]}" if found[2] else ""), mistake.message)


def bulk_file(sources: Sequence[str]) -> str | None:
    """The one bulk file that is meant, if it is one. Among others it cannot be."""
    bulk = [path for path in sources if path.endswith(BULK_SUFFIX)]
    if bulk and len(sources) > 1:
        raise ConfigError(f"{bulk[0]}: a bulk file (*{BULK_SUFFIX}) is applied alone; name it without the others")
    return bulk[0] if bulk else None


def read_sources(sources: Sequence[str]) -> RulesSource:
    """Read and check files and folders. Raises RulesFileError naming every mistake."""
    files = list(_files(sources))
    documents: list[Document] = []
    mistakes: list[Mistake] = []
    for file in files:
        try:
            documents.append(read_document(file))
        except RulesFileError as error:
            mistakes += error.mistakes
    whole, wrong = _combined(files, documents)
    mistakes += wrong
    if not mistakes:
        found = [whole.mistake(tuple(path), message) for path, message in _core.validate_rules(json.dumps(whole.body))]
        mistakes += sorted(found, key=lambda mistake: (mistake.file or "", mistake.line or 0, mistake.column or 0))
    if mistakes:
        raise RulesFileError(mistakes)
    return whole


def _files(sources: Sequence[str]) -> Iterable[str]:
    """The files that are meant: those named, and in folders those with a known ending, in the order of their names."""
    seen: dict[str, str] = {}
    for source in sources:
        inside = _inside(source) if os.path.isdir(source) else [source]
        for file in inside:
            real = os.path.realpath(file)
            if real in seen:
                raise ConfigError(f"{file}: is named twice (also as {seen[real]})")
            seen[real] = file
            if len(seen) > FILES_MAX:
                raise ConfigError(f"{source}: more than {FILES_MAX:,} files")
            yield file


def _inside(folder: str) -> list[str]:
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be read: {error.strerror or error}") from None
    files = [os.path.join(folder, name) for name in names if name.endswith(SUFFIXES) and not name.startswith(".")]
    if not files:
        raise ConfigError(f"{folder}: holds no *{', *'.join(SUFFIXES)}; a folder of rules needs at least one")
    return files


def _combined(files: list[str], documents: list[Document]) -> tuple[RulesSource, list[Mistake]]:
    places: dict[str, list[Written]] = {name: [] for name in _LISTS}
    tiers: dict[str, None] = {}
    named: set[str] = set()
    mistakes: list[Mistake] = []
    for document in documents:
        value = json.loads(document.json)
        if document.flaws or not _is_well_formed(value):
            # Alone, so that what is wrong with its shape is told as it would be for this file by itself.
            mistakes += document.mistakes(_core.validate_rules(document.json))
            continue
        for name in _LISTS:
            places[name] += [Written(document, nth, item) for nth, item in enumerate(value.get(name) or [])]
        named |= set(value)
        tiers |= dict.fromkeys(value.get("tiers") or [])
    mistakes += _written_twice("rules", places["rules"], lambda item: item.get("name"))
    mistakes += _written_twice("overrides", places["overrides"], _override_id)
    # Only what some file speaks of: a folder without overrides says nothing of them, and prunes none.
    body: dict[str, Any] = {name: [item.value for item in places[name]] for name in _LISTS if name in named}
    if "tiers" in named:
        body["tiers"] = list(tiers)
    return RulesSource(tuple(files), body, places), mistakes


def _is_well_formed(value: dict[str, Any]) -> bool:
    lists = all(isinstance(value.get(name, []), list) for name in _KNOWN)
    return lists and set(value) <= _KNOWN and all(isinstance(tier, str) for tier in value.get("tiers", []))


def _written_twice(name: str, written: list[Written], identify: Any) -> Iterable[Mistake]:
    """Entries that two files have; within one file the engine says so."""
    first: dict[Any, Written] = {}
    for entry in written:
        known_as = identify(entry.value) if isinstance(entry.value, dict) else None
        if known_as is None or not isinstance(known_as, str | tuple):
            continue
        other = first.setdefault(known_as, entry)
        if other.document is not entry.document:
            place = other.document.mistake((name, other.nth), "")
            shown = known_as if isinstance(known_as, str) else " ".join(known_as)
            message = f"`{shown}` is also written in {place.file}:{place.line}:{place.column}; keep one"
            yield entry.document.mistake((name, entry.nth), message)


def _override_id(item: dict[str, Any]) -> tuple[str, str] | None:
    for kind in ("user", "org", "api_key"):
        if kind in item:
            return kind, str(item[kind])
    return None
