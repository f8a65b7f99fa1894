"""What the examples' pages say."""

from __future__ import annotations

import shlex

import pytest
from typer.testing import CliRunner

from headgate.cli import app
from tests.docs.markdown import Page
from tests.proxies.example import EXAMPLES
from tests.proxies.fronts import EACH_PROXY

PAGES = [Page(path) for path in sorted(EXAMPLES.glob("**/README.md"))]
SIDECAR = Page(EXAMPLES.parent / "docs" / "sidecar.md")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.path.parent.name)
def test_links_lead_somewhere(page: Page) -> None:
    links = page.links()
    assert all((page.path.parent / link).exists() for link in links), links


@pytest.mark.parametrize("line", [line for page in PAGES for line in page.commands("headgate")])
def test_the_commands_for_headgate_are_ones_it_takes(line: str) -> None:
    words = shlex.split(line)[1:]
    result = CliRunner().invoke(app, [*words, "--help"])
    assert result.exit_code == 0, result.output


def test_the_table_of_failures_says_what_is_tested_of_each_proxy() -> None:
    rows = SIDECAR.section("When Headgate is down or hung").rows()
    promised = {row[0].lower(): row[1:5] for row in rows}
    tested = {front.example: ["200", "200", str(front.down_status), str(front.hung_status)] for front in EACH_PROXY}
    assert promised == tested


def test_the_table_of_what_a_client_sees_says_what_is_tested_of_each_proxy() -> None:
    rows = {row[0]: row[1:] for row in SIDECAR.section("What a client sees").rows()}
    order = ("nginx", "traefik", "caddy", "envoy")
    by_name = {front.example: front for front in EACH_PROXY}
    told = ["yes" if by_name[name].tells_rate_when_allowed else "no" for name in order]
    assert rows["rate headers on an allowed answer"] == told
    assert rows["a token that does not verify"] == [str(by_name[name].unverified_status) for name in order]
