"""One mailbox for each event loop: where the store's answers arrive, with one wake-up for many."""

from __future__ import annotations

import asyncio
from weakref import WeakKeyDictionary

import headgate._core as _core

_mailboxes: WeakKeyDictionary[asyncio.AbstractEventLoop, _core.Mailbox] = WeakKeyDictionary()


def here() -> tuple[asyncio.AbstractEventLoop, _core.Mailbox]:
    """The running loop and its mailbox."""
    loop = asyncio.get_running_loop()
    return loop, mailbox(loop)


def mailbox(loop: asyncio.AbstractEventLoop) -> _core.Mailbox:
    """A loop's mailbox, made at first use."""
    found = _mailboxes.get(loop)
    if found is None:
        # A check that was under way when its loop ended holds that loop, and so its entry here.
        for ended in [known for known in _mailboxes if known.is_closed()]:
            del _mailboxes[ended]
        found = _core.Mailbox()
        loop.add_reader(found.fileno(), found.drain)
        _mailboxes[loop] = found
    return found
