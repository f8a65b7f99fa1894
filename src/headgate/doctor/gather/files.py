"""Files that hold secrets or are written to: who may read them, and whether there is room."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from headgate.settings import Settings

SECRETS = ("tls_key", "jwt_secret_file", "api_key_secret_file", "feed_key_file", "api_keys")


@dataclass(frozen=True, slots=True)
class FileFacts:
    """`mode` is that of the file's permissions; None with an error."""

    setting: str
    path: str
    mode: int | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class SnapshotFacts:
    """Where a node keeps a control plane's rules."""

    path: str
    is_writable: bool
    free_bytes: int | None


@dataclass(frozen=True, slots=True)
class SocketFacts:
    """`mode` is None while there is no such file."""

    path: str
    is_socket: bool = False
    mode: int | None = None
    owner: str = ""
    # Whether others may put their own file in its place.
    is_replaceable: bool = False


def look_at_secrets(settings: Settings) -> list[FileFacts]:
    return [_secret(name, path) for name in SECRETS if (path := getattr(settings, name)) is not None]


def look_at_config(settings: Settings) -> FileFacts | None:
    """The settings file, where it holds a password."""
    for name in ("store", "database", "rules", "regions"):
        source = settings.sources.get(name, "")
        if source.startswith("file ") and "@" in str(getattr(settings, name)):
            return _secret(name, source.removeprefix("file "))
    return None


def look_at_snapshot(path: str) -> SnapshotFacts:
    folder = Path(path).absolute().parent
    is_writable = os.access(folder, os.W_OK | os.X_OK) and (not os.path.exists(path) or os.access(path, os.W_OK))
    try:
        room = os.statvfs(folder)
    except OSError:
        return SnapshotFacts(path, False, None)
    return SnapshotFacts(path, is_writable, room.f_bavail * room.f_frsize)


def look_at_socket(path: str) -> SocketFacts:
    try:
        told = os.stat(path)
        folder = os.stat(Path(path).absolute().parent)
    except OSError:
        return SocketFacts(path)
    is_open = bool(folder.st_mode & stat.S_IWOTH) and not folder.st_mode & stat.S_ISVTX
    owner = f"user {told.st_uid}, group {told.st_gid}"
    return SocketFacts(path, stat.S_ISSOCK(told.st_mode), stat.S_IMODE(told.st_mode), owner, is_open)


def _secret(setting: str, path: str) -> FileFacts:
    try:
        with open(path, "rb") as file:
            return FileFacts(setting, path, stat.S_IMODE(os.fstat(file.fileno()).st_mode))
    except OSError as error:
        return FileFacts(setting, path, error=error.strerror or str(error))
