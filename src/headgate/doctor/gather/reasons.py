"""Why something could not be looked at, in words."""

from __future__ import annotations

import socket
import ssl

from headgate.doctor.gather.resp import NotAStore, Refused

NOT_IN_TIME = "no answer in time"


def reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return NOT_IN_TIME
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS: {error.reason or error}"
    if isinstance(error, socket.gaierror):
        return f"its name is not known: {error.strerror}"
    if isinstance(error, Refused):
        return f"it refuses: {error}"
    if isinstance(error, NotAStore):
        return f"it is not a Redis or Valkey: it answered {str(error)!r}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
