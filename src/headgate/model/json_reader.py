"""JSON text to nodes. The standard library says whether it is JSON; a scan of the tokens says where everything is."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import NoReturn

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

# Only ever run over text that is known to be JSON, so it need not tell good tokens from bad ones.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]]|[^\s{}\[\],:"]+')


def read_json(text: str, file: str | None) -> tuple[Node | None, list[Mistake]]:
    """The document's root (None when nothing usable was read) and what was wrong on the way."""
    try:
        json.loads(text, parse_int=str, parse_float=str, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        return None, [mistake_at(file, error.lineno, error.colno, f"not JSON: {error.msg}")]
    except _NotJson as error:
        return None, [Mistake(file, None, None, (), str(error))]
    except RecursionError:
        pass  # the scan below stops at its own, smaller, bound and knows where
    scan = _Scan(text, file)
    try:
        scan.run()
    except TooMuch as error:
        return None, [*scan.mistakes, mistake_at(file, error.line, error.column, error.message)]
    return scan.root, scan.mistakes


class _NotJson(Exception):
    pass


def _refuse_constant(name: str) -> NoReturn:
    raise _NotJson(f"not JSON: {name} is not a number JSON knows")


@dataclass(slots=True)
class _Frame:
    node: Sequence | Mapping
    key: tuple[str, int, int] | None = None


@dataclass(slots=True)
class _Scan:
    text: str
    file: str | None
    root: Node | None = None
    mistakes: list[Mistake] = field(default_factory=list)
    _frames: list[_Frame] = field(default_factory=list)
    _tally: Tally = field(default_factory=Tally)
    _line_starts: list[int] = field(default_factory=list)

    def run(self) -> None:
        self._line_starts = [0, *(match.end() for match in re.finditer("\n", self.text))]
        for match in _TOKEN.finditer(self.text):
            token = match.group()
            line, column = self._place(match.start())
            if token == "{":
                self._open(Mapping(line, column, {}))
            elif token == "[":
                self._open(Sequence(line, column, []))
            elif token in ("}", "]"):
                self._put(self._frames.pop().node)
            else:
                self._scalar(token, line, column)

    def _place(self, offset: int) -> tuple[int, int]:
        line = bisect_right(self._line_starts, offset)
        return line, offset - self._line_starts[line - 1] + 1

    def _open(self, node: Sequence | Mapping) -> None:
        self._tally.add(node.line, node.column)
        self._frames.append(_Frame(node))
        check_depth(len(self._frames), node.line, node.column)

    def _scalar(self, token: str, line: int, column: int) -> None:
        self._tally.add(line, column, chars=len(token))
        value: None | bool | int | float | str
        if token.startswith('"'):
            value = json.loads(token)
            problem = text_problem(str(value))
        else:
            value, problem = plain_value(token)
        if problem:
            self._wrong(line, column, problem)
        frame = self._frames[-1] if self._frames else None
        if frame is not None and isinstance(frame.node, Mapping) and frame.key is None:
            frame.key = (str(value), line, column)
        else:
            self._put(Scalar(line, column, value))

    def _put(self, node: Node) -> None:
        if not self._frames:
            self.root = node
            return
        frame = self._frames[-1]
        if isinstance(frame.node, Sequence):
            frame.node.items.append(node)
            return
        assert frame.key is not None, "JSON has a key before every value"
        (key, line, column), frame.key = frame.key, None
        first = frame.node.entries.get(key)
        if first is not None:
            self._wrong(line, column, f"`{key}` is written twice in one object (first on line {first.line}); keep one")
        else:
            frame.node.entries[key] = Entry(line, column, node)

    def _wrong(self, line: int, column: int, message: str) -> None:
        if len(self.mistakes) >= MISTAKES_MAX:
            raise TooMuch(line, column, f"more than {MISTAKES_MAX} mistakes; the rest was not read")
        self.mistakes.append(mistake_at(self.file, line, column, message))
