"""Settings: read once, from flags, then `HEADGATE_*`, then `headgate.toml`, then the defaults here; then frozen.

One table, the fields of `Settings`, gives flags, variables, file keys, help and validation alike.
"""

from __future__ import annotations

import dataclasses
import difflib
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from headgate import setting_lists as lists
from headgate import setting_values as values
from headgate.errors import SettingsError
from headgate.feed.places import is_feed
from headgate.identity import API_KEY_HEADER, CACHE_TOKENS, LEEWAY_S, TRUSTED_PROXIES, UNVERIFIED

T = TypeVar("T")

PREFIX = "HEADGATE_"
CONFIG_VARIABLE = "HEADGATE_CONFIG"
CONFIG_FILE = "headgate.toml"
# Of those who ask a control plane; a node reads none of them, and its own settings know none of these names.
CONTROL_URL_VARIABLE = "HEADGATE_CONTROL_URL"
TOKEN_VARIABLE = "HEADGATE_TOKEN"
TOKEN_FILE_VARIABLE = "HEADGATE_TOKEN_FILE"
ASKING_VARIABLES = (CONTROL_URL_VARIABLE, TOKEN_VARIABLE, TOKEN_FILE_VARIABLE)
CONFIG_BYTES_MAX = 1024 * 1024
_DEFAULT_LISTEN: str | None = "127.0.0.1:8080"
# Kubernetes gives these to every pod beside a service called `headgate`; they are not typing mistakes.
_FOREIGN_VARIABLE = re.compile(r"HEADGATE_(SERVICE_.*|PORT|PORT_[0-9]+_.*)\Z")


def _setting(default: T, about: str, read: Callable[[object], T]) -> T:
    return field(default=default, metadata={"about": about, "read": read})


def _switchable(default: str, about: str, read: Callable[[object], str | None]) -> str | None:
    """A setting that has a default and that empty text switches off."""
    return _setting(default, about, read)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Settings:
    """How a node runs. `sources` says where each value came from."""

    listen: str | None = _setting(
        _DEFAULT_LISTEN,
        "HOST:PORT to answer HTTP (and gRPC) on; port 0 takes a free one, empty for none",
        values.address,
    )
    grpc: str | None = _setting(
        None,
        "HOST:PORT to answer gRPC (and HTTP) on, for Envoy; empty for none. Default of `headgate node`: 127.0.0.1:8081",
        values.address,
    )
    uds: str | None = _setting(None, "Path of a Unix socket to answer HTTP and gRPC on as well", values.optional_text)
    admin: str | None = _setting(
        None, "HOST:PORT for /healthz, /readyz and /metrics, which then answer nowhere else", values.address
    )
    tls_cert: str | None = _setting(
        None, "Certificate chain (PEM) for TLS on every TCP address; a changed file is taken over", values.optional_text
    )
    tls_key: str | None = _setting(None, "Private key (PEM) of that certificate", values.optional_text)
    tls_client_ca: str | None = _setting(
        None, "Authority (PEM) whose certificates clients must show; empty asks for none", values.optional_text
    )
    admin_tls: str = _setting(
        "on",
        "TLS at the admin address, where there is a certificate: off, on, or mutual (client certificates as elsewhere)",
        values.choice("off", "on", "mutual"),
    )
    rules: str | None = _setting(
        None,
        "Rules file: YAML, JSON, or JSON Lines in bulk. Of a node also a folder of envoyproxy/ratelimit's, or where a "
        "control plane's rules come from: "
        "redis://, https://, postgresql://, sqlite:///, FILE.hgs; several by comma, best first. "
        "Default: the starter rules",
        values.optional_text,
    )
    database: str | None = _setting(
        None,
        "The control plane's database: postgresql://… or sqlite:///FILE; empty for no control plane. "
        "Default of `headgate serve`: sqlite:///headgate.db",
        values.optional_text,
    )
    control: str = _setting("127.0.0.1:8090", "HOST:PORT that `headgate control` answers on", values.needed_address)
    regions: str | None = _setting(
        None,
        "Brokers that changes are published to, NAME=redis://HOST:PORT by comma, one a region",
        lists.regions,
    )
    feed_key_file: str | None = _setting(
        None,
        "File with the key that authenticates what a control plane sends: the same for all, at least 32 bytes",
        values.optional_text,
    )
    feed_poll_s: float = _setting(
        30.0, "Seconds between looks at the database, for a node that polls it", values.seconds(0.1, 3600)
    )
    feed_snapshot: str | None = _switchable(
        "headgate.hgs",
        "File that a node keeps a control plane's rules in, for a start with everything else away; empty for none",
        values.optional_text,
    )
    node_id: str | None = _setting(
        None, "What this node is called in the fleet. Default: the host's name and a random part", values.optional_text
    )
    store: str = _setting(
        "memory://",
        "Where counters live: memory://, redis://HOST:PORT, rediss://, unix://PATH, redis+sentinel://, "
        "redis+cluster://, redis+ring://",
        values.text,
    )
    store_deadline_ms: float = _setting(
        5.0,
        "Milliseconds a shared store is waited for; past them each rule's on_store_failure decides",
        values.milliseconds(0.1, 60_000),
    )
    on_store_failure: str = _setting(
        "open",
        "open, closed or local: what decides a limit given with the call when the store cannot",
        values.choice("open", "closed", "local"),
    )
    upstream: str | None = _setting(
        None,
        "Where requests go that pass: http://HOST:PORT, https://, h2c://, unix:/PATH, behind /PREFIX= for a part of "
        "the paths; several by comma. The listening address is then a gateway and answers nothing itself",
        lists.upstreams,
    )
    upstream_ca: str | None = _setting(
        None, "Authority (PEM) of https:// upstreams. Default: those of the system", values.optional_text
    )
    upstream_connect_timeout_s: float = _setting(
        5.0, "Seconds an upstream has to take a connection", values.seconds(0.001, 3600)
    )
    upstream_timeout_s: float = _setting(
        60.0, "Seconds without a byte from or to an upstream before it is given up", values.seconds(0.001, 86_400)
    )
    upstream_idle_s: float = _setting(
        4.0,
        "Seconds a connection to an upstream is kept for the next request: less than the upstream keeps it",
        values.seconds(0.001, 3600),
    )
    upstream_connections: int = _setting(4_096, "Connections open at once to each upstream", values.whole(1, 1_000_000))
    headers: tuple[str, ...] = _setting(
        ("x-ratelimit", "ietf"),
        "Rate headers that clients get: x-ratelimit, ietf, both by comma, or none",
        values.words("x-ratelimit", "ietf"),
    )
    refusal_body: str = _setting(
        "json", "Body of a refusal: json, or problem (RFC 9457)", values.choice("json", "problem")
    )
    retry_jitter: float = _setting(
        0.1,
        "Part of a wait by which Retry-After is lengthened at random, so that clients do not return together",
        values.fraction,
    )
    threads: int = _setting(0, "Threads answering requests; 0 is one per core", values.whole(0, 1024))
    max_keys: int = _setting(
        1_000_000, "Counters kept in memory; further keys share overflow cells", values.whole(1, 10**9)
    )
    region: str | None = _setting(None, "The region of requests that name none", values.optional_text)
    no_rule: str = _setting("allow", "allow or deny a request no rule applies to", values.choice("allow", "deny"))
    ipv6_prefix: int = _setting(64, "IPv6 clients are counted by this many leading bits", values.whole(1, 128))
    max_connections: int = _setting(10_000, "Connections open at once", values.whole(1, 1_000_000))
    max_in_flight: int = _setting(
        10_000,
        "Requests that may wait for a shared store at once; further ones are decided at once by on_store_failure",
        values.whole(1, 1_000_000),
    )
    max_body_bytes: int = _setting(65_536, "Largest request body", values.whole(1, 64 * 2**20))
    header_timeout_s: float = _setting(
        10.0, "Seconds a client has to send a request's head", values.seconds(0.001, 3600)
    )
    idle_timeout_s: float = _setting(75.0, "Seconds an idle connection is kept", values.seconds(0.001, 86_400))
    drain_timeout_s: float = _setting(
        10.0, "Seconds requests under way have to finish after SIGTERM", values.seconds(0, 3600)
    )
    log_level: str = _setting(
        "info", "Least level logged", values.choice("debug", "info", "warning", "error", "critical")
    )
    log_format: str = _setting("console", "console for people, json for machines", values.choice("console", "json"))
    rules_poll_s: float = _setting(
        1.0, "Seconds between looks at the rules file; 0 reloads on SIGHUP only", values.seconds(0, 3600)
    )
    jwt_secret_file: str | None = _setting(
        None, "File with the secret of HS256, HS384 or HS512 tokens, at least 32, 48 or 64 bytes", values.optional_text
    )
    jwt_public_key: str | None = _setting(
        None, "PEM files with public keys or certificates that tokens are signed for, by comma", lists.optional_texts
    )
    jwt_jwks: str | None = _setting(
        None, "JSON Web Key Set: a file, or an https:// URL that is fetched every 5 minutes", values.optional_text
    )
    jwt_algorithms: str | None = _setting(
        None, "Algorithms accepted, by comma; unless given, all that the keys allow", lists.optional_texts
    )
    jwt_issuer: str | None = _setting(None, "Issuers accepted (`iss`), by comma", lists.optional_texts)
    jwt_audience: str | None = _setting(
        None, "Audiences accepted (`aud`), by comma; any of a token's will do", lists.optional_texts
    )
    jwt_leeway_s: float = _setting(
        LEEWAY_S, "Seconds by which clocks may be apart, for exp, nbf and iat", values.seconds(0, 3600)
    )
    jwt_required_claims: str | None = _switchable("exp", "Claims a token must have, by comma", lists.optional_texts)
    jwt_user_claim: str | None = _switchable(
        "sub", "Claim that names the user: a name, or a JSON pointer from `/`; empty for none", values.optional_text
    )
    jwt_tier_claim: str | None = _switchable("tier", "Claim that names the tier, likewise", values.optional_text)
    jwt_org_claim: str | None = _switchable("org", "Claim that names the org, likewise", values.optional_text)
    jwt_cache: int = _setting(
        CACHE_TOKENS, "Verified tokens remembered, so that each is verified once; 0 for none", values.whole(0, 10**7)
    )
    api_keys: str | None = _setting(
        None, "API keys: the file `headgate keys` writes, or JSON Lines for millions", values.optional_text
    )
    api_key_secret_file: str | None = _setting(
        None, "File with the secret that the hashes of API keys are made with", values.optional_text
    )
    api_key_header: str = _setting(API_KEY_HEADER, "Header that API keys come in", lists.header_name)
    trusted_proxies: str | None = _switchable(
        ",".join(TRUSTED_PROXIES),
        "Addresses and ranges of proxies whose X-Forwarded-For is believed, by comma; empty for none",
        lists.ranges,
    )
    unverified: str = _setting(
        "reject",
        "reject (401) or anonymous: what becomes of a request whose credentials are not good",
        values.choice(*UNVERIFIED),
    )
    sources: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    warnings: tuple[str, ...] = field(default=(), compare=False, repr=False)

    def shown(self) -> list[ShownSetting]:
        """Every setting for people to see: no passwords."""
        return [
            ShownSetting(
                item.name,
                values.without_password(getattr(self, item.name)),
                self.sources.get(item.name, "default"),
                item.about,
            )
            for item in setting_items()
        ]


@dataclass(frozen=True, slots=True)
class ShownSetting:
    name: str
    value: object
    source: str
    about: str


@dataclass(frozen=True, slots=True)
class SettingItem:
    """One row of the table."""

    name: str
    default: object
    about: str
    read: Callable[[object], object]

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        return PREFIX + self.name.upper()


def setting_items() -> list[SettingItem]:
    return [
        SettingItem(item.name, item.default, item.metadata["about"], item.metadata["read"])
        for item in dataclasses.fields(Settings)
        if "read" in item.metadata
    ]


def read_settings(
    flags: Mapping[str, object | None] | None = None,
    *,
    config: str | None = None,
    environ: Mapping[str, str] | None = None,
    folder: str | os.PathLike[str] = ".",
    defaults: Mapping[str, object] | None = None,
) -> Settings:
    """Settings from everywhere. `flags` holds those given on the command line, by setting name; None is not given.
    `defaults` are a verb's own. Raises SettingsError naming every problem."""
    environ = os.environ if environ is None else environ
    given = {name: value for name, value in (flags or {}).items() if value is not None}
    problems: list[str] = []
    file, table = _read_config(config or environ.get(CONFIG_VARIABLE), folder, problems)
    items = {item.name: item for item in setting_items()}
    problems += [f"{file}: unknown setting {key!r}{_did_you_mean(key, items)}" for key in table if key not in items]
    chosen: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for name, item in items.items():
        if name in given:
            source, raw = f"flag {item.flag}", given[name]
        elif item.variable in environ:
            source, raw = f"environment {item.variable}", environ[item.variable]
        elif name in table:
            source, raw = f"file {file}", table[name]
        else:
            sources[name] = "default"
            if defaults and name in defaults:
                chosen[name] = defaults[name]
            continue
        sources[name] = source
        try:
            chosen[name] = item.read(raw)
        except ValueError as error:
            where = f"{file}: {name}" if source.startswith("file ") else source.split(" ", 1)[1]
            problems.append(f"{where}: {error}, not {values.without_password(raw)!r}")
    problems += _contradictions(chosen)
    if problems:
        raise SettingsError(problems)
    return Settings(**chosen, sources=MappingProxyType(sources), warnings=tuple(_strangers(environ, items)))


def _contradictions(chosen: Mapping[str, Any]) -> Iterable[str]:
    """Values that are well on their own and not together."""
    if "listen" in chosen and chosen["listen"] is None and not chosen.get("uds") and not chosen.get("grpc"):
        yield "listen is empty and neither uds nor grpc is set: there is nowhere to answer; give one of them"
    if chosen.get("upstream") and chosen.get("listen", _DEFAULT_LISTEN) is None:
        yield "upstream needs listen: the address that requests for it come in at"
    has_cert, has_key = bool(chosen.get("tls_cert")), bool(chosen.get("tls_key"))
    if has_cert != has_key:
        yield "tls_cert and tls_key go together: give both or neither"
    if chosen.get("tls_client_ca") and not has_cert:
        yield "tls_client_ca asks clients for certificates over TLS, which needs tls_cert and tls_key"
    has_keys, has_secret = bool(chosen.get("api_keys")), bool(chosen.get("api_key_secret_file"))
    # A control plane sends the keys themselves.
    is_sent = bool(chosen.get("database")) or is_feed(chosen.get("rules") or "")
    if has_keys != has_secret and not (has_secret and is_sent):
        yield "api_keys and api_key_secret_file go together: give both or neither"


def _read_config(config: str | None, folder: str | os.PathLike[str], problems: list[str]) -> tuple[str, dict[str, Any]]:
    """The file's name as shown and its table. A file that was asked for must exist; the one in the folder may not."""
    path = Path(folder, config or CONFIG_FILE)
    name = config or CONFIG_FILE
    try:
        with path.open("rb") as stream:
            raw = stream.read(CONFIG_BYTES_MAX + 1)
    except FileNotFoundError:
        if config:
            problems.append(f"{name}: there is no such file")
        return name, {}
    except OSError as error:
        problems.append(f"{name}: cannot be read: {error.strerror or error}")
        return name, {}
    if len(raw) > CONFIG_BYTES_MAX:
        problems.append(f"{name}: larger than {CONFIG_BYTES_MAX // 1024} KiB; this cannot be a settings file")
        return name, {}
    try:
        return name, tomllib.loads(raw.decode("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        problems.append(f"{name}: not TOML: {error}")
        return name, {}


def _strangers(environ: Mapping[str, str], items: Mapping[str, SettingItem]) -> Iterable[str]:
    known = {item.variable for item in items.values()}
    known |= {CONFIG_VARIABLE, *ASKING_VARIABLES}
    for variable in sorted(environ):
        if variable.startswith(PREFIX) and variable not in known and not _FOREIGN_VARIABLE.match(variable):
            yield f"environment {variable}: no such setting{_did_you_mean(variable, known)}"


def _did_you_mean(word: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"; did you mean {close[0]}?" if close else ""
