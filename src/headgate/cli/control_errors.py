"""What a control plane refused, or that there is none, in words that say what to do."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from headgate.errors import HeadgateError

SHOWN_MISTAKES_MAX = 50
# What the asker wrote is wrong; anything else was refused or went wrong on the other side.
_MISTAKES = frozenset({400, 401, 404, 405, 409, 413, 415, 422})

HOW_TO_GET_A_TOKEN = (
    "`headgate serve` and `headgate control` print the first one when they start on an empty database; further ones "
    "are made with `headgate tokens create`. Put it into a file only you can read and give --token-file FILE "
    "[HEADGATE_TOKEN_FILE], or set HEADGATE_TOKEN"
)

_NAME_IT = "is it running there? Name it with --control URL [HEADGATE_CONTROL_URL]"


class ControlUnreachable(HeadgateError):
    """Nobody answered, or somebody who is not a control plane. `asked` is whether the question was sent."""

    def __init__(self, where: str, reason: str, *, asked: bool = False, advice: str = _NAME_IT) -> None:
        self.where, self.reason, self.asked = where, reason, asked
        super().__init__(f"control plane {where}: {reason}; {advice}")


@contextlib.contextmanager
def told_as_change(dry_run: bool) -> Iterator[None]:
    """A change without an answer may have been made all the same; whoever asked for it must know that."""
    try:
        yield
    except ControlUnreachable as error:
        if not error.asked or dry_run:
            raise
        advice = "`headgate versions list` shows whether the change was made"
        raise ControlUnreachable(error.where, error.reason, asked=True, advice=advice) from None


@dataclass(frozen=True, slots=True)
class FieldMistake:
    """One thing wrong in what was sent; the path is as the control plane wrote it: `limit`, `rules[3].match`."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class ControlRefused(HeadgateError):
    """The control plane answered, and not with success. `detail` is empty where the mistakes say all."""

    def __init__(self, status: int, detail: str, mistakes: tuple[FieldMistake, ...] = ()) -> None:
        self.status, self.detail, self.mistakes = status, detail, mistakes
        super().__init__(printable("\n".join(_lines(detail, mistakes))))

    @property
    def is_mistake(self) -> bool:
        """Whether what was asked was wrong, rather than refused."""
        return self.status in _MISTAKES

    @classmethod
    def read(cls, where: str, status: int, headers: Mapping[str, str], raw: bytes) -> Self:
        """From an answer: problem+json when it is one of ours, else what little is known."""
        problem = _problem(raw)
        detail = str(problem.get("detail") or problem.get("title") or f"status {status}")
        mistakes = tuple(_mistakes(problem.get("errors")))
        if mistakes and all(str(mistake) in detail for mistake in mistakes):
            detail = ""
        if status == 401:
            detail = f"the token was not accepted by {where}: {detail}. {HOW_TO_GET_A_TOKEN}"
        elif status == 429 and headers.get("retry-after"):
            detail = f"{detail}; try again in {headers['retry-after']} s"
        elif not problem:
            detail = (
                f"control plane {where}: answered with status {status} and no reason; is it a Headgate control plane?"
            )
        return cls(status, detail, mistakes)


def _lines(detail: str, mistakes: Sequence[FieldMistake]) -> Iterator[str]:
    if not detail and len(mistakes) == 1:
        yield str(mistakes[0])
        return
    yield detail or f"{len(mistakes)} mistakes; nothing was changed"
    for mistake in mistakes[:SHOWN_MISTAKES_MAX]:
        yield f"  {mistake}"
    if len(mistakes) > SHOWN_MISTAKES_MAX:
        yield f"  … and {len(mistakes) - SHOWN_MISTAKES_MAX} more"


def printable(text: str) -> str:
    """What others wrote must not drive the reader's terminal; lines stay lines."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)


def _problem(raw: bytes) -> dict[str, Any]:
    try:
        told = json.loads(raw)
    except ValueError:
        return {}
    return told if isinstance(told, dict) and ("detail" in told or "title" in told) else {}


def _mistakes(errors: object) -> list[FieldMistake]:
    if not isinstance(errors, list):
        return []
    return [
        FieldMistake(str(item.get("path") or ""), str(item.get("message") or ""))
        for item in errors
        if isinstance(item, dict)
    ]
