"""Headgate decides, for every request to an API, whether it may pass.

Start here:

    from headgate import Limiter

    limiter = Limiter(rules="rules.yaml")
    decision = limiter.check(user="42", tier="free", path="/api/v1/login", method="POST")
    if not decision:
        wait(decision.retry_after)
"""

from headgate import errors
from headgate._core import Decision, Identity, LimitResult, RulesError, __version__
from headgate.errors import (
    ConfigError,
    HeadgateError,
    KeysFileError,
    Mistake,
    RateLimited,
    RulesFileError,
    StoreError,
)
from headgate.identity import IdentityOptions
from headgate.limiter import Limiter
from headgate.reservation import Reservation

__all__ = [
    "ConfigError",
    "Decision",
    "HeadgateError",
    "Identity",
    "IdentityOptions",
    "KeysFileError",
    "LimitResult",
    "Limiter",
    "Mistake",
    "RateLimited",
    "Reservation",
    "RulesError",
    "RulesFileError",
    "StoreError",
    "__version__",
    "errors",
]
