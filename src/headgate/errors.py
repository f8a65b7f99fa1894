"""Every error Headgate raises of its own.

    HeadgateError
    ├── ConfigError (also a ValueError)   something written by a person is wrong
    │   ├── FileError                     a file; lists every mistake with its place
    │   │   ├── RulesFileError            a rules document
    │   │   └── KeysFileError             a file of API keys
    │   └── SettingsError                 flags, environment or headgate.toml; lists every mistake
    ├── StoreError                        a store's server refused us: password, protocol, version
    ├── StorageDown                       the control plane's database does not answer
    ├── BrokerDown                        a region's broker does not answer, or refuses us
    ├── FeedError                         what a node was sent is damaged, forged, or does not follow what it has
    └── RateLimited                       a function behind `Limiter.limit` was refused; carries the decision

Facts that cannot be (a bad ip, a negative cost) raise a plain ValueError where they are given.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headgate._core import Decision

Path = tuple[str | int, ...]

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*\Z")


class HeadgateError(Exception):
    """The root of the tree."""


class ConfigError(HeadgateError, ValueError):
    """Something written by a person is wrong; the message says what, where, and what to do."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """One thing wrong in a rules document. Lines and columns count from 1; None where there is no text."""

    file: str | None
    line: int | None
    column: int | None
    path: Path
    message: str

    def __str__(self) -> str:
        place = [] if self.file is None else [self.file]
        place += [str(number) for number in (self.line, self.column) if number is not None]
        parts = [":".join(place), format_path(self.path), self.message]
        return printable(": ".join(part for part in parts if part))

    def as_dict(self) -> dict[str, Any]:
        return {
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "path": list(self.path),
            "message": self.message,
        }


class FileError(ConfigError):
    """A file was refused; nothing of it was taken. One line a mistake."""

    def __init__(self, mistakes: Sequence[Mistake]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("\n".join(str(mistake) for mistake in self.mistakes))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.mistakes,)


class RulesFileError(FileError):
    """A rules document was refused; the old rules go on."""


class KeysFileError(FileError):
    """A file of API keys was refused; the old keys go on."""


class SettingsError(ConfigError):
    """Settings were refused. One line a problem."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.problems,)


class StoreError(HeadgateError):
    """A store's server answered and refused us: a wrong password, protocol or version. A server that is away is no
    error: each rule's `on_store_failure` decides until it is back."""


class StorageDown(HeadgateError):
    """The control plane's database does not answer, or not in time. Nodes go on without it."""


class OutcomeUnknown(StorageDown):
    """The database went away while a change was being committed: it may have been made."""


class BrokerDown(HeadgateError):
    """A region's broker does not answer, or refuses us: a wrong password, no memory left, a replica. Nodes go on with
    the rules they have."""


class FeedError(HeadgateError):
    """What a node was sent cannot be taken over. `reason` is `corrupt`, `forged`, or `gap` (it does not follow what the
    node has)."""

    def __init__(self, reason: str, message: str) -> None:
        self.reason = reason
        super().__init__(message)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.reason, str(self))


class RateLimited(HeadgateError):
    """The call was refused. `decision` says by what, and for how long."""

    def __init__(self, decision: Decision) -> None:
        self.decision = decision
        super().__init__(_refusal(decision.retry_after))

    @property
    def retry_after(self) -> float | None:
        """Seconds to wait; None when waiting never helps."""
        return self.decision.retry_after


def format_path(path: Path) -> str:
    """`("rules", 0, "match", "a b")` as `rules[0].match["a b"]`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif _PLAIN_KEY.match(part):
            text += f".{part}" if text else part
        else:
            text += f"[{json.dumps(part, ensure_ascii=False)}]"
    return text


def printable(text: str) -> str:
    """Text that quotes what a file holds: it must stay one line and must not drive the reader's terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _refusal(retry_after_s: float | None) -> str:
    if retry_after_s is None:
        return "rate limit exceeded; waiting does not help (the cost never fits, or the caller is blocked)"
    return f"rate limit exceeded; retry in {retry_after_s:.3f} s"
