"""Python data given as rules, made plain: only what JSON can say, bounded, with the path of anything else."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from headgate.errors import Mistake, Path
from headgate.model.nodes import DEPTH_MAX, MISTAKES_MAX, NODES_MAX, Value, text_problem


def plain_data(value: Any) -> tuple[Value, list[Mistake]]:
    """A copy that json.dumps takes, and what could not be copied."""
    copier = _Copier()
    try:
        return copier.copy(value, ()), copier.mistakes
    except _Stop:
        return None, copier.mistakes


class _Stop(Exception):
    pass


class _Copier:
    def __init__(self) -> None:
        self.mistakes: list[Mistake] = []
        self._nodes = 0

    def copy(self, value: Any, path: Path) -> Value:
        self._nodes += 1
        if self._nodes > NODES_MAX:
            self._wrong(path, f"more than {NODES_MAX:,} values; give large rule sets as a bulk file (*.jsonl)")
            raise _Stop
        if len(path) > DEPTH_MAX:
            self._wrong(path, f"nested deeper than {DEPTH_MAX} levels (or it contains itself)")
            raise _Stop
        if isinstance(value, Mapping):
            return {self._key(key, path): self.copy(item, (*path, str(key))) for key, item in value.items()}
        if isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray):
            return [self.copy(item, (*path, position)) for position, item in enumerate(value)]
        return self._scalar(value, path)

    def _key(self, key: Any, path: Path) -> str:
        if not isinstance(key, str):
            self._wrong(path, f"a key must be text, not {key!r} ({type(key).__name__})")
        return str(key)

    def _scalar(self, value: Any, path: Path) -> Value:
        if isinstance(value, str):
            problem = text_problem(value)
            if problem:
                self._wrong(path, problem)
            return str(value)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int):
            if not -(2**63) <= value < 2**63:
                self._wrong(path, "this number is too large; give it as text if it is an id")
            return int(value)
        if isinstance(value, float):
            if not math.isfinite(value):
                self._wrong(path, f"{value!r} is not a number that can be written down")
            return float(value)
        if isinstance(value, datetime) and value.tzinfo is not None:
            return value.isoformat()
        hint = (
            " without a time zone; add one" if isinstance(value, datetime) else "; use text, numbers, lists and dicts"
        )
        self._wrong(path, f"expected plain data, found {type(value).__name__}{hint}")
        return None

    def _wrong(self, path: Path, message: str) -> None:
        self.mistakes.append(Mistake(None, None, None, path, message))
        if len(self.mistakes) >= MISTAKES_MAX:
            raise _Stop
