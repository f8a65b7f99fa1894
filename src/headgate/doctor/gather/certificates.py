"""When certificates end, and whether a key belongs to its certificate. The standard library does not tell when a file's
certificate ends, so the few bytes of it that do are read here."""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime

from headgate.identity import read_key_file

BYTES_MAX = 1024 * 1024
_PEM = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_SEQUENCE, _VERSION, _UTC_TIME = 0x30, 0xA0, 0x17


@dataclass(frozen=True, slots=True)
class CertificateFacts:
    """`ends` are those of all certificates in the file, the first being the one that is shown."""

    setting: str
    path: str
    ends: tuple[datetime, ...] = ()
    error: str | None = None


def look_at_certificate(setting: str, path: str, key: str | None = None) -> CertificateFacts:
    try:
        text = read_key_file(path, BYTES_MAX).decode("ascii", "replace")
        ends = tuple(end_of(ssl.PEM_cert_to_DER_cert(pem)) for pem in _PEM.findall(text))
        if not ends:
            return CertificateFacts(setting, path, error="there is no certificate in it")
        if key is not None:
            # An empty password rather than a question on the terminal.
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(path, key, password="")
    except ssl.SSLError as error:
        return CertificateFacts(setting, path, error=_words(error))
    except (OSError, ValueError, IndexError) as error:
        return CertificateFacts(setting, path, error=str(getattr(error, "strerror", None) or error))
    return CertificateFacts(setting, path, ends)


def end_of(der: bytes) -> datetime:
    """The `notAfter` of a certificate. Raises ValueError or IndexError for what is none."""
    _, certificate, _ = _part(der, _SEQUENCE)
    _, body, _ = _part(certificate, _SEQUENCE)
    if body[0] == _VERSION:
        _, _, body = _part(body)
    for _ in ("serial number", "signature", "issuer"):
        _, _, body = _part(body)
    _, validity, _ = _part(body, _SEQUENCE)
    _, _, rest = _part(validity)
    kind, end, _ = _part(rest)
    form = "%y%m%d%H%M%SZ" if kind == _UTC_TIME else "%Y%m%d%H%M%SZ"
    return datetime.strptime(end.decode("ascii"), form).replace(tzinfo=UTC)


def _part(raw: bytes, expected: int | None = None) -> tuple[int, bytes, bytes]:
    """The first element: its kind and contents, and what follows it."""
    kind, length, start = raw[0], raw[1], 2
    if expected is not None and kind != expected:
        raise ValueError("this is not a certificate")
    if length & 0x80:
        start = 2 + (length & 0x7F)
        length = int.from_bytes(raw[2:start], "big")
    if len(raw) < start + length:
        raise ValueError("the certificate is cut short")
    return kind, raw[start : start + length], raw[start + length :]


def _words(error: ssl.SSLError) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return "the key is not that of the certificate"
    return f"the key cannot be used: {error.reason or error}"
