"""A stream of rules, one JSON object a line, as entries that can be staged. Nothing is kept of what has gone by."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from headgate._core import validate_rules
from headgate.control.entry_body import Mistakes, clean, clean_plain, id_of
from headgate.control.errors import MISTAKES_MAX, Invalid
from headgate.errors import format_path
from headgate.feed import Entry, Kind
from headgate.storage.sql import canonical

LINE_BYTES_MAX = 64 * 1024
LINES_MAX = 5_000_000
_PORTION = 2_000


@dataclass(slots=True)
class _Portion:
    entries: list[Entry] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    names: dict[str, int] = field(default_factory=dict)


def read_lines(lines: Iterable[bytes | str]) -> Iterator[list[Entry]]:
    """Portions of canonical entries. Raises Invalid with the first mistakes and their lines, and reads no further."""
    mistakes: list[tuple[str, str]] = []
    portion = _Portion()
    for number, line in enumerate(lines, 1):
        if number > LINES_MAX:
            raise Invalid([(f"line {number}", f"more than {LINES_MAX:,} lines; apply them in several parts")])
        _read_line(number, line, portion, mistakes)
        if len(portion.entries) >= _PORTION or len(mistakes) >= MISTAKES_MAX:
            yield from _judged(portion, mistakes)
            portion = _Portion()
        if len(mistakes) >= MISTAKES_MAX:
            break
    yield from _judged(portion, mistakes)
    if mistakes:
        mistakes.sort(key=_line_of)
        raise Invalid(mistakes)


def _read_line(number: int, line: bytes | str, portion: _Portion, mistakes: list[tuple[str, str]]) -> None:
    try:
        text = line.decode() if isinstance(line, bytes) else line
    except UnicodeDecodeError:
        mistakes.append((f"line {number}", "not UTF-8 text"))
        return
    if len(line) > LINE_BYTES_MAX:
        mistakes.append((f"line {number}", f"longer than {LINE_BYTES_MAX // 1024} KiB"))
        return
    if not text.strip():
        return
    try:
        rule = json.loads(text, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        mistakes.append((f"line {number}", f"not JSON: {error}"))
        return
    if not isinstance(rule, dict):
        mistakes.append((f"line {number}", "expected a rule: a JSON object"))
        return
    own: Mistakes = []
    # Without an escape in it, a line's texts cannot hold what no database keeps.
    body = clean(Kind.RULE, rule, own) if "\\u" in text else clean_plain(Kind.RULE, rule, own)
    name = id_of(Kind.RULE, body)
    if name is None and not own:
        own.append((("name",), "a rule needs a `name`: a text"))
    # Twins that lie further apart than a portion are found by the database.
    elif name is not None and (first := portion.names.setdefault(name, number)) != number:
        own.append((("name",), f"`{name}` is on line {first} already; keep one"))
    if own or name is None:
        mistakes += [(_place(number, path), message) for path, message in own]
        return
    portion.entries.append(Entry(Kind.RULE, name, canonical(body)))
    portion.lines.append(number)


def _judged(portion: _Portion, mistakes: list[tuple[str, str]]) -> Iterator[list[Entry]]:
    """The engine looks at many at once. After a mistake nothing more needs to be staged, only judged."""
    if not portion.entries:
        return
    found = validate_rules(f'{{"rules":[{",".join(entry.body or "" for entry in portion.entries)}]}}')
    for (_, nth, *path), message in found:
        mistakes.append((_place(portion.lines[int(nth)], tuple(path)), message))
    if not mistakes:
        yield portion.entries


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        twice = next(name for nth, (name, _) in enumerate(pairs) if any(name == other for other, _ in pairs[:nth]))
        raise ValueError(f"`{twice[:60]}` is written twice in one object")
    return made


def _place(number: int, path: tuple[str | int, ...]) -> str:
    return f"line {number}: {format_path(path)}" if path else f"line {number}"


def _line_of(mistake: tuple[str, str]) -> int:
    return int(mistake[0].removeprefix("line ").partition(":")[0])
