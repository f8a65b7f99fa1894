"""Why a change was refused. The admin API makes an HTTP status of each.

    ChangeError
    ├── Invalid       something in it is wrong; lists every mistake with its path          422
    ├── NotThere      what was to be changed does not exist                                404
    ├── Exists        what was to be created exists                                        409
    ├── Stale         it was changed by someone else since it was read                     412
    ├── Moved         the configuration was changed by someone else since it was looked at 412
    ├── InUse         it cannot go while others need it                                    409
    ├── NoKeySecret   API keys cannot be made: nobody gave what their hashes are made with  409
    ├── AlreadyRevoked  a key has ended for good                                           409
    └── BackupError   a backup cannot be taken over                                        422

A database that does not answer is `headgate.errors.StorageDown`, from wherever it is found out.
"""

from __future__ import annotations

from collections.abc import Iterable

from headgate.errors import HeadgateError, Path, format_path
from headgate.feed import Kind, Position

# What one answer lists; whoever has more mistakes needs the first.
MISTAKES_MAX = 100


class ChangeError(HeadgateError):
    """A change was refused, and nothing of it was done."""


class Invalid(ChangeError):
    """`mistakes` are (path, message), such as `("match.ip", "…")`; the path is empty for the whole."""

    def __init__(self, mistakes: Iterable[tuple[Path | str, str]]) -> None:
        listed = [(at if isinstance(at, str) else format_path(at), message) for at, message in mistakes][:MISTAKES_MAX]
        self.mistakes: tuple[tuple[str, str], ...] = tuple(listed)
        super().__init__("\n".join(f"{path}: {message}" if path else message for path, message in self.mistakes))


class NotThere(ChangeError):
    def __init__(self, kind: Kind, id: str) -> None:
        super().__init__(f"there is no {kind.word} `{shown(id)}`")


class NoSuchVersion(NotThere):
    def __init__(self, version: int, head: int) -> None:
        ChangeError.__init__(self, f"there is no version {version}; the newest is {head}, the oldest 0")


class Exists(ChangeError):
    def __init__(self, kind: Kind, id: str) -> None:
        super().__init__(f"there is a {kind.word} `{shown(id)}` already; replace it, or choose another name")


class Stale(ChangeError):
    """`version` is the entry's own now; None when it is gone."""

    def __init__(self, kind: Kind, id: str, expected: int, version: int | None) -> None:
        self.version = version
        now = "it is gone" if version is None else f"it is at version {version} now"
        super().__init__(f"the {kind.word} `{shown(id)}` is not at version {expected} any more: {now}; read it again")


class Moved(ChangeError):
    def __init__(self, expected: Position, head: Position) -> None:
        words = f"the configuration was at {expected} and is at {head} now: somebody else has changed it; look again"
        super().__init__(words)


class InUse(ChangeError):
    """`users` are the first few that need it."""

    def __init__(self, kind: Kind, id: str, users: Iterable[str]) -> None:
        self.users = tuple(users)
        named = ", ".join(f"`{shown(user)}`" for user in self.users)
        super().__init__(f"the {kind.word} `{shown(id)}` is in use, by {named}; change these first")


class NoKeySecret(ChangeError):
    def __init__(self) -> None:
        super().__init__(
            "API keys cannot be made here: the control plane has no api_key_secret_file. Give it the file that "
            "the nodes have (32 bytes or more in it) and start it again"
        )


class AlreadyRevoked(ChangeError):
    """A revoked key cannot be changed or replaced."""

    def __init__(self, id: str, when: str) -> None:
        super().__init__(f"the key `{shown(id)}` was revoked {when}, for good; make a new one")


class BackupError(ChangeError):
    """A backup was refused, and nothing was changed."""


def shown(text: str, chars_max: int = 120) -> str:
    """What somebody sent, fit for a message: one line, not too long."""
    text = text if len(text) <= chars_max else text[:chars_max] + "…"
    return text if text.isprintable() else text.encode("unicode_escape").decode()
