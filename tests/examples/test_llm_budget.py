"""examples/llm-budget under uvicorn, with the figures of its README."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from tests.docs.markdown import Page
from tests.examples.application import PATIENCE_S, Example, Keys
from tests.proxies.example import EXAMPLES
from tests.servers.waiting import wait_for

README = Page(EXAMPLES / "llm-budget" / "README.md")
# How many groups of users there are, one for each test.
TESTS = 4
TOKENS = 1250
COUNT = f"Count to {TOKENS}"
# Far longer than the test takes; nobody waits for its end.
SLOWLY = "Count to 4000 slowly"


@dataclass(frozen=True)
class Running:
    client: httpx.Client
    keys: Keys

    def ask(self, user: str, prompt: str = COUNT, **more: Any) -> httpx.Response:
        return self.client.post("/ask", json={"prompt": prompt, **more}, headers=self.keys[user])


@pytest.fixture(scope="module")
def each(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Iterator[Running]]:
    """For each test users and an organisation of its own, all of one running service."""
    example = Example("llm-budget", tmp_path_factory.mktemp("example"))
    groups = [example.make_keys(group) for group in range(TESTS)]
    with example.running("uvicorn", "/openapi.json") as client:
        yield (Running(client, keys) for keys in groups)


@pytest.fixture
def asked(each: Iterator[Running]) -> Running:
    return next(each)


def test_the_budget_runs_out_as_the_readme_counts_it(asked: Running) -> None:
    answers = [asked.ask("ann") for _ in range(6)]
    assert [answer.status_code for answer in answers] == [200] * 5 + [429]
    told = [row[1].replace(",", "") for row in README.section("A budget of tokens").rows()]
    assert [answer.headers["X-Tokens-Remaining"] for answer in answers[:5]] == told[:5]
    assert len(answers[0].text.split()) == TOKENS
    refused = answers[5]
    assert refused.json()["error"] == "Your token budget is used up"
    assert refused.json()["retry_after"] == int(refused.headers["Retry-After"]) > 0
    shorter = asked.ask("ann", max_tokens=2000)
    assert (shorter.status_code, shorter.headers["X-Tokens-Remaining"]) == (200, "1750")


def test_an_organisations_budget_binds_its_members_together(asked: Running) -> None:
    assert [asked.ask("ann").status_code for _ in range(5)] == [200] * 5
    answers = [asked.ask("bob") for _ in range(5)]
    assert [answer.status_code for answer in answers] == [200] * 4 + [429]
    assert answers[4].json()["error"] == "Your organisation's token budget is used up"
    # What the organisation refused, Bob has not spent: his own budget still says what four answers took.
    fitting = asked.ask("bob", max_tokens=3000)
    assert (fitting.status_code, fitting.headers["X-Tokens-Remaining"]) == (200, "750")


def test_answers_under_way_hold_what_they_may_take_and_a_client_that_leaves_gives_the_rest_back(asked: Running) -> None:
    prompt, key = {"prompt": SLOWLY}, asked.keys["ann"]
    with ExitStack() as open_answers:
        for _ in range(2):
            answer = open_answers.enter_context(asked.client.stream("POST", "/ask", json=prompt, headers=key))
            assert answer.status_code == 200
        assert asked.ask("ann").status_code == 429
    wait_for("what was not taken", lambda: asked.ask("ann", "Count to 1").status_code == 200, PATIENCE_S)


def test_a_question_without_tokens_is_not_counted_as_a_question(asked: Running) -> None:
    assert asked.ask("ann", "Count to 8000", max_tokens=8000).status_code == 200
    assert [asked.ask("ann").status_code for _ in range(40)] == [429] * 40
    assert asked.ask("ann", "Count to 1", max_tokens=1).headers["X-RateLimit-Remaining"] == "28"
