"""What the servers of a store say of themselves, how far away they are, and what time it is there."""

from __future__ import annotations

import contextlib
import functools
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import headgate._core as _core
from headgate.doctor.gather import store_url
from headgate.doctor.gather.bounded import together, within
from headgate.doctor.gather.reasons import NOT_IN_TIME, reason
from headgate.doctor.gather.resp import Conversation, NotAStore, Refused, Reply
from headgate.doctor.gather.store_url import CLUSTER, MEMORY, SENTINEL, Place, StoreUrl
from headgate.errors import ConfigError, HeadgateError

SERVER_S = 3.0
# Beyond what a conversation may take, for threads to come back.
GRACE_S = 0.5
SERVERS_MAX = 32
PINGS = 100
PINGING_S = 1.0
TIMES = 5
# A server that answers nonsense is one that cannot be asked.
UNREACHABLE = (OSError, ValueError, IndexError, Refused, NotAStore)
CONFIG = (
    "maxmemory",
    "maxmemory-policy",
    "appendfsync",
    "cluster-require-full-coverage",
    "min-replicas-to-write",
    "min-slaves-to-write",
    "stop-writes-on-bgsave-error",
    "save",
)


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """One server. `config` is None where it would not tell."""

    place: Place
    error: str | None = None
    info: Mapping[str, str] = field(default_factory=dict)
    config: Mapping[str, str] | None = None
    round_trips_ms: tuple[float, ...] = ()
    # How far its clock is ahead of ours, and by how much that may be wrong.
    ahead_s: float | None = None
    doubt_s: float = 0.0


@dataclass(frozen=True, slots=True)
class SentinelFacts:
    place: Place
    error: str | None = None
    primary: Place | None = None
    state: Mapping[str, str] = field(default_factory=dict)
    quorum_error: str | None = None


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """As one of its nodes sees it: `replicas` by each primary that has slots."""

    info: Mapping[str, str] = field(default_factory=dict)
    replicas: Mapping[Place, int] = field(default_factory=dict)
    slots: int = 0


@dataclass(frozen=True, slots=True)
class StoreFacts:
    """`refusal` is what ends a node at its start."""

    url: StoreUrl
    refusal: str | None = None
    servers: tuple[ServerFacts, ...] = ()
    sentinels: tuple[SentinelFacts, ...] = ()
    cluster: ClusterFacts | None = None
    # Servers that were not looked at because there are too many.
    left_out: int = 0


def look_at_store(text: str) -> StoreFacts:
    """Within a few seconds, whatever the servers do."""
    refusal = within(lambda: _refusal(text), SERVER_S)
    if isinstance(refusal, ConfigError):
        return StoreFacts(StoreUrl(MEMORY), refusal=str(refusal))
    url = store_url.parse(text)
    said = None if refusal is None else str(refusal)
    if url.layout == MEMORY:
        return StoreFacts(url)
    if url.layout == SENTINEL:
        sentinels = _sentinels(url)
        named = Counter(seen.primary for seen in sentinels if seen.primary is not None)
        primaries = tuple(place for place, _ in named.most_common(1))
        return StoreFacts(url, said, _servers(url, primaries), sentinels, left_out=_left_out(url.places))
    if url.layout == CLUSTER:
        cluster = _cluster(url)
        places = tuple(cluster.replicas) if cluster is not None and cluster.replicas else url.places
        return StoreFacts(url, said, _servers(url, places), cluster=cluster, left_out=_left_out(places))
    return StoreFacts(url, said, _servers(url, url.places), left_out=_left_out(url.places))


def _refusal(text: str) -> HeadgateError | None:
    """What a node does first: the engine knows best what it can use."""
    try:
        _core.Engine(store=text)
    except HeadgateError as error:
        return error
    return None


def _left_out(places: Sequence[Place]) -> int:
    return max(0, len(places) - SERVERS_MAX)


def _servers(url: StoreUrl, places: Sequence[Place]) -> tuple[ServerFacts, ...]:
    chosen = tuple(dict.fromkeys(places))[:SERVERS_MAX]
    found = together({place: functools.partial(_server, url, place) for place in chosen}, SERVER_S + GRACE_S)
    return tuple(found.get(place) or ServerFacts(place, NOT_IN_TIME) for place in chosen)


def _server(url: StoreUrl, place: Place) -> ServerFacts:
    try:
        with Conversation(url, place, SERVER_S) as asked:
            info = _lines(asked.ask("INFO"))
            config = _config(asked)
            ahead_s, doubt_s = _clock(asked)
            return ServerFacts(place, None, info, config, _pings(asked), ahead_s, doubt_s)
    except UNREACHABLE as error:
        return ServerFacts(place, reason(error))


def _config(asked: Conversation) -> dict[str, str] | None:
    """Managed services keep it to themselves, and so does an ACL that gives no more than is needed."""
    try:
        return asked.ask_map("CONFIG", "GET", *CONFIG)
    except Refused:
        return None


def _clock(asked: Conversation) -> tuple[float | None, float]:
    """By the quickest of a few questions: the answer was made somewhere between asking and hearing it."""
    best: tuple[float | None, float] = (None, float("inf"))
    for _ in range(TIMES):
        before_s = time.time()
        try:
            told = asked.ask("TIME")
        except Refused:
            return None, 0.0
        after_s = time.time()
        if isinstance(told, list) and len(told) == 2 and after_s >= before_s:
            there_s = int(str(told[0])) + int(str(told[1])) / 1e6
            doubt_s = (after_s - before_s) / 2
            if doubt_s < best[1]:
                best = there_s - (before_s + after_s) / 2, doubt_s
    return best


def _pings(asked: Conversation) -> tuple[float, ...]:
    end_s = time.monotonic() + min(PINGING_S, asked.left_s / 2)
    took_ms: list[float] = []
    while len(took_ms) < PINGS and time.monotonic() < end_s:
        before_s = time.perf_counter()
        asked.ask("PING")
        took_ms.append((time.perf_counter() - before_s) * 1000)
    return tuple(took_ms)


def _sentinels(url: StoreUrl) -> tuple[SentinelFacts, ...]:
    chosen = tuple(dict.fromkeys(url.places))[:SERVERS_MAX]
    found = together({place: functools.partial(_sentinel, url, place) for place in chosen}, SERVER_S + GRACE_S)
    return tuple(found.get(place) or SentinelFacts(place, NOT_IN_TIME) for place in chosen)


def _sentinel(url: StoreUrl, place: Place) -> SentinelFacts:
    try:
        with Conversation(url, place, SERVER_S, url.sentinel_login) as asked:
            named = asked.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", url.primary)
            if not isinstance(named, list) or len(named) != 2:
                return SentinelFacts(place)
            state = asked.ask_map("SENTINEL", "MASTER", url.primary)
            quorum_error = None
            try:
                asked.ask("SENTINEL", "CKQUORUM", url.primary)
            except Refused as error:
                quorum_error = str(error)
            return SentinelFacts(place, None, Place(str(named[0]), int(str(named[1]))), state, quorum_error)
    except UNREACHABLE as error:
        return SentinelFacts(place, reason(error))


def _cluster(url: StoreUrl) -> ClusterFacts | None:
    """From any of its nodes that tells."""
    chosen = tuple(dict.fromkeys(url.places))[:SERVERS_MAX]
    found = together({place: functools.partial(_cluster_by, url, place) for place in chosen}, SERVER_S + GRACE_S)
    told = [seen for seen in found.values() if seen is not None]
    return max(told, key=lambda seen: seen.slots, default=None)


def _cluster_by(url: StoreUrl, place: Place) -> ClusterFacts | None:
    try:
        with Conversation(url, place, SERVER_S) as asked:
            slots = asked.ask("CLUSTER", "SLOTS")
            info: dict[str, str] = {}
            with contextlib.suppress(Refused):
                info = _lines(asked.ask("CLUSTER", "INFO"))
    except UNREACHABLE:
        return None
    replicas: dict[Place, int] = {}
    covered = 0
    for row in slots if isinstance(slots, list) else []:
        if not isinstance(row, list) or len(row) < 3:
            continue
        first, last, primary = row[:3]
        if not isinstance(primary, list) or len(primary) < 2:
            continue
        covered += int(str(last)) - int(str(first)) + 1
        # A node that does not know its own name means the one it was reached by.
        host = str(primary[0] or "") if str(primary[0] or "") not in ("", "?") else place.host
        replicas[Place(host, int(str(primary[1])))] = len(row) - 3
    return ClusterFacts(info, replicas, covered)


def _lines(reply: Reply) -> dict[str, str]:
    """`name:value`, one a line."""
    pairs = (line.partition(":") for line in str(reply or "").splitlines() if not line.startswith("#"))
    return {name: value.strip() for name, colon, value in pairs if colon}
