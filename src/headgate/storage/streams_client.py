"""Connections to a broker: from its URL, always with time-outs, never showing its password."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from headgate.errors import BrokerDown, ConfigError
from headgate.setting_values import without_password

CONNECT_TIMEOUT_S = 5.0
ANSWER_TIMEOUT_S = 5.0
CONNECTIONS_MAX = 16
_SCHEMES = ("redis", "rediss", "unix")
_TLS_FILES = {"ca": "ssl_ca_certs", "cert": "ssl_certfile", "key": "ssl_keyfile"}


def connect(url: str) -> redis.Redis:
    """Connects at the first command. Raises ConfigError for a URL that cannot be one of a broker."""
    plain, options = _read_url(url)
    try:
        return redis.Redis.from_url(
            plain,
            socket_timeout=ANSWER_TIMEOUT_S,
            socket_connect_timeout=CONNECT_TIMEOUT_S,
            # Whoever calls knows best when to try again.
            retry=Retry(NoBackoff(), 0),
            max_connections=CONNECTIONS_MAX,
            protocol=2,
            **options,
        )
    except ValueError:
        raise ConfigError(_wrong(url, "it cannot be read")) from None


def shown(url: str) -> str:
    """As it may be logged."""
    return str(without_password(url))


@contextlib.contextmanager
def broker_errors(where: str) -> Iterator[None]:
    """The driver's exceptions stop here."""
    try:
        yield
    except (redis.RedisError, OSError) as error:
        said = " ".join(str(error).split())[:200] or type(error).__name__
        raise BrokerDown(f"the broker at {where}: {said}") from None


def _read_url(url: str) -> tuple[str, dict[str, Any]]:
    try:
        parts = urlsplit(url)
    except ValueError:
        raise ConfigError(_wrong(url, "it cannot be read")) from None
    if parts.scheme not in _SCHEMES:
        raise ConfigError(_wrong(url, "expected redis://HOST:PORT, rediss://HOST:PORT or unix:///PATH"))
    options: dict[str, Any] = {}
    kept = []
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name in _TLS_FILES:
            if parts.scheme != "rediss":
                raise ConfigError(_wrong(url, "ca, cert and key go with rediss://"))
            options[_TLS_FILES[name]] = value
        elif name == "db":
            kept.append((name, value))
        else:
            raise ConfigError(_wrong(url, f"{name[:40]!r} is no option; expected some of db, ca, cert, key"))
    return url.partition("?")[0] + (f"?{urlencode(kept)}" if kept else ""), options


def _wrong(url: str, what: str) -> str:
    return f"broker {shown(url)[:200]}: {what}"
