"""A proxy, the application behind it and the node beside it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.proxies.application import Application
from tests.proxies.certificates import Certificates
from tests.proxies.client import Client
from tests.proxies.example import EXAMPLES
from tests.proxies.fronts import Front
from tests.proxies.node import Node
from tests.proxies.setups import Place
from tests.servers.closing import Closing
from tests.servers.ports import HOST, free_port
from tests.servers.process import Process
from tests.servers.waiting import wait_for

START_TIMEOUT_S = 60.0


class Stack(Closing):
    """Starts at once. Patient unless the test is about a node that hangs; open as the examples are, unless closed."""

    def __init__(
        self, front: Front, *, node_flags: Sequence[str] = (), is_patient: bool = True, is_closed: bool = False
    ) -> None:
        front.flavour().require()
        self.front = front
        # Not under pytest's tmp_path: its long names do not fit in a Unix socket's address.
        self._folder = Path(tempfile.mkdtemp(prefix="hg-proxy-"))
        self._closed: list[Closing | Process] = []
        try:
            self._start(front, node_flags, is_patient, is_closed)
        except BaseException:
            self.close()
            raise

    def client(self, ip: str | None = None) -> Client:
        return Client(self.port) if ip is None else Client(self.port, ip)

    def close(self) -> None:
        for part in reversed(self._closed):
            part.kill() if isinstance(part, Process) else part.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def log_tail(self) -> str:
        return f"{self._proxy.log_tail()}\n{self.node.log_tail()}"

    def _start(self, front: Front, node_flags: Sequence[str], is_patient: bool, is_closed: bool) -> None:
        self.application = Application()
        self._closed.append(self.application)
        certificates = Certificates.made_in(self._folder / "tls")
        tls_flags = certificates.node_flags() if front.uses_tls else []
        rules = EXAMPLES / front.example / "rules.yaml"
        self.node = Node(self._folder / "node", rules, [*tls_flags, *node_flags])
        self._closed.append(self.node)
        self.port = free_port()
        home = self._folder / "proxy"
        home.mkdir()
        place = Place(
            home, self.port, free_port(), self.application.port, self.node, certificates, is_patient, is_closed
        )
        command = front.command(place)
        # Caddy keeps a folder in the user's home, and proxies of the machine's settings are not for these requests.
        self._proxy = Process(command, home, {"HOME": str(home), "PATH": ""})
        self._closed.append(self._proxy)
        wait_for(f"{front} in front of the application", self._is_up, START_TIMEOUT_S, self.log_tail)

    def _is_up(self) -> bool:
        assert self._proxy.exit_code is None, self._proxy.log_tail()
        # From an address no test uses; it spends nothing a test looks at.
        return self.client(HOST).get("/").status == 200
