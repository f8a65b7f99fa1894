"""Where a gateway passes requests on to: `[PREFIX=]URL` by comma."""

from __future__ import annotations

import functools
import re
import ssl
from dataclasses import dataclass
from urllib.parse import urlsplit

from headgate.doctor.gather.bounded import together
from headgate.doctor.gather.listeners import CONNECT_S, connect
from headgate.doctor.gather.reasons import NOT_IN_TIME, reason
from headgate.doctor.gather.store_url import Place
from headgate.setting_lists import split

UPSTREAMS_MAX = 32
_PORTS = {"http": 80, "https": 443, "h2c": 80}
_PREFIXED = re.compile(r"(/[^=]*)=(.*)\Z")


@dataclass(frozen=True, slots=True)
class UpstreamFacts:
    prefix: str
    url: str
    place: Place
    error: str | None = None


def look_at_upstreams(text: str, ca: str | None) -> list[UpstreamFacts]:
    """`text` is what the engine took for upstreams."""
    parts = split(text)[:UPSTREAMS_MAX]
    found = together({part: functools.partial(_look, part, ca) for part in parts}, 2 * CONNECT_S)
    return [found.get(part) or UpstreamFacts(*_read(part), NOT_IN_TIME) for part in parts]


def _look(part: str, ca: str | None) -> UpstreamFacts:
    prefix, url, place = _read(part)
    try:
        tls = ssl.create_default_context(cafile=ca) if url.startswith("https://") else None
    except OSError as error:
        return UpstreamFacts(prefix, url, place, f"upstream_ca {ca}: {reason(error)}")
    return UpstreamFacts(prefix, url, place, connect(place, tls))


def _read(part: str) -> tuple[str, str, Place]:
    prefixed = _PREFIXED.match(part)
    prefix, url = (prefixed[1], prefixed[2]) if prefixed else ("/", part)
    if url.startswith("unix:"):
        return prefix, url, Place(path=url.removeprefix("unix:"))
    parts = urlsplit(url)
    return prefix, url, Place(parts.hostname or "", parts.port or _PORTS[parts.scheme])
