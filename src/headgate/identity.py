"""How callers are known: tokens, API keys, and whose word about addresses is taken."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field

import headgate._core as _core
from headgate.errors import ConfigError
from headgate.model.api_keys import KeysSource, load_api_keys

API_KEY_HEADER = "X-API-Key"
TRUSTED_PROXIES = ("127.0.0.0/8", "::1/128")
UNVERIFIED = ("reject", "anonymous")
CACHE_TOKENS = 10_000
LEEWAY_S = 30.0
SECRET_BYTES_MAX = 64 * 1024


@dataclass(frozen=True, slots=True)
class IdentityOptions:
    """What `Limiter(identity=…)` takes. Secrets are never shown.

    jwt_secret           secret of HS256/384/512 tokens: at least 32, 48 or 64 bytes; or a `Path` of the file it is in
    jwt_public_keys      PEM texts: public keys or certificates
    jwt_jwks             text of a JSON Web Key Set, or an `https://` URL that `headgate.upkeep` fetches it from
    jwt_jwks_is_remote   it came over the network: symmetric keys in it are not taken
    jwt_algorithms       narrows what is accepted; a key never serves for more than its own kind
    jwt_issuers, jwt_audiences  any of these; empty: not looked at
    jwt_leeway_s         how far clocks may be apart
    jwt_required_claims  claims a token must have
    jwt_user_claim, jwt_tier_claim, jwt_org_claim  a claim's name, or a JSON pointer from `/`; empty: not taken
    jwt_cache            tokens remembered, so that a signature is checked once
    api_keys             path of a keys file (YAML, JSON, JSON Lines), or a list of entries
    api_key_secret       what the hashes of keys are made with: at least 32 bytes; or a `Path` of the file it is in
    api_key_header       the header they come in
    trusted_proxies      addresses and ranges whose X-Forwarded-For is believed
    unverified           `reject` (401) or `anonymous`: what a server does about credentials that are not good
    """

    jwt_secret: bytes | str | os.PathLike[str] | None = field(default=None, repr=False)
    jwt_public_keys: Sequence[str] = field(default=(), repr=False)
    jwt_jwks: str | None = field(default=None, repr=False)
    jwt_jwks_is_remote: bool = False
    jwt_algorithms: Sequence[str] = ()
    jwt_issuers: Sequence[str] = ()
    jwt_audiences: Sequence[str] = ()
    jwt_leeway_s: float = LEEWAY_S
    jwt_required_claims: Sequence[str] = ("exp",)
    jwt_user_claim: str = "sub"
    jwt_tier_claim: str = "tier"
    jwt_org_claim: str = "org"
    jwt_cache: int = CACHE_TOKENS
    api_keys: KeysSource | None = field(default=None, repr=False)
    api_key_secret: bytes | str | os.PathLike[str] | None = field(default=None, repr=False)
    api_key_header: str = API_KEY_HEADER
    trusted_proxies: Sequence[str] = TRUSTED_PROXIES
    unverified: str = "reject"

    @property
    def jwks_url(self) -> str | None:
        """Where the key set is, if it is not here."""
        text = self.jwt_jwks or ""
        return text if text.lower().startswith(("http://", "https://")) else None

    @property
    def files(self) -> list[str]:
        """Files it is read from."""
        sources = (self.jwt_secret, self.api_key_secret, self.api_keys)
        paths = [os.fspath(source) for source in sources if isinstance(source, os.PathLike)]
        return [*paths, self.api_keys] if isinstance(self.api_keys, str) else paths

    @property
    def has_keys_for_tokens(self) -> bool:
        return bool(self.jwt_secret is not None or self.jwt_public_keys or self.jwt_jwks is not None)


def make_tokens(options: IdentityOptions) -> _core.Tokens:
    """Raises ConfigError naming what is wrong; never with any part of a secret."""
    try:
        return _core.Tokens(
            secret=None if options.jwt_secret is None else _bytes(options.jwt_secret),
            public_keys=_texts(options.jwt_public_keys),
            jwks=options.jwt_jwks,
            jwks_is_remote=options.jwt_jwks_is_remote,
            algorithms=_texts(options.jwt_algorithms),
            issuers=_texts(options.jwt_issuers),
            audiences=_texts(options.jwt_audiences),
            leeway=options.jwt_leeway_s,
            required_claims=_texts(options.jwt_required_claims),
            user_claim=options.jwt_user_claim,
            tier_claim=options.jwt_tier_claim,
            org_claim=options.jwt_org_claim,
            cache=options.jwt_cache,
        )
    except ValueError as error:
        raise ConfigError(str(error)) from None


def make_api_keys(options: IdentityOptions) -> _core.ApiKeys | None:
    if options.api_keys is None and options.api_key_secret is None:
        return None
    if options.api_keys is None or options.api_key_secret is None:
        raise ConfigError("api_keys and api_key_secret go together: give both or neither")
    try:
        return load_api_keys(options.api_keys, _bytes(options.api_key_secret))
    except ConfigError:
        raise
    except ValueError as error:
        raise ConfigError(str(error)) from None


def apply(
    engine: _core.Engine, options: IdentityOptions, tokens: _core.Tokens | None, api_keys: _core.ApiKeys | None
) -> None:
    """Swap how callers are known, whole. Raises ConfigError, and changes nothing, when anything is wrong."""
    if options.unverified not in UNVERIFIED:
        raise ConfigError(f"unverified: expected {' or '.join(UNVERIFIED)}, not {options.unverified!r}")
    try:
        engine._set_identity(
            tokens,
            api_keys,
            api_key_header=options.api_key_header,
            trusted_proxies=_texts(options.trusted_proxies),
            reject=options.unverified == "reject",
        )
    except ValueError as error:
        raise ConfigError(str(error)) from None


def _texts(one_or_more: Sequence[str]) -> list[str]:
    """A text alone is one text, not its letters."""
    return [one_or_more] if isinstance(one_or_more, str) else list(one_or_more)


def _bytes(secret: bytes | str | os.PathLike[str]) -> bytes:
    if isinstance(secret, os.PathLike):
        return read_secret(os.fspath(secret))
    return secret.encode() if isinstance(secret, str) else secret


def read_secret(path: str) -> bytes:
    """A file's contents without the line's end that editors and `echo` put there."""
    return read_key_file(path, SECRET_BYTES_MAX).removesuffix(b"\n").removesuffix(b"\r")


def read_key_file(path: str, bytes_max: int) -> bytes:
    try:
        with open(path, "rb") as file:
            raw = file.read(bytes_max + 1)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from None
    if len(raw) > bytes_max:
        raise ConfigError(f"{path}: larger than {bytes_max // 1024} KiB; this cannot be a key")
    return raw
