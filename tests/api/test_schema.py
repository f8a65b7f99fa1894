"""The OpenAPI document against the API: whatever it allows to send is answered as it says, and never with a 5xx."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi import checks as openapi_checks

from headgate.storage.sql import Database
from tests.api.plane import Plane, make_whole_plane

EXAMPLES_MAX = {GenerationMode.POSITIVE: 8, GenerationMode.NEGATIVE: 5}


def refused_when_wrong(ctx: Any, response: Any, case: Any) -> bool | None:
    """schemathesis does not know of 414 among the refusals."""
    return None if response.status_code == 414 else openapi_checks.negative_data_rejection(ctx, response, case)


CHECKS = [
    not_a_server_error,
    openapi_checks.status_code_conformance,
    openapi_checks.content_type_conformance,
    openapi_checks.response_headers_conformance,
    openapi_checks.response_schema_conformance,
    openapi_checks.ignored_auth,
    openapi_checks.unsupported_method,
    openapi_checks.allow_header_conformance,
    refused_when_wrong,
]


@pytest.fixture(scope="module")
def busy(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """With something of every kind in it, so that answers hold what they can hold."""
    folder = tmp_path_factory.mktemp("schema")
    shutil.copy(sqlite_template, folder / "headgate.db")
    database = Database(f"sqlite:///{folder / 'headgate.db'}")
    with make_whole_plane(database, folder) as made:
        client = made.client()
        client.post("/api/v1/apply", json=CONFIGURATION)
        client.post("/api/v1/blocks", json={"ip": "203.0.113.0/24", "for": "1h", "why": "scraping"})
        client.post("/api/v1/keys", json={"user": "42", "expires": "2030-01-31T12:00:00Z"})
        client.put("/api/v1/switches/*")
        yield made
    database.close()


CONFIGURATION: dict[str, Any] = {
    "rules": [
        {"name": "everyone", "by": "user", "limit": "1000/hour"},
        {"name": "scrapers", "match": {"ip": ["203.0.113.0/24"]}, "action": "block", "until": "2030-01-31T12:00:00Z"},
        {"name": "0", "match": {"endpoint": ["/a", "/b/*"], "method": "GET"}, "by": ["user", "ip"], "limit": ["9/s"]},
    ],
    "overrides": [{"user": "0", "limit": "7/s"}, {"org": "acme", "block": {"reason": "unpaid"}}],
}


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["as described", "otherwise"])
def test_every_answer_is_as_the_document_says(busy: Plane, mode: GenerationMode) -> None:
    document = schemathesis.openapi.from_dict(busy.app.openapi())
    document.app = busy.app
    headers = {"Authorization": f"Bearer {busy.texts['admin']}"}
    for found in document.get_all_operations():
        assert isinstance(found, Ok), "the document is no OpenAPI"
        operation = found.ok()

        @settings(
            max_examples=EXAMPLES_MAX[mode],
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def check(case: schemathesis.Case[Any]) -> None:
            case.call_and_validate(headers=headers, checks=CHECKS)

        check()
