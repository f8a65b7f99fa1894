"""What the stores are compared on: rules of every kind, and requests aimed at the moments where answers change."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from headgate._core import Decision
from tests.engine import limit_text
from tests.model.limits import ALGORITHMS, MINUTE_US, SECOND_US, Limit
from tests.properties.strategies import EFFORT

PATHS = ("/search", "/files/{id}")
BANNED = "mallory"
VERBS = (*["check"] * 6, "peek", "refund", "commit", "reset")
# One rule for each of these; all that apply to a request are decided together, and lie in different records.
SUBJECTS: tuple[tuple[str, ...], ...] = (("user",), ("org",), ("ip",), ("global",), ("user", "endpoint"), ("shop",))


def examples(count: int) -> settings:
    """Every run tries the same ones, and does not spend minutes on making a failing one small: `HEADGATE_EFFORT=30`
    searches further and shrinks what it finds."""
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]
    made = settings(max_examples=count * EFFORT, deadline=None, suppress_health_check=checks)
    return settings(made, derandomize=True, phases=[Phase.generate]) if EFFORT == 1 else made


@st.composite
def limits(draw: st.DrawFn, count_max: int) -> Limit:
    algorithm = draw(st.sampled_from(ALGORITHMS))
    burst = draw(st.none() | st.integers(1, 20)) if algorithm == "gcra" else None
    counts = st.integers(1, 8) | st.integers(1, count_max)
    return Limit(algorithm, draw(counts), draw(st.sampled_from([SECOND_US, 7 * SECOND_US, MINUTE_US])), burst)


def rule(name: str, limits: list[Limit], **fields: Any) -> dict[str, Any]:
    labelled = [
        {"limit": limit_text(limit), "algorithm": limit.algorithm, "label": f"l{number}"}
        for number, limit in enumerate(limits)
    ]
    return {"name": name, "limit": labelled} | fields


@dataclass(frozen=True)
class Step:
    """One thing done to every store alike; `of` counts back among the decisions there are."""

    verb: str
    facts: dict[str, Any]
    cost_kind: str
    wait: str
    off_us: int
    share: float
    of: int
    change: dict[str, Any] | None = None

    def cost(self, last: Decision | None) -> int:
        capacity = 4 if last is None or last.limit is None else last.limit
        costs = {"one": 1, "two": 2, "some": 1 + int(self.share * capacity), "all": capacity}
        return costs.get(self.cost_kind, capacity + 1 if self.cost_kind == "too many" else 0)

    def wait_us(self, last: Decision | None) -> int:
        if self.wait == "none" or last is None:
            return 0
        if self.wait == "some":
            return int(self.share * 10 * SECOND_US)
        seconds = last.retry_after if self.wait == "retry" else last.reset_after
        return max(0, round((seconds or 0) * SECOND_US) + self.off_us)


facts = st.fixed_dictionaries(
    {"user": st.sampled_from(["ann", "ann", "ann", "bob", BANNED])},
    optional={
        "org": st.sampled_from(["acme", "umbrella"]),
        "ip": st.sampled_from(["198.51.100.7", "2001:db8::1"]),
        "path": st.sampled_from(["/search", "/files/1", "/files/2"]),
        "descriptors": st.just({"shop": "{s}:1"}),
    },
)


@st.composite
def documents(draw: st.DrawFn, count_max: int) -> list[dict[str, Any]]:
    several = st.lists(limits(count_max), min_size=1, max_size=3)
    rules: list[dict[str, Any]] = [{"name": "ban", "match": {"user": BANNED}, "action": "block"}]
    subjects = draw(st.lists(st.sampled_from(SUBJECTS), min_size=1, max_size=5, unique=True))
    rules += [rule("-".join(by), draw(several), by=list(by)) for by in subjects]
    if draw(st.booleans()):
        by = draw(st.sampled_from(SUBJECTS))
        rules.append(rule("trial", draw(several), by=list(by), action="shadow"))
    return rules


@st.composite
def steps(draw: st.DrawFn, rules: list[dict[str, Any]], count_max: int, verbs: tuple[str, ...]) -> list[Step]:
    one = st.builds(
        Step,
        verb=st.sampled_from(verbs),
        facts=facts,
        cost_kind=st.sampled_from(["one", "one", "one", "two", "some", "all", "too many", "none"]),
        wait=st.sampled_from(["none", "none", "none", "some", "retry", "reset"]),
        off_us=st.sampled_from([-1, 0, 0, 1]),
        share=st.floats(0, 1, exclude_max=True),
        of=st.integers(1, 3),
    )
    made = draw(st.lists(one, min_size=1, max_size=25))
    counted = [rule for rule in rules if "limit" in rule]
    return [_with_change(draw, step, counted, count_max) if step.verb == "change" else step for step in made]


def _with_change(draw: st.DrawFn, step: Step, rules: list[dict[str, Any]], count_max: int) -> Step:
    before = draw(st.sampled_from(rules))
    changed = rule(before["name"], draw(st.lists(limits(count_max), min_size=1, max_size=3)))
    return replace(step, change=before | {"limit": changed["limit"]})


@dataclass(frozen=True)
class History:
    rules: list[dict[str, Any]]
    steps: list[Step]


@st.composite
def histories(draw: st.DrawFn, count_max: int = 100, verbs: tuple[str, ...] = (*VERBS, "change")) -> History:
    rules = draw(documents(count_max))
    return History(rules, draw(steps(rules, count_max, verbs)))
