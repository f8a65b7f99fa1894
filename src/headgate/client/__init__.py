"""For the clients of limited APIs: wait when told to, slow down before the limit is hit.

    import httpx
    from headgate.client import RetryTransport

    client = httpx.Client(transport=RetryTransport())

`headgate.client.httpx2` has the same for httpx2, and `headgate.client.requests.RetryAdapter` is for requests. A library
is imported when its transport is asked for: nobody needs the others.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from headgate.client.conduct import RetryReport
from headgate.client.options import RetryOptions

if TYPE_CHECKING:
    from headgate.client.httpx import AsyncRetryTransport, RetryTransport

__all__ = ["AsyncRetryTransport", "RetryOptions", "RetryReport", "RetryTransport"]


def __getattr__(name: str) -> Any:
    if name in ("AsyncRetryTransport", "RetryTransport"):
        return getattr(_transports(), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _transports() -> ModuleType:
    """Those of httpx; where only httpx2 is installed, those."""
    try:
        return import_module("headgate.client.httpx")
    except ModuleNotFoundError as missing:
        try:
            return import_module("headgate.client.httpx2")
        except ModuleNotFoundError:
            raise missing from None
