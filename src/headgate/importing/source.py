"""A file of another limiter, read into nodes, and the small questions every format asks of them.

A value of the wrong kind is a mistake, gathered and told with all others: nobody mends a file one error at a time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field

from headgate.errors import FileError, Mistake
from headgate.importing.imported import Level, Note
from headgate.model.document import read_nodes, read_text
from headgate.model.nodes import MISTAKES_MAX, Entry, Mapping, Node, Scalar, Sequence

_SPLIT = "split it into several files"
_KINDS = {bool: "true or false", int: "a whole number", str: "text"}


@dataclass(slots=True)
class Source:
    """One file while it is read: where things stand in it, what is wrong in it, what is to be said of it."""

    file: str
    root: Node
    mistakes: list[Mistake] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)

    def where(self, at: Node | Entry) -> str:
        return f"{self.file}:{at.line}:{at.column}"

    def note(self, level: Level, at: Node | Entry, what: str) -> None:
        self.notes.append(Note(level, self.where(at), what))

    def wrong(self, at: Node | Entry, message: str) -> None:
        self.mistakes.append(Mistake(self.file, at.line, at.column, (), message))
        if len(self.mistakes) >= MISTAKES_MAX:
            raise FileError(self.mistakes)

    def finish(self) -> None:
        """Raises FileError if anything was wrong."""
        if self.mistakes:
            raise FileError(self.mistakes)

    def mapping(self, node: Node, what: str) -> Mapping | None:
        if isinstance(node, Mapping):
            return node
        self.wrong(node, f"{what} must be a mapping")
        return None

    def items(self, node: Node, what: str) -> list[Node]:
        """The items of a list; nothing at all (`routes:` with nothing below it) is an empty one."""
        if isinstance(node, Sequence):
            return node.items
        if not (isinstance(node, Scalar) and node.value is None):
            self.wrong(node, f"{what} must be a list")
        return []

    def list_of(self, mapping: Mapping, key: str) -> list[Node]:
        entry = mapping.entries.get(key)
        return [] if entry is None else self.items(entry.node, f"`{key}`")

    def mappings_of(self, mapping: Mapping, key: str) -> Iterator[Mapping]:
        for node in self.list_of(mapping, key):
            found = self.mapping(node, f"each of `{key}`")
            if found is not None:
                yield found

    def texts_of(self, mapping: Mapping, key: str) -> list[tuple[str, Node]]:
        """A list of texts, each with its node."""
        found = []
        for node in self.list_of(mapping, key):
            text = self._text(node, f"each of `{key}`")
            if text is not None:
                found.append((text, node))
        return found

    def text(self, mapping: Mapping, key: str) -> str | None:
        """Text, or a number as it is written: ids are often numbers."""
        node = present(mapping, key)
        return None if node is None else self._text(node, f"`{key}`")

    def integer(self, mapping: Mapping, key: str, *, least: int = 0) -> int | None:
        node = present(mapping, key)
        if node is None:
            return None
        if isinstance(node, Scalar) and isinstance(node.value, int) and not isinstance(node.value, bool):
            if node.value >= least:
                return node.value
            self.wrong(node, f"`{key}` must be at least {least}")
            return None
        self.wrong(node, f"`{key}` must be {_KINDS[int]}")
        return None

    def flag(self, mapping: Mapping, key: str) -> bool | None:
        node = present(mapping, key)
        if node is None:
            return None
        if isinstance(node, Scalar) and isinstance(node.value, bool):
            return node.value
        self.wrong(node, f"`{key}` must be {_KINDS[bool]}")
        return None

    def _text(self, node: Node, what: str) -> str | None:
        if isinstance(node, Scalar) and isinstance(node.value, str | int) and not isinstance(node.value, bool):
            return str(node.value)
        self.wrong(node, f"{what} must be {_KINDS[str]}")
        return None


def present(mapping: Mapping, key: str) -> Node | None:
    """A key's value; written as null it is as good as absent."""
    entry = mapping.entries.get(key)
    if entry is None or (isinstance(entry.node, Scalar) and entry.node.value is None):
        return None
    return entry.node


def read_source(path: str | os.PathLike[str]) -> Source:
    """Raises FileError naming every mistake of writing: not UTF-8, not YAML, a key given twice, too large, too deep."""
    file = os.fspath(path)
    root, flaws = read_nodes(read_text(file, _SPLIT), file)
    if root is None or flaws:
        raise FileError(flaws)
    return Source(file, root)
