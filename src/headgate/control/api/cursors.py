"""Where a page ended, as a text that means nothing to anybody but us.

It is authenticated, with a key that all control planes of one database share, so that it is never parsed before it is
known to be ours, and no page can be asked for from a place where none ended.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json

from headgate.control.api.problems import Problem

_FORM = 1
_MAC_BYTES = 12
CURSOR_CHARS_MAX = 4_096
_WRONG = "this cursor is not one that a page of this list gave; start again without one"


class Cursors:
    """Seals and opens the cursors of all lists. `secret` must be the same in every control plane of one database."""

    def __init__(self, secret: bytes) -> None:
        self._key = hmac.digest(secret, b"headgate cursor", "sha256")

    def seal(self, listing: str, after: str) -> str:
        payload = json.dumps([_FORM, listing, after], ensure_ascii=False, separators=(",", ":")).encode()
        return base64.urlsafe_b64encode(self._mac(payload) + payload).decode().rstrip("=")

    def open(self, listing: str, cursor: str) -> str:
        """Where to go on. Raises Problem (400) for anything but what `seal` gave for the same list."""
        if len(cursor) > CURSOR_CHARS_MAX or not cursor.isascii():
            raise _wrong()
        try:
            raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            raise _wrong() from None
        mac, payload = raw[:_MAC_BYTES], raw[_MAC_BYTES:]
        if not hmac.compare_digest(mac, self._mac(payload)):
            raise _wrong()
        form, listed, after = json.loads(payload)
        if form != _FORM or listed != listing:
            raise _wrong()
        return str(after)

    def _mac(self, payload: bytes) -> bytes:
        return hmac.new(self._key, payload, hashlib.sha256).digest()[:_MAC_BYTES]


def _wrong() -> Problem:
    return Problem(400, _WRONG, errors=[("query.cursor", _WRONG)])
