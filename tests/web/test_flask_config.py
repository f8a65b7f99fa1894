"""Where the options of Flask's extension come from."""

from __future__ import annotations

from typing import Any

import pytest

from headgate import Limiter
from headgate.errors import ConfigError
from headgate.middleware.flask import Headgate
from tests.web.flask_shop import PER_IP, bare, statuses


def test_options_come_from_the_applications_config() -> None:
    app = bare()
    app.config["HEADGATE_RULES"] = [PER_IP | {"limit": "1/minute"}]
    app.config["HEADGATE_EXEMPT"] = ["/healthz"]
    app.config["HEADGATE_PROBLEM"] = True
    app.config["HEADGATE_IDENTITY"] = {"trusted_proxies": ["10.0.0.0/8"]}
    Headgate(app)
    forwarded = {"X-Forwarded-For": "203.0.113.1"}
    assert statuses(app, "/healthz", 2) + statuses(app, "/", 2, headers=forwarded) == [404, 404, 404, 429]
    assert app.test_client().get("/").content_type == "application/problem+json"


def test_what_is_given_wins_over_the_config() -> None:
    app = bare()
    app.config["HEADGATE_RULES"] = [PER_IP]
    Headgate(app, rules=[PER_IP | {"limit": "3/minute"}])
    assert app.test_client().get("/").headers["X-RateLimit-Limit"] == "3"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"HEADGATE_RULE": []}, r"app.config\['HEADGATE_RULE'\]: not an option; expected any of .*HEADGATE_RULES"),
        ({"HEADGATE_IDENTITY": {"jwt_secert": "x"}}, "identity: got an unexpected keyword argument 'jwt_secert'"),
        ({"HEADGATE_HEADERS": ["x-rate"]}, "headers: "),
        ({"HEADGATE_COST": "1"}, "cost: expected a whole number or a function, got str"),
        ({"HEADGATE_RULES": [], "HEADGATE_LIMITER": Limiter()}, "give a `limiter`, or `rules`"),
    ],
)
def test_a_mistake_in_the_config_is_named(config: dict[str, Any], message: str) -> None:
    app = bare()
    app.config.update(config)
    with pytest.raises(ConfigError, match=message):
        Headgate(app)
