"""Calls of the scripts: limits, requests and charges in, answers out. `lua/check.lua` names the layouts."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, gcd, log2
from typing import Any, cast

import redis

from tests.model.limits import Limit
from tests.scripts.compose import VERBS, compose
from tests.scripts.record import HITS, KINDS, Record, decode, whole

NEVER_US = 2**53
NO_LOG = 255


@dataclass(frozen=True)
class ScriptLimit:
    """A limit as the scripts take it: an id and numbers."""

    id: int
    limit: Limit

    @property
    def kind(self) -> int:
        return KINDS[self.limit.algorithm]

    @property
    def unit_and_rate(self) -> tuple[int, int]:
        """`rate / unit` is count / window, reduced where products would no longer be exact doubles."""
        count, window_us = self.limit.count, self.limit.window_us
        divisor = gcd(count, window_us) if self.limit.capacity * window_us >= 2**51 else 1
        return window_us // divisor, count // divisor

    @property
    def life(self) -> int:
        limit = self.limit
        windows = 2 if limit.algorithm == "sliding_window_counter" else limit.capacity / limit.count
        return min(255, max(0, ceil(4 * log2(limit.window_us * windows / 1_000 + 2))))

    def pack(self) -> bytes:
        a = b = 0
        if self.limit.algorithm == "gcra":
            a, b = self.unit_and_rate
        elif self.limit.algorithm == "sliding_window":
            a = self.limit.group_size
        numbers = struct.pack("<4d", self.limit.capacity, self.limit.window_us, a, b)
        return whole(self.id, 5) + bytes([self.kind, self.life]) + numbers


@dataclass(frozen=True)
class Ask:
    """One limit of a request, counted at one record key."""

    key: str
    limit: ScriptLimit
    shadow: bool = False

    @property
    def log_key(self) -> str | None:
        return f"{self.key}:log:{self.limit.id}" if self.limit.kind == HITS else None


@dataclass(frozen=True)
class Request:
    asks: tuple[Ask, ...]
    cost: int = 1
    forced: bool = False


@dataclass(frozen=True)
class HitsSeen:
    used: int
    oldest_us: int
    wait_us: int


@dataclass(frozen=True)
class Answer:
    now_us: int
    values: dict[str, bytes | None]
    allowed: list[bool]
    hits: list[list[HitsSeen]]


@dataclass(frozen=True)
class Charge:
    """What one request spent on one limit."""

    ask: Ask
    at_us: int
    cost: int
    used_after: float = 0.0
    refunds: int = 0


class _Places:
    """Things, each once, by the place they were first met in."""

    def __init__(self) -> None:
        self.items: list[Any] = []

    def of(self, item: Any) -> int:
        if item not in self.items:
            self.items.append(item)
        return self.items.index(item)


class _Packed:
    """The keys and arguments of one call of check or peek."""

    def __init__(self, requests: Sequence[Request]) -> None:
        records, logs, limits, shapes = _Places(), _Places(), _Places(), _Places()
        for request in requests:
            for ask in request.asks:
                records.of(ask.key)
                limits.of(ask.limit)
                if ask.log_key is not None:
                    logs.of(ask.log_key)
        self.records: list[str] = records.items
        self.keys: list[str] = records.items + logs.items
        body = b""
        for request in requests:
            own = _Places()
            shape = b""
            for ask in request.asks:
                log = NO_LOG if ask.log_key is None else own.of(ask.log_key)
                place = own.of(ask.key)
                shape += bytes([place, log]) + whole(limits.of(ask.limit), 2) + bytes([ask.shadow])
            number = shapes.of(bytes([len(request.asks), len(own.items)]) + shape)
            body += whole(number, 2) + whole(request.cost, 5) + bytes([request.forced])
            body += b"".join(whole(self.keys.index(key) + 1, 2) for key in own.items)
        self.limits = b"".join(limit.pack() for limit in limits.items)
        self.arguments = [self.limits, b"".join(shapes.items), body]


class Scripts:
    """The scripts on one server. Times are given, unless they are 0: then the server's own."""

    def __init__(self, client: redis.Redis) -> None:
        self.client = client
        self.shas = {verb: str(client.script_load(compose(verb))) for verb in VERBS}

    def run(self, verb: str, keys: Sequence[str], *arguments: bytes) -> Any:
        return self.client.evalsha(self.shas[verb], len(keys), *keys, *arguments)

    def check(self, now_us: int, *requests: Request, verb: str = "check") -> Answer:
        packed = _Packed(requests)
        start = whole(now_us, 7) + whole(len(packed.records), 2)
        *values, tail = self.run(verb, packed.keys, start, *packed.arguments)
        allowed = [byte == 1 for byte in tail[7 : 7 + len(requests)]]
        rest, hits = tail[7 + len(requests) :], []
        for request in requests:
            seen = []
            for _ in (ask for ask in request.asks if ask.limit.kind == HITS):
                sizes, rest = rest[:19], rest[19:]
                seen.append(
                    HitsSeen(*(int.from_bytes(part, "little") for part in (sizes[:5], sizes[5:12], sizes[12:])))
                )
            hits.append(seen)
        assert rest == b""
        return Answer(int.from_bytes(tail[:7], "little"), dict(zip(packed.records, values, strict=True)), allowed, hits)

    def peek(self, now_us: int, *requests: Request) -> Answer:
        return self.check(now_us, *requests, verb="peek")

    def refund(self, now_us: int, *charges: tuple[Charge, int]) -> list[int]:
        """How much was returned of each (charge, amount)."""
        records, logs, limits = _Places(), _Places(), _Places()
        for charge, _ in charges:
            records.of(charge.ask.key)
            limits.of(charge.ask.limit)
            if charge.ask.log_key is not None:
                logs.of(charge.ask.log_key)
        keys = records.items + logs.items
        body = b""
        for charge, amount in charges:
            log = 0 if charge.ask.log_key is None else keys.index(charge.ask.log_key) + 1
            places = (keys.index(charge.ask.key) + 1, log, limits.of(charge.ask.limit))
            body += b"".join(whole(place, 2) for place in places) + whole(charge.at_us, 7) + whole(charge.cost, 5)
            body += struct.pack("<d", charge.used_after) + whole(charge.refunds, 2) + whole(amount, 5)
        start = whole(now_us, 7) + whole(len(records.items), 2)
        packed_limits = b"".join(limit.pack() for limit in limits.items)
        *_, tail = self.run("refund", keys, start, packed_limits, body)
        return [int.from_bytes(tail[at : at + 5], "little") for at in range(7, len(tail), 5)]

    def reset(self, now_us: int, *asks: Ask) -> int:
        records = list(dict.fromkeys(ask.key for ask in asks))
        keys = records + list(dict.fromkeys(ask.log_key for ask in asks if ask.log_key is not None))
        body = b""
        for ask in asks:
            log = 0 if ask.log_key is None else keys.index(ask.log_key) + 1
            body += whole(keys.index(ask.key) + 1, 2) + whole(log, 2) + whole(ask.limit.id, 5)
        return int(self.run("reset", keys, whole(now_us, 7) + whole(len(records), 2), body))

    def record(self, key: str) -> Record | None:
        value = self.value(key)
        return None if value is None else decode(value)

    def value(self, key: str) -> bytes | None:
        return cast("bytes | None", self.client.get(key))
