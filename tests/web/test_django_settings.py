"""`settings.HEADGATE`: where the options of Django's middleware come from, and what is said of mistakes."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.test import Client
from django.urls import path

from headgate import Limiter
from tests.web.django_project import site
from tests.web.django_shop import PER_IP, seen, statuses

shared_limiter = Limiter()


def test_the_rules_are_in_the_settings() -> None:
    with site([path("", seen)], {"rules": [PER_IP | {"limit": "2/minute"}], "store": "memory://"}):
        assert statuses("/", 3) == [200, 200, 429]


def test_other_options_are_there_too() -> None:
    options = {"rules": [PER_IP], "exempt": ["/healthz"], "problem": True, "headers": ["ietf"], "cost": 10}
    with site([path("", seen), path("healthz", seen)], options):
        assert statuses("/healthz", 1) + statuses("/", 1) == [200, 200]
        refused = Client().get("/")
    assert (refused.status_code, refused.headers["Content-Type"]) == (429, "application/problem+json")
    assert "X-RateLimit-Limit" not in refused.headers


def test_identity_may_be_a_dict() -> None:
    options = {"rules": [PER_IP | {"limit": "1/minute"}], "identity": {"trusted_proxies": ["10.0.0.0/8"]}}
    with site([path("", seen)], options):
        assert [statuses("/", 1, headers={"X-Forwarded-For": ip}) for ip in ("203.0.113.1", "203.0.113.2")] == [
            [200],
            [429],
        ]


def test_a_limiter_may_be_named() -> None:
    with site([path("", seen)], {"limiter": f"{__name__}.shared_limiter"}):
        before = shared_limiter.stats()["allowed"]
        Client().get("/")
        assert shared_limiter.stats()["allowed"] == before + 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (None, "settings.HEADGATE: is missing"),
        ([], "settings.HEADGATE: expected a dict, got list"),
        ({"rule": "rules.yaml"}, r'settings.HEADGATE\["rule"\]: not an option; expected any of .*rules.*throttles'),
        ({"identify": "shop.nowhere.identify"}, r'settings.HEADGATE\["identify"\]: No module named'),
        ({"identity": {"jwt_secert": "x"}}, "settings.HEADGATE: identity: got an unexpected keyword argument"),
        ({"rules": [{"name": "x", "by": "user", "limit": "often"}]}, r"settings.HEADGATE: rules\[0\].limit"),
        ({"exempt": ["healthz"]}, "settings.HEADGATE: exempt: 'healthz' is not a path"),
        ({"cost": 1.5}, "settings.HEADGATE: cost: expected a whole number"),
    ],
)
def test_a_mistake_is_named_with_its_key(options: Any, message: str) -> None:
    with site([path("", seen)], options), pytest.raises(ImproperlyConfigured, match=message):
        Client().get("/")
