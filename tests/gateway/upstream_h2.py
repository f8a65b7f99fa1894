"""An upstream that speaks HTTP/2 with prior knowledge and does with each event what a test tells it to."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import Event, RequestReceived
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes

from tests.integration.http_node import PATIENCE_S
from tests.servers.closing import Closing
from tests.servers.ports import HOST

Play = Callable[[H2Connection, Event], None]


class UpstreamH2(Closing):
    def __init__(self, play: Play, streams_max: int = 100) -> None:
        self._play, self._streams_max = play, streams_max
        self._listener = socket.create_server((HOST, 0), backlog=64)
        self._sockets: list[socket.socket] = []
        self.events: list[Event] = []
        threading.Thread(target=self._accept, name="upstream", daemon=True).start()

    @property
    def url(self) -> str:
        return f"h2c://{HOST}:{self._listener.getsockname()[1]}"

    @property
    def connections(self) -> int:
        return len(self._sockets)

    def count(self, kind: type[Event]) -> int:
        return sum(isinstance(event, kind) for event in list(self.events))

    def close(self) -> None:
        # Else its thread would wait for ever.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connected in self._sockets:
            connected.close()

    def _accept(self) -> None:
        while True:
            try:
                connected, _ = self._listener.accept()
            except OSError:
                return
            connected.settimeout(PATIENCE_S)
            self._sockets.append(connected)
            threading.Thread(target=self._serve, args=(connected,), name="line", daemon=True).start()

    def _serve(self, connected: socket.socket) -> None:
        connection = H2Connection(H2Configuration(client_side=False))
        connection.initiate_connection()
        connection.update_settings({SettingCodes.MAX_CONCURRENT_STREAMS: self._streams_max})
        try:
            connected.sendall(connection.data_to_send())
            while came := connected.recv(65_536):
                for event in connection.receive_data(came):
                    self.events.append(event)
                    self._play(connection, event)
                connected.sendall(connection.data_to_send())
        except (OSError, ProtocolError):
            pass


def never_finish(connection: H2Connection, event: Event) -> None:
    """Each request gets a head and waits for the rest."""
    if isinstance(event, RequestReceived) and event.stream_id is not None:
        connection.send_headers(event.stream_id, [(":status", "200")])


def never_answer(connection: H2Connection, event: Event) -> None:
    """Nor is any window opened."""
