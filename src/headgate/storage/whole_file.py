"""Replacing a file all or nothing."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from typing import BinaryIO


@contextlib.contextmanager
def replacing(path: str) -> Iterator[BinaryIO]:
    """A draft beside it, for its owner alone, takes its place when the block ends, and is removed when it fails."""
    draft = f"{path}.{os.getpid()}.{secrets.token_hex(4)}.draft"
    try:
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(draft)
    _sync_folder(path)


def _sync_folder(path: str) -> None:
    """A rename lasts once the folder is on the disk."""
    folder = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
