"""The engine's contract: everything Python may ask of the native engine.

All times in arguments and results are seconds as floats, exact to the microsecond, unless a name ends in `_us`.
Rules, overrides and rule documents cross the border as JSON text; the rule model lives in the engine, so that a
rule means the same through every door.
"""

from asyncio import AbstractEventLoop, Future
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping, Sequence
from typing import Any, Self, TypeAlias, TypedDict, final, type_check_only

from typing_extensions import disjoint_base

__all__ = [
    "Answers",
    "ApiKeys",
    "Applied",
    "AsgiSender",
    "Decision",
    "Engine",
    "FakeClock",
    "Identity",
    "LimitResult",
    "Mailbox",
    "RulesError",
    "Server",
    "Tokens",
    "__version__",
    "ask_asgi",
    "ask_asgi_for",
    "binding_position",
    "check_entry",
    "check_identified",
    "check_limit_arguments",
    "check_upstreams",
    "counted_ip",
    "identify_asgi",
    "identify_wsgi",
    "normalise_path",
    "parse_limit",
    "validate_rules",
]

__version__: str

@final
class FakeClock:
    """A clock that moves only when told to: for tests."""

    def __new__(cls, start: float = ...) -> FakeClock: ...
    def advance(self, seconds: float) -> None:
        """Move forward. Negative amounts raise ValueError."""
    def now(self) -> float:
        """Seconds since the epoch, on this clock."""
    def now_us(self) -> int: ...

@final
class LimitResult:
    """What one limit said. Frozen."""

    @property
    def allowed(self) -> bool: ...
    @property
    def shadow(self) -> bool:
        """Counted and reported, never enforced."""
    @property
    def rule(self) -> str | None:
        """The rule's name; None for `check_limit`."""
    @property
    def label(self) -> str:
        """The limit's label within its rule; its position by default."""
    @property
    def by(self) -> tuple[str, ...]: ...
    @property
    def algorithm(self) -> str: ...
    @property
    def limit(self) -> int:
        """The most that fits at once: the count, or the burst of a bucket."""
    @property
    def window(self) -> float:
        """Seconds over which `limit` comes back."""
    @property
    def remaining(self) -> int: ...
    @property
    def retry_after(self) -> float | None:
        """0.0 when allowed; None when the cost can never fit."""
    @property
    def reset_after(self) -> float: ...

@final
class Decision:
    """The answer to one check. Frozen; true when allowed."""

    def __bool__(self) -> bool: ...
    @property
    def allowed(self) -> bool: ...
    @property
    def limit(self) -> int | None:
        """Of the binding limit; None when no limit applied (`limit`, `remaining`, `reset_after` alike)."""
    @property
    def remaining(self) -> int | None: ...
    @property
    def retry_after(self) -> float | None:
        """Seconds to wait: exactly enough when nobody else spends. 0.0 when allowed; None when waiting never
        helps (the cost exceeds the limit, or the request is blocked without an end)."""
    @property
    def reset_after(self) -> float | None: ...
    @property
    def rule(self) -> str | None:
        """The rule that decided: the binding limit's, or the `block`/`allow` rule."""
    @property
    def path(self) -> str:
        """Which step decided: exempt, blocked, refused_memory, lease, store, fallback_open, fallback_closed,
        fallback_local, no_rule."""
    @property
    def degraded(self) -> bool: ...
    @property
    def status(self) -> int:
        """200 when allowed, else the HTTP status the rule asks for (429 by default, 403 for a block)."""
    @property
    def results(self) -> list[LimitResult]:
        """Every limit that was looked at, shadow limits included."""
    @property
    def skipped(self) -> list[tuple[str, str]]:
        """Rules that matched but could not apply: (rule, the missing fact)."""
    def headers(
        self,
        *,
        families: Sequence[str] | None = None,
        draft: int = 11,
        jitter: float = 0.1,
    ) -> dict[str, str]:
        """Response headers. `families` is any of x-ratelimit, ietf (both unless said); Retry-After always accompanies a refusal that
        names a time. The jitter of one decision is fixed: asking twice gives the same number."""
    def body(self, *, problem: bool = False, jitter: float = 0.1) -> dict[str, Any]:
        """The refusal's JSON body, or RFC 9457 problem details. `retry_after` is the number in Retry-After."""
    def to_json(self) -> str:
        """As `/v1/check` answers."""

@disjoint_base
class Engine:
    """Rules, counters and a clock. `headgate.Limiter` is this with a friendlier constructor."""

    def __new__(
        cls,
        *args: Any,
        max_keys: int = 1_000_000,
        clock: FakeClock | None = None,
        region: str | None = None,
        no_rule: str = "allow",
        ipv6_prefix: int = 64,
        refused_memory: bool | None = None,
        store: str = "memory://",
        store_deadline: float = 0.005,
        on_store_failure: str = "open",
        max_in_flight: int = 10_000,
        **kwargs: Any,
    ) -> Self:
        """`store` is a URL; one whose server is away is no error, one whose server refuses us raises StoreError.
        `refused_memory` answers repeated refusals for a second without asking the store; None: only where the
        store is remote. Other arguments are ignored here, so that a subclass may take them."""

    # --- checking
    def check(
        self,
        *,
        user: str | int | None = None,
        tier: str | None = None,
        path: str | None = None,
        method: str | None = None,
        ip: str | None = None,
        org: str | int | None = None,
        api_key: str | int | None = None,
        region: str | None = None,
        descriptors: Mapping[str, str] | None = None,
        cost: int = ...,
    ) -> Decision:
        """Decide by the rules. Raises ValueError for facts that cannot be (a bad ip, a negative cost)."""
    def peek(
        self,
        *,
        user: str | int | None = None,
        tier: str | None = None,
        path: str | None = None,
        method: str | None = None,
        ip: str | None = None,
        org: str | int | None = None,
        api_key: str | int | None = None,
        region: str | None = None,
        descriptors: Mapping[str, str] | None = None,
        cost: int = ...,
    ) -> Decision:
        """As `check` would answer, writing nothing."""
    def reset(
        self,
        *,
        user: str | int | None = None,
        tier: str | None = None,
        path: str | None = None,
        method: str | None = None,
        ip: str | None = None,
        org: str | int | None = None,
        api_key: str | int | None = None,
        region: str | None = None,
        descriptors: Mapping[str, str] | None = None,
    ) -> int:
        """Forget the usage behind every limit these facts meet; returns how many counters were cleared."""
    def check_limit(
        self,
        key: str,
        limit: int | str,
        window: float | str | None = None,
        cost: int = ...,
        algorithm: str | None = None,
        burst: int | None = None,
    ) -> Decision:
        """The plain call without rules: `check_limit("user_123:login", 5, 60)` or `("…", "5/minute burst 2")`.
        A counter is (key, algorithm, window): another `limit` keeps what was used."""
    def peek_limit(
        self,
        key: str,
        limit: int | str,
        window: float | str | None = None,
        cost: int = ...,
        algorithm: str | None = None,
        burst: int | None = None,
    ) -> Decision: ...
    def reset_limit(
        self,
        key: str,
        limit: int | str,
        window: float | str | None = None,
        algorithm: str | None = None,
        burst: int | None = None,
    ) -> int: ...
    def refund(self, decision: Decision, amount: int | None = None, *, wait: bool = True) -> int:
        """Return what a decision spent (all of it, or `amount` of each of its charges). Each charge is returned at
        most once. Gives the largest amount returned to any one limit. Without `wait` a shared store is told and not
        waited for, and the answer is 0."""
    def commit(self, decision: Decision, actual: int, *, wait: bool = True) -> int:
        """Settle a decision at its real cost: the rest is returned; what exceeds it is spent unconditionally."""
    def explain(
        self,
        *,
        user: str | int | None = None,
        tier: str | None = None,
        path: str | None = None,
        method: str | None = None,
        ip: str | None = None,
        org: str | int | None = None,
        api_key: str | int | None = None,
        region: str | None = None,
        descriptors: Mapping[str, str] | None = None,
        cost: int = ...,
    ) -> str:
        """A peek with its reasons, as JSON: {"decision": {…}, "facts": {…}, "tier_from": …, "candidates":
        [{"rule", "outcome": "wins"|"loses"|"skipped", "to": rule|null, "why": text, "by": […], "priority": n}]}."""

    # --- rules
    def load_rules(self, document: str) -> None:
        """Replace all rules by a JSON document {"rules": […], "tiers": […], "overrides": […]}. Raises RulesError
        (and changes nothing) when anything in it is wrong."""
    def load_rules_file(self, path: str) -> int:
        """Replace all rules from a bulk file: JSON Lines, one rule a line. Returns how many. Raises OSError when it
        cannot be read, and RulesError at the first mistake, whose path begins with the line's number less one."""
    def put_rule(self, rule: str) -> None:
        """Add or replace one rule (JSON), by name."""
    def remove_rule(self, name: str) -> bool: ...
    def put_override(self, override: str) -> None: ...
    def remove_override(self, kind: str, value: str) -> bool:
        """`kind` is user, org or api_key."""
    def rule_count(self) -> int: ...
    def rules_version(self) -> int:
        """Grows by one with every change that took effect."""

    # --- shared stores
    @property
    def is_shared(self) -> bool:
        """Whether counters live in a store that others share."""
    def store_status(self) -> str:
        """How the shared store is, as JSON: {"nodes", "bytes_per_subject", "debts", "debts_forgotten", "shards": [{"name", "breaker",
        "connected", "calls", "requests", "errors", "timeouts", "round_trip_us"}], "events": [{"number", "at_ms", "kind", "shard", "detail"}]}; `null` for counters
        in memory."""
    def _untold_events(self) -> str:
        """Events nobody has logged yet, as a JSON list; each is given out once."""
    def _ask(
        self,
        loop: AbstractEventLoop,
        mailbox: Mailbox,
        *,
        user: str | int | None = None,
        tier: str | None = None,
        path: str | None = None,
        method: str | None = None,
        ip: str | None = None,
        org: str | int | None = None,
        api_key: str | int | None = None,
        region: str | None = None,
        descriptors: Mapping[str, str] | None = None,
        cost: int = ...,
    ) -> Decision | Future[Decision]:
        """`check` without waiting: a decision that needs no store, or a future of `loop` that the mailbox resolves."""
    def _ask_limit(
        self,
        loop: AbstractEventLoop,
        mailbox: Mailbox,
        key: str,
        limit: int | str,
        window: float | str | None = None,
        cost: int = ...,
        algorithm: str | None = None,
        burst: int | None = None,
    ) -> Decision | Future[Decision]: ...

    # --- who is asking
    def identify(
        self,
        *,
        authorization: str | None = None,
        api_key: str | None = None,
        peer: str | None = None,
        forwarded_for: str | None = None,
    ) -> Identity:
        """Who a request is from, by what it carries: the value of `Authorization`, an API key, the address it came from
        (`unix` for a Unix socket), the value of `X-Forwarded-For`. Credentials that are not good are told in `error`
        and never give a user or a tier; an address that is none raises ValueError."""
    def _set_identity(
        self,
        tokens: Tokens | None,
        api_keys: ApiKeys | None,
        *,
        api_key_header: str,
        trusted_proxies: Sequence[str],
        reject: bool,
    ) -> None:
        """Swap how callers are known, whole. Raises ValueError naming what is wrong."""
    def _set_identity_error(self, error: str | None) -> None:
        """Shown in /readyz: the last change of how callers are known was refused, and why."""

    # --- what a control plane sends
    def apply_delta(self, raw: bytes, key: bytes) -> Applied:
        """Take a delta over as one change, while checks go on. One that is known already changes nothing. Raises FeedError
        (`corrupt`, `forged`, or `gap` when it does not follow what is here), and nothing changes. Releases the GIL."""
    def apply_snapshot(self, path: str, key: bytes) -> Applied:
        """Replace everything that came by the feed by a snapshot's contents, at whatever position. It is verified first.
        Raises FeedError, or OSError for a file that cannot be read, and nothing changes. Releases the GIL."""
    def feed_position(self) -> tuple[int, int]:
        """(epoch, version); zeros before the first snapshot."""
    def set_feed_status(self, *, contact_us: int, source: str, error: str | None) -> None:
        """For /metrics and /readyz: when the rules were last known to be the newest, where they come from, what is wrong."""
    def take_keys_from_feed(self, secret: bytes) -> None:
        """API keys come by the feed from now on, hashed under this secret. Raises ValueError when it is too weak."""
    def take_used_keys(self, limit: int) -> list[str]:
        """Ids of API keys used since the last call; those beyond `limit` the next time."""

    # --- insight
    def stats(self) -> dict[str, int]:
        """Counters: keys, cells, rules, and decisions by path (`path_store`, …), `allowed`, `refused`."""

@final
class Applied:
    """What became of a delta or a snapshot."""

    @property
    def epoch(self) -> int: ...
    @property
    def version(self) -> int: ...
    @property
    def entries(self) -> int:
        """How many entries it had; 0 for what was known already."""
    @property
    def refused(self) -> list[tuple[str, str, str]]:
        """(kind, id, why) of entries that could not be taken, the first hundred; what they were before stays."""
    @property
    def is_full(self) -> bool:
        """Whether some were refused for want of room. Rules that are gone may take some still; a snapshot makes room."""

@final
class Mailbox:
    """Where the answers of shared stores arrive for one event loop: watch `fileno` and call `drain` when it can be read."""

    def __new__(cls) -> Mailbox: ...
    def fileno(self) -> int: ...
    def flush(self) -> None:
        """Hand over what was asked since the loop last went round. The first to ask has the loop call it soon."""
    def drain(self) -> None:
        """Resolve the futures of all answers that are there."""
    @property
    def wakeups(self) -> int:
        """How often `drain` was called."""

@type_check_only
class _KnownFacts(TypedDict, total=False):
    user: str
    tier: str
    org: str
    api_key: str
    ip: str

@final
class Identity:
    """Who is asking, as far as it was verified. Frozen."""

    def __eq__(self, value: object, /) -> bool: ...
    @property
    def user(self) -> str | None: ...
    @property
    def tier(self) -> str | None: ...
    @property
    def org(self) -> str | None: ...
    @property
    def api_key(self) -> str | None:
        """The key's id, never its value."""
    @property
    def ip(self) -> str | None: ...
    @property
    def error(self) -> str | None:
        """What was wrong with the credentials; None when they are good or there are none."""
    @property
    def is_rejected(self) -> bool:
        """Whether such a request is to be answered with 401: credentials that are not good, and `unverified` says so."""
    def facts(self) -> _KnownFacts:
        """What is known, as `check` takes it: `limiter.check(**identity.facts(), path="/")`."""

@final
class Tokens:
    """Verifies tokens: the keys, and what is asked of a token beside its signature."""

    def __new__(
        cls,
        *,
        secret: bytes | None = None,
        public_keys: Sequence[str] = ...,
        jwks: str | None = None,
        jwks_is_remote: bool = False,
        algorithms: Sequence[str] = ...,
        issuers: Sequence[str] = ...,
        audiences: Sequence[str] = ...,
        leeway: float = 30.0,
        required_claims: Sequence[str] | None = None,
        user_claim: str = "sub",
        tier_claim: str = "tier",
        org_claim: str = "org",
        cache: int = 10_000,
    ) -> Tokens:
        """Keys are given as their contents: PEM texts, the text of a key set. Raises ValueError beginning with the name
        of what is wrong. Without any key every token is refused."""
    @property
    def key_count(self) -> int: ...
    def take_keys_wanted(self) -> bool:
        """Whether a token named a key that is not known, since this was last asked."""

@final
class ApiKeys:
    """API keys, by the keyed hash of their value. The value is nowhere."""

    @staticmethod
    def from_document(secret: bytes, document: str) -> ApiKeys:
        """From JSON text, {"keys": [{"id", "hash", "user", "tier", "org", "name", "created", "expires", "revoked",
        "revoked_by"}]}. Raises RulesError with every mistake."""
    @staticmethod
    def from_file(secret: bytes, path: str) -> ApiKeys:
        """From JSON Lines, one key a line. Raises OSError, or RulesError at the first mistake, whose path is the line's
        number less one."""
    def __len__(self) -> int: ...
    @property
    def memory_bytes(self) -> int:
        """What the table takes in memory."""

class RulesError(ValueError):
    """A rule document was wrong. `errors` lists every mistake: (path, message), a path being keys and positions
    from the document's root, e.g. ("rules", 0, "limit")."""

    errors: list[tuple[tuple[str | int, ...], str]]

def validate_rules(document: str) -> list[tuple[tuple[str | int, ...], str]]:
    """Every mistake in a JSON rule document, without loading it."""

def parse_limit(text: str, algorithm: str | None = None) -> list[tuple[str, int, float, int]]:
    """Reads `5/minute;100/hour burst 20`: (algorithm, count, window in seconds, capacity) each. Raises ValueError."""

def check_entry(kind: str, body: str) -> None:
    """Raises RulesError for what is wrong with an entry of the feed on its own, whatever else there is."""

def check_limit_arguments(
    limit: int | str,
    window: float | str | None = None,
    cost: int = ...,
    algorithm: str | None = None,
    burst: int | None = None,
) -> None:
    """Raises what `check_limit` would of these arguments."""

def check_upstreams(upstreams: list[str]) -> None:
    """Raises ValueError for upstreams that `Server` would not take; looks at no certificate."""

def normalise_path(path: str) -> str: ...

# --- what middleware asks

# What one step of a request's decision said, and what the policy of a limit without a rule is named.
_Step: TypeAlias = tuple[Decision, str | None]

@final
class Answers:
    """What clients of a web application see of decisions. A request may be decided in several steps, of which at most the
    last refuses: the rules, then limits of its route. Headers speak of the step that binds and name the policies of all."""

    def __new__(
        cls, *, families: Sequence[str] | None = None, draft: int = 11, jitter: float = 0.1, problem: bool = False
    ) -> Answers: ...
    def asgi(self, given: Iterable[Iterable[bytes]], steps: list[_Step]) -> list[tuple[bytes, bytes]]:
        """The headers given, then ours that are not among them."""
    def wsgi(self, given: Iterable[tuple[str, str]], steps: list[_Step]) -> list[tuple[str, str]]: ...
    def headers(self, steps: list[_Step]) -> dict[str, str]: ...
    def body(self, steps: list[_Step]) -> bytes:
        """The body of a refusal."""
    @property
    def content_type(self) -> str: ...

def binding_position(steps: list[_Step]) -> int:
    """Which of the steps the answer speaks of."""

@final
class AsgiSender:
    """An ASGI application's `send`: puts rate headers on the response, and has `passage` settle what depends on it."""

    def __new__(
        cls, answers: Answers, passage: object, steps: list[_Step], send: Callable[[Any], Awaitable[None]]
    ) -> AsgiSender: ...
    def __call__(self, message: MutableMapping[str, Any]) -> Awaitable[None]: ...
    @property
    def is_started(self) -> bool:
        """Whether the response has begun."""

def identify_asgi(engine: Engine, scope: dict[str, Any]) -> Identity:
    """`Engine.identify` by an ASGI scope."""

def ask_asgi(
    engine: Engine, scope: dict[str, Any], cost: int, here: tuple[AbstractEventLoop, Mailbox] | None
) -> tuple[Identity, Decision | Future[Decision] | None]:
    """Who an ASGI request is from, and what is decided about it: nothing where the identity is rejected, a future where
    a shared store is asked; then `here` is the running loop and its mailbox. The path is taken as it came."""

def ask_asgi_for(
    engine: Engine,
    scope: dict[str, Any],
    who: str | int | Mapping[str, Any] | None,
    cost: int,
    here: tuple[AbstractEventLoop, Mailbox] | None,
) -> tuple[Identity, Decision | Future[Decision]]:
    """The same for who the application says is asking: a user's id, a dict of facts, or nobody. The identity is that of
    nobody, at the request's address."""

def identify_wsgi(engine: Engine, environ: dict[str, Any]) -> Identity:
    """The same by a WSGI environ."""

def check_identified(engine: Engine, identity: Identity, path: str | bytes, method: str, cost: int) -> Decision:
    """`Engine.check` for who was identified. The path is as it came: not decoded, without the query."""

def counted_ip(engine: Engine, ip: str) -> str:
    """The address a client is counted by: an IPv6 client by its prefix."""

@final
class Server:
    """The node's server: Rust threads answering HTTP and gRPC from an engine."""

    def __new__(
        cls,
        engine: Engine,
        *,
        listen: str | None = None,
        grpc: str | None = None,
        uds: str | None = None,
        admin: str | None = None,
        control: str | None = None,
        tls_cert: str | None = None,
        tls_key: str | None = None,
        tls_client_ca: str | None = None,
        admin_tls: str = "on",
        families: list[str] | None = None,
        jitter: float = 0.1,
        problem_body: bool = False,
        threads: int = 0,
        max_connections: int = 10_000,
        max_body_bytes: int = 65_536,
        header_timeout: float = 10.0,
        idle_timeout: float = 75.0,
        upstreams: list[str] = ...,
        upstream_ca: str | None = None,
        upstream_connect_timeout: float = 5.0,
        upstream_timeout: float = 60.0,
        upstream_idle: float = 4.0,
        upstream_connections: int = 4_096,
    ) -> Server:
        """Binds at once (an OSError names the address or the file); answers after `start`. Port 0 takes a free one.
        `listen`, `grpc` and `uds` all answer HTTP and gRPC; `admin` answers health and metrics, which are then told
        nowhere else. `control` is the Unix socket of a control plane: /api/ and /feed/ are handed to it, at `admin` where
        there is one. With `upstreams`, each `[/PREFIX=]URL`, `listen` is a gateway: what passes goes to them, and nothing else
        is answered there."""
    def start(self) -> None: ...
    def addresses(self) -> dict[str, str]:
        """What was bound, by its name: `{"http": "127.0.0.1:8080", "uds": "unix:/run/headgate.sock"}`."""
    def reload_tls(self) -> str | None:
        """Read the certificate, its key and the clients' authority again, for connections to come. What was wrong with
        them, if the old ones go on."""
    def set_rules_error(self, error: str | None) -> None:
        """Shown in /readyz and counted in metrics: the last reload failed, and why."""
    def drain(self, timeout: float) -> bool:
        """Stop accepting, let what is under way finish, close. False when `timeout` cut it short. Releases the GIL."""
