"""Whatever is sent as a token, or found in a key file, is answered with a refusal or an error, never with a user."""

from __future__ import annotations

import base64
import json
from typing import Any

import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import ConfigError, IdentityOptions, Limiter
from headgate.testing import FakeClock

SECRET = b"0123456789abcdef0123456789abcdef"
START_S = 1_760_000_000
GOOD = jwt.encode({"sub": "admin", "exp": START_S + 600}, SECRET, algorithm="HS256")
OTHER = jwt.encode({"sub": "other", "exp": START_S + 600}, b"x" * 32, algorithm="HS256")
LIMITER = Limiter(clock=FakeClock(START_S), identity=IdentityOptions(jwt_secret=SECRET))

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20)
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner))
names = st.sampled_from(
    ["alg", "kid", "crit", "typ", "sub", "exp", "nbf", "iat", "aud", "iss", "tier", "kty", "k", "n"]
)
objects = st.dictionaries(names | st.text(max_size=5), values, max_size=6)


def part(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def facts(token: str) -> Any:
    return LIMITER.identify(authorization=f"Bearer {token}").facts()


@given(st.text(max_size=200) | st.lists(objects.map(part), min_size=1, max_size=4).map(".".join))
def test_what_nobody_signed_is_nobody(token: str) -> None:
    assert facts(token) == {}


@given(st.data())
def test_a_token_changed_anywhere_is_nobody(data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(GOOD) - 1))
    length = data.draw(st.integers(0, 3))
    put = data.draw(st.text("ABCab01-_.=é \t", max_size=3) | st.sampled_from(OTHER.split(".")))
    changed = GOOD[:place] + put + GOOD[place + length :]
    same = changed.strip() == GOOD
    assert facts(changed) == ({"user": "admin"} if same else {})
    assert facts(GOOD) == {"user": "admin"}


@given(objects, objects)
def test_signed_nonsense_is_told_apart_from_claims(header: dict[str, Any], claims: dict[str, Any]) -> None:
    """Even an issuer that signs anything makes no user out of what is not a text or a whole number."""
    token = (
        jwt.encode(claims | {"exp": START_S + 600}, SECRET, algorithm="HS256") if _encodable(claims) else part(header)
    )
    known = facts(token)
    assert all(isinstance(value, str) and 0 < len(value.encode()) <= 1024 for value in known.values())
    assert all(str(claims[{"user": "sub"}.get(name, name)]) == value for name, value in known.items())


@given(st.text(max_size=300) | objects.map(json.dumps) | st.lists(objects).map(lambda keys: json.dumps({"keys": keys})))
def test_a_key_set_that_is_none_is_an_error(text: str) -> None:
    with pytest.raises(ConfigError, match=r"\Ajwt_jwks: "):
        Limiter(identity=IdentityOptions(jwt_jwks=text))


@given(st.binary(max_size=300), st.sampled_from(["PUBLIC KEY", "CERTIFICATE", "RSA PUBLIC KEY"]))
def test_a_public_key_that_is_none_is_an_error(raw: bytes, label: str) -> None:
    text = f"-----BEGIN {label}-----\n{base64.b64encode(raw).decode()}\n-----END {label}-----\n"
    with pytest.raises(ConfigError, match=r"\Ajwt_public_key: "):
        Limiter(identity=IdentityOptions(jwt_public_keys=[text]))


def _encodable(claims: dict[str, Any]) -> bool:
    """Whether the other library agrees to sign it."""
    try:
        jwt.encode(claims, SECRET, algorithm="HS256")
    except (TypeError, ValueError, UnicodeEncodeError):
        return False
    return True
