"""Five million rules: loading, memory, look-up, and changing one of them while checks go on."""

from typing import Any

from bench.figure import Effort, Figure
from bench.processes import OUT, run_child
from bench.rule_sets import RULES_PER_ORG, write_org_rules

NAME = "many_rules"
SMALL_ORGS = 20  # 200 rules
TARGET_LOAD_S = 60.0
TARGET_GB = 1.0
TARGET_LOOKUP_TIMES = 2.5
TARGET_CHANGE_MS = 100.0
TARGET_P999_TIMES = 5.0


def _measure(effort: Effort) -> dict[str, Any]:
    OUT.mkdir(exist_ok=True)
    orgs = effort.pick(500_000, 10_000)
    large, small = OUT / "rules-large.jsonl", OUT / "rules-small.jsonl"
    try:
        file_bytes = write_org_rules(large, orgs)
        write_org_rules(small, SMALL_ORGS)
        measured = run_child("bench.many_rules_child", str(large), orgs, str(small), SMALL_ORGS, effort.rounds)
    finally:
        large.unlink(missing_ok=True)
        small.unlink(missing_ok=True)
    return {**measured, "file_mb": round(file_bytes / 1e6, 1)}


def _select(m: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name.replace("_", " "): m[name] for name in names}


def run(effort: Effort) -> list[Figure]:
    m = _measure(effort)
    rules = f"{m['rules'] / 1e6:g}M rules"
    small = f"{SMALL_ORGS * RULES_PER_ORG} rules"

    def figure(name: str, measured: float, unit: str, target: float | None, *raw: str) -> Figure:
        return Figure(NAME, name, measured, unit, target, raw=_select(m, *raw))

    memory = ("settled_rss_mb", "settled_anonymous_mb", "peak_rss_mb", "before_rss_mb")
    return [
        figure(f"{rules}, resident memory once loaded", m["settled_rss_mb"] / 1e3, "GB", TARGET_GB, *memory),
        figure(f"{rules}, resident memory at its peak", m["peak_rss_mb"] / 1e3, "GB", TARGET_GB, *memory),
        figure(f"{rules}, loaded from the bulk form", m["load_s"], "s", TARGET_LOAD_S, "file_mb"),
        figure(
            f"{rules}, p50 look-up vs that at {small}",
            m["lookup_large_p50_ns"] / m["lookup_small_p50_ns"],
            "x",
            TARGET_LOOKUP_TIMES,
            *("lookup_small_p50_ns", "lookup_large_p50_ns", "lookup_small_mean_ns", "lookup_large_mean_ns"),
        ),
        figure(
            f"{rules}, p50 of a whole check vs that at {small}",
            m["check_large_p50_ns"] / m["check_small_p50_ns"],
            "x",
            None,
            *("check_small_p50_ns", "check_large_p50_ns"),
        ),
        figure(
            f"one rule changed in {rules}, enforced at the latest after",
            m["change_max_ms"],
            "ms",
            TARGET_CHANGE_MS,
            *("change_p50_ms", "change_max_ms", "changes"),
        ),
        figure(
            "checks' p99.9 while rules change vs before",
            m["changing_p999_ns"] / m["quiet_p999_ns"],
            "x",
            TARGET_P999_TIMES,
            *("quiet_p50_ns", "changing_p50_ns", "quiet_p999_ns", "changing_p999_ns", "changes_per_s"),
        ),
    ]
