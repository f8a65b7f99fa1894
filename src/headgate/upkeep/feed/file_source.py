"""A snapshot as a file, put there by whoever likes: an image, a config map, a job that copies it."""

from __future__ import annotations

import os
import shutil
import threading

from headgate.errors import FeedError
from headgate.feed.codec import snapshot_position
from headgate.feed.entry import Position
from headgate.upkeep.feed.source import Answer, Nothing, Pulse, SourceError, TakeSnapshot
from headgate.upkeep.watched_files import WatchedFiles

LOOK_EVERY_S = 1.0
_HEAD_BYTES = 64


class FileSource:
    """Looked at every second, as rules files are."""

    proves = True
    wait_s = 5.0
    beat_least_s = 2.0

    def __init__(self, path: str) -> None:
        self.name = os.path.abspath(path)
        self._watched = WatchedFiles(self.name)
        self._is_remembered = False
        self._closing = threading.Event()

    def connect(self) -> None:
        self._position()

    def snapshot(self, to_path: str) -> Position:
        self._watched.remember()
        self._is_remembered = True
        try:
            with (
                open(self.name, "rb") as found,
                open(os.open(to_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as copy,
            ):
                shutil.copyfileobj(found, copy, 1024 * 1024)
            with open(to_path, "rb") as copy:
                return snapshot_position(copy.read(_HEAD_BYTES))
        except OSError as error:
            raise SourceError(f"cannot be read: {error.strerror}") from None
        except FeedError as error:
            raise SourceError(str(error)) from None

    def changes(self, after: Position, wait_s: float) -> Answer:
        left_s = wait_s
        while True:
            if not self._is_remembered or self._watched.changed():
                self._watched.remember()
                self._is_remembered = True
                there = self._position()
                if there > after:
                    return TakeSnapshot("the file is another one")
                if there < after:
                    raise SourceError(f"holds older rules ({there}) than those enforced ({after})")
            if left_s <= 0 or self._closing.wait(min(LOOK_EVERY_S, left_s)):
                # That it is still there.
                self._position()
                return Nothing()
            left_s -= LOOK_EVERY_S

    def pulse(self) -> Pulse | None:
        return None

    def beat(self, heartbeat: str) -> None:
        """Nobody listens."""

    def close(self) -> None:
        self._closing.set()

    def _position(self) -> Position:
        try:
            with open(self.name, "rb") as file:
                return snapshot_position(file.read(_HEAD_BYTES))
        except OSError as error:
            raise SourceError(f"cannot be read: {error.strerror}") from None
        except FeedError as error:
            raise SourceError(str(error)) from None
