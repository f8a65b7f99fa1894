"""A document as a tree of nodes that remember where they were written, whatever the syntax."""

from __future__ import annotations

import re
from dataclasses import dataclass

from headgate.errors import Mistake, Path

TEXT_BYTES_MAX = 16 * 1024 * 1024
DEPTH_MAX = 32
# With aliases expanded. Without this bound a few lines of YAML unfold to terabytes.
NODES_MAX = 2_000_000
EXPANDED_CHARS_MAX = 64 * 1024 * 1024
# Someone who feeds us a binary file needs the first mistakes, not a million of them.
MISTAKES_MAX = 1_000

Value = None | bool | int | float | str | list["Value"] | dict[str, "Value"]

_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)\Z")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?\Z")
_INTEGER_CHARS_MAX = 19
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(slots=True)
class Scalar:
    line: int
    column: int
    value: None | bool | int | float | str
    # Of true and false the word that stood there: another program's file may have meant the word.
    word: str | None = None


@dataclass(slots=True)
class Sequence:
    line: int
    column: int
    items: list[Node]


@dataclass(slots=True)
class Entry:
    """A key and its value; the key's own place is kept because a value may begin lines below it."""

    line: int
    column: int
    node: Node


@dataclass(slots=True)
class Mapping:
    line: int
    column: int
    entries: dict[str, Entry]


Node = Scalar | Sequence | Mapping


class TooMuch(Exception):
    """The document is past a bound; reading stopped at this place."""

    def __init__(self, line: int, column: int, message: str) -> None:
        super().__init__(message)
        self.line, self.column, self.message = line, column, message


@dataclass(slots=True)
class Tally:
    """Counts what a document unfolds to, and stops when that is too much."""

    nodes: int = 0
    chars: int = 0

    def add(self, line: int, column: int, *, nodes: int = 1, chars: int = 0) -> None:
        self.nodes += nodes
        self.chars += chars
        if self.nodes > NODES_MAX:
            raise TooMuch(
                line,
                column,
                f"the document holds more than {NODES_MAX:,} values (aliases count each time they are used); "
                "give large rule sets as a bulk file, one JSON rule a line, named *.jsonl",
            )
        if self.chars > EXPANDED_CHARS_MAX:
            raise TooMuch(
                line,
                column,
                f"the document unfolds to more than {EXPANDED_CHARS_MAX:,} characters; use fewer aliases",
            )


def check_depth(depth: int, line: int, column: int) -> None:
    if depth > DEPTH_MAX:
        raise TooMuch(line, column, f"nested deeper than {DEPTH_MAX} levels; a rule needs no more than six")


def plain_value(text: str) -> tuple[None | bool | int | float | str, str | None]:
    """What an unquoted word means, and what is wrong with it.

    Only JSON's own words are more than text. So `no` stays a country, `0123` an id and `1:30` what was written,
    and every value can cross to the engine as JSON.
    """
    if text in ("null", "~", ""):
        return None, None
    if text in ("true", "True", "TRUE"):
        return True, None
    if text in ("false", "False", "FALSE"):
        return False, None
    if _INTEGER.match(text):
        if len(text) > _INTEGER_CHARS_MAX:
            return text, "this number is too large; put it in quotes if it is an id"
        return int(text), None
    if _NUMBER.match(text):
        number = float(text)
        if number in (float("inf"), float("-inf")):
            return text, "this number is too large; put it in quotes if it is an id"
        return number, None
    return text, text_problem(text)


def text_problem(text: str) -> str | None:
    if _SURROGATE.search(text):
        return "half of a surrogate pair is not a character; write the character itself or both halves"
    return None


def to_value(node: Node) -> Value:
    """Plain data. Recursion is bounded by DEPTH_MAX and size by Tally, both enforced while reading."""
    if isinstance(node, Mapping):
        return {key: to_value(entry.node) for key, entry in node.entries.items()}
    if isinstance(node, Sequence):
        return [to_value(item) for item in node.items]
    return node.value


def locate(root: Node, path: Path) -> tuple[int, int]:
    """Line and column of what `path` names, or of the nearest thing above it that exists."""
    node, line, column = root, root.line, root.column
    for part in path:
        if isinstance(node, Mapping) and isinstance(part, str) and part in node.entries:
            entry = node.entries[part]
            node = entry.node
            # A block that begins below its key is found by the key; a value beside it, by itself.
            beside = node.line == entry.line
            line, column = (node.line, node.column) if beside else (entry.line, entry.column)
        elif isinstance(node, Sequence) and isinstance(part, int) and 0 <= part < len(node.items):
            node = node.items[part]
            line, column = node.line, node.column
        else:
            break
    return line, column


def mistake_at(file: str | None, line: int, column: int, message: str) -> Mistake:
    return Mistake(file, line, column, (), message)
