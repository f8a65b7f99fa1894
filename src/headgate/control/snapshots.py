"""Snapshot files: made once, shared by all regions and by the HTTP feed.

The two newest are kept; whoever has an older one open reads on to its end. What a killed process left behind is
removed by the next that uses the folder.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import stat
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headgate.control.ledger import Ledger
from headgate.errors import StorageDown
from headgate.feed.codec import write_snapshot
from headgate.feed.entry import Position

KEPT_MAX = 2
# What nobody waits for is made no more often than this, and takes no more than this part of the time.
ROUTINE_EVERY_S = 10.0
ROUTINE_SHARE = 0.2
_NAME = re.compile(r"headgate-([0-9]+)-[0-9a-f]+\.hgs(\.draft)?\Z")
_JOIN_S = 10.0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A file, whole, under a name that will be removed once there are newer ones."""

    path: str
    position: Position
    at_us: int
    bytes: int
    entries: int


class Snapshots:
    def __init__(self, ledger: Ledger, key: bytes, *, folder: str | None = None, log: Any) -> None:
        """`folder` is made if it is missing; without one they go where temporary files go."""
        self._ledger = ledger
        self._key = key
        self._log = log
        self._given = Path(folder) if folder is not None else None
        self._folder: Path | None = None
        self._kept: list[Snapshot] = []
        self._making = threading.Lock()
        self._next_s = float("-inf")
        self._wanted = threading.Event()
        self._stopping = threading.Event()
        self._worker: threading.Thread | None = None
        self._starting = threading.Lock()

    @property
    def newest(self) -> Snapshot | None:
        kept = self._kept
        return kept[-1] if kept else None

    def take(self, at_least: Position) -> Snapshot:
        """One of that position or a later one of its epoch; made if need be, while the caller waits. Raises
        StorageDown, or OSError when there is no room."""
        with self._making:
            newest = self.newest
            if newest is None or newest.position.epoch != at_least.epoch or newest.position < at_least:
                return self._make()
            return newest if os.path.exists(newest.path) else self._make()

    def want(self) -> None:
        """A new one before long, made in the background; `newest` will be it."""
        with self._starting:
            if self._worker is None:
                self._worker = threading.Thread(target=self._run, name="headgate-snapshots", daemon=True)
                self._worker.start()
        self._wanted.set()

    def close(self) -> None:
        """Removes the files."""
        self._stopping.set()
        self._wanted.set()
        if self._worker is not None:
            self._worker.join(_JOIN_S)
        with self._making:
            while self._kept:
                _remove(self._kept.pop().path)

    def _run(self) -> None:
        while True:
            self._wanted.wait()
            self._stopping.wait(max(0.0, self._next_s - time.monotonic()))
            if self._stopping.is_set():
                return
            self._wanted.clear()
            try:
                with self._making:
                    self._make()
            except (StorageDown, OSError) as error:
                self._log.warning("no snapshot could be made; trying again", error=str(error))
                self._stopping.wait(ROUTINE_EVERY_S)

    def _make(self) -> Snapshot:
        begun_s = time.monotonic()
        folder = self._folder = self._folder or _folder(self._given)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not self._kept:
            _remove_left_behind(folder)
        path = str(folder / f"headgate-{os.getpid()}-{secrets.token_hex(6)}.hgs")
        draft = f"{path}.draft"
        at_us = time.time_ns() // 1000
        try:
            with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                with self._ledger.everything() as (position, entries):
                    count = write_snapshot(file, self._key, position, at_us, entries)
                size = file.tell()
            os.replace(draft, path)
        finally:
            _remove(draft)
        made = Snapshot(path, position, at_us, size, count)
        self._kept.append(made)
        while len(self._kept) > KEPT_MAX:
            _remove(self._kept.pop(0).path)
        took_s = time.monotonic() - begun_s
        self._next_s = time.monotonic() + max(ROUTINE_EVERY_S, took_s / ROUTINE_SHARE)
        self._log.debug("snapshot made", position=str(position), entries=count, bytes=size, took_s=round(took_s, 3))
        return made


def _folder(given: Path | None) -> Path:
    """Without one of the operator's, our own among the temporary files; if somebody else has made one of that name,
    or may write into it, one that nobody could have guessed."""
    if given is not None:
        return given
    usual = Path(tempfile.gettempdir()) / f"headgate-{os.getuid()}"
    with contextlib.suppress(FileExistsError):
        usual.mkdir(mode=0o700)
    there = usual.lstat()
    is_ours = stat.S_ISDIR(there.st_mode) and there.st_uid == os.getuid() and not there.st_mode & 0o077
    return usual if is_ours else Path(tempfile.mkdtemp(prefix="headgate-"))


def _remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def _remove_left_behind(folder: Path) -> None:
    """Files of processes that are no more."""
    for file in folder.iterdir():
        named = _NAME.match(file.name)
        if named is not None and not _is_alive(int(named[1])):
            with contextlib.suppress(OSError):
                file.unlink()


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
