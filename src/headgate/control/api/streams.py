"""Long answers, sent a little at a time."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from typing import BinaryIO

from starlette.responses import StreamingResponse

PIECE_BYTES = 256 * 1024


def spooled(write: Callable[[BinaryIO], object], media: str, name: str | None = None) -> StreamingResponse:
    """All of it on disk before the first byte is sent: half of it that looks whole is worse than none, and a client
    that reads slowly keeps no transaction open."""
    file = tempfile.TemporaryFile()  # noqa: SIM115
    try:
        write(file)
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return file_streamed(file, media, name)


def file_streamed(file: BinaryIO, media: str, name: str | None = None) -> StreamingResponse:
    """A file that is open already, so that nobody can replace it under us. It is closed with the answer."""
    file.flush()
    headers = {"Cache-Control": "no-store", "Content-Length": str(os.fstat(file.fileno()).st_size)}
    if name is not None:
        headers["Content-Disposition"] = f'attachment; filename="{name}"'
    return StreamingResponse(_pieces(file), 200, headers, media)


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    with file:
        while piece := file.read(PIECE_BYTES):
            yield piece
