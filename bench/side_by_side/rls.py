"""Servers that are asked by gRPC: Envoy's rate limit call, and Gubernator's own with the same two limits."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib.metadata import version
from typing import Any

import grpc

from bench.node import node
from bench.player import Player
from bench.rls_gubernator import PROGRAM as GUBERNATOR
from bench.rls_gubernator import gubernator
from bench.rls_messages import (
    ADMITTED_HEX,
    GET_RATE_LIMITS,
    GUBERNATOR_HEX,
    HOUR_MS,
    SHOULD_RATE_LIMIT,
    GubernatorLimit,
    gubernator_request,
    rate_limit_request,
    written,
)
from bench.rls_players import Caller
from bench.rls_ratelimit import PROGRAM as RATELIMIT
from bench.rls_ratelimit import limit, ratelimit
from bench.side_by_side.work import (
    MEMORY,
    OWN,
    PLENTY,
    ROOMY,
    SHARED,
    TIGHT,
    TIGHT_COUNT,
    TIGHT_S,
    TWO,
    Ask,
    Contestant,
    NoAnswer,
    Speed,
    rules,
)
from tests.servers.server import Server

# The load generator's hole for the caller's number.
VARIED = "u######"
ANSWER_S_MAX = 60
# First bytes of answers: overall_code OVER_LIMIT; of one result of Gubernator, its status, left out when that is
# UNDER_LIMIT, so that the limit comes first.
REFUSED_HEX = "0802"
OVER_LIMIT, UNDER_LIMIT = b"\x08\x01", b"\x10"
DAY_MS = 24 * HOUR_MS


def played(player: Player) -> Callable[[int], Speed]:
    """A round of a load generator, seen from here."""

    def play(requests: int) -> Speed:
        player.play(requests)
        last = player.rounds[-1]
        return Speed(last.requests_per_s, last.cpu_us, float(last.load["p99_us"]), int(last.load["requests"]))

    return play


def _calls(closing: ExitStack, port: int, path: str) -> Callable[[bytes], bytes]:
    channel = closing.enter_context(grpc.insecure_channel(f"127.0.0.1:{port}"))
    call: Any = channel.unary_unary(path)
    return lambda message: bytes(call(message, timeout=ANSWER_S_MAX))


# --- Envoy's call


def _message(path: str, caller: str) -> bytes:
    """The path alone is everyone's, the path and the user the caller's own."""
    own = (("path", path), ("user", caller))
    return rate_limit_request([own] if path == TIGHT else [(("path", path),), own])


def _rls_ask(closing: ExitStack, port: int) -> Ask:
    call = _calls(closing, port, SHOULD_RATE_LIMIT)

    def ask(path: str, caller: str) -> bool:
        answer = call(_message(path, caller)).hex()
        if not answer.startswith((ADMITTED_HEX, REFUSED_HEX)):
            raise NoAnswer("an answer that is neither OK nor OVER_LIMIT")
        return answer.startswith(ADMITTED_HEX)

    return ask


def _rls_player(pid: int, port: int) -> Player:
    message = written("side-by-side-rls", _message(ROOMY, VARIED))
    return Caller(pinned=False).player(pid, port, more=("--message", str(message)))


def _descriptors() -> list[dict[str, Any]]:
    """The same limits, as envoyproxy/ratelimit's file says them."""

    def on(path: str, own: dict[str, Any], shared: dict[str, Any]) -> dict[str, Any]:
        return {"key": "path", "value": path, **shared, "descriptors": [{"key": "user", **own}]}

    roomy = limit(PLENTY, "hour")
    return [
        on(ROOMY, roomy, roomy),
        on(TWO, limit(OWN, "day"), limit(SHARED, "day")),
        on(TIGHT, limit(TIGHT_COUNT, "second"), {}),
    ]


def headgate_node(store: str, closing: ExitStack) -> Contestant:
    """One that waits for the store, and one as it comes."""
    patient = closing.enter_context(node(rules(), store=store))
    as_it_comes = closing.enter_context(node(rules(), store=store, patient=False))
    kept = "memory" if store == MEMORY else "Valkey"
    name = f"**Headgate** {version('headgate')}, `headgate node`, {kept}"
    play = played(_rls_player(patient.pid, patient.grpc_port))
    ask, ask_hung = (_rls_ask(closing, running.grpc_port) for running in (patient, as_it_comes))
    return Contestant(name, play, ask, True, store != MEMORY, ask_hung, patient.require_decided)


def envoyproxy_ratelimit(store: Server, closing: ExitStack) -> Iterator[Contestant]:
    """As it comes, and with the write buffering that its documentation advises."""
    name = f"envoyproxy/ratelimit {RATELIMIT.version.rpartition('-')[2][:7]}, Valkey"
    for says, settings in {name: {}, f"{name}, pipelining": {"REDIS_PIPELINE_WINDOW": "150us"}}.items():
        running = closing.enter_context(ratelimit(store, _descriptors(), settings))
        play = played(_rls_player(running.pid, running.port))
        yield Contestant(says, play, _rls_ask(closing, running.port), has_store=True)


# --- Gubernator


def _gubernator_message(path: str, caller: str) -> bytes:
    own, shared, window_ms = {
        ROOMY: (PLENTY, PLENTY, HOUR_MS),
        TWO: (OWN, SHARED, DAY_MS),
        TIGHT: (TIGHT_COUNT, None, int(TIGHT_S * 1_000)),
    }[path]
    limits = [GubernatorLimit(f"{path} own", caller, own, window_ms)]
    if shared is not None:
        limits.append(GubernatorLimit(f"{path} shared", "everyone", shared, window_ms))
    return gubernator_request(limits)


def results(answer: bytes) -> Iterator[bytes]:
    """The messages of its one repeated field. All are short of 128 bytes of length, or two bytes tell it."""
    at = 0
    while at < len(answer):
        if answer[at] != 0x0A:
            raise NoAnswer("an answer that is no list of results")
        length, at = answer[at + 1], at + 2
        if length >= 0x80:
            length, at = (length & 0x7F) | answer[at] << 7, at + 1
        yield answer[at : at + length]
        at += length


def gubernator_server(closing: ExitStack) -> Contestant:
    running = closing.enter_context(gubernator())
    call = _calls(closing, running.port, GET_RATE_LIMITS)

    def ask(path: str, caller: str) -> bool:
        found = list(results(call(_gubernator_message(path, caller))))
        if not all(result.startswith((OVER_LIMIT, UNDER_LIMIT)) for result in found):
            raise NoAnswer("a result that is an error")
        return not any(result.startswith(OVER_LIMIT) for result in found)

    message = written("side-by-side-gubernator", _gubernator_message(ROOMY, VARIED))
    more = ("--message", str(message), "--expect", GUBERNATOR_HEX)
    player = Caller(pinned=False).player(running.pid, running.port, GET_RATE_LIMITS, more)
    return Contestant(f"Gubernator {GUBERNATOR.version}, memory", played(player), ask)
