"""How a running node knows its callers: reads secrets, keys and key sets, notices changes, and keeps what it has when
the new is broken."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from typing import Any

import headgate._core as _core
from headgate import setting_lists as lists
from headgate.errors import ConfigError
from headgate.identity import IdentityOptions, apply, make_api_keys, make_tokens, read_key_file, read_secret
from headgate.limiter import Limiter
from headgate.settings import Settings
from headgate.upkeep.jwks import JwksUrl
from headgate.upkeep.watched_files import WatchedFiles

KEYS_BYTES_MAX = 1024 * 1024
_URL_SCHEMES = ("http://", "https://")


class IdentityFiles:
    """`load` once, `look` now and then, `stop` at the end. A key set's thread and the main thread both change things
    here, one at a time."""

    def __init__(self, limiter: Limiter, settings: Settings, log: Any) -> None:
        self._limiter = limiter
        self._settings = settings
        self._log = log
        self._lock = threading.RLock()
        self._tokens: _core.Tokens | None = None
        self._api_keys: _core.ApiKeys | None = None
        self._fetched: str | None = None
        self._errors: dict[str, str] = {}
        jwks = settings.jwt_jwks or ""
        is_url = jwks.lower().startswith(_URL_SCHEMES)
        self.jwks_url = JwksUrl(jwks, self._use_jwks, self._wants_keys, log) if is_url else None
        self._jwks_file = settings.jwt_jwks if self.jwks_url is None else None
        token_files = [settings.jwt_secret_file, *lists.split(settings.jwt_public_key), self._jwks_file]
        self._token_files = WatchedFiles(*filter(None, token_files))
        self._key_files = WatchedFiles(*filter(None, [settings.api_keys, settings.api_key_secret_file]))

    @property
    def is_changing(self) -> bool:
        """Whether there is anything to look at."""
        return bool(self._token_files.paths or self._key_files.paths)

    def load(self) -> None:
        """The first time: raises ConfigError for what cannot be used. A key set that cannot be fetched is no reason not
        to start: its tokens are refused until it is there."""
        self._token_files.remember()
        self._key_files.remember()
        tokens, api_keys = self._make_tokens(), self._make_api_keys()
        self._swap(tokens, api_keys)
        if self.jwks_url is not None:
            self.jwks_url.start()
        if self._tokens is not None or self._api_keys is not None:
            token_keys = self._tokens.key_count if self._tokens else None
            api_key_count = None if self._api_keys is None else len(self._api_keys)
            self._log.info("callers are known by their credentials", token_keys=token_keys, api_keys=api_key_count)

    def look(self, asked: bool = False) -> None:
        """Take over what changed; `asked` takes it for changed."""
        if self._token_files.changed() or (asked and self._token_files.paths):
            self._reload("tokens", lambda: self._swap(self._make_tokens(), self._api_keys))
        if self._key_files.changed() or (asked and self._key_files.paths):
            self._reload("api_keys", lambda: self._swap(self._tokens, self._make_api_keys()))

    def stop(self) -> None:
        if self.jwks_url is not None:
            self.jwks_url.stop()

    def _reload(self, part: str, change: Callable[[], None]) -> None:
        with self._lock:
            try:
                change()
            except ConfigError as error:
                self._tell(part, str(error))
            # Whatever a file does to us, the node goes on with what it has.
            except Exception as error:
                self._tell(part, f"{type(error).__name__}: {error}")
            else:
                self._tell(part, None)

    def _swap(self, tokens: _core.Tokens | None, api_keys: _core.ApiKeys | None) -> None:
        apply(self._limiter, self._options(), tokens, api_keys)
        self._tokens, self._api_keys = tokens, api_keys

    def _tell(self, part: str, error: str | None) -> None:
        """In the log and in /readyz."""
        if error is None:
            self._errors.pop(part, None)
            self._log.info("identity: a change was taken over", part=part)
        else:
            self._errors[part] = error
            self._log.error("identity: a change was refused; what was there goes on", part=part, error=error)
        self._limiter._set_identity_error("\n".join(self._errors.values()) or None)

    def _use_jwks(self, text: str | None, error: str | None) -> None:
        """From the fetching thread: a key set, or why there is none. Raises ConfigError for one that is of no use."""
        with self._lock:
            if text is not None and text != self._fetched:
                before, self._fetched = self._fetched, text
                try:
                    self._swap(self._make_tokens(), self._api_keys)
                except ConfigError:
                    self._fetched = before
                    raise
            if error is not None or "jwks" in self._errors:
                self._tell("jwks", error)

    def _wants_keys(self) -> bool:
        tokens = self._tokens
        return tokens is not None and tokens.take_keys_wanted()

    def _options(self) -> IdentityOptions:
        settings = self._settings
        return IdentityOptions(
            jwt_algorithms=lists.split(settings.jwt_algorithms),
            jwt_issuers=lists.split(settings.jwt_issuer),
            jwt_audiences=lists.split(settings.jwt_audience),
            jwt_leeway_s=settings.jwt_leeway_s,
            jwt_required_claims=lists.split(settings.jwt_required_claims),
            jwt_user_claim=settings.jwt_user_claim or "",
            jwt_tier_claim=settings.jwt_tier_claim or "",
            jwt_org_claim=settings.jwt_org_claim or "",
            jwt_cache=settings.jwt_cache,
            api_key_header=settings.api_key_header,
            trusted_proxies=lists.split(settings.trusted_proxies),
            unverified=settings.unverified,
        )

    def _make_tokens(self) -> _core.Tokens | None:
        settings = self._settings
        if not self._token_files.paths and self.jwks_url is None:
            return None
        secret, jwks = settings.jwt_secret_file, self._jwks_file
        options = dataclasses.replace(
            self._options(),
            jwt_secret=read_secret(secret) if secret else None,
            jwt_public_keys=[_read_text(path) for path in lists.split(settings.jwt_public_key)],
            jwt_jwks=_read_text(jwks) if jwks else self._fetched,
            jwt_jwks_is_remote=self.jwks_url is not None,
        )
        return make_tokens(options)

    def _make_api_keys(self) -> _core.ApiKeys | None:
        settings = self._settings
        if not settings.api_keys or not settings.api_key_secret_file:
            return None
        secret = read_secret(settings.api_key_secret_file)
        return make_api_keys(dataclasses.replace(self._options(), api_keys=settings.api_keys, api_key_secret=secret))


def _read_text(path: str) -> str:
    try:
        return read_key_file(path, KEYS_BYTES_MAX).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not UTF-8 text") from None
