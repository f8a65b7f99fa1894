"""Tokens that must not be believed, one by one, at every door that takes them, whatever is done about them."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest

from headgate import IdentityOptions
from tests.integration import tokens
from tests.integration.conftest import Starter
from tests.integration.http_node import Node
from tests.integration.identified_node import RULES, AuthorizeDoor, CheckDoor, Door, know
from tests.integration.tokens import (
    AUDIENCE,
    ISSUER,
    NOW_S,
    SECRET,
    by_hand,
    claims,
    good,
    jwk,
    jwks,
    private_key,
    unsigned,
)

HS = {"alg": "HS256", "typ": "JWT"}
OPTIONS: dict[str, Any] = {"jwt_issuers": [ISSUER], "jwt_audiences": [AUDIENCE], "jwt_required_claims": ["exp", "sub"]}


@pytest.fixture(params=["reject", "anonymous"])
def unverified(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def node(run: Starter) -> Node:
    return run(rules=RULES)


@pytest.fixture(params=[CheckDoor, AuthorizeDoor], ids=["check", "authorize"])
def door(request: pytest.FixtureRequest, node: Node) -> Door:
    made: Door = request.param(node.client())
    return made


def assert_nobody(door: Door, node: Node, authorization: str, unverified: str) -> None:
    before = node.decided()
    met = door.show(authorization)
    assert not met.is_somebody
    if unverified == "reject":
        assert met.status == 401
        assert node.decided() == before
    else:
        assert (met.status, met.rule) == (200, "everyone")
        assert node.decided() == before + 1


def twice(name: str, first: object, second: object) -> str:
    """Claims with a member given twice."""
    rest = json.dumps({key: value for key, value in claims().items() if key != name})
    return f'{{"{name}":{json.dumps(first)},"{name}":{json.dumps(second)},{rest[1:]}'


def spliced(header: str, payload: str, signature: str) -> str:
    return ".".join((tokens.parts(header)[0], tokens.parts(payload)[1], tokens.parts(signature)[2]))


WITH_A_SECRET: dict[str, Callable[[], str]] = {
    "none": lambda: unsigned("none"),
    "none, signed": lambda: unsigned("none", tokens.parts(good())[2]),
    "None": lambda: unsigned("None"),
    "nOnE": lambda: unsigned("nOnE"),
    "no algorithm": lambda: by_hand({"typ": "JWT"}, claims()),
    "algorithm is a list": lambda: by_hand({"alg": ["HS256"]}, claims()),
    "algorithm in small letters": lambda: by_hand({"alg": "hs256"}, claims()),
    "algorithm twice": lambda: by_hand('{"alg":"none","alg":"HS256"}', claims()),
    "algorithm of other keys": lambda: by_hand({"alg": "RS256"}, claims()),
    "another secret": lambda: good(key=b"x" * 64),
    "an empty secret": lambda: by_hand(HS, claims(), key=b""),
    "no signature": lambda: unsigned("HS256"),
    "another token's signature": lambda: spliced(good(), good(sub="root"), good()),
    "another token's header": lambda: spliced(good("HS384"), good(), good()),
    "half a signature": lambda: good()[:-20],
    "expired": lambda: good(exp=NOW_S - 30),
    "expired long ago": lambda: good(exp=1),
    "expires at minus one": lambda: by_hand(HS, claims(exp=-1)),
    "expires as text": lambda: by_hand(HS, claims(exp=str(NOW_S + 600))),
    "expires null": lambda: by_hand(HS, claims(exp=None)),
    "expires true": lambda: by_hand(HS, claims(exp=True)),
    "expires in a list": lambda: by_hand(HS, claims(exp=[NOW_S + 600])),
    "expires never": lambda: by_hand(HS, claims(exp=...)),
    "expires at infinity": lambda: by_hand(HS, json.dumps(claims()).replace(str(NOW_S + 600), "1e999")),
    "not valid yet": lambda: good(nbf=NOW_S + 31),
    "not valid yet, as text": lambda: by_hand(HS, claims(nbf="0")),
    "issued in the future": lambda: good(iat=NOW_S + 31),
    "issued as text": lambda: by_hand(HS, claims(iat="0")),
    "another audience": lambda: good(aud="someone"),
    "other audiences": lambda: good(aud=["someone", "else"]),
    "no audience": lambda: by_hand(HS, claims(aud=...)),
    "audience is an object": lambda: by_hand(HS, claims(aud={AUDIENCE: True})),
    "audience among things": lambda: by_hand(HS, claims(aud=[AUDIENCE, 7])),
    "another issuer": lambda: good(iss="https://evil.example"),
    "issuer with a tail": lambda: good(iss=ISSUER + "/"),
    "issuers in a list": lambda: by_hand(HS, claims(iss=[ISSUER])),
    "no issuer": lambda: by_hand(HS, claims(iss=...)),
    "a claim that is needed": lambda: good(sub=...),
    "claims twice": lambda: by_hand(HS, twice("sub", "nobody", "admin")),
    "expiry twice": lambda: by_hand(HS, twice("exp", 1, NOW_S + 600)),
    "claims twice, escaped": lambda: by_hand(HS, twice("sub", "nobody", "admin").replace('"sub"', '"s\\u0075b"', 1)),
    "unknown crit": lambda: by_hand(HS | {"crit": ["exp"]}, claims()),
    "empty crit": lambda: by_hand(HS | {"crit": []}, claims()),
    "unencoded payload": lambda: by_hand(HS | {"crit": ["b64"], "b64": False}, claims()),
    "user is an object": lambda: by_hand(HS, claims(sub={"id": "admin"})),
    "user with a line's end": lambda: by_hand(HS, claims(sub="admin\r\nX-Admin: 1")),
    "user is too long": lambda: by_hand(HS, claims(sub="a" * 1025)),
    "user is empty": lambda: by_hand(HS, claims(sub="")),
    "tier is a list": lambda: by_hand(HS, claims(tier=["vip"])),
    "tier is a fraction": lambda: by_hand(HS, claims(tier=1.5)),
    "claims are a list": lambda: by_hand(HS, "[]"),
    "claims are no JSON": lambda: by_hand(HS, "{'sub':'admin'}"),
    "claims and more": lambda: by_hand(HS, json.dumps(claims()) + "{}"),
    "header is no object": lambda: by_hand('"HS256"', claims()),
    "deeply nested": lambda: by_hand(HS, '{"sub":"admin","x":' + "[" * 3_000 + "]" * 3_000 + "}"),
    "two parts": lambda: ".".join(tokens.parts(good())[:2]),
    "four parts": lambda: good() + "." + tokens.parts(good())[2],
    "five parts": lambda: "a.b.c.d.e",
    "padded": lambda: good() + "==",
    "two tokens": lambda: f"{good()}, {good()}",
    "a space in it": lambda: good().replace(".", ". ", 1),
    "empty": lambda: "",
    "dots": lambda: "..",
    "not a token": lambda: "admin",
}


@pytest.mark.parametrize("attack", WITH_A_SECRET)
def test_a_token_that_is_not_good_is_nobody(attack: str, door: Door, node: Node, unverified: str) -> None:
    know(node, IdentityOptions(jwt_secret=SECRET, unverified=unverified, **OPTIONS))
    assert door.show(f"Bearer {good()}").rule == "is-admin"
    assert_nobody(door, node, f"Bearer {WITH_A_SECRET[attack]()}", unverified)


def test_a_huge_token_is_nobody(node: Node, unverified: str) -> None:
    know(node, IdentityOptions(jwt_secret=SECRET, unverified=unverified, **OPTIONS))
    door = CheckDoor(node.client())
    for padding in (8 * 1024, 40 * 1024):
        assert_nobody(door, node, f"Bearer {good(padding='x' * padding)}", unverified)


PUBLIC = {kind: tokens.pem(private_key(kind)) for kind in ("rsa", "p256", "p384", "ed25519")}
WITH_PUBLIC_KEYS: dict[str, Callable[[], str]] = {
    "a key of their own in the header": lambda: good(
        "RS256", private_key("rsa", "theirs"), headers={"jwk": jwk("rsa", "theirs")}
    ),
    "a key behind a URL": lambda: good(
        "RS256", private_key("rsa", "theirs"), headers={"jku": "https://evil.example/jwks.json"}
    ),
    "a chain of their own": lambda: good(
        "RS256", private_key("rsa", "theirs"), headers={"x5c": ["MIIB"], "x5u": "https://e"}
    ),
    "their RSA key": lambda: good("RS256", private_key("rsa", "theirs")),
    "their P-256 key": lambda: good("ES256", private_key("p256", "theirs")),
    "their Ed25519 key": lambda: good("EdDSA", private_key("ed25519", "theirs")),
    "RS256 that says PS256": lambda: spliced(
        good("PS256", private_key("rsa")), good(), good("RS256", private_key("rsa"))
    ),
    "a signature of zeros": lambda: unsigned("ES256", tokens.encode(bytes(64))),
    "an RSA signature of zeros": lambda: unsigned("RS256", tokens.encode(bytes(256))),
    "an Ed25519 signature of zeros": lambda: unsigned("EdDSA", tokens.encode(bytes(64))),
    "none": lambda: unsigned("none"),
}


def public_key_forms(text: str) -> dict[str, bytes]:
    """What an attacker may take for the secret that the other side uses."""
    inner = "".join(text.splitlines()[1:-1])
    return {
        "PEM": text.encode(),
        "PEM without its end": text.strip().encode(),
        "base64": inner.encode(),
        "DER": base64.b64decode(inner),
    }


@pytest.mark.parametrize("form", public_key_forms(PUBLIC["rsa"]))
@pytest.mark.parametrize("kind", PUBLIC)
def test_a_public_key_is_never_a_secret(kind: str, form: str, door: Door, node: Node, unverified: str) -> None:
    know(node, IdentityOptions(jwt_public_keys=[PUBLIC[kind]], unverified=unverified, **OPTIONS))
    for algorithm, hash in (("HS256", "sha256"), ("HS512", "sha512")):
        confused = by_hand({"alg": algorithm}, claims(), key=public_key_forms(PUBLIC[kind])[form], hash=hash)
        assert_nobody(door, node, f"Bearer {confused}", unverified)


@pytest.mark.parametrize("attack", WITH_PUBLIC_KEYS)
def test_public_keys_verify_only_their_own_kind(attack: str, door: Door, node: Node, unverified: str) -> None:
    know(node, IdentityOptions(jwt_public_keys=list(PUBLIC.values()), unverified=unverified, **OPTIONS))
    assert door.show(f"Bearer {good('RS256', private_key('rsa'))}").rule == "is-admin"
    assert_nobody(door, node, f"Bearer {WITH_PUBLIC_KEYS[attack]()}", unverified)


SET = jwks(
    jwk("rsa", kid="rsa", alg="RS256"),
    jwk("p256", kid="p256", use="sig"),
    jwk("ed25519", kid="signs", key_ops=["sign"]),
    jwk("p384", kid="encrypts", use="enc"),
)
WITH_A_SET: dict[str, Callable[[], str]] = {
    "an algorithm the key is not for": lambda: good("PS256", private_key("rsa"), headers={"kid": "rsa"}),
    "the id of another key": lambda: good("ES256", private_key("p256"), headers={"kid": "rsa"}),
    "a key that only signs": lambda: good("EdDSA", private_key("ed25519"), headers={"kid": "signs"}),
    "a key that encrypts": lambda: good("ES384", private_key("p384"), headers={"kid": "encrypts"}),
    "an unknown id": lambda: good("RS256", private_key("rsa"), headers={"kid": "unknown"}),
    "a path for an id": lambda: good("RS256", private_key("rsa"), headers={"kid": "../../../dev/null"}),
    "a query for an id": lambda: good("RS256", private_key("rsa"), headers={"kid": "x' UNION SELECT 'rsa"}),
    "an id with a zero byte": lambda: good("RS256", private_key("rsa"), headers={"kid": "rsa\x00"}),
    "a number for an id": lambda: by_hand({"alg": "HS256", "kid": 7}, claims()),
    "the empty secret of a file": lambda: by_hand({"alg": "HS256", "kid": "../../../dev/null"}, claims(), key=b""),
    "a modulus as a secret": lambda: by_hand(HS | {"kid": "rsa"}, claims(), key=jwk("rsa")["n"].encode()),
}


@pytest.mark.parametrize("attack", WITH_A_SET)
def test_a_key_id_picks_a_key_and_means_nothing_else(attack: str, door: Door, node: Node, unverified: str) -> None:
    know(node, IdentityOptions(jwt_jwks=SET, unverified=unverified, **OPTIONS))
    assert door.show(f"Bearer {good('RS256', private_key('rsa'), headers={'kid': 'rsa'})}").rule == "is-admin"
    assert_nobody(door, node, f"Bearer {WITH_A_SET[attack]()}", unverified)


def test_secrets_that_came_over_the_network_are_not_taken(door: Door, node: Node, unverified: str) -> None:
    oct_key = {"kty": "oct", "k": tokens.encode(SECRET), "kid": "s"}
    token = good(headers={"kid": "s"})
    know(node, IdentityOptions(jwt_jwks=jwks(oct_key, jwk("p256")), unverified=unverified))
    assert door.show(f"Bearer {token}").rule == "is-admin"
    know(node, IdentityOptions(jwt_jwks=jwks(oct_key, jwk("p256")), jwt_jwks_is_remote=True, unverified=unverified))
    assert_nobody(door, node, f"Bearer {token}", unverified)


def test_a_token_seen_before_ends_with_the_keys_that_verified_it(door: Door, node: Node, unverified: str) -> None:
    token = f"Bearer {good()}"
    know(node, IdentityOptions(jwt_secret=SECRET, unverified=unverified))
    assert door.show(token).rule == "is-admin"
    know(node, IdentityOptions(jwt_secret=SECRET[::-1], unverified=unverified))
    assert_nobody(door, node, token, unverified)


def test_a_token_seen_before_ends_when_it_expires(door: Door, node: Node, unverified: str) -> None:
    token = f"Bearer {good(exp=NOW_S + 5)}"
    know(node, IdentityOptions(jwt_secret=SECRET, unverified=unverified))
    assert door.show(token).rule == "is-admin"
    node.clock.advance(34.9)
    assert door.show(token).rule == "is-admin"
    node.clock.advance(0.1)
    assert_nobody(door, node, token, unverified)


def test_no_part_of_a_token_or_key_comes_back(door: Door, node: Node) -> None:
    entry = {"id": "k1", "hash": tokens.api_key_hash("hgk_k1_value")}
    know(node, IdentityOptions(jwt_secret=SECRET, api_keys=[entry], api_key_secret=SECRET))
    for token in (good(key=b"x" * 64), by_hand(HS, claims(exp="soon")), "SECRETTOKEN"):
        told = door.show(f"Bearer {token}").told
        assert told
        assert not any(part in told for part in token.split("."))
    met = door.show(api_key="hgk_k1_wrongvalue")
    assert met.status == 401
    assert "wrongvalue" not in met.told
