"""Callers that are known: every kind of key, what tokens and API keys say, and what may stand beside them."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from headgate import ConfigError, IdentityOptions, KeysFileError, Limiter
from headgate.testing import FakeClock
from tests.integration.conftest import Starter
from tests.integration.http_node import START_S, Node
from tests.integration.identified_node import know
from tests.integration.tokens import NOW_S, SECRET, api_key_hash, by_hand, claims, good, jwk, jwks, pem, private_key

KEY = "hgk_k1_value"
ENTRY = {"id": "k1", "hash": api_key_hash(KEY), "user": "of-key", "tier": "gold", "org": 7, "name": "the first"}
RULES: list[dict[str, Any]] = [{"name": "each", "by": "user", "limit": "10/minute"}]


def limiter(**options: Any) -> Limiter:
    return Limiter(clock=FakeClock(START_S), identity=IdentityOptions(**options))


def user(known: Limiter, token: str) -> str | None:
    identity = known.identify(authorization=f"Bearer {token}")
    assert identity.error is None, identity.error
    return identity.user


# --- keys


@pytest.mark.parametrize("algorithm", ["HS256", "HS384", "HS512"])
def test_secrets_of_every_size(algorithm: str) -> None:
    assert user(limiter(jwt_secret=SECRET), good(algorithm)) == "admin"
    assert user(limiter(jwt_secret=SECRET.decode(), jwt_algorithms=[algorithm]), good(algorithm)) == "admin"


ASYMMETRIC = [
    *(("rsa", f"{family}{bits}") for family in ("RS", "PS") for bits in (256, 384, 512)),
    ("p256", "ES256"),
    ("p384", "ES384"),
    ("ed25519", "EdDSA"),
]


@pytest.mark.parametrize(("kind", "algorithm"), ASYMMETRIC)
def test_public_keys_of_every_kind(kind: str, algorithm: str) -> None:
    token = good(algorithm, private_key(kind), headers={"kid": "k"})
    for source in (
        {"jwt_public_keys": [pem(private_key(kind))]},
        {"jwt_public_keys": pem(private_key("p256", "theirs")) + pem(private_key(kind))},
        {"jwt_public_keys": [certificate(kind)]},
        {"jwt_jwks": jwks(jwk(kind, kid="k"))},
        {"jwt_jwks": jwks(jwk(kind))},
        {"jwt_jwks": jwks(jwk(kind, "theirs", kid="other"), jwk(kind, kid="k", alg=algorithm, use="sig"))},
    ):
        assert user(limiter(**source), token) == "admin", source


def certificate(kind: str) -> str:
    key = private_key(kind)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "issuer")])
    start = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), 7, start, start + datetime.timedelta(days=1))
    signed = made.sign(key, None if kind == "ed25519" else hashes.SHA256())
    return signed.public_bytes(serialization.Encoding.PEM).decode()


def test_an_rsa_key_in_its_own_form() -> None:
    key = private_key("rsa")
    assert isinstance(key, rsa.RSAPrivateKey)
    text = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.PKCS1).decode()
    assert "RSA PUBLIC KEY" in text
    assert user(limiter(jwt_public_keys=[text]), good("RS256", key)) == "admin"


def test_several_sources_stand_beside_each_other() -> None:
    known = limiter(jwt_secret=SECRET, jwt_public_keys=[pem(private_key("rsa"))], jwt_jwks=jwks(jwk("p256", kid="p")))
    assert user(known, good()) == "admin"
    assert user(known, good(headers={"kid": "of-someone"})) == "admin"
    assert user(known, good("RS256", private_key("rsa"), headers={"kid": "x"})) == "admin"
    assert user(known, good("ES256", private_key("p256"), headers={"kid": "p"})) == "admin"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"jwt_secret": b"hunter2"}, "jwt_secret: is too weak: 7 bytes, and HS256 needs at least 32"),
        ({"jwt_secret": b""}, "jwt_secret: is too weak"),
        ({"jwt_secret": SECRET[:63], "jwt_algorithms": ["HS512"]}, "HS512 needs at least 64"),
        ({"jwt_secret": pem(private_key("rsa"))}, "jwt_secret: is a PEM file"),
        ({"jwt_secret": SECRET, "jwt_algorithms": ["none"]}, "jwt_algorithms: `none` is not one of HS256"),
        ({"jwt_public_keys": [pem(private_key("rsa"))], "jwt_algorithms": ["HS256"]}, "jwt_public_key: is of no use"),
        ({"jwt_public_keys": ["hello"]}, "jwt_public_key: holds no key"),
        ({"jwt_jwks": "{}"}, "jwt_jwks: is not a key set"),
        ({"jwt_jwks": jwks(jwk("rsa", use="enc"))}, "jwt_jwks: holds no key that tokens can be verified with"),
        ({"jwt_secret": SECRET, "jwt_leeway_s": -1}, "jwt_leeway: expected seconds"),
        ({"trusted_proxies": ["proxy"]}, "trusted_proxies: `proxy` is not an address"),
        ({"api_key_header": "X API"}, "api_key_header: expected the name of a header"),
        ({"unverified": "maybe"}, "unverified: expected reject or anonymous"),
        ({"api_keys": [ENTRY]}, "api_keys and api_key_secret go together"),
        ({"api_keys": [ENTRY], "api_key_secret": b"short"}, "api_key_secret: is too weak: 5 bytes"),
    ],
)
def test_what_cannot_be_used_is_told_at_the_start(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        limiter(**options)
    assert words in str(caught.value)


def test_a_small_rsa_key_is_refused() -> None:
    small = rsa.generate_private_key(public_exponent=65537, key_size=1024)
    with pytest.raises(ConfigError, match="RSA key of 1024 bits"):
        limiter(jwt_public_keys=[pem(small)])


def test_a_change_that_is_wrong_leaves_the_old_way() -> None:
    known = limiter(jwt_secret=SECRET)
    with pytest.raises(ConfigError):
        known.set_identity(IdentityOptions(jwt_secret=b"weak"))
    assert user(known, good()) == "admin"


# --- what they say


def test_claims_may_have_other_names_and_be_numbers() -> None:
    known = limiter(jwt_secret=SECRET, jwt_user_claim="uid", jwt_tier_claim="/app/plan", jwt_org_claim="https://x/org")
    token = by_hand({"alg": "HS256"}, claims(uid=42, app={"plan": "pro"}) | {"https://x/org": "acme"})
    identity = known.identify(authorization=f"Bearer {token}")
    assert identity.facts() == {"user": "42", "tier": "pro", "org": "acme"}


def test_claims_that_are_switched_off_are_not_taken() -> None:
    known = limiter(jwt_secret=SECRET, jwt_tier_claim="", jwt_org_claim="")
    assert known.identify(authorization=f"Bearer {good()}").facts() == {"user": "admin"}


def test_an_api_key_says_whose_it_is() -> None:
    known = limiter(api_keys=[ENTRY], api_key_secret=SECRET)
    identity = known.identify(api_key=KEY)
    assert identity.facts() == {"user": "of-key", "tier": "gold", "org": "7", "api_key": "k1"}
    assert known.identify(api_key="hgk_k1_other").error == "the API key is not known"
    assert KEY not in repr(identity)


def test_a_token_and_a_key_must_both_be_good_and_the_key_gives_the_tier() -> None:
    known = limiter(jwt_secret=SECRET, api_keys=[ENTRY], api_key_secret=SECRET)
    identity = known.identify(authorization=f"Bearer {good()}", api_key=KEY)
    assert identity.facts() == {"user": "admin", "tier": "gold", "org": "acme", "api_key": "k1"}
    for authorization, key in ((f"Bearer {good(exp=1)}", KEY), (f"Bearer {good()}", "wrong")):
        identity = known.identify(authorization=authorization, api_key=key)
        assert identity.error
        assert identity.facts() == {}


def test_what_is_not_looked_at_is_nobody_and_no_error() -> None:
    known = limiter(jwt_secret=SECRET)
    for shown in ({}, {"authorization": "Basic dTpw"}, {"api_key": KEY}, {"peer": "203.0.113.9"}):
        identity = known.identify(**shown)
        assert identity.error is None
        assert identity.user is None
    nobody = Limiter().identify(authorization=f"Bearer {good()}", api_key=KEY)
    assert (nobody.error, nobody.facts()) == (None, {})


@pytest.mark.parametrize(
    ("ends", "advance_s", "error"),
    [
        ({"expires": "2025-10-09T08:54:20Z"}, 59, None),
        ({"expires": "2025-10-09T08:54:20Z"}, 60, "the API key has expired"),
        ({"revoked": "2020-01-01T00:00:00Z", "revoked_by": "me"}, 0, "the API key was revoked"),
        ({"revoked": "2025-10-09T08:54:00Z"}, 0, None),
    ],
)
def test_a_key_ends_when_the_file_says(ends: dict[str, str], advance_s: float, error: str | None) -> None:
    clock = FakeClock(START_S)
    known = Limiter(clock=clock, identity=IdentityOptions(api_keys=[ENTRY | ends], api_key_secret=SECRET))
    clock.advance(advance_s)
    assert known.identify(api_key=KEY).error == error


def test_mistakes_in_keys_are_told_with_their_place() -> None:
    with pytest.raises(KeysFileError) as caught:
        limiter(api_keys=[ENTRY, ENTRY | {"id": "k2", "hash": "12"}, ENTRY | {"teir": "x"}], api_key_secret=SECRET)
    assert [str(mistake).split(":")[0] for mistake in caught.value.mistakes] == ["keys[1]", "keys[2]"]


def test_secrets_are_not_shown() -> None:
    options = IdentityOptions(jwt_secret=SECRET, api_keys=[ENTRY], api_key_secret=SECRET)
    assert SECRET.decode() not in repr(options)
    assert str(ENTRY["hash"]) not in repr(options)


def test_an_identity_is_a_frozen_value() -> None:
    known = limiter(jwt_secret=SECRET)
    one, other = (known.identify(authorization=f"Bearer {good()}", peer="203.0.113.9") for _ in range(2))
    assert one == other
    assert one != known.identify()
    with pytest.raises(AttributeError):
        one.user = "me"  # type: ignore[misc]
    assert known.check(**one.facts(), path="/").allowed


# --- beside other facts


@pytest.fixture
def node(run: Starter) -> Node:
    node = run(rules=RULES)
    know(node, IdentityOptions(jwt_secret=SECRET, api_keys=[ENTRY], api_key_secret=SECRET))
    return node


def test_verified_facts_are_counted_by(node: Node) -> None:
    client = node.client()
    facts = {"credentials": {"authorization": f"Bearer {good(sub='7')}", "peer": "203.0.113.9"}}
    for left in (9, 8):
        assert client.post("/v1/check", json=facts).json()["remaining"] == left
    assert node.remaining("7") == 8
    answers = client.post("/v1/checks", json=[facts, {"user": "8"}, {"credentials": {"api_key": KEY}}]).json()
    assert [answer["remaining"] for answer in answers] == [7, 9, 9]
    assert node.remaining("of-key") == 9


@pytest.mark.parametrize(
    ("facts", "field"),
    [
        ({"user": "1", "credentials": {"authorization": "Bearer x"}}, "user"),
        ({"tier": "pro", "credentials": {"authorization": "Bearer x"}}, "tier"),
        ({"org": "1", "credentials": {"authorization": "Bearer x"}}, "org"),
        ({"api_key": "1", "credentials": {"api_key": "x"}}, "api_key"),
        ({"user": "1", "credentials": {"api_key": "x"}}, "user"),
        ({"ip": "192.0.2.1", "credentials": {"peer": "192.0.2.1"}}, "ip"),
        ({"credentials": "Bearer x"}, "credentials"),
        ({"credentials": {"authorisation": "Bearer x"}}, "credentials.authorisation"),
        ({"credentials": {"authorization": 7}}, "credentials.authorization"),
        ({"credentials": {"authorization": ""}}, "credentials.authorization"),
        ({"credentials": {"peer": "nowhere"}}, "credentials.peer"),
        ({"credentials": {"forwarded_for": "192.0.2.1"}}, "credentials.forwarded_for"),
    ],
)
def test_facts_that_contradict_credentials_are_refused_by_name(node: Node, facts: dict[str, Any], field: str) -> None:
    client = node.client()
    answer = client.post("/v1/check", json=facts)
    assert (answer.status_code, answer.json()["field"]) == (400, field)
    listed = client.post("/v1/checks", json=[{"user": "9"}, facts])
    assert (listed.status_code, listed.json()["field"]) == (400, f"[1].{field}")
    assert node.decided() == 0


def test_facts_that_credentials_do_not_speak_of_stand_beside_them(node: Node) -> None:
    client = node.client()
    shown = {"authorization": f"Bearer {good(sub='7')}"}
    beside = {"api_key": "other", "ip": "192.0.2.1", "path": "/", "region": "eu", "cost": 2, "credentials": shown}
    assert client.post("/v1/check", json=beside).json()["remaining"] == 8
    assert client.post("/v1/check", json={"user": "9", "credentials": None}).json()["remaining"] == 9
    assert client.post("/v1/check", json={"user": "9", "credentials": {"peer": "192.0.2.1"}}).json()["remaining"] == 8
    know(node, IdentityOptions())
    assert client.post("/v1/check", json={"user": "9", "credentials": shown}).json()["remaining"] == 7


def test_one_bad_token_of_a_list_counts_nothing(node: Node) -> None:
    bad = {"credentials": {"authorization": f"Bearer {good(exp=1)}"}}
    answer = node.client().post("/v1/checks", json=[{"user": "1"}, bad])
    assert (answer.status_code, answer.json()["detail"]) == (401, "[1]: the token has expired")
    assert answer.headers["content-type"] == "application/problem+json"
    assert "invalid_token" in answer.headers["www-authenticate"]
    assert node.decided() == 0


def test_tokens_are_remembered_and_told_apart(node: Node) -> None:
    client = node.client()
    made = [good(sub=str(nth), exp=NOW_S + 60 + nth) for nth in range(50)]
    for _ in range(2):
        for nth, token in enumerate(made):
            answer = client.post("/v1/check", json={"credentials": {"authorization": f"Bearer {token}"}})
            assert answer.status_code == 200, nth
    assert {node.remaining(str(nth)) for nth in range(50)} == {8}


def test_the_answer_does_not_depend_on_what_was_seen_before() -> None:
    """Tokens that differ in one byte of their signature, after the good one was remembered."""
    known = limiter(jwt_secret=SECRET)
    token = good()
    assert user(known, token) == "admin"
    head, _, signature = token.rpartition(".")
    for place in range(len(signature) - 1):
        other = "A" if signature[place] != "A" else "B"
        changed = f"{head}.{signature[:place]}{other}{signature[place + 1 :]}"
        assert known.identify(authorization=f"Bearer {changed}").facts() == {}
