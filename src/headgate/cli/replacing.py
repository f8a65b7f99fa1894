"""A file that is either wholly new or as it was."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from typing import BinaryIO

_DRAFT_PREFIX = ".headgate-"


@contextlib.contextmanager
def replacing(path: str, *, mode: int = 0o644) -> Iterator[BinaryIO]:
    """Write beside the file, then take its place. Cut short, nothing is left and the old file stays."""
    folder = os.path.dirname(path) or "."
    descriptor, draft = tempfile.mkstemp(prefix=_DRAFT_PREFIX, dir=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(draft, mode)
        os.replace(draft, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(draft)
        raise
