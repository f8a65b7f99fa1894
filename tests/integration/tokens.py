"""Keys, and tokens good and hostile. Good ones are made by another library; hostile ones mostly by hand, since
libraries refuse to make them."""

from __future__ import annotations

import base64
import functools
import hashlib
import hmac
import json
from typing import Any

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from tests.integration.http_node import START_S

SECRET = b"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
NOW_S = int(START_S)
ISSUER = "https://issuer.example"
AUDIENCE = "headgate"
# What every attacker asks for.
CLAIMS: dict[str, Any] = {
    "sub": "admin",
    "tier": "vip",
    "org": "acme",
    "iss": ISSUER,
    "aud": AUDIENCE,
    "iat": NOW_S - 10,
    "exp": NOW_S + 600,
}

PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey
PublicKey = rsa.RSAPublicKey | ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey


def private_key(kind: str, name: str = "ours") -> PrivateKey:
    """One key for each kind and name; making RSA keys takes long."""
    return _made(kind, name)


@functools.cache
def _made(kind: str, _name: str) -> PrivateKey:
    if kind == "rsa":
        return rsa.generate_private_key(public_exponent=65537, key_size=2048)
    if kind == "ed25519":
        return ed25519.Ed25519PrivateKey.generate()
    return ec.generate_private_key(ec.SECP256R1() if kind == "p256" else ec.SECP384R1())


def pem(key: PrivateKey | PublicKey) -> str:
    public = key if isinstance(key, PublicKey) else key.public_key()
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return public.public_bytes(serialization.Encoding.PEM, form).decode()


def jwk(kind: str, name: str = "ours", **more: Any) -> dict[str, Any]:
    """The public half of a key, as a key set holds it."""
    public = private_key(kind, name).public_key()
    if isinstance(public, rsa.RSAPublicKey):
        numbers = public.public_numbers()
        made = {"kty": "RSA", "n": number(numbers.n), "e": number(numbers.e)}
    elif isinstance(public, ec.EllipticCurvePublicKey):
        size, crv = (32, "P-256") if kind == "p256" else (48, "P-384")
        point = public.public_numbers()
        made = {"kty": "EC", "crv": crv, "x": number(point.x, size), "y": number(point.y, size)}
    else:
        raw = public.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
        made = {"kty": "OKP", "crv": "Ed25519", "x": encode(raw)}
    return made | more


def jwks(*keys: dict[str, Any]) -> str:
    return json.dumps({"keys": list(keys)})


def number(value: int, size: int | None = None) -> str:
    return encode(value.to_bytes(size or (value.bit_length() + 7) // 8))


def encode(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def claims(**changed: Any) -> dict[str, Any]:
    """The usual claims; `...` leaves one out."""
    return {name: value for name, value in (CLAIMS | changed).items() if value is not ...}


def good(algorithm: str = "HS256", key: Any = SECRET, headers: dict[str, Any] | None = None, **changed: Any) -> str:
    """Signed by a library that knows nothing of us."""
    return jwt.encode(claims(**changed), key, algorithm=algorithm, headers=headers)


def by_hand(
    header: str | dict[str, Any], payload: str | dict[str, Any], key: bytes = SECRET, hash: str = "sha256"
) -> str:
    """Signed by hand with a secret, whatever the header and the claims are."""
    texts = [part if isinstance(part, str) else json.dumps(part) for part in (header, payload)]
    signed = ".".join(encode(text.encode()) for text in texts)
    return f"{signed}.{encode(hmac.new(key, signed.encode(), hash).digest())}"


def unsigned(algorithm: str, signature: str = "") -> str:
    header, payload = encode(json.dumps({"alg": algorithm}).encode()), encode(json.dumps(claims()).encode())
    return f"{header}.{payload}.{signature}"


def parts(token: str) -> list[str]:
    return token.split(".")


def api_key_hash(value: str, secret: bytes = SECRET) -> str:
    return hmac.new(secret, value.encode(), hashlib.sha256).hexdigest()
