"""`headgate control`: a control plane as a process of its own, from start to end."""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

import structlog

from headgate import setting_lists as lists
from headgate.control.plane import ControlPlane, PlaneOptions
from headgate.control.web_server import Tls, WebServer
from headgate.errors import ConfigError
from headgate.identity import read_secret
from headgate.running import logs
from headgate.running.chores import STOP_SIGNALS, Chore, do_chores
from headgate.running.signals import SignalQueue
from headgate.setting_values import without_password
from headgate.settings import Settings
from headgate.upkeep.watched_files import WatchedFiles

_LOOK_EVERY_S = 1.0
# A thread that writes a snapshot of many rules would else hold up an emergency block by 5 ms at each of its steps.
_SWITCH_S = 0.001


def run(settings: Settings, *, ready_file: str | None = None) -> int:
    """Serve until told to stop; gives the exit code. Raises ConfigError for settings that cannot be used and OSError
    for an address that cannot be bound. A database that does not answer is waited for: the API says so meanwhile."""
    sys.setswitchinterval(_SWITCH_S)
    logs.configure(settings.log_level, settings.log_format)
    log = structlog.get_logger("headgate")
    for warning in settings.warnings:
        log.warning("setting ignored", what=warning)
    if settings.database is None:
        raise ConfigError("a control plane needs a database: --database postgresql://… or sqlite:///FILE")
    plane = ControlPlane(plane_options(settings, settings.database), log)
    tls = _tls(settings)
    with SignalQueue(*STOP_SIGNALS, signal.SIGHUP).open() as signals:
        server = WebServer(plane.make_app(), listen=settings.control, tls=tls, proxies=settings.trusted_proxies or "")
        certificate = WatchedFiles(*filter(None, (settings.tls_cert, settings.tls_key)))
        certificate.remember()
        server.start()
        plane.open_later(lambda token: _announce(log, settings, server, token))
        if ready_file is not None:
            write_ready_file(ready_file, {"control": server.address})
        chores = [Chore(lambda asked: _look_at_certificate(log, asked, certificate, server), _LOOK_EVERY_S)]
        do_chores(signals, chores if certificate.paths else [])
        log.info("stopping; requests under way may finish")
        server.stop()
        plane.close()
        log.info("stopped")
        return 0


def plane_options(settings: Settings, database: str) -> PlaneOptions:
    """As settings say. Raises ConfigError for a file that cannot be used."""
    return PlaneOptions(
        database=database,
        feed_key=None if settings.feed_key_file is None else read_secret(settings.feed_key_file),
        key_secret=None if settings.api_key_secret_file is None else read_secret(settings.api_key_secret_file),
        regions=lists.by_region(settings.regions),
    )


def show_first_token(text: str) -> None:
    """To the terminal and not to the log, which is kept."""
    print(
        "The first token of the admin API. It is shown once and kept nowhere; whoever has it may do everything.\n"
        f"\n    export HEADGATE_TOKEN={text}\n",
        file=sys.stdout,
        flush=True,
    )


def write_ready_file(path: str, content: dict[str, Any]) -> None:
    """Whoever waits for this file must never see half of it."""
    draft = f"{path}.{os.getpid()}"
    with open(draft, "w", encoding="utf-8") as file:
        json.dump({"pid": os.getpid(), **content}, file)
    os.replace(draft, path)


def _tls(settings: Settings) -> Tls | None:
    if settings.tls_cert is None or settings.tls_key is None:
        return None
    return Tls(settings.tls_cert, settings.tls_key, settings.tls_client_ca)


def _announce(log: Any, settings: Settings, server: WebServer, token: str | None) -> None:
    scheme = "https" if settings.tls_cert else "http"
    regions = sorted(lists.by_region(settings.regions))
    log.info(
        "the control plane is answering",
        control=f"{scheme}://{server.address}",
        database=without_password(settings.database),
        regions=",".join(regions) or "none",
        http_feed="on" if settings.feed_key_file else "off: no feed_key_file",
    )
    if token is not None:
        show_first_token(token)


def _look_at_certificate(log: Any, asked: bool, files: WatchedFiles, server: WebServer) -> None:
    if not files.changed() and not asked:
        return
    error = server.reload_tls()
    if error is None:
        log.info("certificate reloaded", files=files.paths)
    else:
        log.error("certificate refused; the old one goes on", error=error)
