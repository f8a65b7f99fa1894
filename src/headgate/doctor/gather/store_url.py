"""A store's URL taken apart, so that its servers can be asked one by one.

The engine is the judge of what is a store's URL: only one that it accepted comes here.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from urllib.parse import unquote

from headgate.dialling import Where

MEMORY = "memory"
ONE = "one"
SENTINEL = "sentinel"
CLUSTER = "cluster"
RING = "ring"

_DEFAULT_PORT = 6379
_SENTINEL_PORT = 26_379
_LAYOUTS = {"": ONE, "+sentinel": SENTINEL, "+cluster": CLUSTER, "+ring": RING}


@dataclass(frozen=True, slots=True)
class Place:
    """One server's address."""

    host: str = ""
    port: int = 0
    path: str | None = None

    @property
    def name(self) -> str:
        if self.path is not None:
            return f"unix:{self.path}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def where(self) -> Where:
        return (self.host, self.port) if self.path is None else self.path

    @property
    def is_local(self) -> bool:
        """Whether what is sent there stays on this machine."""
        return self.path is not None or is_loopback(self.host)


@dataclass(frozen=True, slots=True)
class Login:
    user: str | None = None
    password: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class StoreUrl:
    layout: str
    places: tuple[Place, ...] = ()
    login: Login = Login()
    sentinel_login: Login = Login()
    # What sentinels call the primary.
    primary: str = ""
    is_tls: bool = False
    ca: str | None = None
    cert: str | None = None
    key: str | None = None


def parse(text: str) -> StoreUrl:
    scheme, _, rest = text.partition("://")
    rest, _, query = rest.partition("?")
    options = {name: unquote(value) for name, _, value in (pair.partition("=") for pair in query.split("&") if pair)}
    if scheme == "memory":
        return StoreUrl(MEMORY)
    if scheme == "unix":
        secret, path = rest.split("@", 1) if "@" in rest.partition("/")[0] else ("", rest)
        return StoreUrl(ONE, (Place(path=unquote(path)),), _login(secret, options))
    is_tls = scheme.startswith("rediss")
    layout = _LAYOUTS[scheme.removeprefix("rediss" if is_tls else "redis")]
    secret, _, rest = rest.rpartition("@")
    hosts, _, path = rest.partition("/")
    port = _SENTINEL_PORT if layout == SENTINEL else _DEFAULT_PORT
    return StoreUrl(
        layout,
        tuple(place(host.strip(), port) for host in hosts.split(",")),
        _login(secret, options),
        Login(options.get("sentinel_user"), options.get("sentinel_password")),
        unquote(path.partition("/")[0]) if layout == SENTINEL else "",
        is_tls,
        options.get("ca"),
        options.get("cert"),
        options.get("key"),
    )


def place(text: str, default_port: int) -> Place:
    if text.startswith("["):
        host, _, port = text[1:].partition("]")
        return Place(host, int(port.lstrip(":") or default_port))
    host, colon, port = text.rpartition(":")
    return Place(host, int(port or default_port)) if colon else Place(text, default_port)


def is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host.strip("[]").partition("%")[0]).is_loopback
    except ValueError:
        return False


def _login(secret: str, options: dict[str, str]) -> Login:
    if "user" in options or "password" in options:
        return Login(options.get("user"), options.get("password"))
    user, _, password = secret.partition(":")
    return Login(unquote(user) or None, unquote(password) or None)
