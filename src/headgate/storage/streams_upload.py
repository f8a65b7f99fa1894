"""A snapshot on its way into a broker, part by part, so that whoever uploads can do other things between."""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Callable

from headgate.feed.codec import snapshot_position
from headgate.storage.streams_words import PART_BYTES, PARTS_MAX, Pointer

Put = Callable[[str, bytes], None]


class Upload:
    """Holds the file open: it may be removed meanwhile. Close it, also when it is whole."""

    def __init__(self, path: str, base: str, at_us: int, put: Put) -> None:
        """Raises ValueError when the file is too large."""
        self._put = put
        self._at_us = at_us
        self._sums: list[str] = []
        self._file = open(path, "rb")  # noqa: SIM115
        try:
            self._size = os.fstat(self._file.fileno()).st_size
            self.position = snapshot_position(self._file.read(64))
            self._file.seek(0)
            self._parts = -(-self._size // PART_BYTES)
            if self._parts > PARTS_MAX:
                words = f"a snapshot of {self._size} bytes is too large for a broker; at most {PARTS_MAX} MiB"
                raise ValueError(words)
        except BaseException:
            self._file.close()
            raise
        self._name = f"{base}:{self.position}:{secrets.token_hex(6)}:"

    @property
    def is_whole(self) -> bool:
        return len(self._sums) == self._parts

    def step(self) -> None:
        """Uploads the next part. Raises BrokerDown."""
        part = self._file.read(PART_BYTES)
        self._put(f"{self._name}{len(self._sums)}", part)
        self._sums.append(hashlib.sha1(part, usedforsecurity=False).hexdigest())

    def pointer(self) -> Pointer:
        return Pointer(self.position, self._name, self._size, self._at_us, tuple(self._sums))

    def close(self) -> None:
        self._file.close()
