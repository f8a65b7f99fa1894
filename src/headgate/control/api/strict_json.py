"""JSON as it should be: of one meaning, of a bounded depth, with nothing in it that a database chokes on."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any, NoReturn

from headgate.control.api.problems import Problem
from headgate.errors import format_path

DEPTH_MAX = 32
VALUES_MAX = 8_000_000
# Python would read more; a number of that length is a mistake or an attack.
_NUMBER_CHARS_MAX = 19
_UNSENDABLE = re.compile("[\x00\ud800-\udfff]")


class _Wrong(ValueError):
    pass


def read_json(raw: bytes | str, what: str = "the body") -> Any:
    """Raises Problem (400) saying what is wrong, and where; 413 for one of so many values that reading it would take
    far more memory than it has bytes."""
    if len(raw) > VALUES_MAX and _values_most(raw) > VALUES_MAX:
        raise Problem(413, f"{what} holds more than {VALUES_MAX:,} values; send less at once")
    try:
        value = json.loads(
            raw if isinstance(raw, str) else raw.decode("utf-8"),
            object_pairs_hook=_once,
            parse_int=_whole,
            parse_float=_finite,
            parse_constant=_constant,
        )
    except UnicodeDecodeError as error:
        raise _problem(f"{what} is not UTF-8 text (byte {error.start})") from None
    except json.JSONDecodeError as error:
        raise _problem(f"{what} is not JSON: {error.msg} (line {error.lineno}, column {error.colno})") from None
    except _Wrong as error:
        raise _problem(f"{what} is not JSON as we take it: {error}") from None
    except RecursionError:
        raise _problem(f"{what} is nested deeper than {DEPTH_MAX} levels") from None
    _check(value, what)
    return value


def _values_most(raw: bytes | str) -> int:
    if isinstance(raw, str):
        return sum(raw.count(mark) for mark in (",", "[", "{"))
    return sum(raw.count(mark) for mark in (b",", b"[", b"{"))


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _Wrong(f"`{key[:100]}` is written twice in one object; keep one")
            seen.add(key)
    return made


def _whole(text: str) -> int:
    if len(text) > _NUMBER_CHARS_MAX:
        raise _Wrong(f"the number {text[:_NUMBER_CHARS_MAX]}… is too large; put it in quotes if it is an id")
    return int(text)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise _Wrong(f"the number {text[:_NUMBER_CHARS_MAX]} is too large")
    return number


def _constant(name: str) -> NoReturn:
    raise _Wrong(f"{name} is not a number JSON knows")


def _check(value: Any, what: str) -> None:
    """Depth and characters, without recursion: the parser's own bound is far above ours."""
    waiting: list[tuple[Iterator[tuple[Any, Any]], tuple[str | int, ...]]] = [(iter([("", value)]), ())]
    while waiting:
        pairs, path = waiting[-1]
        for key, inner in pairs:
            # The outermost has no name.
            place = (*path, key) if len(waiting) > 1 else ()
            if isinstance(key, str):
                _check_text(key, path)
            if isinstance(inner, str):
                _check_text(inner, place)
            elif isinstance(inner, dict | list):
                if len(place) >= DEPTH_MAX:
                    raise _problem(f"{what} is nested deeper than {DEPTH_MAX} levels")
                waiting.append((iter(inner.items() if isinstance(inner, dict) else enumerate(inner)), place))
                break
        else:
            waiting.pop()


def _check_text(text: str, path: tuple[str | int, ...]) -> None:
    if text.isascii() and "\x00" not in text:
        return
    found = _UNSENDABLE.search(text)
    if found is not None:
        named = "the character NUL" if found.group() == "\x00" else "half of a surrogate pair"
        message = f"holds {named}, which is no text; leave it out"
        raise Problem(400, f"{format_path(path) or 'a text'}: {message}", errors=[(format_path(path), message)])


def _problem(detail: str) -> Problem:
    return Problem(400, detail, errors=[("", detail)])
