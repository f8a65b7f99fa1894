"""A node from start to drain. The main thread waits for signals and looks at the rules file; it never answers."""

from __future__ import annotations

import json
import os
import shlex
import signal
import time
from collections.abc import Iterator
from typing import Any

import structlog

import headgate._core as _core
from headgate.limiter import Limiter
from headgate.node import logs
from headgate.node.rules_file import STARTER_FILE, Outcome, RulesFile
from headgate.node.signals import SignalQueue
from headgate.setting_values import without_password
from headgate.settings import Settings
from headgate.store_events import BAD_EVENTS

_STOP = (signal.SIGTERM, signal.SIGINT)
_EVENTS_EVERY_S = 1.0
_TRY_FACTS = '{"user": "42", "tier": "free", "path": "/api/v1/login", "method": "POST"}'


def run(settings: Settings, *, ready_file: str | None = None) -> int:
    """Serve until told to stop; gives the exit code. Raises ConfigError for rules or settings that cannot be used and
    OSError for an address that cannot be bound, before anything is answered."""
    logs.configure(settings.log_level, settings.log_format)
    log = structlog.get_logger("headgate")
    for warning in settings.warnings:
        log.warning("setting ignored", what=warning)
    rules_path = settings.rules or str(STARTER_FILE)
    with SignalQueue(*_STOP, signal.SIGHUP).open() as signals:
        limiter = _limiter(settings)
        rules_file = RulesFile(limiter, rules_path)
        rules_file.load()
        server = _server(settings, limiter)
        server.start()
        limiter.store_status()  # Connects a shared store now and not at the first request.
        _announce(log, settings, limiter, server, rules_path)
        if ready_file is not None:
            _write_ready_file(ready_file, server)
        for outcome in _reloads(log, signals, limiter, rules_file, settings.rules_poll_s):
            _report(log, outcome, limiter, server, rules_path)
        return _drain(log, server, settings.drain_timeout_s)


def _limiter(settings: Settings) -> Limiter:
    return Limiter(
        store=settings.store,
        store_deadline=settings.store_deadline_ms / 1000,
        on_store_failure=settings.on_store_failure,
        max_keys=settings.max_keys,
        region=settings.region,
        no_rule=settings.no_rule,
        ipv6_prefix=settings.ipv6_prefix,
    )


def _server(settings: Settings, limiter: Limiter) -> _core.Server:
    return _core.Server(
        limiter,
        listen=settings.listen,
        uds=settings.uds,
        threads=settings.threads,
        max_connections=settings.max_connections,
        max_body_bytes=settings.max_body_bytes,
        header_timeout=settings.header_timeout_s,
        idle_timeout=settings.idle_timeout_s,
    )


def _report(log: Any, outcome: Outcome, limiter: Limiter, server: _core.Server, rules_path: str) -> None:
    server.set_rules_error(outcome.error)
    state = {"rules": limiter.rule_count(), "version": limiter.rules_version(), "file": rules_path}
    if outcome.error is None:
        log.info("rules reloaded", **state)
    else:
        log.error("rules refused; the old ones go on", error=outcome.error, **state)


def _announce(log: Any, settings: Settings, limiter: Limiter, server: _core.Server, rules_path: str) -> None:
    if settings.rules is None:
        log.info("no rules were given; using the starter rules", copy_from=rules_path, give="--rules FILE")
    addresses = server.addresses()
    log.info(
        "headgate is answering",
        addresses=addresses,
        rules=limiter.rule_count(),
        rules_file=rules_path,
        store=without_password(settings.store),
        try_it=_try_it(addresses),
    )


def _try_it(addresses: list[str]) -> str:
    """A command to paste."""
    tcp = [address for address in addresses if not address.startswith("unix:")]
    if tcp:
        where = f"http://{tcp[0]}/v1/check"
    else:
        where = f"--unix-socket {shlex.quote(addresses[0].removeprefix('unix:'))} http://localhost/v1/check"
    return f"curl -s {where} -d {shlex.quote(_TRY_FACTS)}"


def _write_ready_file(path: str, server: _core.Server) -> None:
    """Whoever waits for this file must never see half of it."""
    draft = f"{path}.{os.getpid()}"
    with open(draft, "w", encoding="utf-8") as file:
        json.dump({"addresses": server.addresses(), "pid": os.getpid()}, file)
    os.replace(draft, path)


def _reloads(
    log: Any, signals: SignalQueue, limiter: Limiter, rules_file: RulesFile, poll_s: float
) -> Iterator[Outcome]:
    """Every reload, asked for or noticed, until a signal says stop. What happens to the store meanwhile is logged."""
    polled = time.monotonic()
    while True:
        arrived = signals.wait(_wait_s(limiter, poll_s))
        _log_events(log, limiter)
        if any(number in _STOP for number in arrived):
            return
        is_due = poll_s and time.monotonic() - polled >= poll_s
        outcome = rules_file.reload() if signal.SIGHUP in arrived else rules_file.poll() if is_due else None
        if is_due:
            polled = time.monotonic()
        if outcome is not None:
            yield outcome


def _wait_s(limiter: Limiter, poll_s: float) -> float | None:
    waits = [wait for wait in (poll_s, _EVENTS_EVERY_S if limiter.is_shared else 0) if wait]
    return min(waits, default=None)


def _log_events(log: Any, limiter: Limiter) -> None:
    for event in json.loads(limiter._untold_events()):
        level = log.warning if event["kind"] in BAD_EVENTS else log.info
        details = {name: event[name] for name in ("shard", "detail") if event[name]}
        level("store: " + event["kind"].replace("_", " "), **details)


def _drain(log: Any, server: _core.Server, timeout_s: float) -> int:
    # The drain holds the main thread in native code; a second signal must still end the process at once.
    for number in _STOP:
        signal.signal(number, signal.SIG_DFL)
    log.info("stopping; requests under way may finish", timeout_s=timeout_s)
    if server.drain(timeout_s):
        log.info("stopped")
        return 0
    log.warning("stopped before every request had finished", timeout_s=timeout_s)
    return 1
