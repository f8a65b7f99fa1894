"""YAML text to nodes: one pass over the parser's events, without recursion, every growth bounded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from headgate.errors import Mistake
from headgate.model.nodes import (
    MISTAKES_MAX,
    Entry,
    Mapping,
    Node,
    Scalar,
    Sequence,
    Tally,
    TooMuch,
    check_depth,
    mistake_at,
    plain_value,
    text_problem,
)

# libyaml when PyYAML was built with it: ten times faster, same events.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NON_PRINTABLE = yaml.reader.Reader.NON_PRINTABLE
_TAG_PREFIX = "tag:yaml.org,2002:"
_TEXT_TAGS = ("!", _TAG_PREFIX + "str")
_SHAPE_TAGS = ("!", _TAG_PREFIX + "map", _TAG_PREFIX + "seq")
_MERGE = "<<"


@dataclass(slots=True)
class _Anchored:
    node: Node
    nodes: int
    chars: int
    height: int


@dataclass(slots=True)
class _Frame:
    """A collection being read."""

    node: Sequence | Mapping
    anchor: str | None
    nodes_before: int
    chars_before: int
    height: int = 1
    key: _Key | None = None
    merged: list[Mapping] = field(default_factory=list)


@dataclass(slots=True)
class _Key:
    text: str
    line: int
    column: int
    merge: bool


def read_yaml(text: str, file: str | None) -> tuple[Node | None, list[Mistake]]:
    """The document's root (None when nothing usable was read) and what was wrong on the way."""
    strange = _NON_PRINTABLE.search(text)
    if strange:
        before = text[: strange.start()]
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        return None, [mistake_at(file, line, column, f"the character {strange.group()!r} is not allowed in YAML")]
    reader = _Reader(file)
    try:
        reader.read(yaml.parse(text, Loader=_LOADER))
    except TooMuch as error:
        return None, [*reader.mistakes, mistake_at(file, error.line, error.column, error.message)]
    except yaml.MarkedYAMLError as error:
        return None, [*reader.mistakes, _syntax_mistake(text, file, error)]
    except yaml.YAMLError as error:
        return None, [*reader.mistakes, Mistake(file, None, None, (), f"not YAML: {error}")]
    if reader.root is None and not reader.mistakes:
        reader.mistakes.append(mistake_at(file, 1, 1, "the document is empty"))
    return reader.root, reader.mistakes


def _syntax_mistake(text: str, file: str | None, error: yaml.MarkedYAMLError) -> Mistake:
    mark = error.problem_mark or error.context_mark
    what = " ".join(part for part in (error.context, error.problem) if part) or "not YAML"
    if mark is None:
        return Mistake(file, None, None, (), f"not YAML: {what}")
    line = text.split("\n", mark.line + 1)[mark.line] if mark.line <= text.count("\n") else ""
    if line[mark.column : mark.column + 1] == "\t":
        what += " (a tab: YAML is indented with spaces)"
    return mistake_at(file, mark.line + 1, mark.column + 1, f"not YAML: {what}")


class _Reader:
    def __init__(self, file: str | None) -> None:
        self.file = file
        self.root: Node | None = None
        self.mistakes: list[Mistake] = []
        self._frames: list[_Frame] = []
        self._anchors: dict[str, _Anchored] = {}
        self._tally = Tally()

    def read(self, events: Iterator[Any]) -> None:
        documents = 0
        for event in events:
            if isinstance(event, yaml.ScalarEvent):
                self._scalar(event)
            elif isinstance(event, yaml.AliasEvent):
                self._alias(event)
            elif isinstance(event, yaml.MappingStartEvent):
                self._open(event, Mapping(*_place(event), {}))
            elif isinstance(event, yaml.SequenceStartEvent):
                self._open(event, Sequence(*_place(event), []))
            elif isinstance(event, yaml.CollectionEndEvent):
                self._close()
            elif isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    self._wrong(*_place(event), "one document a file; remove this `---` and what follows")
                    return

    def _scalar(self, event: Any) -> None:
        line, column = _place(event)
        text: str = event.value
        self._tally.add(line, column, chars=len(text))
        plain = bool(event.implicit[0])
        frame = self._frames[-1] if self._frames else None
        if frame is not None and isinstance(frame.node, Mapping) and frame.key is None:
            frame.key = _Key(text, line, column, merge=plain and text == _MERGE)
            problem = text_problem(text)
            if problem:
                self._wrong(line, column, problem)
            return
        value, problem = plain_value(text) if plain else (text, text_problem(text))
        if event.tag is not None and event.tag not in _TEXT_TAGS:
            problem = f"the tag {_tag_name(event.tag)} is not allowed here; write the value without it"
        if problem:
            self._wrong(line, column, problem)
        node = Scalar(line, column, value, text if isinstance(value, bool) else None)
        if event.anchor is not None:
            self._anchors[event.anchor] = _Anchored(node, 1, len(text), 0)
        self._put(node, 0)

    def _alias(self, event: Any) -> None:
        line, column = _place(event)
        anchored = self._anchors.get(event.anchor)
        if anchored is None:
            within = any(frame.anchor == event.anchor for frame in self._frames)
            what = "stands inside what it names" if within else "names nothing above it"
            self._wrong(line, column, f"the alias *{event.anchor} {what}")
            self._put(Scalar(line, column, None), 0)
            return
        self._tally.add(line, column, nodes=anchored.nodes, chars=anchored.chars)
        check_depth(len(self._frames) + anchored.height, line, column)
        self._put(anchored.node, anchored.height)

    def _open(self, event: Any, node: Sequence | Mapping) -> None:
        if event.tag is not None and event.tag not in _SHAPE_TAGS:
            self._wrong(node.line, node.column, f"the tag {_tag_name(event.tag)} is not allowed here; remove it")
        frame = _Frame(node, event.anchor, self._tally.nodes, self._tally.chars)
        self._tally.add(node.line, node.column)
        self._frames.append(frame)
        check_depth(len(self._frames), node.line, node.column)

    def _close(self) -> None:
        frame = self._frames.pop()
        if isinstance(frame.node, Mapping):
            for base in frame.merged:
                for key, entry in base.entries.items():
                    frame.node.entries.setdefault(key, entry)
        if frame.anchor is not None:
            nodes = self._tally.nodes - frame.nodes_before
            chars = self._tally.chars - frame.chars_before
            self._anchors[frame.anchor] = _Anchored(frame.node, nodes, chars, frame.height)
        self._put(frame.node, frame.height)

    def _put(self, node: Node, height: int) -> None:
        """Hand a finished node to what contains it."""
        if not self._frames:
            self.root = node
            return
        frame = self._frames[-1]
        frame.height = max(frame.height, height + 1)
        if isinstance(frame.node, Sequence):
            frame.node.items.append(node)
        elif frame.key is None:
            self._wrong(node.line, node.column, "a key must be text, not a list, a mapping or an alias")
            frame.key = _Key("", node.line, node.column, merge=False)
        else:
            key, frame.key = frame.key, None
            self._put_entry(frame, frame.node, key, node)

    def _put_entry(self, frame: _Frame, mapping: Mapping, key: _Key, node: Node) -> None:
        if key.merge:
            bases = node.items if isinstance(node, Sequence) else [node]
            for base in bases:
                if isinstance(base, Mapping):
                    frame.merged.append(base)
                else:
                    self._wrong(key.line, key.column, "`<<` merges a mapping or a list of mappings, nothing else")
        elif key.text in mapping.entries:
            first = mapping.entries[key.text].line
            message = f"`{key.text}` is written twice in one mapping (first on line {first}); keep one"
            self._wrong(key.line, key.column, message)
        else:
            mapping.entries[key.text] = Entry(key.line, key.column, node)

    def _wrong(self, line: int, column: int, message: str) -> None:
        if len(self.mistakes) >= MISTAKES_MAX:
            raise TooMuch(line, column, f"more than {MISTAKES_MAX} mistakes; the rest was not read")
        self.mistakes.append(mistake_at(self.file, line, column, message))


def _place(event: Any) -> tuple[int, int]:
    return event.start_mark.line + 1, event.start_mark.column + 1


def _tag_name(tag: str) -> str:
    return "!!" + tag[len(_TAG_PREFIX) :] if tag.startswith(_TAG_PREFIX) else tag
