"""A new API key: `hgk_<id>_<letters>`. Its value is shown once; a hash is kept that only the nodes' secret can make."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import string

SECRET_BYTES_MIN = 32

_LETTERS = string.ascii_lowercase + string.digits
_VALUE_LETTERS = string.ascii_letters + string.digits
_ID_CHARS = 12
# 43 of 62 letters: 256 bits.
_VALUE_CHARS = 43


def new_id() -> str:
    """Ids begin with a letter, so that nothing takes one for a number."""
    first = secrets.choice(string.ascii_lowercase)
    return first + "".join(secrets.choice(_LETTERS) for _ in range(_ID_CHARS - 1))


def new_value(key_id: str) -> str:
    return f"hgk_{key_id}_" + "".join(secrets.choice(_VALUE_LETTERS) for _ in range(_VALUE_CHARS))


def hashed(secret: bytes, value: str) -> str:
    """As files and the database keep it."""
    return hmac.new(secret, value.encode(), hashlib.sha256).hexdigest()
