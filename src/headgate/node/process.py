"""A node from start to drain. The main thread waits for signals and looks at the rules file; it never answers."""

from __future__ import annotations

import json
import os
import shlex
import signal
from typing import Any

import structlog

import headgate._core as _core
from headgate.limiter import Limiter
from headgate.node import logs
from headgate.node.chores import STOP_SIGNALS, Chore, do_chores
from headgate.node.identity_files import IdentityFiles
from headgate.node.signals import SignalQueue
from headgate.setting_values import without_password
from headgate.settings import Settings
from headgate.store_events import BAD_EVENTS
from headgate.upkeep.rules_file import STARTER_FILE, RulesFile
from headgate.upkeep.watched_files import WatchedFiles

_LOOK_EVERY_S = 1.0
_TRY_FACTS = '{"user": "42", "tier": "free", "path": "/api/v1/login", "method": "POST"}'


def run(settings: Settings, *, ready_file: str | None = None) -> int:
    """Serve until told to stop; gives the exit code. Raises ConfigError for rules or settings that cannot be used and
    OSError for an address that cannot be bound, before anything is answered."""
    logs.configure(settings.log_level, settings.log_format)
    log = structlog.get_logger("headgate")
    for warning in settings.warnings:
        log.warning("setting ignored", what=warning)
    rules_path = settings.rules or str(STARTER_FILE)
    with SignalQueue(*STOP_SIGNALS, signal.SIGHUP).open() as signals:
        limiter = _limiter(settings)
        rules_file = RulesFile(limiter, rules_path)
        rules_file.load()
        certificate = WatchedFiles(*filter(None, (settings.tls_cert, settings.tls_key, settings.tls_client_ca)))
        certificate.remember()
        identity = IdentityFiles(limiter, settings, log)
        identity.load()
        server = _server(settings, limiter)
        server.start()
        limiter.store_status()  # Connects a shared store now and not at the first request.
        _announce(log, settings, limiter, server, rules_path)
        if ready_file is not None:
            _write_ready_file(ready_file, server)
        chores = [
            Chore(lambda _: _log_events(log, limiter), _LOOK_EVERY_S if limiter.is_shared else 0),
            Chore(lambda asked: _look_at_rules(log, asked, rules_file, limiter, server), settings.rules_poll_s),
            Chore(identity.look, _LOOK_EVERY_S if identity.is_changing else 0),
        ]
        if certificate.paths:
            chores.append(Chore(lambda asked: _look_at_certificate(log, asked, certificate, server), _LOOK_EVERY_S))
        do_chores(signals, chores)
        identity.stop()
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
        max_in_flight=settings.max_in_flight,
    )


def _server(settings: Settings, limiter: Limiter) -> _core.Server:
    return _core.Server(
        limiter,
        listen=settings.listen,
        grpc=settings.grpc,
        uds=settings.uds,
        admin=settings.admin,
        tls_cert=settings.tls_cert,
        tls_key=settings.tls_key,
        tls_client_ca=settings.tls_client_ca,
        admin_tls=settings.admin_tls,
        families=list(settings.headers),
        jitter=settings.retry_jitter,
        problem_body=settings.refusal_body == "problem",
        threads=settings.threads,
        max_connections=settings.max_connections,
        max_body_bytes=settings.max_body_bytes,
        header_timeout=settings.header_timeout_s,
        idle_timeout=settings.idle_timeout_s,
    )


def _look_at_rules(log: Any, asked: bool, rules_file: RulesFile, limiter: Limiter, server: _core.Server) -> None:
    outcome = rules_file.reload() if asked else rules_file.poll()
    if outcome is None:
        return
    server.set_rules_error(outcome.error)
    state = {"rules": limiter.rule_count(), "version": limiter.rules_version(), "file": rules_file.path}
    if outcome.error is None:
        log.info("rules reloaded", **state)
    else:
        log.error("rules refused; the old ones go on", error=outcome.error, **state)


def _look_at_certificate(log: Any, asked: bool, files: WatchedFiles, server: _core.Server) -> None:
    if not files.changed() and not asked:
        return
    error = server.reload_tls()
    if error is None:
        log.info("certificate reloaded", files=files.paths)
    else:
        log.error("certificate refused; the old one goes on", error=error)


def _announce(log: Any, settings: Settings, limiter: Limiter, server: _core.Server, rules_path: str) -> None:
    if settings.rules is None:
        log.info("no rules were given; using the starter rules", copy_from=rules_path, give="--rules FILE")
    addresses = server.addresses()
    log.info(
        "headgate is answering",
        **addresses,
        rules=limiter.rule_count(),
        rules_file=rules_path,
        store=without_password(settings.store),
        try_it=_try_it(settings, addresses),
    )


def _try_it(settings: Settings, addresses: dict[str, str]) -> str:
    """A command to paste."""
    scheme, known = "http", ""
    if settings.tls_cert and "uds" not in addresses:
        # Whoever pastes it need not know our authority; clients of a node must.
        scheme, known = "https", "--insecure "
        if settings.tls_client_ca:
            known += "--cert CLIENT.pem --key CLIENT.key "
    tcp = addresses.get("http") or addresses.get("grpc")
    if tcp and (scheme == "https" or not settings.tls_cert):
        where = f"{known}{scheme}://{tcp}/v1/check"
    else:
        where = f"--unix-socket {shlex.quote(addresses['uds'].removeprefix('unix:'))} http://localhost/v1/check"
    return f"curl -s {where} -d {shlex.quote(_TRY_FACTS)}"


def _write_ready_file(path: str, server: _core.Server) -> None:
    """Whoever waits for this file must never see half of it."""
    draft = f"{path}.{os.getpid()}"
    with open(draft, "w", encoding="utf-8") as file:
        addresses = server.addresses()
        json.dump({"addresses": list(addresses.values()), "pid": os.getpid(), **addresses}, file)
    os.replace(draft, path)


def _log_events(log: Any, limiter: Limiter) -> None:
    for event in json.loads(limiter._untold_events()):
        level = log.warning if event["kind"] in BAD_EVENTS else log.info
        details = {name: event[name] for name in ("shard", "detail") if event[name]}
        level("store: " + event["kind"].replace("_", " "), **details)


def _drain(log: Any, server: _core.Server, timeout_s: float) -> int:
    # The drain holds the main thread in native code; a second signal must still end the process at once.
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    log.info("stopping; requests under way may finish", timeout_s=timeout_s)
    if server.drain(timeout_s):
        log.info("stopped")
        return 0
    log.warning("stopped before every request had finished", timeout_s=timeout_s)
    return 1
