"""Where a node gets a control plane's rules: whether each source is there."""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass
from urllib.parse import urlsplit

from headgate.doctor.gather.bounded import together
from headgate.doctor.gather.listeners import CONNECT_S, connect
from headgate.doctor.gather.reasons import NOT_IN_TIME
from headgate.doctor.gather.store_url import Place
from headgate.feed.places import SCHEME
from headgate.setting_values import without_password

SOURCES_MAX = 8
_PORTS = {"redis": 6379, "rediss": 6379, "http": 80, "https": 443}
_POSTGRES = 5432


@dataclass(frozen=True, slots=True)
class SourceFacts:
    shown: str
    error: str | None


def look_at_sources(text: str) -> list[SourceFacts]:
    urls = [part.strip() for part in text.split(",") if part.strip()][:SOURCES_MAX]
    found = together({url: functools.partial(_look, url) for url in urls}, CONNECT_S + 0.5)
    return [SourceFacts(str(without_password(url)), found.get(url, NOT_IN_TIME)) for url in urls]


def _look(url: str) -> str | None:
    scheme = SCHEME.match(url)
    path = url.partition("://")[2] if scheme else url
    if scheme is None or scheme[1].lower() in ("file", "sqlite"):
        file = path.partition("?")[0]
        # `sqlite:///` and a path: the third slash only ends the place of a host.
        file = file[1:] if scheme is not None and scheme[1].lower() == "sqlite" else file
        return None if os.path.exists(file) else "there is no such file"
    try:
        parts = urlsplit(url)
        if parts.scheme == "unix":
            return connect(Place(path=parts.path))
        host, port = parts.hostname or "localhost", parts.port or _PORTS.get(parts.scheme, _POSTGRES)
    except ValueError:
        return "its address cannot be read"
    return connect(Place(host, port))
