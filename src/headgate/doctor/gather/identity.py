"""How callers would be known: what a node does at its start, done here, with what it would log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headgate.doctor.gather.bounded import within
from headgate.errors import HeadgateError
from headgate.limiter import Limiter
from headgate.node.identity_files import IdentityFiles
from headgate.settings import Settings
from headgate.upkeep.jwks import Timing

IDENTITY_S = Timing().timeout_s + 2.0


@dataclass(frozen=True, slots=True)
class Said:
    """One line of the log."""

    level: str
    event: str
    details: dict[str, Any]


@dataclass(frozen=True, slots=True)
class IdentityFacts:
    """`refusal` is what ends a node at its start; `is_late` that it was not known in time."""

    is_set_up: bool
    said: tuple[Said, ...] = ()
    refusal: str | None = None
    is_late: bool = False


def is_set_up(settings: Settings) -> bool:
    """Whether anything says how callers are known."""
    own = (settings.jwt_secret_file, settings.jwt_public_key, settings.jwt_jwks, settings.api_key_secret_file)
    return any(one is not None for one in own)


def look_at_identity(settings: Settings) -> IdentityFacts:
    if not is_set_up(settings):
        return IdentityFacts(False)
    found = within(lambda: _look(settings), IDENTITY_S)
    return found or IdentityFacts(True, is_late=True)


def _look(settings: Settings) -> IdentityFacts:
    log = _Log()
    files = None
    try:
        files = IdentityFiles(Limiter(), settings, log)
        files.load()
    except (HeadgateError, ValueError) as error:
        return IdentityFacts(True, tuple(log.said), str(error))
    finally:
        if files is not None:
            files.stop()
    return IdentityFacts(True, tuple(log.said))


class _Log:
    """Keeps what is said instead of writing it."""

    def __init__(self) -> None:
        self.said: list[Said] = []

    def info(self, event: str, **details: Any) -> None:
        self.said.append(Said("info", event, details))

    def warning(self, event: str, **details: Any) -> None:
        self.said.append(Said("warning", event, details))

    def error(self, event: str, **details: Any) -> None:
        self.said.append(Said("error", event, details))
