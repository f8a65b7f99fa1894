"""A connection to somewhere, TCP or Unix socket, with TLS or without: open within its time, or not at all."""

from __future__ import annotations

import socket
import ssl

# HOST and PORT, or the path of a Unix socket.
Where = tuple[str, int] | str


def dial(where: Where, timeout_s: float, tls: ssl.SSLContext | None = None) -> socket.socket:
    """Raises OSError. What is sent and received has the same time, until somebody sets another."""
    if isinstance(where, str):
        dialled = socket.socket(socket.AF_UNIX)
    else:
        dialled = socket.create_connection(where, timeout=timeout_s)
    try:
        dialled.settimeout(timeout_s)
        if isinstance(where, str):
            dialled.connect(where)
            return dialled
        dialled.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return dialled if tls is None else tls.wrap_socket(dialled, server_hostname=where[0])
    except BaseException:
        dialled.close()
        raise
