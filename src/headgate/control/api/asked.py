"""What the API is sent, as models: for its OpenAPI document, and to check the small bodies that only it reads.

Rules, overrides, keys and blocks are judged by `headgate.control.changes`; here they are only described.
"""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from headgate.control.api.models import RoleWord
from headgate.control.api.problems import Problem
from headgate.errors import format_path


class Asked(BaseModel):
    """Something the API is sent: what is not known in it is a mistake, and a text is not taken for a number."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Rollback(Asked):
    version: int = Field(ge=0, description="The version whose state shall be the state again.", examples=[12])


class TokenAsked(Asked):
    name: str = Field(min_length=1, max_length=128, description="What history calls its holder.", examples=["ci"])
    role: RoleWord
    expires: str | None = Field(
        None, description="A time, or a length such as `90d`.", examples=["90d"], min_length=2, max_length=40
    )


class TierAsked(Asked):
    name: str | None = Field(None, description="As in the path; it need not be said again.")
    description: str | None = Field(None, max_length=4096)
    meta: dict[str, Any] | None = Field(None, description="Not read.")


class ShortRule(Asked):
    """A rule in as few words as can be: `limit` calls in each `window`, for each user unless `by` says otherwise."""

    endpoint: str = Field(examples=["/api/v1/payment"])
    limit: int = Field(ge=1, examples=[10])
    window: str = Field(examples=["60s"])
    name: str | None = Field(None, description="Made from the endpoint unless given.")
    by: str | list[str] | None = None
    method: str | list[str] | None = None
    tier: str | list[str] | None = None
    burst: int | None = Field(None, ge=1)
    description: str | None = None


class KeyAsked(Asked):
    name: str | None = Field(None, description="What people call it.", examples=["billing service"])
    user: str | int | None = None
    org: str | int | None = None
    tier: str | None = None
    expires: str | None = Field(None, description="A time, or a length such as `90d`.")
    limit: Any = Field(None, description="Limits of its own, as in an override.", examples=["100/minute"])
    algorithm: str | None = None


class RotateAsked(Asked):
    grace: str | None = Field(None, description="How long the old key still works.", examples=["24h"], max_length=20)


class BlockAsked(Asked):
    """Exactly one of `ip`, `user`, `org`, `api_key`; at most one of `for` and `until`."""

    ip: str | None = Field(None, description="An address, or a range (CIDR).", examples=["203.0.113.0/24"])
    user: str | int | None = None
    org: str | int | None = None
    api_key: str | None = None
    for_: str | None = Field(None, alias="for", examples=["1h"])
    until: str | None = Field(None, examples=["2027-01-31T12:00:00Z"])
    why: str | None = Field(None, description="For people; also kept in the history.")


A = TypeVar("A", bound=Asked)


def checked(kind: type[A], body: dict[str, Any]) -> A:
    """A body as its model. Raises Problem (422) with the path of everything that is wrong."""
    try:
        return kind.model_validate({name: value for name, value in body.items() if name != "meta"})
    except ValidationError as error:
        listed = [(format_path(tuple(one["loc"])), one["msg"]) for one in error.errors(include_input=False)]
        detail = "; ".join(f"{path}: {message}" for path, message in listed[:3])
        raise Problem(422, detail, errors=listed) from None
