"""`Limiter`: the engine with a friendly constructor, async doors, reservations and a decorator.

`check`, `peek`, `check_limit`, `reset` and the rest are the engine's own methods, inherited without a Python frame
around them: a frame would cost as much as the decision.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import os
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, ParamSpec, TypedDict, TypeVar, Unpack, cast

import headgate._core as _core
from headgate.errors import ConfigError, RateLimited
from headgate.identity import IdentityOptions, apply, make_api_keys, make_tokens
from headgate.model import RulesSource, load_into
from headgate.model.document import is_text
from headgate.reservation import Reservation

P = ParamSpec("P")
R = TypeVar("R")

MEMORY_STORE = "memory://"
STORE_DEADLINE_S = 0.005


class Facts(TypedDict, total=False):
    """What is known about a request."""

    user: str | int | None
    tier: str | None
    path: str | None
    method: str | None
    ip: str | None
    org: str | int | None
    api_key: str | int | None
    region: str | None
    descriptors: Mapping[str, str] | None
    cost: int


class Limiter(_core.Engine):
    """Decides whether a request may pass.

    rules           path of a YAML, JSON or JSON Lines file, YAML text, a dict, or a list of rules
    store           where counters live: `memory://` is this process; `redis://host:6379`, `rediss://…`,
                    `unix:///path.sock`, `redis+sentinel://…/name`, `redis+cluster://…`, `redis+ring://…` are shared
    store_deadline  seconds an answer of a shared store is waited for; past it `on_store_failure` decides
    on_store_failure  `open`, `closed` or `local`, for limits given with the call; rules have their own
    max_in_flight   checks of a node's doors that may wait for a shared store at once; past it the policy decides
    max_keys        how many counters are kept; past that, new keys share overflow cells that only over-count
    clock           a `headgate.testing.FakeClock`, to freeze time in tests
    region          the fact `region` of every check that names none
    no_rule         `allow` or `deny` a request that no rule applies to
    ipv6_prefix     IPv6 clients are counted by this many leading bits
    refused_memory  answer repeated refusals without asking the store; of use with a shared store
    identity        an `IdentityOptions`: how `identify` knows callers
    """

    def __init__(
        self,
        rules: RulesSource | None = None,
        *,
        store: str = MEMORY_STORE,
        max_keys: int = 1_000_000,
        clock: _core.FakeClock | None = None,
        region: str | None = None,
        no_rule: str = "allow",
        ipv6_prefix: int = 64,
        refused_memory: bool | None = None,
        store_deadline: float = STORE_DEADLINE_S,
        on_store_failure: str = "open",
        max_in_flight: int = 10_000,
        identity: IdentityOptions | None = None,
    ) -> None:
        # The engine took its own keywords (all but `rules`) in `__new__`.
        if self.is_shared:
            # Only here, so that programs without async code do not load asyncio for it.
            from headgate.waiting import here

            self._here = here
        self._identity: IdentityOptions | None = None
        self._fetched_jwks: str | None = None
        self._tokens: _core.Tokens | None = None
        # What keeps it up to date, if anything does; `headgate.upkeep` sees to that.
        self._upkeep: object = None
        if identity is not None:
            self.set_identity(identity)
        self._source: RulesSource | None = None
        if rules is not None:
            self.reload(rules)

    def reload(self, rules: RulesSource | None = None) -> None:
        """Replace all rules; usage is kept. Without an argument the rules file is read again. Raises RulesFileError,
        and the old rules go on, when anything in them is wrong."""
        source = self._source if rules is None else rules
        if source is None:
            raise ConfigError("there is no rules file to read again; give `reload` the rules")
        load_into(self, source)
        is_file = isinstance(source, os.PathLike) or (isinstance(source, str) and not is_text(source))
        self._source = source if is_file else None

    @property
    def rules_path(self) -> str | None:
        """The rules file, if the rules came from one."""
        return None if self._source is None else os.fspath(cast("str | os.PathLike[str]", self._source))

    def set_identity(self, identity: IdentityOptions) -> None:
        """Change how callers are known. Raises ConfigError, and the old way goes on, when anything in it is wrong."""
        self._fill_in(identity, None)

    @property
    def identity_options(self) -> IdentityOptions | None:
        """How callers are known, as it was given."""
        return self._identity

    def _apply_identity(self, fetched_jwks: str | None = None) -> None:
        """Read files again, or take over a key set that was fetched. Raises ConfigError, and the old way goes on."""
        if self._identity is not None:
            self._fill_in(self._identity, fetched_jwks or self._fetched_jwks)

    def _fill_in(self, identity: IdentityOptions, fetched_jwks: str | None) -> None:
        filled = identity
        if identity.jwks_url is not None:
            filled = dataclasses.replace(identity, jwt_jwks=fetched_jwks, jwt_jwks_is_remote=True)
        tokens = make_tokens(filled) if identity.has_keys_for_tokens else None
        apply(self, filled, tokens, make_api_keys(filled))
        self._identity, self._fetched_jwks, self._tokens = identity, fetched_jwks, tokens

    def _wants_keys(self) -> bool:
        return self._tokens is not None and self._tokens.take_keys_wanted()

    async def acheck(self, **facts: Unpack[Facts]) -> _core.Decision:
        """`check` for async code: never blocks the event loop, whatever the store does. Cancelled after it was sent, it
        counts all the same."""
        if not self.is_shared:
            return self.check(**facts)
        answer = self._ask(*self._here(), **facts)
        return answer if isinstance(answer, _core.Decision) else await answer

    async def acheck_limit(
        self,
        key: str,
        limit: int | str,
        window: float | str | None = None,
        cost: int = 1,
        algorithm: str | None = None,
        burst: int | None = None,
    ) -> _core.Decision:
        """`check_limit` for async code."""
        if not self.is_shared:
            return self.check_limit(key, limit, window, cost, algorithm, burst)
        answer = self._ask_limit(*self._here(), key, limit, window, cost, algorithm, burst)
        return answer if isinstance(answer, _core.Decision) else await answer

    def reserve(self, **facts: Unpack[Facts]) -> Reservation:
        """Spend `cost` now and settle later: `with limiter.reserve(user="42", cost=4000) as r: r.commit(1250)`."""
        return Reservation(self, lambda: self.check(**facts), lambda: self.acheck(**facts))

    def reserve_limit(
        self,
        key: str,
        limit: int | str,
        window: float | str | None = None,
        cost: int = 1,
        algorithm: str | None = None,
        burst: int | None = None,
    ) -> Reservation:
        """`reserve` without rules, as `check_limit`."""
        return Reservation(
            self,
            lambda: self.check_limit(key, limit, window, cost, algorithm, burst),
            lambda: self.acheck_limit(key, limit, window, cost, algorithm, burst),
        )

    def limit(
        self,
        limit: int | str,
        window: float | str | None = None,
        *,
        key: Callable[..., object] | str | None = None,
        cost: int = 1,
        algorithm: str | None = None,
        burst: int | None = None,
    ) -> Callable[[Callable[P, R]], Callable[P, R]]:
        """Limit calls of a function, sync or async: `@limiter.limit("5/minute", key=lambda user: user.id)`.

        `key` is given the call's arguments; without one all callers share a counter. Each function counts on its own.
        A refused call raises RateLimited and the function is not entered."""

        def decorate(function: Callable[P, R]) -> Callable[P, R]:
            name = f"{function.__module__}.{function.__qualname__}"
            # A mistake in the limit should stop the program where it is written, not at the first call.
            _core.check_limit_arguments(limit, window, cost, algorithm, burst)

            def counter(*args: Any, **kwargs: Any) -> str:
                part = key(*args, **kwargs) if callable(key) else key
                return name if part is None else f"{name}:{part}"

            if inspect.iscoroutinefunction(function):

                @functools.wraps(function)
                async def async_wrapper(*args: P.args, **kwargs: P.kwargs) -> Any:
                    by = counter(*args, **kwargs)
                    decision = await self.acheck_limit(by, limit, window, cost, algorithm, burst)
                    if not decision.allowed:
                        raise RateLimited(decision)
                    return await function(*args, **kwargs)

                return cast(Callable[P, R], async_wrapper)

            @functools.wraps(function)
            def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
                decision = self.check_limit(counter(*args, **kwargs), limit, window, cost, algorithm, burst)
                if not decision.allowed:
                    raise RateLimited(decision)
                return function(*args, **kwargs)

            return wrapper

        return decorate

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a Limiter holds live counters and cannot be pickled or copied; build one in each process")
