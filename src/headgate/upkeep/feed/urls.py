"""From the text of `--rules` to sources."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.errors import ConfigError
from headgate.feed.places import SCHEME, SNAPSHOT_SUFFIX
from headgate.setting_values import without_password
from headgate.upkeep.feed.file_source import FileSource
from headgate.upkeep.feed.http_source import HttpSource
from headgate.upkeep.feed.source import Source

SOURCES_MAX = 8
EXPECTED = (
    "redis://, rediss:// or unix:// (a broker), https:// or http:// (a control plane), postgresql:// (its database), "
    "postgresql+poll:// or sqlite:/// (its database, polled), or a file that ends in .hgs (a snapshot)"
)
_NEEDS_CONTROL = "needs what `pip install headgate[control]` brings"


def make_sources(text: str, *, key: bytes, poll_s: float, prefix: str | None = None) -> list[Source]:
    """A ladder, best first: sources by comma. Raises ConfigError."""
    urls = [part.strip() for part in text.split(",") if part.strip()]
    if not urls or len(urls) > SOURCES_MAX:
        raise ConfigError(f"expected 1 to {SOURCES_MAX} sources of rules, by comma; got {len(urls)}")
    shown = [str(without_password(url)) for url in urls]
    if len(set(urls)) != len(urls):
        raise ConfigError(f"a source of rules is given twice: {', '.join(shown)}")
    return [make_source(url, key=key, poll_s=poll_s, prefix=prefix) for url in urls]


def make_source(url: str, *, key: bytes, poll_s: float, prefix: str | None = None) -> Source:
    """Nothing is connected yet. Raises ConfigError."""
    found = SCHEME.match(url)
    scheme = found[1].lower() if found else ""
    if scheme in ("redis", "rediss", "unix"):
        return _redis(url, key, prefix)
    if scheme in ("http", "https"):
        return HttpSource(url, key=key)
    if scheme in ("postgresql", "postgres", "postgresql+poll", "sqlite"):
        return _database(url, scheme, key, poll_s)
    if scheme == "file" and url.endswith(SNAPSHOT_SUFFIX):
        return FileSource(url.partition("://")[2])
    if not scheme and url.endswith(SNAPSHOT_SUFFIX):
        return FileSource(url)
    raise ConfigError(f"{without_password(url)}: this is no source of rules; expected {EXPECTED}")


def _redis(url: str, key: bytes, prefix: str | None) -> Source:
    # Only here: a node that reads a rules file has no driver for it.
    try:
        from headgate.upkeep.feed.redis_source import RedisSource
    except ImportError as error:
        raise _missing(url, error) from None
    return RedisSource(url, key=key) if prefix is None else RedisSource(url, key=key, prefix=prefix)


def _database(url: str, scheme: str, key: bytes, poll_s: float) -> Source:
    try:
        from headgate.upkeep.feed.database_source import DatabaseSource
    except ImportError as error:
        raise _missing(url, error) from None
    is_listening = scheme in ("postgresql", "postgres")
    plain = url if scheme == "sqlite" else "postgresql" + url[len(scheme) :]
    return DatabaseSource(plain, key=key, poll_s=poll_s, is_listening=is_listening)


def _missing(url: str, error: ImportError) -> ConfigError:
    return ConfigError(f"{without_password(url)}: {_NEEDS_CONTROL} ({error.name} is not there)")


def shown_sources(sources: Sequence[Source]) -> str:
    return ", ".join(source.name for source in sources)
