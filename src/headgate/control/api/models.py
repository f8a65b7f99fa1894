"""What the API answers with, as models for its OpenAPI document.

Rules and overrides are not here: their schema is that of rules files (`headgate.model.schema_text`).
"""

from __future__ import annotations

from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

T = TypeVar("T")

Time = Annotated[str, Field(description="RFC 3339, in UTC.", examples=["2027-01-31T12:00:00.000Z"])]
PositionText = Annotated[str, Field(pattern=r"^\d+\.\d+$", examples=["1798718400000000.12"])]


State = Literal["active", "expired", "revoked"]


class Answer(BaseModel):
    """Something the API answers with."""


class Page(Answer, Generic[T]):
    items: list[T]
    next: str | None = Field(description="The `cursor` of the next page; null on the last.")


class FieldError(Answer):
    path: str = Field(examples=["match.ip"])
    message: str


class ProblemBody(Answer):
    """RFC 9457."""

    type: str = Field(examples=["about:blank"])
    title: str
    status: int
    detail: str
    errors: list[FieldError]
    instance: str | None = None


class Meta(Answer):
    version: int = Field(description="The version of the configuration that last changed it.")
    created: Time
    created_by: str
    updated: Time
    updated_by: str


class Tier(Answer):
    name: str
    description: str | None = None
    meta: Meta


class Key(Answer):
    id: str = Field(description="Names the key in rules, overrides and logs; it is no secret.")
    name: str | None = None
    user: str | None = None
    org: str | None = None
    tier: str | None = None
    created: Time | None = None
    expires: Time | None = None
    revoked: Time | None = None
    revoked_by: str | None = None
    state: State
    last_used: Time | None = Field(description="About when; null when it never was.")
    meta: Meta


class KeyMade(Key):
    key: str = Field(description="The key itself. It is told here, once, and kept nowhere.")


class Block(Answer):
    id: str
    ip: str | None = None
    user: str | None = None
    org: str | None = None
    api_key: str | None = None
    until: Time | None = None
    why: str | None = None
    active: bool
    meta: Meta


class Switch(Answer):
    id: str = Field(description="A rule's name, or `*` for all.")
    meta: Meta


class ChangeShown(Answer):
    kind: Literal["rule", "override", "block", "key", "switch", "tier"]
    id: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None


class ContestShown(Answer):
    """A request that another rule would win than today, or that a changed rule would lose."""

    request: dict[str, Any]
    by: list[str]
    winner_before: str | None
    winner_after: str | None
    loser: str | None = None
    why: str | None = None


class DryRun(Answer):
    dry_run: Literal[True]
    changes: list[ChangeShown]
    contests: list[ContestShown]


class Applied(Answer):
    version: PositionText
    created: int
    replaced: int
    deleted: int
    unchanged: int
    changes: list[ChangeShown] = Field(description="The first 1,000; all are at /versions/{v}/changes.")


class AppliedDry(Answer):
    dry_run: Literal[True]
    at: PositionText = Field(description="Where the configuration was: give it to the change itself, as `at`.")
    created: int
    replaced: int
    deleted: int
    unchanged: int
    changes: list[ChangeShown]
    contests: list[ContestShown]


class Version(Answer):
    version: int
    epoch: int
    at: Time
    who: str
    why: str | None
    verb: str
    changes: int


class HistoryItem(Answer):
    version: int
    at: Time
    who: str
    why: str | None
    verb: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None


class Diff(Answer):
    from_: int = Field(alias="from")
    to: int
    changes: list[ChangeShown]
    more: bool = Field(description="There are more than are shown.")


class FleetNode(Answer):
    model_config = ConfigDict(extra="allow")
    id: str


class FleetRegion(Answer):
    model_config = ConfigDict(extra="allow")
    name: str


class Fleet(Answer):
    model_config = ConfigDict(extra="allow")
    head: PositionText
    nodes: list[FleetNode]
    regions: list[FleetRegion]


class Reached(Answer):
    model_config = ConfigDict(extra="allow")
    version: PositionText
    live: int
    behind: list[Any]
    done: bool


RoleWord = Literal["viewer", "editor", "admin"]


class Token(Answer):
    id: str
    name: str
    role: RoleWord
    created: Time
    created_by: str
    expires: Time | None
    revoked: Time | None
    revoked_by: str | None
    last_used: Time | None = Field(description="To about a minute; null when it never was.")
    state: State


class TokenMade(Token):
    token: str = Field(description="The token itself. It is told here, once, and kept nowhere.")


class CallShown(Answer):
    id: int
    at: Time
    who: str | None
    method: str
    path: str
    status: int
    address: str | None
    why: str | None


class Me(Answer):
    id: str
    name: str
    role: RoleWord
    expires: Time | None
    head: PositionText
