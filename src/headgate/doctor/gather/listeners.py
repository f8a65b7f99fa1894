"""What a node listens on, or would."""

from __future__ import annotations

import functools
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, replace

from headgate.dialling import dial
from headgate.doctor.gather import store_url
from headgate.doctor.gather.bounded import together
from headgate.doctor.gather.reasons import NOT_IN_TIME, reason
from headgate.doctor.gather.store_url import Place
from headgate.settings import Settings

CONNECT_S = 2.0
DOORS = ("listen", "grpc", "admin")
# What answers on every address is reached by this one.
_WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1", "*": "127.0.0.1"}


@dataclass(frozen=True, slots=True)
class Door:
    """A TCP address of a node; `error` says why nobody is there, None that somebody is."""

    name: str
    address: str
    error: str | None = None
    # Somebody asked for it: of an address that nobody named, a node may have been started without.
    is_chosen: bool = True

    @property
    def host(self) -> str:
        return self.address.rpartition(":")[0].strip("[]")

    @property
    def is_local(self) -> bool:
        return store_url.is_loopback(self.host)


def doors_of(settings: Settings) -> list[Door]:
    found = {name: getattr(settings, name) for name in DOORS}
    chosen = {name: settings.sources.get(name) != "default" for name in DOORS}
    return [Door(name, address, is_chosen=chosen[name]) for name, address in found.items() if address is not None]


def look_at_doors(settings: Settings) -> list[Door]:
    """Whether anybody listens; a port that is chosen at the start cannot be known."""
    doors = doors_of(settings)
    looks = {door.name: functools.partial(connect, dialled_place(door.address)) for door in doors}
    errors: Mapping[str, str | None] = together(looks, CONNECT_S + 0.5)
    return [replace(door, error=errors.get(door.name, NOT_IN_TIME)) for door in doors]


def dialled_place(address: str) -> Place:
    """Where this machine reaches what it listens on."""
    found = store_url.place(address, 0)
    return Place(_WILDCARDS.get(found.host, found.host), found.port)


def connect(place: Place, tls: ssl.SSLContext | None = None) -> str | None:
    """Why it cannot be connected to; None when it can."""
    try:
        dial(place.where, CONNECT_S, tls).close()
    except OSError as error:
        return reason(error)
    return None
