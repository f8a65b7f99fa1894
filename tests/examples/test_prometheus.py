"""The alerts that are shipped: well-formed, and of metrics that exist."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from headgate.upkeep.feed.staleness import STALE_LEAST_S, VERY_STALE_TIMES
from tests.docs.pages import DOCS, ROOT

FILE = ROOT / "examples" / "prometheus" / "headgate-alerts.yaml"
GROUPS: list[dict[str, Any]] = yaml.safe_load(FILE.read_text(encoding="utf-8"))["groups"]
ALERTS: dict[str, dict[str, Any]] = {rule["alert"]: rule for group in GROUPS for rule in group["rules"]}
METRIC = re.compile(r"\bheadgate_[a-z_]+\b")


def existing() -> set[str]:
    control = (ROOT / "src" / "headgate" / "control" / "api" / "metrics.py").read_text(encoding="utf-8")
    return set(DOCS["http"].section("Metrics").codes()) | set(re.findall(r'"(headgate_control_[a-z_]+)"', control))


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_is_of_metrics_that_exist(name: str) -> None:
    expression = ALERTS[name]["expr"]
    assert set(METRIC.findall(expression)) <= existing()
    assert METRIC.search(expression) or expression.startswith("up{")


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_has_what_prometheus_asks_for(name: str) -> None:
    alert = ALERTS[name]
    assert set(alert) <= {"alert", "expr", "for", "labels", "annotations"}
    assert alert["labels"]["severity"] in ("warning", "page")
    assert alert["annotations"]["summary"]
    assert re.fullmatch(r"[0-9]+[sm]", alert.get("for", "1m"))
    for opening, closing in ("()", "[]", "{}"):
        assert alert["expr"].count(opening) == alert["expr"].count(closing)
    # A counter's value says nothing without its rate.
    for counter in re.findall(r"(\w+)\((headgate_\w+_total)", alert["expr"]):
        assert counter[0] in ("rate", "increase")
    for counter_name in re.findall(r"headgate_\w+_total", alert["expr"]):
        assert re.search(rf"(?:rate|increase)\({counter_name}(?:{{[^}}]*}})?\[", alert["expr"])


def test_names_are_given_once() -> None:
    assert len(ALERTS) == sum(len(group["rules"]) for group in GROUPS)
    assert len({group["name"] for group in GROUPS}) == len(GROUPS)


def test_staleness_is_alerted_when_nodes_speak_of_it() -> None:
    assert ALERTS["HeadgateRulesStale"]["expr"] == f"headgate_feed_stale_seconds > {STALE_LEAST_S:g}"
    assert ALERTS["HeadgateRulesStale"]["labels"]["severity"] == "warning"
    page = ALERTS["HeadgateRulesVeryStale"]
    assert page["expr"] == f"headgate_feed_stale_seconds > {STALE_LEAST_S * VERY_STALE_TIMES:g}"
    assert page["labels"]["severity"] == "page"


def test_every_alarm_of_the_operations_page_has_an_alert() -> None:
    shown = {name for name in DOCS["operations"].section("What to watch").codes() if METRIC.fullmatch(name)}
    alerted = {name for alert in ALERTS.values() for name in METRIC.findall(alert["expr"])}
    # Figures to look at, not to be woken by.
    assert shown - alerted == {"headgate_rules_version", "headgate_rule_decisions_total"}
