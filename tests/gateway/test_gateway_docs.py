"""docs/gateway.md says what is so."""

from __future__ import annotations

import re
import shlex

from typer.testing import CliRunner

from headgate.cli import app
from tests.docs.pages import DOCS
from tests.gateway.gate import Gate

PAGE = DOCS["gateway"]
_SAMPLE = re.compile(r"(headgate_upstream_\w+)\{(.*)\} ")


def test_every_failure_is_documented_with_its_reason(gate: Gate) -> None:
    gate.get("/down")
    told = gate.admin("/metrics").text
    reasons = set(re.findall(r'headgate_upstream_failures_total\{.*reason="(\w+)"', told))
    assert set(PAGE.section("When something fails").codes(2)) == reasons


def test_every_metric_of_upstreams_is_documented_with_its_kind_and_labels(gate: Gate) -> None:
    gate.get("/")
    told = gate.admin("/metrics").text
    kinds = dict(re.findall(r"# TYPE (headgate_upstream_\w+) (\w+)", told))
    labels: dict[str, set[str]] = {name: set() for name in kinds}
    for name, said in _SAMPLE.findall(told):
        labels[name] |= set(re.findall(r'(\w+)="', said))
    rows = PAGE.section("Watching it").rows()
    assert {row[0].strip("`"): row[1] for row in rows} == kinds
    documented = {row[0].strip("`"): set(re.findall(r"`(\w+)`", row[2])) - {"busy", "idle"} for row in rows}
    assert documented == labels


def test_the_commands_of_the_page_are_ones_it_takes() -> None:
    lines = PAGE.commands("headgate node")
    assert len(lines) == 2
    for line in lines:
        flags = shlex.split(line)[2:]
        shown = CliRunner().invoke(app, ["settings", *flags])
        assert shown.exit_code == 0, shown.output
        assert "http://127.0.0.1:3000" in shown.output


def test_the_defaults_it_names_are_the_defaults() -> None:
    told = " ".join(PAGE.path.read_text(encoding="utf-8").split())
    defaults = {row[0].strip("`"): row[3].strip("`") for row in DOCS["settings"].section("Every setting").rows()}
    for name, shown in re.findall(r"`(upstream_\w+|drain_timeout_s)` \((\d[\d,]*)(?: s)?\)", told):
        assert float(defaults[name]) == float(shown.replace(",", "")), name
