"""The API's own server: uvicorn in a thread, on an address or a Unix socket; the main thread waits for signals."""

from __future__ import annotations

import os
import socket
import ssl
import threading
from dataclasses import dataclass
from typing import Any

import uvicorn

from headgate.control.web_protocol import PatientProtocol

_STARTING_S = 30.0
_BACKLOG = 512
_CONNECTIONS_MAX = 2_000
_DRAIN_S = 5


@dataclass(frozen=True, slots=True)
class Tls:
    """Files (PEM). With `client_ca`, clients must show a certificate."""

    cert: str
    key: str
    client_ca: str | None = None


class WebServer:
    """Bound when made (an OSError names the address), answering from `start` to `stop`."""

    def __init__(
        self, app: Any, *, listen: str | None = None, uds: str | None = None, tls: Tls | None = None, proxies: str = ""
    ) -> None:
        self._tls = tls
        self._socket = _bound_unix(uds) if uds is not None else _bound(listen or "127.0.0.1:0")
        config = uvicorn.Config(
            app,
            http=PatientProtocol,
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            limit_concurrency=_CONNECTIONS_MAX,
            timeout_graceful_shutdown=_DRAIN_S,
            # Of a Unix socket only the node of this process has the path.
            proxy_headers=bool(uds or proxies),
            forwarded_allow_ips="*" if uds is not None else proxies,
            ssl_certfile=tls.cert if tls else None,
            ssl_keyfile=tls.key if tls else None,
            ssl_ca_certs=tls.client_ca if tls else None,
            ssl_cert_reqs=ssl.CERT_REQUIRED if tls and tls.client_ca else ssl.CERT_NONE,
        )
        config.load()
        self._config = config
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name="headgate-control", daemon=True)
        self._started = threading.Event()

    @property
    def address(self) -> str:
        """`127.0.0.1:8090`, `[::1]:8090`."""
        host, port = self._socket.getsockname()[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def start(self) -> None:
        self._thread.start()
        waited_s = 0.0
        while not self._server.started and self._thread.is_alive() and waited_s < _STARTING_S:
            self._started.wait(0.01)
            waited_s += 0.01

    def reload_tls(self) -> str | None:
        """For connections to come. What was wrong with the files, if the old ones go on."""
        if self._tls is None or self._config.ssl is None:
            return None
        try:
            # Tried on one of its own first: half a change of the one in use would stay.
            ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(self._tls.cert, self._tls.key)
            self._config.ssl.load_cert_chain(self._tls.cert, self._tls.key)
        except (OSError, ssl.SSLError) as error:
            return f"{self._tls.cert}, {self._tls.key}: {error}"
        return None

    def stop(self) -> None:
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(2 * _DRAIN_S)
        self._socket.close()

    def _run(self) -> None:
        self._server.run(sockets=[self._socket])


def _bound(listen: str) -> socket.socket:
    host, _, port = listen.rpartition(":")
    host = host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Said in full: asyncio switches Nagle's algorithm off only for what says that it is TCP, and with it on an answer
    # of two pieces takes 40 ms.
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, int(port)))
        made.listen(_BACKLOG)
    except OSError as error:
        made.close()
        raise OSError(error.errno, f"{listen}: {error.strerror or error}") from None
    return made


def _bound_unix(path: str) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        made.bind(path)
        os.chmod(path, 0o600)
        made.listen(_BACKLOG)
    except OSError as error:
        made.close()
        raise OSError(error.errno, f"{path}: {error.strerror or error}") from None
    return made
