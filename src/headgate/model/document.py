"""Rules as people write them (YAML, JSON, Python data) made ready for the engine, without losing where a thing stood.

The engine knows what a rule means and names a mistake by its path, `("rules", 0, "limit")`. This module knows the
text, and turns that path into a file, a line and a column.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import headgate._core as _core
from headgate.errors import Mistake, Path, RulesFileError
from headgate.model import nodes
from headgate.model.json_reader import read_json
from headgate.model.plain_data import plain_data
from headgate.model.yaml_reader import read_yaml

RulesSource = str | os.PathLike[str] | Mapping[str, Any] | Sequence[Mapping[str, Any]]

BULK_SUFFIX = ".jsonl"
TEXT_NAME = "<text>"
# How JSON documents tell an editor their schema; nothing to the engine.
_SCHEMA_KEY = "$schema"
_GIVE_BULK = f"give large rule sets as a bulk file, one JSON rule a line, named *{BULK_SUFFIX}"


@dataclass(frozen=True, slots=True)
class Document:
    """A document that could be read. `flaws` are mistakes of writing (a key given twice) that the engine cannot see."""

    name: str | None
    json: str
    rule_count: int
    root: nodes.Node | None
    flaws: tuple[Mistake, ...] = ()

    def mistake(self, path: Path, message: str) -> Mistake:
        """An engine's mistake, with its place in the text."""
        if self.root is None:
            return Mistake(self.name, None, None, path, message)
        line, column = nodes.locate(self.root, path)
        return Mistake(self.name, line, column, path, message)

    def mistakes(self, errors: Iterable[tuple[Path, str]]) -> list[Mistake]:
        """All of them, with the flaws, in the order of the text."""
        found = [*self.flaws, *(self.mistake(tuple(path), message) for path, message in errors)]
        return sorted(found, key=lambda mistake: (mistake.line or 0, mistake.column or 0))


def is_text(source: str) -> bool:
    """Whether a string is a document itself rather than the path of one."""
    return "\n" in source or source.startswith(("rules:", "{"))


def bulk_path(source: RulesSource) -> str | None:
    """The path, if this is a bulk file that the engine reads by itself."""
    if isinstance(source, str | os.PathLike) and not (isinstance(source, str) and is_text(source)):
        path = os.fspath(source)
        return path if path.endswith(BULK_SUFFIX) else None
    return None


def read_document(source: RulesSource) -> Document:
    """Read a file, text, dict or list of rules. Raises RulesFileError when it cannot be read at all."""
    if isinstance(source, str) and is_text(source):
        return parse_text(source, TEXT_NAME, is_json=False)
    if isinstance(source, str | os.PathLike):
        path = os.fspath(source)
        return parse_text(read_text(path), path, is_json=path.endswith(".json"))
    return _from_data(source)


def load_into(engine: _core.Engine, source: RulesSource) -> None:
    """Replace the engine's rules. Raises RulesFileError, and changes nothing, when anything is wrong."""
    path = bulk_path(source)
    if path is not None:
        _load_bulk(engine, path)
        return
    document = read_document(source)
    if document.flaws:
        raise RulesFileError(document.mistakes(_core.validate_rules(document.json)))
    try:
        engine.load_rules(document.json)
    except _core.RulesError as error:
        raise RulesFileError(document.mistakes(error.errors)) from None


def find_mistakes(source: RulesSource) -> tuple[int, list[Mistake]]:
    """How many rules a document holds, and everything wrong in it."""
    path = bulk_path(source)
    try:
        if path is not None:
            engine = _core.Engine()
            _load_bulk(engine, path)
            return engine.rule_count(), []
        document = read_document(source)
    except RulesFileError as error:
        return 0, list(error.mistakes)
    if document.flaws:
        return document.rule_count, document.mistakes(_core.validate_rules(document.json))
    try:
        # Loaded, not only read: each rule may be well written, and all together more than a rule set holds.
        _core.Engine().load_rules(document.json)
    except _core.RulesError as error:
        return document.rule_count, document.mistakes(error.errors)
    return document.rule_count, []


def parse_text(text: str, name: str | None, *, is_json: bool) -> Document:
    """A document from its text; `name` is what mistakes call the file."""
    if len(text.encode("utf-8", "surrogatepass")) > nodes.TEXT_BYTES_MAX:
        raise RulesFileError([_too_large(name)])
    root, flaws = read_json(text, name) if is_json else read_nodes(text, name)
    if root is None:
        raise RulesFileError(flaws)
    if not isinstance(root, nodes.Mapping):
        message = "expected a mapping with `rules:` at the top"
        if isinstance(root, nodes.Sequence):
            message += "; put `rules:` above this list"
        raise RulesFileError([*flaws, nodes.mistake_at(name, root.line, root.column, message)])
    root.entries.pop(_SCHEMA_KEY, None)
    rules = root.entries.get("rules")
    count = len(rules.node.items) if rules is not None and isinstance(rules.node, nodes.Sequence) else 0
    return Document(name, _dump(nodes.to_value(root)), count, root, tuple(flaws))


def read_nodes(text: str, name: str | None) -> tuple[nodes.Node | None, list[Mistake]]:
    """A text that is YAML or JSON, as nodes, and what was wrong in it."""
    # JSON is nearly YAML, but not where it is indented with tabs or writes emoji as two \u escapes.
    if text.lstrip().startswith("{"):
        root, flaws = read_json(text, name)
        if root is not None:
            return root, flaws
    return read_yaml(text, name)


def read_text(path: str, too_large: str = _GIVE_BULK) -> str:
    """A file's text; `too_large` is what to do about one that is. Raises RulesFileError."""
    try:
        with open(path, "rb") as file:
            raw = file.read(nodes.TEXT_BYTES_MAX + 1)
    except OSError as error:
        message = f"cannot be read: {error.strerror or error}"
        raise RulesFileError([Mistake(path, None, None, (), message)]) from None
    if len(raw) > nodes.TEXT_BYTES_MAX:
        raise RulesFileError([_too_large(path, too_large)])
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = raw[: error.start]
        line = before.count(b"\n") + 1
        column = len(before[before.rfind(b"\n") + 1 :].decode("utf-8", "replace")) + 1
        raise RulesFileError([nodes.mistake_at(path, line, column, "not UTF-8 text")]) from None


def _too_large(name: str | None, hint: str = _GIVE_BULK) -> Mistake:
    return Mistake(name, None, None, (), f"larger than {nodes.TEXT_BYTES_MAX // 2**20} MiB; {hint}")


def _from_data(source: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> Document:
    whole = dict(source) if isinstance(source, Mapping) else {"rules": source}
    whole.pop(_SCHEMA_KEY, None)
    value, flaws = plain_data(whole)
    if flaws:
        raise RulesFileError(flaws)
    rules = value.get("rules") if isinstance(value, dict) else None
    return Document(None, _dump(value), len(rules) if isinstance(rules, list) else 0, None)


def _load_bulk(engine: _core.Engine, path: str) -> None:
    try:
        engine.load_rules_file(path)
    except _core.RulesError as error:
        raise RulesFileError([_bulk_mistake(path, tuple(at), message) for at, message in error.errors]) from None
    except OSError as error:
        message = f"cannot be read: {error.strerror or error}"
        raise RulesFileError([Mistake(path, None, None, (), message)]) from None


def _bulk_mistake(path: str, at: Path, message: str) -> Mistake:
    """In a bulk file a rule's position is its line."""
    rest = at[1:] if at[:1] == ("rules",) else at
    line = rest[0] + 1 if rest and isinstance(rest[0], int) else None
    return Mistake(path, line, None if line is None else 1, at, message)


def _dump(value: nodes.Value) -> str:
    return json.dumps(value, allow_nan=False, separators=(",", ":"))
