"""What an application's own functions are shown of requests and responses, the same under every server."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

# Headers that WSGI names without a prefix.
_BARE = ("CONTENT_TYPE", "CONTENT_LENGTH")


class Headers(Mapping[str, str]):
    """Headers by name, whatever its case. Of several with one name, the values joined with commas."""

    __slots__ = ("_raw",)

    def __init__(self, raw: Any) -> None:
        self._raw = raw

    def _pairs(self) -> Iterable[tuple[str, str]]:
        return cast("Iterable[tuple[str, str]]", self._raw)

    if not TYPE_CHECKING:  # `Mapping` has its types.

        def get(self, name: str, default: Any = None) -> Any:
            name = name.lower()
            values = [value for known, value in self._pairs() if known.lower() == name]
            return ", ".join(values) if values else default

    def __getitem__(self, name: str) -> str:
        value = self.get(name)
        if value is None:
            raise KeyError(name)
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(name.lower() for name, _ in self._pairs()))

    def __len__(self) -> int:
        return len({name.lower() for name, _ in self._pairs()})

    def __repr__(self) -> str:
        # Values may be credentials.
        return f"<Headers {', '.join(self)}>"


class ScopeHeaders(Headers):
    """Those of an ASGI scope, decoded only when asked for."""

    __slots__ = ()

    def _pairs(self) -> Iterable[tuple[str, str]]:
        return decoded(self._raw)

    if not TYPE_CHECKING:  # `Mapping` has its types.

        def get(self, name: str, default: Any = None) -> Any:
            wanted, found = name.lower().encode("latin-1", "replace"), None
            for known, value in self._raw:
                if known == wanted:
                    found = value if found is None else found + b", " + value
            return default if found is None else found.decode("latin-1")


class EnvironHeaders(Headers):
    """Those of a WSGI environ."""

    __slots__ = ()

    def _pairs(self) -> Iterable[tuple[str, str]]:
        for key, value in self._raw.items():
            if key.startswith("HTTP_"):
                yield key[5:].replace("_", "-"), value
            elif key in _BARE and value:
                yield key.replace("_", "-"), value

    if not TYPE_CHECKING:  # `Mapping` has its types.

        def get(self, name: str, default: Any = None) -> Any:
            key = name.upper().replace("-", "_")
            if key in _BARE:
                return self._raw.get(key) or default
            return self._raw.get(f"HTTP_{key}", default)


class Request(ABC):
    """A request, as `identify`, `cost` and `by` are shown it.

    method   `GET`, `POST`, …
    path     decoded, as the application sees it
    headers  by name, whatever its case
    client   the address the connection came from; None when the server does not say
    raw      what the server gave: the ASGI scope, the WSGI environ
    """

    __slots__ = ("headers", "raw")

    raw: Any
    headers: Headers

    @property
    @abstractmethod
    def method(self) -> str: ...

    @property
    @abstractmethod
    def path(self) -> str: ...

    @property
    @abstractmethod
    def client(self) -> str | None: ...

    def __repr__(self) -> str:
        return f"<Request {self.method} {self.path}>"


class ScopeRequest(Request):
    """Of an ASGI scope."""

    __slots__ = ()

    def __init__(self, scope: Mapping[str, Any]) -> None:
        self.raw = scope
        self.headers = ScopeHeaders(scope["headers"])

    @property
    def method(self) -> str:
        return str(self.raw.get("method", "GET"))

    @property
    def path(self) -> str:
        return str(self.raw["path"])

    @property
    def client(self) -> str | None:
        client = self.raw.get("client")
        return client[0] if client else None


class EnvironRequest(Request):
    """Of a WSGI environ."""

    __slots__ = ()

    def __init__(self, environ: Mapping[str, Any]) -> None:
        self.raw = environ
        self.headers = EnvironHeaders(environ)

    @property
    def method(self) -> str:
        return str(self.raw.get("REQUEST_METHOD", "GET"))

    @property
    def path(self) -> str:
        path = self.raw.get("SCRIPT_NAME", "") + self.raw.get("PATH_INFO", "")
        # WSGI hands text over as bytes in disguise.
        return path.encode("latin-1", "replace").decode("utf-8", "replace") or "/"

    @property
    def client(self) -> str | None:
        return self.raw.get("REMOTE_ADDR") or None


class Response:
    """A response, as `when` is shown it."""

    __slots__ = ("_pairs", "status")

    def __init__(self, status: int, pairs: Iterable[tuple[str, str]]) -> None:
        self.status = status
        self._pairs = pairs

    @property
    def headers(self) -> Headers:
        return Headers(self._pairs)

    def __repr__(self) -> str:
        return f"<Response {self.status}>"


def decoded(pairs: Iterable[Iterable[bytes]]) -> Iterator[tuple[str, str]]:
    """Headers as ASGI has them, as texts."""
    for name, value in pairs:
        yield name.decode("latin-1"), value.decode("latin-1")
