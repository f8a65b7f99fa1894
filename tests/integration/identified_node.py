"""A node that knows its callers, and doors to show credentials at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import httpx

from headgate.identity import IdentityOptions, apply, make_api_keys, make_tokens
from tests.integration.http_node import Node

# Whoever gets to be the admin, or one of the tiers and orgs that attackers name, is met by a rule that says so.
RULES: list[dict[str, Any]] = [
    {"name": "is-admin", "match": {"user": "admin"}, "action": "block", "priority": 300},
    {"name": "is-vip", "match": {"tier": "vip"}, "action": "block", "priority": 200},
    {"name": "is-acme", "match": {"org": "acme"}, "action": "block"},
    {"name": "everyone", "by": "user", "limit": "1000/minute"},
]
CLIENT_IP = "198.51.100.7"


def know(node: Node, options: IdentityOptions) -> None:
    """Swap how a node knows its callers."""
    tokens = make_tokens(options) if options.has_keys_for_tokens else None
    apply(node.engine, options, tokens, make_api_keys(options))


@dataclass(frozen=True)
class Met:
    """What a request met: its status and the rule that decided."""

    status: int
    rule: str | None
    told: str

    @property
    def is_somebody(self) -> bool:
        return self.rule in ("is-admin", "is-vip", "is-acme")


@dataclass
class CheckDoor:
    """`/v1/check`: credentials beside other facts."""

    client: httpx.Client

    def show(self, authorization: str | None = None, api_key: str | None = None) -> Met:
        shown = {"authorization": authorization, "api_key": api_key, "peer": CLIENT_IP}
        answer = self.client.post("/v1/check", json={"credentials": shown, "path": "/"})
        body = answer.json()
        return Met(body["status"], body.get("rule"), body.get("detail", ""))


@dataclass
class AuthorizeDoor:
    """`/v1/authorize`: headers that a proxy hands on."""

    client: httpx.Client

    def show(self, authorization: str | None = None, api_key: str | None = None) -> Met:
        shown = {"Authorization": authorization, "X-API-Key": api_key, "X-Forwarded-For": CLIENT_IP}
        headers = {name: value.strip() for name, value in shown.items() if value is not None}
        answer = self.client.get("/v1/authorize", headers=headers)
        told = answer.json().get("detail", "") if answer.status_code == 401 else ""
        return Met(answer.status_code, answer.headers.get("X-Headgate-Rule"), told)


Door = CheckDoor | AuthorizeDoor
