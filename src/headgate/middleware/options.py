"""Options of a middleware, as frameworks' settings hold them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from headgate.errors import ConfigError
from headgate.identity import IdentityOptions
from headgate.middleware.gate import Gate

NAMES = tuple(inspect.signature(Gate).parameters)


def make_gate(options: Mapping[str, Any]) -> Gate:
    """Raises ConfigError that begins with the option's name."""
    if unknown := options.keys() - set(NAMES):
        raise ConfigError(f"{min(unknown)}: not an option; expected any of {', '.join(NAMES)}")
    taken = dict(options)
    if isinstance(identity := taken.get("identity"), Mapping):
        try:
            taken["identity"] = IdentityOptions(**identity)
        except TypeError as error:
            # "IdentityOptions.__init__() got an unexpected keyword argument 'jwt_secert'"
            raise ConfigError(f"identity: {str(error).partition('() ')[2]}") from None
    try:
        return Gate(**taken)
    except TypeError as error:
        raise ConfigError(str(error)) from None
