"""Who can reach a node, and what they could do there."""

from __future__ import annotations

import ipaddress
import stat
from collections.abc import Iterator, Sequence

from headgate.doctor.finding import Finding, note, problem, warning, well
from headgate.doctor.gather.files import SocketFacts
from headgate.doctor.gather.listeners import Door
from headgate.settings import Settings

# Ranges larger than these hold strangers.
_WIDE = {4: 8, 6: 32}
_SPEND = "whoever reaches it can spend anybody's limits (`/v1/check`) and ask what is left of them"


def judge_doors(doors: Sequence[Door], settings: Settings, *, is_gateway: bool) -> Iterator[Finding]:
    """`is_gateway`: what comes to `listen` is passed on, and the node's own API answers elsewhere only."""
    away = [door for door in doors if not door.is_local]
    for door in away:
        if door.name == "admin":
            yield from _judge_admin(door, settings)
        elif door.name == "listen" and is_gateway:
            yield from _judge_gateway(door, settings)
        else:
            yield from _judge_api(door, settings, is_gateway=is_gateway)
    telling = [door for door in away if door.name != "admin" and not (door.name == "listen" and is_gateway)]
    if telling and settings.admin is None:
        yield warning(
            "listeners.metrics_open",
            "Health and metrics are told to everybody who reaches the node",
            _shown(telling),
            "give --admin 127.0.0.1:8082 (or an address of your own network): then they answer nowhere else",
        )
    if not away:
        yield well("listeners.local", "Every address is this machine's own", _shown(doors) or "no TCP address")


def judge_reach(doors: Sequence[Door], *, is_running: bool) -> Iterator[Finding]:
    """Of a node that runs, every address should answer that was asked for: `headgate serve` has fewer of its own than a
    node."""
    for door in doors:
        if door.error is not None and is_running and door.is_chosen and not door.address.endswith(":0"):
            yield warning(
                "listeners.silent",
                "Nobody listens at an address of these settings",
                f"{door.name} {door.address}: {door.error}",
                "the running node has other settings, or it runs elsewhere; `headgate settings` shows these",
            )


def judge_socket(facts: SocketFacts) -> Iterator[Finding]:
    where = f"uds {facts.path}"
    if facts.mode is None:
        return
    if not facts.is_socket:
        yield problem(
            "listeners.not_a_socket",
            "Where the Unix socket should be is something else",
            where,
            "name another path in the setting `uds`, or remove what is there",
        )
        return
    if facts.mode & stat.S_IWOTH:
        yield warning(
            "listeners.socket_open",
            "Every user of this machine can ask through the Unix socket",
            f"{where} has mode {facts.mode:04o}",
            f"chmod 660, and put the proxy's user into its group: {_SPEND}",
        )
    elif not facts.mode & stat.S_IWGRP:
        yield note(
            "listeners.socket_closed",
            "Only its owner can ask through the Unix socket",
            f"{where} has mode {facts.mode:04o}, {facts.owner}",
            "chmod 660, if the proxy runs as another user",
        )
    if facts.is_replaceable:
        yield warning(
            "listeners.socket_replaceable",
            "Every user of this machine can put a socket of their own in its place",
            f"the folder of {facts.path} can be written by all",
            "put it into a folder that only the node's user writes, such as /run/headgate",
        )


def judge_proxies(trusted_proxies: str | None) -> Iterator[Finding]:
    ranges = [ipaddress.ip_network(text) for text in (trusted_proxies or "").split(",") if text]
    everyone = [str(one) for one in ranges if one.prefixlen == 0]
    if everyone:
        yield problem(
            "listeners.trusts_everyone",
            "Everybody is taken for a proxy, so clients choose the address they are counted by",
            f"trusted_proxies has {', '.join(everyone)}",
            "name the addresses of your own proxies only",
        )
        return
    wide = [str(one) for one in ranges if one.prefixlen < _WIDE[one.version]]
    if wide:
        yield warning(
            "listeners.trusts_many",
            "Very many addresses are taken for proxies",
            f"trusted_proxies has {', '.join(wide)}",
            "name the addresses of your own proxies only: whoever has one of these chooses how they are counted",
        )


def _judge_admin(door: Door, settings: Settings) -> Iterator[Finding]:
    if not settings.tls_cert or settings.admin_tls == "off":
        yield note(
            "listeners.admin_open",
            "Health and metrics are told in the clear, beyond this machine",
            f"{door.name} {door.address}",
            "keep it within your own network; rule names and traffic figures are to be seen there",
        )


def _judge_gateway(door: Door, settings: Settings) -> Iterator[Finding]:
    if not settings.tls_cert:
        yield note(
            "listeners.gateway_clear",
            "The gateway answers without TLS",
            f"{door.name} {door.address}",
            "well behind a proxy that ends TLS; facing clients, give tls_cert and tls_key: tokens cross in the clear",
        )


def _judge_api(door: Door, settings: Settings, *, is_gateway: bool) -> Iterator[Finding]:
    where = f"{door.name} {door.address}"
    beside = "beside the gateway, " if is_gateway else ""
    if not settings.tls_cert:
        yield warning(
            "listeners.clear",
            "The node's API is reached from elsewhere, without TLS",
            where,
            f"{beside}listen on 127.0.0.1 or a Unix socket, or give tls_cert, tls_key and tls_client_ca: {_SPEND}",
        )
    elif not settings.tls_client_ca:
        yield warning(
            "listeners.no_client_ca",
            "The node's API asks nobody who they are",
            where,
            f"{beside}give tls_client_ca, or listen on 127.0.0.1 or a Unix socket: {_SPEND}",
        )
    else:
        yield well("listeners.no_client_ca", "The node's API asks clients for certificates", where)


def _shown(doors: Sequence[Door]) -> str:
    return ", ".join(f"{door.name} {door.address}" for door in doors)
