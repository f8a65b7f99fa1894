"""What is to be said of a whole import from Kong, and who has which tier after it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from headgate.importing.imported import Note
from headgate.importing.kong_policy import Policy

_USERS = (
    "consumers are known here as users: the claim of `jwt_user_claim` in their tokens, or `user` of their API keys, "
    "must be the consumer's username"
)
_GROUPS = "consumer groups are tiers here; overrides say who has which, and who has none is `free`"
_STORE = "where counters are kept is a setting of the node: in memory, unless it has a `store` that several nodes share"
_PREFIX = "the path `/api` is the beginning of `/apis` too for Kong; here it is `/api` and what is below it"
_ANSWERS = (
    "answers carry `X-RateLimit-Limit`, `-Remaining` and `-Reset` of the limit that is nearest, not one for each "
    "period; a refusal's body is Headgate's"
)
_ADDRESS = "IPv6 addresses are counted by their /64 here, unless `ipv6_prefix` is 128"


@dataclass(frozen=True, slots=True)
class Used:
    """What the plugins that were imported speak of."""

    count: int
    facts: frozenset[str]
    has_consumers: bool
    groups: frozenset[str]

    @classmethod
    def of(cls, found: Iterable[tuple[Mapping[str, str | None], Policy]]) -> Used:
        found = list(found)
        facts = {fact for _, policy in found for fact in policy.by} | {"ip" for _, policy in found if policy.path}
        groups = (scope["consumer_group"] for scope, _ in found)
        consumers = any(scope["consumer"] is not None for scope, _ in found)
        named = frozenset(name for name in groups if name is not None)
        return cls(len(found), frozenset(facts), consumers or "user" in facts, named)


def memberships(members: Mapping[str, Sequence[str]], used: Used, file: str) -> tuple[list[dict[str, str]], list[Note]]:
    """Overrides that give the members of groups their tier, as far as a rule asks for it."""
    overrides, notes = [], []
    for member, groups in members.items():
        mine = [group for group in groups if "tier" in used.facts or group in used.groups]
        if mine:
            overrides.append({"user": member, "tier": mine[0]})
        if len(mine) > 1:
            what = f"`{member}` is in {' and '.join(mine)}; a user has one tier, and the first was taken"
            notes.append(Note("differs", file, what))
    return overrides, notes


def general(used: Used, file: str, *, has_paths: bool) -> Iterator[Note]:
    """What is to be said once. Without a rule there is nothing to say."""
    if not used.count:
        return
    if has_paths:
        yield Note("differs", file, _PREFIX)
    if used.facts & {"ip", "user", "api_key"}:
        yield Note("differs", file, _ADDRESS)
    yield Note("differs", file, _ANSWERS)
    if used.has_consumers:
        yield Note("note", file, _USERS)
    if used.groups or "tier" in used.facts:
        yield Note("note", file, _GROUPS)
    yield Note("note", file, _STORE)
