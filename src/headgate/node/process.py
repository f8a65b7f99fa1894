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
from headgate.node.identity_files import IdentityFiles
from headgate.node.rules_from import RulesFrom, rules_from
from headgate.running import logs
from headgate.running.chores import STOP_SIGNALS, Chore, do_chores
from headgate.running.signals import SignalQueue
from headgate.setting_lists import split
from headgate.setting_values import without_password
from headgate.settings import Settings
from headgate.store_events import BAD_EVENTS
from headgate.upkeep.rules_file import STARTER_FILE
from headgate.upkeep.watched_files import WatchedFiles

_LOOK_EVERY_S = 1.0
_TRY_FACTS = '{"user": "42", "tier": "free", "path": "/api/v1/login", "method": "POST"}'


def run(settings: Settings, *, ready_file: str | None = None) -> int:
    """Serve until told to stop; gives the exit code. Raises HeadgateError for rules or settings that cannot be used and
    OSError for an address that cannot be bound, before anything is answered."""
    log = configured_log(settings)
    return answer(settings, rules_from(settings), log, ready_file=ready_file)


def configured_log(settings: Settings) -> Any:
    logs.configure(settings.log_level, settings.log_format)
    log = structlog.get_logger("headgate")
    for warning in settings.warnings:
        log.warning("setting ignored", what=warning)
    return log


def answer(
    settings: Settings, rules: RulesFrom, log: Any, *, ready_file: str | None = None, control: str | None = None
) -> int:
    """A node by these rules. `control` is the Unix socket of a control plane that stands behind its door."""
    with SignalQueue(*STOP_SIGNALS, signal.SIGHUP).open() as signals:
        limiter = _limiter(settings)
        rules.load(limiter, log)
        certificate = WatchedFiles(*filter(None, (settings.tls_cert, settings.tls_key, settings.tls_client_ca)))
        certificate.remember()
        identity = IdentityFiles(limiter, settings, log)
        identity.load()
        server = _server(settings, limiter, control)
        server.start()
        limiter.store_status()  # Connects a shared store now and not at the first request.
        _announce(log, settings, limiter, server, rules)
        if ready_file is not None:
            _write_ready_file(ready_file, server)
        chores = [
            Chore(lambda _: _log_events(log, limiter), _LOOK_EVERY_S if limiter.is_shared else 0),
            *rules.chores(limiter, server, log),
            Chore(identity.look, _LOOK_EVERY_S if identity.is_changing else 0),
        ]
        if certificate.paths:
            chores.append(Chore(lambda asked: _look_at_certificate(log, asked, certificate, server), _LOOK_EVERY_S))
        do_chores(signals, chores)
        identity.stop()
        rules.stop()
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


def _server(settings: Settings, limiter: Limiter, control: str | None) -> _core.Server:
    return _core.Server(
        limiter,
        listen=settings.listen,
        grpc=settings.grpc,
        uds=settings.uds,
        admin=settings.admin,
        control=control,
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
        upstreams=split(settings.upstream),
        upstream_ca=settings.upstream_ca,
        upstream_connect_timeout=settings.upstream_connect_timeout_s,
        upstream_timeout=settings.upstream_timeout_s,
        upstream_idle=settings.upstream_idle_s,
        upstream_connections=settings.upstream_connections,
    )


def _look_at_certificate(log: Any, asked: bool, files: WatchedFiles, server: _core.Server) -> None:
    if not files.changed() and not asked:
        return
    error = server.reload_tls()
    if error is None:
        log.info("certificate reloaded", files=files.paths)
    else:
        log.error("certificate refused; the old one goes on", error=error)


def _announce(log: Any, settings: Settings, limiter: Limiter, server: _core.Server, rules: RulesFrom) -> None:
    if rules.place == str(STARTER_FILE):
        log.info("no rules were given; using the starter rules", copy_from=rules.place, give="--rules FILE")
    addresses = server.addresses()
    log.info(
        "headgate is answering",
        **addresses,
        rules=limiter.rule_count(),
        rules_from=rules.place,
        store=without_password(settings.store),
        **({"upstream": settings.upstream} if settings.upstream else {}),
        try_it=_try_it(settings, addresses),
    )


def _try_it(settings: Settings, addresses: dict[str, str]) -> str:
    """A command to paste."""
    if settings.upstream:
        return f"curl -si {'--insecure https' if settings.tls_cert else 'http'}://{addresses['http']}/"
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
