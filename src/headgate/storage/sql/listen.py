"""PostgreSQL's NOTIFY, for who waits for changes made by other processes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import psycopg

from headgate.storage.sql.driver import TimedConnection
from headgate.storage.sql.failures import told_plainly
from headgate.storage.sql.transaction import CHANNEL


class Listener:
    """For one thread. Has a connection of its own, made when it first waits, and again after one was lost."""

    def __init__(self, connect: Callable[[], TimedConnection], place: str, password: str | None) -> None:
        self._connect = connect
        self._place = place
        self._password = password
        self._connection: TimedConnection | None = None

    def wait(self, timeout_s: float) -> bool:
        """Whether something changed. Also true when it has just connected: what came before was not heard.

        Raises StorageDown when there is no connection to be had; call again, later.
        """
        with told_plainly(self._place, self._password):
            if self._connection is None:
                self._connection = self._listening()
                return True
            try:
                # The wait is what was asked for; a lost connection ends it earlier.
                self._connection.limit_s = timeout_s + 1
                heard = list(self._connection.notifies(timeout=timeout_s, stop_after=1))
                return bool(heard)
            except psycopg.Error:
                self.close()
                raise

    def close(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(psycopg.Error):
                self._connection.close()
            self._connection = None

    def _listening(self) -> TimedConnection:
        connection = self._connect()
        try:
            connection.execute(f"LISTEN {CHANNEL}".encode())
        except BaseException:
            connection.close()
            raise
        return connection
