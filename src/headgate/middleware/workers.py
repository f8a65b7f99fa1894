"""Several workers of one application, each counting for itself: somebody should be told."""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import sys
import tempfile
import threading

from headgate.limiter import Limiter

_logger = logging.getLogger("headgate")
# Descriptors held open for as long as the process lives, with their lock. By process, since a fork copies this.
_held: dict[int, int | None] = {}
# Never waited for: a fork may copy it taken.
_looking = threading.Lock()
# Anybody may have put anything in a temporary folder: neither a link nor a pipe is opened.
_FLAGS = os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK

WARNING = (
    "several workers run this application and each counts for itself: N workers admit N times the limit. "
    'Share the counters through a store: store="redis://host:6379"'
)


def look(limiter: Limiter) -> None:
    """Warn if this is not the only worker and its counters are in memory. Once a process."""
    if limiter.is_shared or os.getpid() in _held or not _looking.acquire(blocking=False):
        return
    try:
        # Another thread may have looked meanwhile: its lock would look like another worker's.
        if os.getpid() not in _held:
            _look()
    finally:
        _looking.release()


def _look() -> None:
    _let_go()
    try:
        # Not a file object: that one would complain, when the program ends, that nobody closed it.
        _held[os.getpid()] = descriptor = os.open(_lock_path(), _FLAGS, 0o600)
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _place())
    except BlockingIOError:
        _logger.warning(WARNING)
    except OSError:
        # No place for such files: then nobody is told.
        _held[os.getpid()] = None


def _let_go() -> None:
    """Of what a fork copied: its parent's lock stays with the parent."""
    for descriptor in _held.values():
        if descriptor is not None:
            os.close(descriptor)
    _held.clear()


def _lock_path() -> str:
    """One file for all: a byte of it, which need not be there, is locked by each."""
    return os.path.join(tempfile.gettempdir(), f"headgate-{os.getuid()}.lock")


def _place() -> int:
    """The same for workers that one parent started for one purpose, and for nobody else."""
    purpose = "\0".join([str(os.getppid()), os.getcwd(), *sys.argv])
    digest = hashlib.blake2b(purpose.encode("utf-8", "surrogateescape"), digest_size=7).digest()
    return int.from_bytes(digest) >> 1
